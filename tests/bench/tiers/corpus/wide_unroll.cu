// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T sum = b[i], x = a[i];
#pragma unroll
    for (int j = 0; j < 256; j++)
        sum = (j % 7 == 3 ? sum / (T(2) + x * x) : sum * x * T(0.5)) + T(j % 11) * a[(i + j) % n];
    out[i] = sum;
}
