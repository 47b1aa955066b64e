// corpus: entry=transpose T=char|short|float|double N=16|32
extern "C" __global__ void transpose($T *out, const $T *in, int rows, int columns)
{
    __shared__ $T tile[$N][$N + 1];
    int x = blockIdx.x * $N + threadIdx.x, y = blockIdx.y * $N + threadIdx.y;
    if (x < columns && y < rows)
        tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
    __syncthreads();
    x = blockIdx.y * $N + threadIdx.x;
    y = blockIdx.x * $N + threadIdx.y;
    if (x < rows && y < columns)
        out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}
