// types: float double int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T local[24];
    for (int j = 0; j < 24; j++)
        local[j] = a[(i + j * 5) % n];
    T sum = b[i];
    int at = i % 24;
    for (int j = 0; j < 24; j++) {
        sum += local[at] * T(j % 5);
        local[at] = sum;
        at = (at * 5 + 7) % 24;
    }
    out[i] = sum;
}
