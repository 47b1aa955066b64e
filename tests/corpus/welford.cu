// corpus: entry=moments<$T,$N> T=float|double N=2|8
template <typename T> struct moment {
    T mean, m2;
    int n;
    __device__ void add(T x)
    {
        n++;
        T delta = x - mean;
        mean += delta / n;
        m2 += delta * (x - mean);
    }
    __device__ void merge(const moment &other)
    {
        int both = n + other.n;
        if (both == 0)
            return;
        T delta = other.mean - mean;
        mean += delta * other.n / both;
        m2 += other.m2 + delta * delta * n * other.n / both;
        n = both;
    }
};
template <typename T, int lanes> __global__ void moments(T *mean, T *variance, const T *x, int width)
{
    moment<T> all[lanes] = {};
    for (int i = threadIdx.x; i < width; i += 32 * lanes)
#pragma unroll
        for (int k = 0; k < lanes; k++)
            if (i + 32 * k < width)
                all[k].add(x[i + 32 * k]);
    for (int k = 1; k < lanes; k++)
        all[0].merge(all[k]);
    mean[threadIdx.x] = all[0].mean;
    variance[threadIdx.x] = all[0].n ? all[0].m2 / all[0].n : T(0);
}
