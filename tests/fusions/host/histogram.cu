// A histogram: privatised in shared memory, merged by atomics.
__global__ void histogram(const unsigned char *data, unsigned *bins, int n)
{
    static __shared__ unsigned own[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(own + data[i], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (own[i])
            atomicAdd(bins + i, own[i]);
}
