// types: float int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = a[i];
    if (x > b[i]) {
        x = x * T(2);
        if ((i & 3) == 1)
            x = x - b[i];
        else if ((i & 3) == 2)
            x = x + T(7);
    } else if (i % 5 == 0) {
        x = b[i];
    }
    out[i] = x > T(100) ? T(100) : x < T(-100) ? T(-100) : x;
}
