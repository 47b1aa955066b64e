// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T re = a[i], im = b[i], cr = 1, ci = 0;
#pragma unroll 8
    for (int j = 0; j < 24; j++) {
        T r = cr * re - ci * im, s = cr * im + ci * re, size = T(1) + r * r + s * s;
        cr = r / size;
        ci = s / size;
    }
    out[i] = cr + ci;
}
