// corpus: entry=apply<$M> T=float|double M=0|1|2|3
template <int which> __device__ $T act($T x)
{
    if constexpr (which == 0)
        return x > 0 ? x : $T(0.01) * x;
    else if constexpr (which == 1)
        return x / ($T(1) + exp(-x));
    else if constexpr (which == 2)
        return $T(0.5) * x * ($T(1) + erf(x * $T(0.70710678)));
    else
        return tanh(x) * log1p(exp(-fabs(x)));
}
template <int which> __global__ void apply($T *out, const $T *in, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = act<which>(in[i]);
}
