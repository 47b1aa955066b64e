// corpus: entry=total T=float|double
__device__ unsigned ticket;
extern "C" __global__ void total(volatile $T *parts, $T *out, const $T *in, int n)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        $T sum = 0;
        for (int i = blockIdx.x; i < n; i += gridDim.x)
            sum += in[i];
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        $T sum = 0;
        for (int i = 0; i < gridDim.x; i++)
            sum += parts[i];
        *out = sum;
    }
}
