// __half, IEEE binary16, and its casts. By inline PTX, or by the host device's header: cuda_fp16.h is not needed and
// not included.
// All functions: any thread on its own; no barrier, no shared memory. A NaN stays a NaN, its payload does not.
// Casts to half round to nearest even (once, also from double and 64-bit integers) and overflow to infinity; casts to
// integers round toward zero and saturate, NaN gives what cvt.rzi gives.
#ifndef FUSIOND_HALF_CUH
#define FUSIOND_HALF_CUH

#include "fusiond/array.cuh"
#include "fusiond/types.cuh"

#if !defined(FUSIOND_INDEX_INT32_CUH) && !defined(FUSIOND_INDEX_INT64_CUH)
#error "fusiond/half.cuh: include fusiond/index_int32.cuh or fusiond/index_int64.cuh first"
#endif

namespace fusiond
{

// IEEE binary16. No arithmetic and no conversion out of it: kernels cast to
// float and back. Copies and assignments work on volatile objects too; assignments return nothing.
struct alignas(2) __half {
    uint16_t bits;

    __half() = default;
    __device__ __forceinline__ __half(const __half &other) : bits(other.bits)
    {
    }
    __device__ __forceinline__ __half(const volatile __half &other) : bits(other.bits)
    {
    }
    __device__ __forceinline__ __half(float value);

    __device__ __forceinline__ void operator=(const __half &other)
    {
        bits = other.bits;
    }
    __device__ __forceinline__ void operator=(const __half &other) volatile
    {
        bits = other.bits;
    }
    __device__ __forceinline__ void operator=(const volatile __half &other)
    {
        bits = other.bits;
    }
    __device__ __forceinline__ void operator=(const volatile __half &other) volatile
    {
        bits = other.bits;
    }

