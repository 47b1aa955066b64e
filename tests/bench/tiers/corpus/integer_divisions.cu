// types: int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned x = (unsigned)a[i];
    int y = b[i];
    out[i] = (int)(x / 7u + x % 641u) + y / 10 - y % 1000 + (int)(x / (unsigned)(n % 97 + 3)) + (y >> 3) * (y << 2);
}
