// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = a[i], sum = b[i];
#pragma unroll
    for (int j = 0; j < 32; j++)
        sum = sum * x * T(0.25) + T(1) / T(j + 1);
    out[i] = sum;
}
