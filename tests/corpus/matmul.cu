// corpus: entry=multiply<$T,$N> T=float|double|int N=8|16
template <typename T, int size> __global__ void multiply(T *c, const T *a, const T *b, int m, int n, int k)
{
    __shared__ T left[size][size], right[size][size];
    int row = blockIdx.y * size + threadIdx.y, column = blockIdx.x * size + threadIdx.x;
    T sum = 0;
    for (int at = 0; at < k; at += size) {
        left[threadIdx.y][threadIdx.x] = row < m && at + threadIdx.x < k ? a[row * k + at + threadIdx.x] : T(0);
        right[threadIdx.y][threadIdx.x] =
            column < n && at + threadIdx.y < k ? b[(at + threadIdx.y) * n + column] : T(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < size; i++)
            sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
