// Arithmetic that kernels use without a library's name in front of it, and the magic zero.
// All functions: any thread on its own; no barrier, no shared memory. NaN rules are given with each group.
// A declaration here hides CUDA's function of the same name from the kernel, so each name covers every number type;
// mixed calls that C++ would call ambiguous have a rule too.
// All are templates (`template <int = 0>` where nothing is deduced): a kernel that brings a function of its own with
// one of these signatures overloads it and wins, instead of defining it again.
#ifndef FUSIOND_HELPERS_CUH
#define FUSIOND_HELPERS_CUH

#include "fusiond/basic_type_traits.cuh"
#include "fusiond/types.cuh"

namespace fusiond
{

namespace helpers_impl
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

__device__ __forceinline__ float infinity_of(float)
{
    return __int_as_float(0x7f800000);
}
__device__ __forceinline__ double infinity_of(double)
{
    return __longlong_as_double(0x7ff0000000000000LL);
}

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
} // namespace helpers_impl

// ---- Integers and indices.

// The quotient rounded up, of a >= 0 and b > 0; a + b must not overflow. With a double, the real quotient rounded up.
template <typename A, typename B, helpers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ constexpr helpers_impl::Integer<A, B> ceilDiv(A a, B b)
{
    typedef helpers_impl::Integer<A, B> I;
    return ((I)a + (I)b - 1) / (I)b;
}

template <typename A, typename B, helpers_impl::if_real<A, B> = 0> __device__ __forceinline__ double ceilDiv(A a, B b)
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
    static_assert(helpers_impl::integral<T>, "gcd is for integers");
    while (b != 0) {
        const T rest = a % b;
        a = b;
        b = rest;
    }
    return helpers_impl::negative(a) ? T(-a) : a;
}

// Integers compare by value even when one is signed and the other is not. Mixes of 32-bit signed and unsigned and all
// 64-bit ones have a 64-bit result.
template <typename A, typename B, helpers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ constexpr auto max(A a, B b)
{
    if constexpr (helpers_impl::wide_unsigned<A> || helpers_impl::wide_unsigned<B>) {
        const uint64_t x = helpers_impl::negative(a) ? 0 : (uint64_t)a;
        const uint64_t y = helpers_impl::negative(b) ? 0 : (uint64_t)b;
        return x < y ? y : x;
    } else if constexpr (std::is_same_v<A, B>) {
        return a < b ? b : a;
    } else {
        typedef helpers_impl::Integer<A, B> I;
        return (I)a < (I)b ? (I)b : (I)a;
    }
}

template <typename A, typename B, helpers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ constexpr auto min(A a, B b)
{
    if constexpr (helpers_impl::wide_unsigned<A> && helpers_impl::wide_unsigned<B>) {
        return (uint64_t)a < (uint64_t)b ? (uint64_t)a : (uint64_t)b;
    } else if constexpr (helpers_impl::wide_unsigned<A>) {
        // The result is never above b.
        return helpers_impl::negative(b) || (uint64_t)b < (uint64_t)a ? (int64_t)b : (int64_t)a;
    } else if constexpr (helpers_impl::wide_unsigned<B>) {
        return helpers_impl::negative(a) || (uint64_t)a < (uint64_t)b ? (int64_t)a : (int64_t)b;
    } else if constexpr (std::is_same_v<A, B>) {
        return b < a ? b : a;
    } else {
        typedef helpers_impl::Integer<A, B> I;
        return (I)b < (I)a ? (I)b : (I)a;
    }
}

// ---- max, min, fmax, fmin of reals.

// NaN if either operand is one.
template <typename A, typename B, helpers_impl::if_real<A, B> = 0>
__device__ __forceinline__ helpers_impl::Real<A, B> max(A a, B b)
{
    return helpers_impl::max_nan((helpers_impl::Real<A, B>)a, (helpers_impl::Real<A, B>)b);
}

template <typename A, typename B, helpers_impl::if_real<A, B> = 0>
__device__ __forceinline__ helpers_impl::Real<A, B> min(A a, B b)
{
    return helpers_impl::min_nan((helpers_impl::Real<A, B>)a, (helpers_impl::Real<A, B>)b);
}

