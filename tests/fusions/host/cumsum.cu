// Inclusive sums of rows, by __shfl_up_sync within warps and shared memory between them.
extern "C" __global__ void cumsum(const int *x, int *out, int n)
{
    __shared__ int of_warp[32];
    __shared__ int carry;
    const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    if (threadIdx.x == 0)
        carry = 0;
    __syncthreads();
    for (int base = 0; base < n; base += blockDim.x) {
        const int i = base + threadIdx.x;
        int v = i < n ? x[(size_t)n * blockIdx.x + i] : 0;
        for (int d = 1; d < warpSize; d *= 2) {
            const int other = __shfl_up_sync(0xffffffff, v, d);
            if (lane >= d)
                v += other;
        }
        if (lane == warpSize - 1)
            of_warp[warp] = v;
        __syncthreads();
        if (warp == 0) {
            int w = lane < blockDim.x / warpSize ? of_warp[lane] : 0;
            for (int d = 1; d < warpSize; d *= 2) {
                const int other = __shfl_up_sync(0xffffffff, w, d);
                if (lane >= d)
                    w += other;
            }
            of_warp[lane] = w;
        }
        __syncthreads();
        v += carry + (warp > 0 ? of_warp[warp - 1] : 0);
        if (i < n)
            out[(size_t)n * blockIdx.x + i] = v;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1)
            carry = v;
        __syncthreads();
    }
}
