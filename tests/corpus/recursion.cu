// corpus: entry=ackermann N=2|3
__device__ __noinline__ int ack(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1));
}
extern "C" __global__ void ackermann(int *out) { out[threadIdx.x] = ack($N, threadIdx.x % 3); }
