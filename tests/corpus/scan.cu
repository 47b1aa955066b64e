// corpus: entry=scan T=int|float N=128|256
extern "C" __global__ void scan($T *out, const $T *in, int n)
{
    __shared__ $T values[2][$N];
    int i = blockIdx.x * $N + threadIdx.x, from = 0;
    values[0][threadIdx.x] = i < n ? in[i] : $T(0);
    __syncthreads();
    for (int offset = 1; offset < $N; offset *= 2) {
        $T value = values[from][threadIdx.x];
        if (threadIdx.x >= offset)
            value += values[from][threadIdx.x - offset];
        from = 1 - from;
        values[from][threadIdx.x] = value;
        __syncthreads();
    }
    if (i < n)
        out[i] = values[from][threadIdx.x];
}
