// types: float double int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T sum = a[i];
    int trips = 3 + (i * 7) % 29;
    for (int j = 0; j < trips; j++)
        sum = sum + b[(i + j * 31) % n] * T(j & 3);
    out[i] = sum;
}