// Until 2025-09 kernels spelt the NaN-propagating pair fmax and fmin; since then these ignore one NaN as C's do.
// The older rule holds unless FUSIOND_FMAX_IGNORES_NAN is defined.
template <typename A, typename B, std::enable_if_t<helpers_impl::number<A> && helpers_impl::number<B>, int> = 0>
__device__ __forceinline__ helpers_impl::Promoted<A, B> fmax(A a, B b)
{
    typedef helpers_impl::Promoted<A, B> R;
#ifdef FUSIOND_FMAX_IGNORES_NAN
    return ::fmax((R)a, (R)b);
#else
    return max((R)a, (R)b);
#endif
}

template <typename A, typename B, std::enable_if_t<helpers_impl::number<A> && helpers_impl::number<B>, int> = 0>
__device__ __forceinline__ helpers_impl::Promoted<A, B> fmin(A a, B b)
{
    typedef helpers_impl::Promoted<A, B> R;
#ifdef FUSIOND_FMAX_IGNORES_NAN
    return ::fmin((R)a, (R)b);
#else
    return min((R)a, (R)b);
#endif
}

// ---- Real functions. Unless a rule is given, NaN in gives NaN out.

// The type of the result is that of x. For unsigned types and bool it is x.
template <typename T, std::enable_if_t<helpers_impl::number<T>, int> = 0> __device__ __forceinline__ T abs(T x)
{
    if constexpr (std::is_same_v<T, float>)
        return ::fabsf(x);
    else if constexpr (std::is_same_v<T, double>)
        return ::fabs(x);
    else if constexpr (T(-1) < T(0))
        return x < T(0) ? T(-x) : x;
    else
        return x;
}

// From start at weight 0 to end at weight 1, exact at both and monotone: counted from the nearer one.
template <int = 0> __device__ __forceinline__ double lerp(double start, double end, double weight)
{
    const double step = end - start;
    return ::fabs(weight) < 0.5 ? start + weight * step : end - (1.0 - weight) * step;
}

template <int = 0> __device__ __forceinline__ float lerp(float start, float end, float weight)
{
    const float step = end - start;
    return ::fabsf(weight) < 0.5f ? start + weight * step : end - (1.0f - weight) * step;
}

template <int = 0> __device__ __forceinline__ float lerp(float start, float end, double weight)
{
    return lerp(start, end, (float)weight);
}

// First not below the lower bound, then not above the upper one (which wins if they cross). A NaN x stays.
template <int = 0> __device__ __forceinline__ double clamp(double x, double lower, double upper)
{
    const double raised = x < lower ? lower : x;
    return raised > upper ? upper : raised;
}

template <int = 0> __device__ __forceinline__ float clamp(float x, double lower, double upper)
{
    const double raised = x < lower ? lower : (double)x;
    return (float)(raised > upper ? upper : raised);
}

template <int = 0> __device__ __forceinline__ float clamp(float x, float lower, float upper)
{
    const float raised = x < lower ? lower : x;
    return raised > upper ? upper : raised;
}

template <int = 0> __device__ __forceinline__ int64_t clamp(int64_t x, int64_t lower, int64_t upper)
{
    const int64_t raised = x < lower ? lower : x;
    return raised > upper ? upper : raised;
}

template <int = 0> __device__ __forceinline__ int clamp(int x, int64_t lower, int64_t upper)
{
    return (int)clamp((int64_t)x, lower, upper);
}

// value where x does not exceed t, else x. A NaN x stays.
template <int = 0> __device__ __forceinline__ double threshold(double x, double t, double value)
{
    return x <= t ? value : x;
}

template <int = 0> __device__ __forceinline__ float threshold(float x, double t, double value)
{
    return x <= t ? (float)value : x;
}

template <int = 0> __device__ __forceinline__ int64_t threshold(int64_t x, int64_t t, int64_t value)
{
    return x <= t ? value : x;
}

template <int = 0> __device__ __forceinline__ int threshold(int x, int64_t t, int64_t value)
{
    return x <= t ? (int)value : x;
}

