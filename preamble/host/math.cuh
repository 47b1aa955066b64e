// Real functions by CUDA's names: the C library's, and what it lacks. The fast ones (__expf, …) are the accurate ones.
#ifndef FUSIOND_HOST_MATH_CUH
#define FUSIOND_HOST_MATH_CUH

// float, double, and any integer, which counts as a double.
#define FUSIOND_HOST_OVERLOADS(NAME)                                                                                   \
    inline float NAME(float x)                                                                                         \
    {                                                                                                                  \
        return NAME##f(x);                                                                                             \
    }                                                                                                                  \
    template <typename T, fusiond_host::if_integral<T> = 0> inline double NAME(T x)                                    \
    {                                                                                                                  \
        return NAME((double)x);                                                                                        \
    }
#define FUSIOND_HOST_UNARY(NAME)                                                                                       \
    extern "C" double NAME(double) noexcept;                                                                           \
    extern "C" float NAME##f(float) noexcept;                                                                          \
    FUSIOND_HOST_OVERLOADS(NAME)
FUSIOND_HOST_UNARY(acos)
FUSIOND_HOST_UNARY(acosh)
FUSIOND_HOST_UNARY(asin)
FUSIOND_HOST_UNARY(asinh)
FUSIOND_HOST_UNARY(atan)
FUSIOND_HOST_UNARY(atanh)
FUSIOND_HOST_UNARY(cbrt)
FUSIOND_HOST_UNARY(ceil)
FUSIOND_HOST_UNARY(cos)
FUSIOND_HOST_UNARY(cosh)
FUSIOND_HOST_UNARY(erf)
FUSIOND_HOST_UNARY(erfc)
FUSIOND_HOST_UNARY(exp)
FUSIOND_HOST_UNARY(exp10)
FUSIOND_HOST_UNARY(exp2)
FUSIOND_HOST_UNARY(expm1)
FUSIOND_HOST_UNARY(fabs)
FUSIOND_HOST_UNARY(floor)
FUSIOND_HOST_UNARY(j0)
FUSIOND_HOST_UNARY(j1)
FUSIOND_HOST_UNARY(lgamma)
FUSIOND_HOST_UNARY(log)
FUSIOND_HOST_UNARY(log10)
FUSIOND_HOST_UNARY(log1p)
FUSIOND_HOST_UNARY(log2)
FUSIOND_HOST_UNARY(logb)
FUSIOND_HOST_UNARY(nearbyint)
FUSIOND_HOST_UNARY(rint)
FUSIOND_HOST_UNARY(round)
FUSIOND_HOST_UNARY(sin)
FUSIOND_HOST_UNARY(sinh)
FUSIOND_HOST_UNARY(sqrt)
FUSIOND_HOST_UNARY(tan)
FUSIOND_HOST_UNARY(tanh)
FUSIOND_HOST_UNARY(tgamma)
FUSIOND_HOST_UNARY(trunc)
FUSIOND_HOST_UNARY(y0)
FUSIOND_HOST_UNARY(y1)
#undef FUSIOND_HOST_UNARY

// Two operands of one type, or of two: then double.
#define FUSIOND_HOST_BINARY(NAME)                                                                                      \
    extern "C" double NAME(double, double) noexcept;                                                                   \
    extern "C" float NAME##f(float, float) noexcept;                                                                   \
    inline float NAME(float x, float y)                                                                                \
    {                                                                                                                  \
        return NAME##f(x, y);                                                                                          \
    }                                                                                                                  \
    template <typename A, typename B, fusiond_host::if_mixed<A, B> = 0> inline double NAME(A x, B y)                   \
    {                                                                                                                  \
        return NAME((double)x, (double)y);                                                                             \
    }
FUSIOND_HOST_BINARY(atan2)
FUSIOND_HOST_BINARY(copysign)
FUSIOND_HOST_BINARY(fdim)
FUSIOND_HOST_BINARY(fmax)
FUSIOND_HOST_BINARY(fmin)
FUSIOND_HOST_BINARY(fmod)
FUSIOND_HOST_BINARY(hypot)
FUSIOND_HOST_BINARY(nextafter)
FUSIOND_HOST_BINARY(remainder)
#undef FUSIOND_HOST_BINARY

