// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 32, lane = threadIdx.x % 32;
    if (row + lane >= n)
        return;
    T mean = a[row + lane], m2 = 0;
    T count = 1;
    for (int step = 16; step > 0; step /= 2) {
        T other = __shfl_xor_sync(0xffffffffu, mean, step), other_m2 = __shfl_xor_sync(0xffffffffu, m2, step);
        T delta = other - mean;
        mean = mean + delta * T(0.5);
        m2 = m2 + other_m2 + delta * delta * count * T(0.5);
        count = count * T(2);
    }
    out[row + lane] = (a[row + lane] - mean) / sqrt(m2 / T(32) + T(1e-5)) * b[row + lane];
}
