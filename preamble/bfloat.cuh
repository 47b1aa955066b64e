// __bfloat, the upper half of an IEEE binary32, and its casts. By inline PTX: cuda_bf16.h is not needed.
// All functions: any thread on its own; no barrier, no shared memory. A NaN stays a NaN; the casts to float and
// double are exact.
// Casts to bfloat round to nearest even once, on every architecture, also from double and 64-bit integers; casts to
// integers round toward zero and saturate, NaN gives what cvt.rzi gives.
#ifndef FUSIOND_BFLOAT_CUH
#define FUSIOND_BFLOAT_CUH

#include "fusiond/array.cuh"
#include "fusiond/types.cuh"

#if !defined(FUSIOND_INDEX_INT32_CUH) && !defined(FUSIOND_INDEX_INT64_CUH)
#error "fusiond/bfloat.cuh: include fusiond/index_int32.cuh or fusiond/index_int64.cuh first"
#endif

namespace fusiond
{

// bfloat16. No arithmetic and no conversion out of it: kernels cast to
// float and back. Copies and assignments work on volatile objects too; assignments return nothing.
struct alignas(2) __bfloat {
    uint16_t bits;

    __bfloat() = default;
    __device__ __forceinline__ __bfloat(const __bfloat &other) : bits(other.bits)
    {
    }
    __device__ __forceinline__ __bfloat(const volatile __bfloat &other) : bits(other.bits)
    {
    }
    __device__ __forceinline__ __bfloat(float value);

    __device__ __forceinline__ void operator=(const __bfloat &other)
    {
        bits = other.bits;
    }
    __device__ __forceinline__ void operator=(const __bfloat &other) volatile
    {
        bits = other.bits;
    }
    __device__ __forceinline__ void operator=(const volatile __bfloat &other)
    {
        bits = other.bits;
    }
    __device__ __forceinline__ void operator=(const volatile __bfloat &other) volatile
    {
        bits = other.bits;
    }