extern "C" {
double pow(double, double) noexcept;
float powf(float, float) noexcept;
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double scalbn(double, int) noexcept;
float scalbnf(float, int) noexcept;
double frexp(double, int *) noexcept;
float frexpf(float, int *) noexcept;
double modf(double, double *) noexcept;
float modff(float, float *) noexcept;
void sincos(double, double *, double *) noexcept;
void sincosf(float, float *, float *) noexcept;
int ilogb(double) noexcept;
int ilogbf(float) noexcept;
long lround(double) noexcept;
long lroundf(float) noexcept;
long long llround(double) noexcept;
long long llroundf(float) noexcept;
long lrint(double) noexcept;
long lrintf(float) noexcept;
long long llrint(double) noexcept;
long long llrintf(float) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
}

inline float pow(float x, float y)
{
    return powf(x, y);
}
inline float pow(float x, int y)
{
    return powf(x, (float)y);
}
inline double pow(double x, int y)
{
    return pow(x, (double)y);
}
template <typename A, typename B, fusiond_host::if_mixed<A, B> = 0> inline double pow(A x, B y)
{
    return pow((double)x, (double)y);
}
inline float fma(float x, float y, float z)
{
    return fmaf(x, y, z);
}
inline float ldexp(float x, int e)
{
    return ldexpf(x, e);
}
inline float scalbn(float x, int e)
{
    return scalbnf(x, e);
}
inline float frexp(float x, int *e)
{
    return frexpf(x, e);
}
inline float modf(float x, float *whole)
{
    return modff(x, whole);
}
inline void sincos(float x, float *s, float *c)
{
    sincosf(x, s, c);
}
inline long abs(long x)
{
    return labs(x);
}
inline long long abs(long long x)
{
    return llabs(x);
}
inline float abs(float x)
{
    return fabsf(x);
}
inline double abs(double x)
{
    return fabs(x);
}

inline float max(float a, float b)
{
    return fmaxf(a, b);
}
inline float min(float a, float b)
{
    return fminf(a, b);
}
inline double max(double a, double b)
{
    return fmax(a, b);
}
inline double min(double a, double b)
{
    return fmin(a, b);
}
inline double max(float a, double b)
{
    return fmax((double)a, b);
}
inline double min(float a, double b)
{
    return fmin((double)a, b);
}
inline double max(double a, float b)
{
    return fmax(a, (double)b);
}
inline double min(double a, float b)
{
    return fmin(a, (double)b);
}

#define FUSIOND_HOST_CLASS(NAME)                                                                                       \
    inline bool NAME(float x)                                                                                          \
    {                                                                                                                  \
        return __builtin_##NAME(x) != 0;                                                                               \
    }                                                                                                                  \
    inline bool NAME(double x)                                                                                         \
    {                                                                                                                  \
        return __builtin_##NAME(x) != 0;                                                                               \
    }                                                                                                                  \
    template <typename T, fusiond_host::if_integral<T> = 0> inline bool NAME(T x)                                      \
    {                                                                                                                  \
        return NAME((double)x);                                                                                        \
    }
FUSIOND_HOST_CLASS(isnan)
FUSIOND_HOST_CLASS(isinf)
FUSIOND_HOST_CLASS(isfinite)
FUSIOND_HOST_CLASS(signbit)
#undef FUSIOND_HOST_CLASS

// ---- What CUDA has beside C. The float forms round once, from double.

#define FUSIOND_HOST_BY_DOUBLE(NAME, VALUE)                                                                            \
    inline double NAME(double x)                                                                                       \
    {                                                                                                                  \
        return VALUE;                                                                                                  \
    }                                                                                                                  \
    inline float NAME##f(float x)                                                                                      \
    {                                                                                                                  \
        return (float)NAME((double)x);                                                                                 \
    }                                                                                                                  \
    FUSIOND_HOST_OVERLOADS(NAME)
FUSIOND_HOST_BY_DOUBLE(rsqrt, 1.0 / sqrt(x))
FUSIOND_HOST_BY_DOUBLE(rcbrt, 1.0 / cbrt(x))
FUSIOND_HOST_BY_DOUBLE(normcdf, 0.5 * erfc(-x * 0.70710678118654752440))

