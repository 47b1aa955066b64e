// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T sum = 0, lost = 0;
    for (int j = 0; j < 40; j++) {
        T y = a[(i + j * 97) % n] * T(1000) - lost, t = sum + y;
        lost = (t - sum) - y;
        sum = t;
    }
    out[i] = sum + b[i];
}
