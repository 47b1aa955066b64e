// types: float double int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    __shared__ T left[16][17], right[16][17];
    int x = threadIdx.x % 16, y = threadIdx.x / 16, tile = blockIdx.x * 256;
    if (tile + 256 > n)
        return;
    T sum = 0;
    for (int step = 0; step < 4; step++) {
        left[y][x] = a[(tile + step * 256 + y * 16 + x) % n];
        right[y][x] = b[(tile + step * 4096 + y * 16 + x) % n];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++)
            sum += left[y][j] * right[j][x];
        __syncthreads();
    }
    out[tile + y * 16 + x] = sum;
}
