// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T left[8], right[8], sums[8][8];
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < 8; c++)
            sums[r][c] = 0;
#pragma unroll 4
    for (int step = 0; step < 16; step++) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            left[j] = a[(i + j * 8 + step * 64) % n];
            right[j] = b[(i + j + step * 512) % n];
        }
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int c = 0; c < 8; c++)
                sums[r][c] += left[r] * right[c];
    }
    T all = 0;
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < 8; c++)
            all += sums[r][c] * T(r - c);
    out[i] = all;
}
