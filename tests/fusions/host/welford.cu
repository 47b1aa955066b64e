// Mean and variance of rows by Welford's combination: three values through every shuffle, a template with an int.
struct moments {
    float mean, m2, n;
};

template <int width> __device__ __forceinline__ moments combine(moments a)
{
#pragma unroll
    for (int offset = width / 2; offset > 0; offset >>= 1) {
        const float mean = __shfl_down_sync(0xffffffffu, a.mean, offset, width);
        const float m2 = __shfl_down_sync(0xffffffffu, a.m2, offset, width);
        const float n = __shfl_down_sync(0xffffffffu, a.n, offset, width);
        const float all = a.n + n;
        if (all > 0) {
            const float delta = mean - a.mean;
            a.mean += delta * (n / all);
            a.m2 += m2 + delta * delta * a.n * (n / all);
            a.n = all;
        }
    }
    return a;
}

template <typename T, int width> __global__ void welford(const T *x, T *mean, T *variance, int n)
{
    const T *row = x + (size_t)n * (blockIdx.x * blockDim.y + threadIdx.y);
    moments a = {0, 0, 0};
    for (int i = threadIdx.x; i < n; i += width) {
        a.n += 1;
        const float delta = row[i] - a.mean;
        a.mean += delta / a.n;
        a.m2 += delta * (row[i] - a.mean);
    }
    a = combine<width>(a);
    if (threadIdx.x == 0) {
        mean[blockIdx.x * blockDim.y + threadIdx.y] = a.mean;
        variance[blockIdx.x * blockDim.y + threadIdx.y] = a.m2 / a.n;
    }
}
