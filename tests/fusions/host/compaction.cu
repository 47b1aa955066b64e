// Keep the positive elements, in no order: a ballot counts for the warp, its first lane reserves the room.
extern "C" __global__ void compaction(const int *in, int *out, unsigned *count, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned lane = threadIdx.x & 31;
    const int v = i < n ? in[i] : 0;
    const unsigned votes = __ballot_sync(0xffffffff, v > 0);
    const int leader = __ffs(votes) - 1;
    unsigned base = 0;
    if (votes && (int)lane == leader)
        base = atomicAdd(count, __popc(votes));
    base = __shfl_sync(0xffffffff, base, leader < 0 ? 0 : leader);
    if (v > 0)
        out[base + __popc(votes & ((1u << lane) - 1))] = v;
}
