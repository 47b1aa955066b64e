// corpus: entry=fold T=float|int N=4|7
template <typename F> __device__ $T each(const $T *in, F f)
{
    $T r = in[0];
#pragma unroll
    for (int i = 1; i < $N; i++)
        r = f(r, in[i]);
    return r;
}
extern "C" __global__ void fold($T *out, const $T *in, $T bias)
{
    out[threadIdx.x] = each(in + threadIdx.x * $N, [=]($T a, $T b) { return a > b ? a + bias : b - bias; });
}
