// types: float int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    __shared__ T shared[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    shared[t] = i < n ? a[i] : T(0);
    __syncthreads();
    for (int size = 2; size <= 256; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            int other = t ^ step;
            if (other > t) {
                T low = shared[t], high = shared[other];
                if (((t & size) == 0) == (low > high)) {
                    shared[t] = high;
                    shared[other] = low;
                }
            }
            __syncthreads();
        }
    if (i < n)
        out[i] = shared[t] + b[i];
}
