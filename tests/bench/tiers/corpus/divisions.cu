// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = a[i], y = b[i] + T(3);
    out[i] = x / y + sqrt(y) / (x * x + T(1)) - T(1) / sqrt(T(2) + x * x);
}
