// corpus: entry=axpy T=float|double|int|long_long N=1|4
typedef long long long_long;
extern "C" __global__ void axpy($T *y, const $T *x, $T a, int n)
{
#pragma unroll
    for (int k = 0; k < $N; k++) {
        int i = (blockIdx.x * $N + k) * blockDim.x + threadIdx.x;
        if (i < n)
            y[i] = a * x[i] + y[i];
    }
}
