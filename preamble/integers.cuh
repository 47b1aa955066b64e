// Integer arithmetic that kernels use without a library's name in front of it, and what number types are to it.
// All functions: any thread on its own; no barrier, no shared memory.
// All are templates (`template <int = 0>` where nothing is deduced): a kernel that brings a function of its own with
// one of these signatures overloads it and wins, instead of defining it again.
#ifndef FUSIOND_INTEGERS_CUH
#define FUSIOND_INTEGERS_CUH

#include "fusiond/basic_type_traits.cuh"
#include "fusiond/types.cuh"

namespace fusiond
{

namespace integers_impl
{
template <typename T> constexpr bool integral = std::is_integral_v<T>;
template <typename T> constexpr bool floating = std::is_floating_point_v<T>;
template <typename T> constexpr bool number = std::is_arithmetic_v<T>;
template <typename T> constexpr bool wide_unsigned = integral<T> && sizeof(T) == 8 && T(-1) > T(0);

template <typename T> using if_integral = std::enable_if_t<integral<T>, int>;
template <typename A, typename B> using if_integrals = std::enable_if_t<integral<A> && integral<B>, int>;
template <typename A, typename B>
using if_real = std::enable_if_t<number<A> && number<B> && (floating<A> || floating<B>), int>;

// int when both operands fit it, else int64_t.
template <typename A, typename B>
using Integer = std::conditional_t<(sizeof(A) < 4 || (sizeof(A) == 4 && A(-1) < A(0))) &&
                                       (sizeof(B) < 4 || (sizeof(B) == 4 && B(-1) < B(0))),
                                   int, int64_t>;

// The type of a call with at least one real: double if there is a double, else float.
template <typename A, typename B>
using Real = std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double>, double, float>;

// double unless both operands are float.
template <typename A, typename B>
using Promoted = std::conditional_t<std::is_same_v<A, float> && std::is_same_v<B, float>, float, double>;

template <typename T> __device__ __forceinline__ constexpr bool negative(T x)
{
    if constexpr (T(-1) < T(0))
        return x < T(0);
    else
        return false; // comparing it would be warned of
}
} // namespace integers_impl

// The quotient rounded up, of a >= 0 and b > 0; a + b must not overflow. With a double, the real quotient rounded up.
template <typename A, typename B, integers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ constexpr integers_impl::Integer<A, B> ceilDiv(A a, B b)
{
    typedef integers_impl::Integer<A, B> I;
    return ((I)a + (I)b - 1) / (I)b;
}

template <typename A, typename B, integers_impl::if_real<A, B> = 0> __device__ __forceinline__ double ceilDiv(A a, B b)
{
    return ::ceil((double)a / (double)b);
}

// Rounded up to a multiple of align, a power of two.
template <int = 0> __device__ __forceinline__ constexpr int alignBufferSize(int size, int align)
{
    return (size + align - 1) & ~(align - 1);
}

// Non-negative; gcd(x, 0) is the absolute value of x.
template <typename T> __device__ __forceinline__ T gcd(T a, T b)
{
    static_assert(integers_impl::integral<T>, "gcd is for integers");
    while (b != 0) {
        const T rest = a % b;
        a = b;
        b = rest;
    }
    return integers_impl::negative(a) ? T(-a) : a;
}

} // namespace fusiond

#endif
