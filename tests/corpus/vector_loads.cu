// corpus: entry=scale T=float4|int4|double2|float2
extern "C" __global__ void __launch_bounds__(256) scale($T *__restrict__ out, const $T *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    $T v = __ldg(in + i);
    v.x *= 3;
    v.y = v.y * 3 + v.x;
    out[i] = v;
}
