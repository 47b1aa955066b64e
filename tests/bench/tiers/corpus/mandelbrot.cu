// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = 0, y = 0, re = a[i], im = b[i];
    int turns = 0;
    while (turns < 64 && x * x + y * y < T(4)) {
        T next = x * x - y * y + re;
        y = T(2) * x * y + im;
        x = next;
        turns++;
    }
    out[i] = T(turns) + x;
}
