// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = pow(fabs(a[i]) + T(0.5), b[i]) + cbrt(a[i]) + hypot(a[i], b[i]);
}
