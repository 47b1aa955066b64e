// types: float double int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T low = a[i], high = a[i];
    for (int j = 1; j < 16; j++) {
        T x = a[(i + j) % n];
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    out[i] = high - low + b[i];
}
