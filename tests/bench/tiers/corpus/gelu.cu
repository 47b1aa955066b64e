// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = a[i];
    out[i] = T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752))) + b[i];
}