namespace fusiond_host
{
constexpr double pi = 3.14159265358979323846;
// The argument is reduced while it is exact; whole and half numbers give exact results.
inline double sin_of_pi(double x)
{
    const double rest = fmod(x, 2.0);
    const double size = fabs(rest);
    const double near = size > 1.5 ? size - 2.0 : size > 0.5 ? 1.0 - size : size;
    return copysign(1.0, rest) * sin(pi * near);
}
inline double cos_of_pi(double x)
{
    const double size = fabs(fmod(x, 2.0));
    const double near = size > 1.0 ? 2.0 - size : size;
    return near > 0.25 ? sin(pi * (0.5 - near)) : cos(pi * near);
}
} // namespace fusiond_host
FUSIOND_HOST_BY_DOUBLE(sinpi, fusiond_host::sin_of_pi(x))
FUSIOND_HOST_BY_DOUBLE(cospi, fusiond_host::cos_of_pi(x))
inline void sincospi(double x, double *s, double *c)
{
    *s = sinpi(x);
    *c = cospi(x);
}
inline void sincospif(float x, float *s, float *c)
{
    *s = sinpif(x);
    *c = cospif(x);
}
#undef FUSIOND_HOST_BY_DOUBLE
#undef FUSIOND_HOST_OVERLOADS

// ---- The fast ones.

#define FUSIOND_HOST_FAST(NAME, PLAIN)                                                                                 \
    inline float NAME(float x)                                                                                         \
    {                                                                                                                  \
        return PLAIN;                                                                                                  \
    }
FUSIOND_HOST_FAST(__expf, expf(x))
FUSIOND_HOST_FAST(__exp10f, exp10f(x))
FUSIOND_HOST_FAST(__logf, logf(x))
FUSIOND_HOST_FAST(__log2f, log2f(x))
FUSIOND_HOST_FAST(__log10f, log10f(x))
FUSIOND_HOST_FAST(__sinf, sinf(x))
FUSIOND_HOST_FAST(__cosf, cosf(x))
FUSIOND_HOST_FAST(__tanf, tanf(x))
FUSIOND_HOST_FAST(__tanhf, tanhf(x))
// NaN gives 0.
FUSIOND_HOST_FAST(__saturatef, x > 0.f ? (x < 1.f ? x : 1.f) : 0.f)
#undef FUSIOND_HOST_FAST
inline float __powf(float x, float y)
{
    return powf(x, y);
}
inline float __fdividef(float x, float y)
{
    return x / y;
}
inline float fdividef(float x, float y)
{
    return x / y;
}
inline void __sincosf(float x, float *s, float *c)
{
    sincosf(x, s, c);
}

// ---- Operations that round to nearest and are never fused.

#define FUSIOND_HOST_ROUNDED(T, PREFIX, FMA, SQRT)                                                                     \
    inline T __##PREFIX##add_rn(T x, T y)                                                                              \
    {                                                                                                                  \
        return x + y;                                                                                                  \
    }                                                                                                                  \
    inline T __##PREFIX##sub_rn(T x, T y)                                                                              \
    {                                                                                                                  \
        return x - y;                                                                                                  \
    }                                                                                                                  \
    inline T __##PREFIX##mul_rn(T x, T y)                                                                              \
    {                                                                                                                  \
        return x * y;                                                                                                  \
    }                                                                                                                  \
    inline T __##PREFIX##div_rn(T x, T y)                                                                              \
    {                                                                                                                  \
        return x / y;                                                                                                  \
    }                                                                                                                  \
    inline T __##PREFIX##rcp_rn(T x)                                                                                   \
    {                                                                                                                  \
        return (T)1 / x;                                                                                               \
    }                                                                                                                  \
    inline T __##PREFIX##sqrt_rn(T x)                                                                                  \
    {                                                                                                                  \
        return SQRT(x);                                                                                                \
    }
FUSIOND_HOST_ROUNDED(float, f, fmaf, sqrtf)
FUSIOND_HOST_ROUNDED(double, d, fma, sqrt)
#undef FUSIOND_HOST_ROUNDED
inline float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}
inline double __fma_rn(double x, double y, double z)
{
    return fma(x, y, z);
}
inline float __frsqrt_rn(float x)
{
    return rsqrtf(x);
}

#endif
