// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = fmod(a[i] * T(1000), b[i] + T(2.5)) + trunc(a[i] * T(7)) - rint(b[i] * T(9)) + floor(a[i]);
}