    // The bit pattern.
    __device__ __forceinline__ uint16_t raw() const
    {
        return bits;
    }
};

static_assert(sizeof(__half) == 2 && alignof(__half) == 2, "__half is 2 bytes");

namespace half_impl
{
__device__ __forceinline__ __half from_bits(unsigned bits)
{
    __half value;
    value.bits = (uint16_t)bits;
    return value;
}
} // namespace half_impl

// One conversion: the instruction, its operands, and what the host device does instead.
#ifdef FUSIOND_HOST
#define FUSIOND_CONVERT(INSTRUCTION, TO, RESULT, FROM, VALUE, HOST) RESULT = HOST
#else
#define FUSIOND_CONVERT(INSTRUCTION, TO, RESULT, FROM, VALUE, HOST) \
    asm(INSTRUCTION " %0, %1;" : TO(RESULT) : FROM(VALUE))
#endif

// ---- Casts to half.

__device__ __forceinline__ __half __float2half(float value)
{
    __half result;
    FUSIOND_CONVERT("cvt.rn.f16.f32", "=h", result.bits, "f", value, fusiond_host::to_half(value));
    return result;
}

__device__ __forceinline__ __half::__half(float value) : bits(__float2half(value).bits)
{
}

__device__ __forceinline__ __half __double2half(double value)
{
    __half result;
    FUSIOND_CONVERT("cvt.rn.f16.f64", "=h", result.bits, "d", value, fusiond_host::to_half(value));
    return result;
}

__device__ __forceinline__ __half __int2half(int value)
{
    __half result;
    FUSIOND_CONVERT("cvt.rn.f16.s32", "=h", result.bits, "r", value, fusiond_host::to_half(value));
    return result;
}

__device__ __forceinline__ __half __int2half(int64_t value)
{
    __half result;
    FUSIOND_CONVERT("cvt.rn.f16.s64", "=h", result.bits, "l", value, fusiond_host::to_half(value));
    return result;
}

__device__ __forceinline__ __half __int2half(long value)
{
    return __int2half((int64_t)value);
}

__device__ __forceinline__ __half __int2half(uint32_t value)
{
    __half result;
    FUSIOND_CONVERT("cvt.rn.f16.u32", "=h", result.bits, "r", value, fusiond_host::to_half(value));
    return result;
}

__device__ __forceinline__ __half __int2half(uint64_t value)
{
    __half result;
    FUSIOND_CONVERT("cvt.rn.f16.u64", "=h", result.bits, "l", value, fusiond_host::to_half(value));
    return result;
}

// The name of 2022 for the int form.
__device__ __forceinline__ __half __int322half(int value)
{
    return __int2half(value);
}

__device__ __forceinline__ __half __bool2half(bool value)
{
    return half_impl::from_bits(value ? 0x3c00 : 0);
}

// ---- Casts from half.

__device__ __forceinline__ float __half2float(__half value)
{
    float result;
    FUSIOND_CONVERT("cvt.f32.f16", "=f", result, "h", value.bits, fusiond_host::half_to_float(value.bits));
    return result;
}

__device__ __forceinline__ double __half2double(__half value)
{
    double result;
    FUSIOND_CONVERT("cvt.f64.f16", "=d", result, "h", value.bits, fusiond_host::half_to_float(value.bits));
    return result;
}

__device__ __forceinline__ int __half2int32(__half value)
{
    int result;
    FUSIOND_CONVERT("cvt.rzi.s32.f16", "=r", result, "h", value.bits,
                    __float2int_rz(fusiond_host::half_to_float(value.bits)));
    return result;
}

__device__ __forceinline__ int64_t __half2int(__half value)
{
    int64_t result;
    FUSIOND_CONVERT("cvt.rzi.s64.f16", "=l", result, "h", value.bits,
                    __float2ll_rz(fusiond_host::half_to_float(value.bits)));
    return result;
}

// The unsigned conversions return their bits in a signed integer of the same width.
__device__ __forceinline__ int __half2uint32(__half value)
{
    int result;
    FUSIOND_CONVERT("cvt.rzi.u32.f16", "=r", result, "h", value.bits,
                    (int)__float2uint_rz(fusiond_host::half_to_float(value.bits)));
    return result;
}

__device__ __forceinline__ int64_t __half2uint(__half value)
{
    int64_t result;
    FUSIOND_CONVERT("cvt.rzi.u64.f16", "=l", result, "h", value.bits,
                    (int64_t)__float2ull_rz(fusiond_host::half_to_float(value.bits)));
    return result;
}

#undef FUSIOND_CONVERT

// Convert to the type of the second argument.
__device__ __forceinline__ void __half2int(__half value, int &ret)
{
    ret = __half2int32(value);
}
__device__ __forceinline__ void __half2int(__half value, int64_t &ret)
{
    ret = __half2int(value);
}
__device__ __forceinline__ void __half2int(__half value, uint32_t &ret)
{
    ret = (uint32_t)__half2uint32(value);
}
__device__ __forceinline__ void __half2int(__half value, uint64_t &ret)
{
    ret = (uint64_t)__half2uint(value);
}

__device__ __forceinline__ nvfuser_index_t __half2index(__half value)
{
    nvfuser_index_t result;
    __half2int(value, result);
    return result;
}

// NaN is true.
__device__ __forceinline__ bool __half2bool(__half value)
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

FUSIOND_ELEMENTWISE(__double2half, __half, double)
FUSIOND_ELEMENTWISE(__int2half, __half, int)
FUSIOND_ELEMENTWISE(__int2half, __half, int64_t)
FUSIOND_ELEMENTWISE(__int2half, __half, uint32_t)
FUSIOND_ELEMENTWISE(__int2half, __half, uint64_t)
FUSIOND_ELEMENTWISE(__bool2half, __half, bool)
FUSIOND_ELEMENTWISE(__half2float, float, __half)
FUSIOND_ELEMENTWISE(__half2double, double, __half)
FUSIOND_ELEMENTWISE(__half2int32, int, __half)
FUSIOND_ELEMENTWISE(__half2int, int64_t, __half)
FUSIOND_ELEMENTWISE(__half2uint32, int, __half)
FUSIOND_ELEMENTWISE(__half2uint, int64_t, __half)
FUSIOND_ELEMENTWISE(__half2index, nvfuser_index_t, __half)
FUSIOND_ELEMENTWISE(__half2bool, bool, __half)

#undef FUSIOND_ELEMENTWISE

// Two at a time where one instruction does it.
template <int n, int align>
__device__ __forceinline__ Array<__half, n, align> __float2half(const Array<float, n, align> &from)
{
    Array<__half, n, align> to;
    int i = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#pragma unroll
    for (; i + 1 < n; i += 2) {
        unsigned both;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(from.array[i + 1]), "f"(from.array[i]));
        to.array[i].bits = (uint16_t)both;
        to.array[i + 1].bits = (uint16_t)(both >> 16);
    }
#endif
#pragma unroll
    for (; i < n; ++i)
        to.array[i] = __float2half(from.array[i]);
    return to;
}

// ---- The real helpers that kernels use on it. max and min give a NaN if either operand is one.

__device__ __forceinline__ __half operator|(__half a, __half b)
{
    return half_impl::from_bits(a.bits | b.bits);
}

// IEEE equality: a NaN equals nothing, the zeros equal each other.
__device__ __forceinline__ bool __heq(__half a, __half b)
{
    return __half2float(a) == __half2float(b);
}

__device__ __forceinline__ __half abs(__half a)
{
    return half_impl::from_bits(a.bits & 0x7fff);
}

__device__ __forceinline__ bool isnan(__half a)
{
    return (a.bits & 0x7fff) > 0x7c00;
}

__device__ __forceinline__ bool isinf(__half a)
{
    return (a.bits & 0x7fff) == 0x7c00;
}

__device__ __forceinline__ bool isfinite(__half a)
{
    return (a.bits & 0x7fff) < 0x7c00;
}

__device__ __forceinline__ __half max(__half a, __half b)
{
    if (isnan(a))
        return a;
    return isnan(b) || __half2float(b) > __half2float(a) ? b : a;
}

__device__ __forceinline__ __half min(__half a, __half b)
{
    if (isnan(a))
        return a;
    return isnan(b) || __half2float(b) < __half2float(a) ? b : a;
}

} // namespace fusiond

#endif
