// corpus: entry=row_max T=float|int N=16|32
__device__ $T larger($T a, $T b) { return a > b ? a : b; }
extern "C" __global__ void row_max($T *out, const $T *in, int width)
{
    $T value = in[blockIdx.x * width];
    for (int i = threadIdx.x; i < width; i += $N)
        value = larger(value, in[blockIdx.x * width + i]);
#pragma unroll
    for (int offset = $N / 2; offset > 0; offset /= 2)
        value = larger(value, __shfl_xor_sync(0xffffffffu, value, offset, $N));
    if (threadIdx.x == 0)
        out[blockIdx.x] = value;
}
