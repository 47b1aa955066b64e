// max, min, fmax and fmin of any number types.
// All functions: any thread on its own; no barrier, no shared memory. NaN rules are given with each group.
// A declaration here hides CUDA's function of the same name from the kernel, so each name covers every number type;
// mixed calls that C++ would call ambiguous have a rule too.
// All are templates (`template <int = 0>` where nothing is deduced): a kernel that brings a function of its own with
// one of these signatures overloads it and wins, instead of defining it again.
#ifndef FUSIOND_EXTREMA_CUH
#define FUSIOND_EXTREMA_CUH

#include "fusiond/integers.cuh"

namespace fusiond
{

namespace extrema_impl
{
// The larger and the smaller of two, NaN if either is one: a single instruction for float since sm_80.
template <typename R> __device__ __forceinline__ R max_nan(R x, R y)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<R, float>) {
        float result;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
        return result;
    }
#endif
    if (x != x)
        return x;
    return x > y ? x : y;
}

template <typename R> __device__ __forceinline__ R min_nan(R x, R y)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<R, float>) {
        float result;
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
        return result;
    }
#endif
    if (x != x)
        return x;
    return x < y ? x : y;
}
} // namespace extrema_impl

// Integers compare by value even when one is signed and the other is not. Mixes of 32-bit signed and unsigned and all
// 64-bit ones have a 64-bit result.
template <typename A, typename B, integers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ constexpr auto max(A a, B b)
{
    if constexpr (integers_impl::wide_unsigned<A> || integers_impl::wide_unsigned<B>) {
        const uint64_t x = integers_impl::negative(a) ? 0 : (uint64_t)a;
        const uint64_t y = integers_impl::negative(b) ? 0 : (uint64_t)b;
        return x < y ? y : x;
    } else if constexpr (std::is_same_v<A, B>) {
        return a < b ? b : a;
    } else {
        typedef integers_impl::Integer<A, B> I;
        return (I)a < (I)b ? (I)b : (I)a;
    }
}

template <typename A, typename B, integers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ constexpr auto min(A a, B b)
{
    if constexpr (integers_impl::wide_unsigned<A> && integers_impl::wide_unsigned<B>) {
        return (uint64_t)a < (uint64_t)b ? (uint64_t)a : (uint64_t)b;
    } else if constexpr (integers_impl::wide_unsigned<A>) {
        // The result is never above b.
        return integers_impl::negative(b) || (uint64_t)b < (uint64_t)a ? (int64_t)b : (int64_t)a;
    } else if constexpr (integers_impl::wide_unsigned<B>) {
        return integers_impl::negative(a) || (uint64_t)a < (uint64_t)b ? (int64_t)a : (int64_t)b;
    } else if constexpr (std::is_same_v<A, B>) {
        return b < a ? b : a;
    } else {
        typedef integers_impl::Integer<A, B> I;
        return (I)b < (I)a ? (I)b : (I)a;
    }
}

// ---- max, min, fmax, fmin of reals.

// NaN if either operand is one.
template <typename A, typename B, integers_impl::if_real<A, B> = 0>
__device__ __forceinline__ integers_impl::Real<A, B> max(A a, B b)
{
    return extrema_impl::max_nan((integers_impl::Real<A, B>)a, (integers_impl::Real<A, B>)b);
}

template <typename A, typename B, integers_impl::if_real<A, B> = 0>
__device__ __forceinline__ integers_impl::Real<A, B> min(A a, B b)
{
    return extrema_impl::min_nan((integers_impl::Real<A, B>)a, (integers_impl::Real<A, B>)b);
}

// Until 2025-09 kernels spelt the NaN-propagating pair fmax and fmin; since then these ignore one NaN as C's do.
// The older rule holds unless FUSIOND_FMAX_IGNORES_NAN is defined.
template <typename A, typename B, std::enable_if_t<integers_impl::number<A> && integers_impl::number<B>, int> = 0>
__device__ __forceinline__ integers_impl::Promoted<A, B> fmax(A a, B b)
{
    typedef integers_impl::Promoted<A, B> R;
#ifdef FUSIOND_FMAX_IGNORES_NAN
    return ::fmax((R)a, (R)b);
#else
    return max((R)a, (R)b);
#endif
}

template <typename A, typename B, std::enable_if_t<integers_impl::number<A> && integers_impl::number<B>, int> = 0>
__device__ __forceinline__ integers_impl::Promoted<A, B> fmin(A a, B b)
{
    typedef integers_impl::Promoted<A, B> R;
#ifdef FUSIOND_FMAX_IGNORES_NAN
    return ::fmin((R)a, (R)b);
#else
    return min((R)a, (R)b);
#endif
}

} // namespace fusiond

#endif
