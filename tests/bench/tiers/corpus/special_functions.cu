// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = fabs(a[i]) + T(0.3);
    out[i] = lgamma(x) + erfc(b[i]) + j0(x) + normcdf(b[i]) + log1p(x) + expm1(b[i]) + asinh(x) + acos(b[i] * T(0.2));
}