// The fractional part, with the sign of x.
template <int = 0> __device__ __forceinline__ double frac(double x)
{
    return x - ::trunc(x);
}

template <int = 0> __device__ __forceinline__ float frac(float x)
{
    return x - ::truncf(x);
}

template <int = 0> __device__ __forceinline__ double reciprocal(double x)
{
    return 1.0 / x;
}

template <int = 0> __device__ __forceinline__ float reciprocal(float x)
{
    return 1.0f / x;
}

// 0 at and below 0, else x. Of integers it is a float.
template <int = 0> __device__ __forceinline__ double relu(double x)
{
    return x <= 0.0 ? 0.0 : x;
}

template <int = 0> __device__ __forceinline__ float relu(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

template <int = 0> __device__ __forceinline__ float relu(int64_t x)
{
    return x <= 0 ? 0.0f : (float)x;
}

template <int = 0> __device__ __forceinline__ float relu(int x)
{
    return x <= 0 ? 0.0f : (float)x;
}

// The logistic function.
template <int = 0> __device__ __forceinline__ double sigmoid(double x)
{
    return 1.0 / (1.0 + ::exp(-x));
}

template <int = 0> __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + ::expf(-x));
}

// x times the logistic function of x.
template <int = 0> __device__ __forceinline__ double silu(double x)
{
    return x / (1.0 + ::exp(-x));
}

template <int = 0> __device__ __forceinline__ float silu(float x)
{
    return x / (1.0f + ::expf(-x));
}

// Of an integer it is truncated.
template <int = 0> __device__ __forceinline__ double rsqrt(double x)
{
    return ::rsqrt(x);
}

template <int = 0> __device__ __forceinline__ float rsqrt(float x)
{
    return ::rsqrtf(x);
}

template <typename T, helpers_impl::if_integral<T> = 0> __device__ __forceinline__ T rsqrt(T x)
{
    return (T)::rsqrt((double)x);
}

// 1 for a set sign (of reals: also of -0 and NaN), else 0, in the type of x.
template <int = 0> __device__ __forceinline__ double signbit(double x)
{
    return __double2hiint(x) < 0 ? 1.0 : 0.0;
}

template <int = 0> __device__ __forceinline__ float signbit(float x)
{
    return __float_as_int(x) < 0 ? 1.0f : 0.0f;
}

template <typename T, helpers_impl::if_integral<T> = 0> __device__ __forceinline__ T signbit(T x)
{
    return helpers_impl::negative(x) ? T(1) : T(0);
}

// C's; for integers the truncated modulo, with the sign of the dividend.
template <typename A, typename B, helpers_impl::if_real<A, B> = 0>
__device__ __forceinline__ helpers_impl::Real<A, B> fmod(A a, B b)
{
    typedef helpers_impl::Real<A, B> R;
    return ::fmod((R)a, (R)b);
}

template <typename A, typename B, helpers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ helpers_impl::Integer<A, B> fmod(A a, B b)
{
    typedef helpers_impl::Integer<A, B> I;
    return (I)a % (I)b;
}

// The floored modulo, with the sign of the divisor (C's function of this name rounds to nearest).
template <typename A, typename B, helpers_impl::if_real<A, B> = 0>
__device__ __forceinline__ helpers_impl::Real<A, B> remainder(A a, B b)
{
    typedef helpers_impl::Real<A, B> R;
    const R rest = ::fmod((R)a, (R)b);
    return rest != 0 && (rest < 0) != ((R)b < 0) ? rest + (R)b : rest;
}

template <typename A, typename B, helpers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ constexpr helpers_impl::Integer<A, B> remainder(A a, B b)
{
    typedef helpers_impl::Integer<A, B> I;
    const I rest = (I)a % (I)b;
    return rest != 0 && (rest < 0) != ((I)b < 0) ? rest + (I)b : rest;
}

template <int = 0> __device__ __forceinline__ double nextafter(double from, double to)
{
    return ::nextafter(from, to);
}

template <int = 0> __device__ __forceinline__ float nextafter(float from, float to)
{
    return ::nextafterf(from, to);
}

// ---- pow.

