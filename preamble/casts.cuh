// Casts between the number types that have no module of their own: __to_float, __to_int64, …, and half to bfloat.
// All functions: any thread on its own; no barrier, no shared memory. The rule is the C++ conversion; from a floating
// type to an integer it truncates. Each also works elementwise on arrays.
#ifndef FUSIOND_CASTS_CUH
#define FUSIOND_CASTS_CUH

#include "fusiond/array.cuh"
#include "fusiond/bfloat.cuh"
#include "fusiond/half.cuh"

namespace fusiond
{

#define FUSIOND_CAST(NAME, TO)                                                                                         \
    template <typename From> __device__ __forceinline__ TO NAME(const From &from)                                      \
    {                                                                                                                  \
        return static_cast<TO>(from);                                                                                  \
    }                                                                                                                  \
    template <typename From, int n, int align>                                                                         \
    __device__ __forceinline__ Array<TO, n, align> NAME(const Array<From, n, align> &from)                             \
    {                                                                                                                  \
        Array<TO, n, align> to;                                                                                        \
        _Pragma("unroll") for (int i = 0; i < n; ++i) to.array[i] = static_cast<TO>(from.array[i]);                    \
        return to;                                                                                                     \
    }

FUSIOND_CAST(__to_float, float)
FUSIOND_CAST(__to_double, double)
FUSIOND_CAST(__to_int8, int8_t)
FUSIOND_CAST(__to_int16, int16_t)
FUSIOND_CAST(__to_int32, int32_t)
FUSIOND_CAST(__to_int64, int64_t)
FUSIOND_CAST(__to_uint8, uint8_t)
FUSIOND_CAST(__to_uint16, uint16_t)
FUSIOND_CAST(__to_uint32, uint32_t)
FUSIOND_CAST(__to_uint64, uint64_t)
FUSIOND_CAST(__to_index, nvfuser_index_t)
FUSIOND_CAST(__to_bool, bool)

#undef FUSIOND_CAST

// Exact to float, then to nearest even.
__device__ __forceinline__ __bfloat __half2bfloat(__half value)
{
    return __float2bfloat(__half2float(value));
}

__device__ __forceinline__ __half __bfloat2half(__bfloat value)
{
    return __float2half(__bfloat2float(value));
}

template <int n, int align>
__device__ __forceinline__ Array<__bfloat, n, align> __half2bfloat(const Array<__half, n, align> &from)
{
    return __float2bfloat(__half2float(from));
}

template <int n, int align>
__device__ __forceinline__ Array<__half, n, align> __bfloat2half(const Array<__bfloat, n, align> &from)
{
    return __float2half(__bfloat2float(from));
}

} // namespace fusiond

#endif
