// Real arithmetic and classification that kernels use without a library's name in front of it.
// All functions: any thread on its own; no barrier, no shared memory. NaN rules are given with each group.
// A declaration here hides CUDA's function of the same name from the kernel, so each name covers every number type;
// mixed calls that C++ would call ambiguous have a rule too.
// All are templates (`template <int = 0>` where nothing is deduced): a kernel that brings a function of its own with
// one of these signatures overloads it and wins, instead of defining it again.
#ifndef FUSIOND_HELPERS_CUH
#define FUSIOND_HELPERS_CUH

#include "fusiond/integers.cuh"

namespace fusiond
{

namespace helpers_impl
{
__device__ __forceinline__ float infinity_of(float)
{
    return __int_as_float(0x7f800000);
}
__device__ __forceinline__ double infinity_of(double)
{
    return __longlong_as_double(0x7ff0000000000000LL);
}
} // namespace helpers_impl

// ---- Real functions. Unless a rule is given, NaN in gives NaN out.

// The type of the result is that of x. For unsigned types and bool it is x.
template <typename T, std::enable_if_t<integers_impl::number<T>, int> = 0> __device__ __forceinline__ T abs(T x)
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

template <typename T, integers_impl::if_integral<T> = 0> __device__ __forceinline__ T rsqrt(T x)
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

template <typename T, integers_impl::if_integral<T> = 0> __device__ __forceinline__ T signbit(T x)
{
    return integers_impl::negative(x) ? T(1) : T(0);
}

// C's; for integers the truncated modulo, with the sign of the dividend.
template <typename A, typename B, integers_impl::if_real<A, B> = 0>
__device__ __forceinline__ integers_impl::Real<A, B> fmod(A a, B b)
{
    typedef integers_impl::Real<A, B> R;
    return ::fmod((R)a, (R)b);
}

template <typename A, typename B, integers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ integers_impl::Integer<A, B> fmod(A a, B b)
{
    typedef integers_impl::Integer<A, B> I;
    return (I)a % (I)b;
}

// The floored modulo, with the sign of the divisor (C's function of this name rounds to nearest).
template <typename A, typename B, integers_impl::if_real<A, B> = 0>
__device__ __forceinline__ integers_impl::Real<A, B> remainder(A a, B b)
{
    typedef integers_impl::Real<A, B> R;
    const R rest = ::fmod((R)a, (R)b);
    return rest != 0 && (rest < 0) != ((R)b < 0) ? rest + (R)b : rest;
}

template <typename A, typename B, integers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ constexpr integers_impl::Integer<A, B> remainder(A a, B b)
{
    typedef integers_impl::Integer<A, B> I;
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
template <typename A, typename B, integers_impl::if_real<A, B> = 0>
__device__ __forceinline__ integers_impl::Real<A, B> pow(A base, B exponent)
{
    typedef integers_impl::Real<A, B> R;
    if constexpr (integers_impl::integral<B>) {
        const R size = ::pow(abs((R)base), (R)exponent);
        return (exponent & 1) != 0 && signbit((R)base) != 0 ? -size : size;
    } else {
        return ::pow((R)base, (R)exponent);
    }
}

// Integers: exact, modulo the width. A negative exponent gives 1 for base 1, 1 or -1 for base -1, else 0.
template <typename A, typename B, integers_impl::if_integrals<A, B> = 0>
__device__ __forceinline__ auto pow(A base, B exponent)
{
    typedef std::conditional_t<std::is_same_v<A, B>, A, integers_impl::Integer<A, B>> I;
    const I b = (I)base;
    if (integers_impl::negative(exponent)) {
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

template <typename T, std::enable_if_t<integers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isnan(T x)
{
    return x != x;
}

template <typename T, std::enable_if_t<integers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isposinf(T x)
{
    if constexpr (integers_impl::floating<T>)
        return x == helpers_impl::infinity_of(x);
    else
        return false;
}

template <typename T, std::enable_if_t<integers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isneginf(T x)
{
    if constexpr (integers_impl::floating<T>)
        return x == -helpers_impl::infinity_of(x);
    else
        return false;
}

template <typename T, std::enable_if_t<integers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isinf(T x)
{
    return isposinf(x) || isneginf(x);
}

template <typename T, std::enable_if_t<integers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isfinite(T x)
{
    if constexpr (integers_impl::floating<T>)
        return abs(x) < helpers_impl::infinity_of(x);
    else
        return true;
}

template <typename T, std::enable_if_t<integers_impl::number<T>, int> = 0> __device__ __forceinline__ bool isreal(T)
{
    return true;
}

} // namespace fusiond

#endif
