// corpus: entry=combine<float,double,$T> T=int|short|float
template <typename... Ts> __device__ auto total(Ts... values) { return (values + ... + 0.0); }
template <typename First, typename... Rest> __global__ void combine(double *out, First first, Rest... rest)
{
    if constexpr (sizeof...(rest) > 1)
        out[threadIdx.x] = total(first, rest...) / sizeof...(rest);
    else
        out[threadIdx.x] = total(first);
}
