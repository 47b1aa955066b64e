// Inclusive sums of blocks that wait for the block before them: a chain through global memory, in one plain launch.
extern "C" __global__ void look_back(const int *in, int *out, volatile int *sum_of, unsigned *flag, unsigned *ticket)
{
    __shared__ unsigned block;
    __shared__ int before;
    __shared__ int s[64];
    if (threadIdx.x == 0)
        block = atomicAdd(ticket, 1);
    __syncthreads();
    const unsigned i = block * blockDim.x + threadIdx.x;
    s[threadIdx.x] = in[i];
    __syncthreads();
    for (unsigned d = 1; d < blockDim.x; d *= 2) {
        const int other = threadIdx.x >= d ? s[threadIdx.x - d] : 0;
        __syncthreads();
        s[threadIdx.x] += other;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        before = 0;
        if (block > 0) {
            while (atomicAdd(&flag[block - 1], 0) == 0) {
            }
            __threadfence();
            before = sum_of[block - 1];
        }
        sum_of[block] = before + s[blockDim.x - 1];
        __threadfence();
        atomicExch(&flag[block], 1u);
    }
    __syncthreads();
    out[i] = before + s[threadIdx.x];
}
