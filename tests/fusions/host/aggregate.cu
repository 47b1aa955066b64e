// The same by whoever is there: __activemask in a divergent branch, and __match_any_sync to count by key.
extern "C" __global__ void aggregate(const int *in, int *out, unsigned *count, unsigned *by_key, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned lane = threadIdx.x & 31;
    if (i >= n)
        return;
    if (in[i] % 3 == 0) {
        const unsigned active = __activemask();
        const int leader = __ffs(active) - 1;
        unsigned base;
        if ((int)lane == leader)
            base = atomicAdd(count, __popc(active));
        base = __shfl_sync(active, base, leader);
        out[base + __popc(active & ((1u << lane) - 1))] = in[i];
    }
    const unsigned rest = __activemask();
    const unsigned same = __match_any_sync(rest, in[i] & 7);
    if (__ffs(same) - 1 == (int)lane)
        atomicAdd(&by_key[in[i] & 7], __popc(same));
}
