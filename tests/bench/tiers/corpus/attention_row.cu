// types: float
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const int keys = 32, width = 8;
    T scores[keys], most = T(-1e30), sum = 0;
    for (int j = 0; j < keys; j++) {
        T score = 0;
#pragma unroll
        for (int d = 0; d < width; d++)
            score += a[(i * width + d) % n] * b[(j * width + d) % n];
        scores[j] = score * T(0.35355339);
        most = scores[j] > most ? scores[j] : most;
    }
    T value = 0;
    for (int j = 0; j < keys; j++) {
        T weight = exp(scores[j] - most);
        sum += weight;
        value += weight * a[(j * 13 + i) % n];
    }
    out[i] = value / sum;
}
