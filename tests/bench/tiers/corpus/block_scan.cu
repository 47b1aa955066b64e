// types: float double int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    __shared__ T shared[2][256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t, from = 0;
    shared[0][t] = i < n ? a[i] : T(0);
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        shared[1 - from][t] = shared[from][t] + (t >= step ? shared[from][t - step] : T(0));
        from = 1 - from;
        __syncthreads();
    }
    if (i < n)
        out[i] = shared[from][t] * b[i];
}