    // The bit pattern.
    __device__ __forceinline__ uint16_t raw() const
    {
        return bits;
    }
};

static_assert(sizeof(__bfloat) == 2 && alignof(__bfloat) == 2, "__bfloat is 2 bytes");

namespace bfloat_impl
{
__device__ __forceinline__ __bfloat from_bits(unsigned bits)
{
    __bfloat value;
    value.bits = (uint16_t)bits;
    return value;
}

// Make a float that was rounded toward zero sticky: an inexact one gets an odd last bit, and rounding it again to
// 8 significant bits gives what rounding the exact value once would.
__device__ __forceinline__ float sticky(float truncated, bool exact)
{
    return exact ? truncated : __uint_as_float(__float_as_uint(truncated) | 1u);
}
} // namespace bfloat_impl

// ---- Casts to bfloat.

__device__ __forceinline__ __bfloat __float2bfloat(float value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    __bfloat result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
#else
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bfloat_impl::from_bits(0x7fff);
    return bfloat_impl::from_bits((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

__device__ __forceinline__ __bfloat::__bfloat(float value) : bits(__float2bfloat(value).bits)
{
}

__device__ __forceinline__ __bfloat __double2bfloat(double value)
{
    const float truncated = __double2float_rz(value);
    // An overflow truncates to the largest float, which the odd bit leaves alone and rounding takes to infinity.
    return __float2bfloat(bfloat_impl::sticky(truncated, (double)truncated == value || value != value));
}

__device__ __forceinline__ __bfloat __int2bfloat(int value)
{
    return __double2bfloat((double)value);
}

__device__ __forceinline__ __bfloat __int2bfloat(uint32_t value)
{
    return __double2bfloat((double)value);
}

__device__ __forceinline__ __bfloat __int2bfloat(int64_t value)
{
    const float truncated = __ll2float_rz(value);
    return __float2bfloat(bfloat_impl::sticky(truncated, __float2ll_rz(truncated) == value));
}

__device__ __forceinline__ __bfloat __int2bfloat(long value)
{
    return __int2bfloat((int64_t)value);
}

__device__ __forceinline__ __bfloat __int2bfloat(uint64_t value)
{
    const float truncated = __ull2float_rz(value);
    return __float2bfloat(bfloat_impl::sticky(truncated, __float2ull_rz(truncated) == value));
}

// The name of 2022 for the int form.
__device__ __forceinline__ __bfloat __int322bfloat(int value)
{
    return __int2bfloat(value);
}

__device__ __forceinline__ __bfloat __bool2bfloat(bool value)
{
    return bfloat_impl::from_bits(value ? 0x3f80 : 0);
}

// ---- Casts from bfloat.

__device__ __forceinline__ float __bfloat2float(__bfloat value)
{
    return __uint_as_float((unsigned)value.bits << 16);
}

__device__ __forceinline__ double __bfloat2double(__bfloat value)
{
    return (double)__bfloat2float(value);
}

__device__ __forceinline__ int __bfloat2int32(__bfloat value)
{
    return __float2int_rz(__bfloat2float(value));
}

__device__ __forceinline__ int64_t __bfloat2int(__bfloat value)
{
    return __float2ll_rz(__bfloat2float(value));
}

// The unsigned conversions return their bits in a signed integer of the same width.
__device__ __forceinline__ int __bfloat2uint32(__bfloat value)
{
    return (int)__float2uint_rz(__bfloat2float(value));
}

__device__ __forceinline__ int64_t __bfloat2uint(__bfloat value)
{
    return (int64_t)__float2ull_rz(__bfloat2float(value));
}

// Convert to the type of the second argument.
__device__ __forceinline__ void __bfloat2int(__bfloat value, int &ret)
{
    ret = __bfloat2int32(value);
}
__device__ __forceinline__ void __bfloat2int(__bfloat value, int64_t &ret)
{
    ret = __bfloat2int(value);
}
__device__ __forceinline__ void __bfloat2int(__bfloat value, uint32_t &ret)
{
    ret = (uint32_t)__bfloat2uint32(value);
}
__device__ __forceinline__ void __bfloat2int(__bfloat value, uint64_t &ret)
{
    ret = (uint64_t)__bfloat2uint(value);
}

__device__ __forceinline__ nvfuser_index_t __bfloat2index(__bfloat value)
{
    nvfuser_index_t result;
    __bfloat2int(value, result);
    return result;
}

// NaN is true.
__device__ __forceinline__ bool __bfloat2bool(__bfloat value)
{
    return (value.bits & 0x7fff) != 0;
}

// ---- The same elementwise on arrays.

#define FUSIOND_ELEMENTWISE(NAME, TO, FROM)                                                                            \
    template <int n, int align> __device__ __forceinline__ Array<TO, n, align> NAME(const Array<FROM, n, align> &from) \
    {                                                                                                                  \
        Array<TO, n, align> to;                                                                                        \
        _Pragma("unroll") for (int i = 0; i < n; ++i) to.array[i] = NAME(from.array[i]);                               \
        return to;                                                                                                     \
    }

FUSIOND_ELEMENTWISE(__double2bfloat, __bfloat, double)
FUSIOND_ELEMENTWISE(__int2bfloat, __bfloat, int)
FUSIOND_ELEMENTWISE(__int2bfloat, __bfloat, int64_t)
FUSIOND_ELEMENTWISE(__int2bfloat, __bfloat, uint32_t)
FUSIOND_ELEMENTWISE(__int2bfloat, __bfloat, uint64_t)
FUSIOND_ELEMENTWISE(__bool2bfloat, __bfloat, bool)
FUSIOND_ELEMENTWISE(__bfloat2float, float, __bfloat)
FUSIOND_ELEMENTWISE(__bfloat2double, double, __bfloat)
FUSIOND_ELEMENTWISE(__bfloat2int32, int, __bfloat)
FUSIOND_ELEMENTWISE(__bfloat2int, int64_t, __bfloat)
FUSIOND_ELEMENTWISE(__bfloat2uint32, int, __bfloat)
FUSIOND_ELEMENTWISE(__bfloat2uint, int64_t, __bfloat)
FUSIOND_ELEMENTWISE(__bfloat2index, nvfuser_index_t, __bfloat)
FUSIOND_ELEMENTWISE(__bfloat2bool, bool, __bfloat)

#undef FUSIOND_ELEMENTWISE

// Two at a time where one instruction does it.
template <int n, int align>
__device__ __forceinline__ Array<__bfloat, n, align> __float2bfloat(const Array<float, n, align> &from)
{
    Array<__bfloat, n, align> to;
    int i = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#pragma unroll
    for (; i + 1 < n; i += 2) {
        unsigned both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(from.array[i + 1]), "f"(from.array[i]));
        to.array[i].bits = (uint16_t)both;
        to.array[i + 1].bits = (uint16_t)(both >> 16);
    }
#endif
#pragma unroll
    for (; i < n; ++i)
        to.array[i] = __float2bfloat(from.array[i]);
    return to;
}

// ---- The real helpers that kernels use on it. max and min give a NaN if either operand is one.

__device__ __forceinline__ __bfloat operator|(__bfloat a, __bfloat b)
{
    return bfloat_impl::from_bits(a.bits | b.bits);
}

// IEEE equality: a NaN equals nothing, the zeros equal each other.
__device__ __forceinline__ bool __heq(__bfloat a, __bfloat b)
{
    return __bfloat2float(a) == __bfloat2float(b);
}

__device__ __forceinline__ __bfloat abs(__bfloat a)
{
    return bfloat_impl::from_bits(a.bits & 0x7fff);
}

__device__ __forceinline__ bool isnan(__bfloat a)
{
    return (a.bits & 0x7fff) > 0x7f80;
}

__device__ __forceinline__ bool isinf(__bfloat a)
{
    return (a.bits & 0x7fff) == 0x7f80;
}

__device__ __forceinline__ bool isfinite(__bfloat a)
{
    return (a.bits & 0x7fff) < 0x7f80;
}

__device__ __forceinline__ __bfloat max(__bfloat a, __bfloat b)
{
    if (isnan(a))
        return a;
    return isnan(b) || __bfloat2float(b) > __bfloat2float(a) ? b : a;
}

__device__ __forceinline__ __bfloat min(__bfloat a, __bfloat b)
{
    if (isnan(a))
        return a;
    return isnan(b) || __bfloat2float(b) < __bfloat2float(a) ? b : a;
}

} // namespace fusiond

#endif
