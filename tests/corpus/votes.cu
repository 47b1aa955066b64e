// corpus: entry=compact T=int|float
extern "C" __global__ void compact($T *out, unsigned *n, const $T *in, int size)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < size && in[i] > 0;
    unsigned mask = __ballot_sync(0xffffffffu, keep), lane = threadIdx.x % 32, base = 0;
    if (lane == 0 && mask)
        base = atomicAdd(n, __popc(mask));
    base = __shfl_sync(0xffffffffu, base, 0);
    if (keep)
        out[base + __popc(mask & ((1u << lane) - 1))] = in[i];
    unsigned same = __match_any_sync(__activemask(), (int)in[i]);
    if (__all_sync(__activemask(), same == mask))
        out[0] = -1;
}