// Reals: C's. A float with a float or an integer gives float, else it is double. The sign of an integer exponent's
// parity is kept even where float or double can't hold the exponent.
template <typename A, typename B, helpers_impl::if_real<A, B> = 0>
__device__ __forceinline__ helpers_impl::Real<A, B> pow(A base, B exponent)
{
    typedef helpers_impl::Real<A, B> R;
    if constexpr (helpers_impl::integral<B>) {
        const R size = ::pow(abs((R)base), (R)exponent);
        return (exponent & 1) != 0 && signbit((R)base) != 0 ? -size : size;
    } else {
        return ::pow((R)base, (R)exponent);
    }
}

// Integers: exact, modulo the width. A negative exponent gives 1 for base 1, 1 or -1 for base -1, else 0.
template <typename A, typename B, helpers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ auto pow(A base, B exponent)
{
    typedef std::conditional_t<std::is_same_v<A, B>, A, helpers_impl::Integer<A, B>> I;
    const I b = (I)base;
    if (helpers_impl::negative(exponent)) {
        if (b == I(1))
            return I(1);
        if (b == I(-1))
            return (exponent & 1) != 0 ? I(-1) : I(1);
        return I(0);
    }
    // Unsigned, so that running over the width is defined.
    uint64_t result = 1;
    uint64_t square = (uint64_t)(int64_t)b;
    for (uint64_t rest = (uint64_t)exponent; rest != 0; rest >>= 1) {
        if (rest & 1)
            result *= square;
        square *= square;
    }
    return (I)result;
}

// ---- Classification of any number type; integers are finite.

template <typename T, std::enable_if_t<helpers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isnan(T x)
{
    return x != x;
}

template <typename T, std::enable_if_t<helpers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isposinf(T x)
{
    if constexpr (helpers_impl::floating<T>)
        return x == helpers_impl::infinity_of(x);
    else
        return false;
}

template <typename T, std::enable_if_t<helpers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isneginf(T x)
{
    if constexpr (helpers_impl::floating<T>)
        return x == -helpers_impl::infinity_of(x);
    else
        return false;
}

template <typename T, std::enable_if_t<helpers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isinf(T x)
{
    return isposinf(x) || isneginf(x);
}

template <typename T, std::enable_if_t<helpers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isfinite(T x)
{
    if constexpr (helpers_impl::floating<T>)
        return abs(x) < helpers_impl::infinity_of(x);
    else
        return true;
}

template <typename T, std::enable_if_t<helpers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isreal(T)
{
    return true;
}

} // namespace fusiond

// ---- The magic zero: an int that is 0 in every run, which no stage of the compiler can know. Indices that contain it
// are not computed ahead of unrolled loops, which saves registers. DEFINE: once per kernel, any thread; no barrier and
// no shared memory. UPDATE: a statement at the end of a loop's body or after it. Both work with and without a
// semicolon. Where FUSIOND_NO_MAGIC_ZERO is defined it is a plain 0.
#ifdef FUSIOND_NO_MAGIC_ZERO
#define NVFUSER_DEFINE_MAGIC_ZERO constexpr int nvfuser_zero = 0;
#define NVFUSER_UPDATE_MAGIC_ZERO
#elif defined(__CUDA_ARCH__)
// The sign of the size of the block's dynamic shared memory: read at run time, and never negative.
#define NVFUSER_DEFINE_MAGIC_ZERO                                                                                      \
    int nvfuser_zero;                                                                                                  \
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(nvfuser_zero));                                             \
    nvfuser_zero = (int)((unsigned)nvfuser_zero >> 31);
#define NVFUSER_UPDATE_MAGIC_ZERO nvfuser_zero += nvfuser_zero;
#else
#define NVFUSER_DEFINE_MAGIC_ZERO int nvfuser_zero = 0;
#define NVFUSER_UPDATE_MAGIC_ZERO nvfuser_zero += nvfuser_zero;
#endif

// The names of 2021.
#define DEFINE_MAGIC_ZERO NVFUSER_DEFINE_MAGIC_ZERO
#define UPDATE_MAGIC_ZERO NVFUSER_UPDATE_MAGIC_ZERO

#endif
