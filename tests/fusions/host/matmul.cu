// C = A B, tiles of 16 by 16 in shared memory; extents need not be multiples.
#define TILE 16
template <class T> struct Matrix {
    T *at;
    int rows, columns;
    __device__ T get(int r, int c) const { return r < rows && c < columns ? at[r * columns + c] : T(0); }
};

template <class T> __global__ void matmul(Matrix<const T> a, Matrix<const T> b, Matrix<T> c)
{
    __shared__ T as[TILE][TILE], bs[TILE][TILE + 1];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int t = 0; t < (a.columns + TILE - 1) / TILE; t++) {
        as[threadIdx.y][threadIdx.x] = a.get(row, t * TILE + threadIdx.x);
        bs[threadIdx.y][threadIdx.x] = b.get(t * TILE + threadIdx.y, column);
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum = fma(as[threadIdx.y][k], bs[k][threadIdx.x], sum);
        __syncthreads();
    }
    if (row < c.rows && column < c.columns)
        c.at[row * c.columns + column] = sum;
}
