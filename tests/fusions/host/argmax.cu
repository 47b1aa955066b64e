// The position of each row's largest value, the first one if there are several; 64-bit shuffles.
extern "C" __global__ void argmax(const float *x, long long *out, int n)
{
    __shared__ unsigned long long best_of[8];
    const float *row = x + (size_t)n * blockIdx.x;
    unsigned long long best = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const unsigned bits = __float_as_uint(row[i]);
        const unsigned order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        const unsigned long long candidate = (unsigned long long)order << 32 | (0xffffffffu - i);
        best = max(best, candidate);
    }
#pragma unroll
    for (int mask = 16; mask >= 1; mask >>= 1)
        best = max(best, __shfl_xor_sync(~0u, best, mask));
    if ((threadIdx.x & 31) == 0)
        best_of[threadIdx.x >> 5] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; ++i)
            best = max(best, best_of[i]);
        out[blockIdx.x] = (long long)(0xffffffffu - (unsigned)best);
    }
}
