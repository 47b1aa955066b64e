// Bits, integers, and casts between numbers, by CUDA's names.
#ifndef FUSIOND_HOST_NUMBERS_CUH
#define FUSIOND_HOST_NUMBERS_CUH

namespace fusiond_host
{
template <typename To, typename From> inline To bits_as(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the types differ in size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

template <bool C, typename T = void> struct enable_if {
};
template <typename T> struct enable_if<true, T> {
    typedef T type;
};
template <typename T> constexpr bool floating = __is_same(T, float) || __is_same(T, double);
template <typename T>
constexpr bool integral = __is_same(T, bool) || __is_same(T, char) || __is_same(T, signed char) ||
                          __is_same(T, unsigned char) || __is_same(T, short) || __is_same(T, unsigned short) ||
                          __is_same(T, int) || __is_same(T, unsigned) || __is_same(T, long) ||
                          __is_same(T, unsigned long) || __is_same(T, long long) || __is_same(T, unsigned long long);
template <typename T> using if_integral = typename enable_if<integral<T>, int>::type;
// Two numbers that are not both of one floating type, which a call of C's must choose between.
template <typename A, typename B>
using if_mixed = typename enable_if<(floating<A> || integral<A>)&&(floating<B> || integral<B>)&&!(
                                        floating<A> && __is_same(A, B)),
                                    int>::type;

// A number that is whole already, saturated. NaN: 0 in 32 bits, the top bit alone in 64, as the PTX manual has it.
template <typename I> inline I whole_to(double value)
{
    constexpr bool is_signed = I(-1) < I(0);
    constexpr I top = (I)((I)1 << (sizeof(I) * 8 - 1));
    constexpr I lowest = is_signed ? top : (I)0;
    constexpr I highest = (I)~lowest;
    if (value != value)
        return sizeof(I) == 8 ? top : (I)0;
    // The bound, a power of two, is exact; the highest integer need not be.
    const double bound = is_signed ? -(double)top : 2.0 * (double)top;
    const double below = is_signed ? (double)top : 0.0;
    if (value >= (bound < 0 ? -bound : bound))
        return highest;
    if (value <= below)
        return lowest;
    return (I)value;
}

// The float next to the given one, away from zero or toward it. Not of NaN.
inline float larger_size(float value)
{
    return bits_as<float>(bits_as<unsigned>(value) + 1);
}
inline float smaller_size(float value)
{
    return bits_as<float>(bits_as<unsigned>(value) - 1);
}

// An exact value to float in one of the directed ways: -1 down, 0 toward zero, 1 up. Exact is wide enough for it.
template <typename Exact> inline float float_directed(Exact value, int way)
{
    float nearest = (float)value;
    if (value != value || (Exact)nearest == value)
        return nearest;
    const bool negative = value < 0;
    const bool want_larger = way != 0 && (way < 0) == negative;
    const bool is_larger = negative ? (Exact)nearest < value : (Exact)nearest > value;
    if (is_larger == want_larger)
        return nearest;
    return want_larger ? larger_size(nearest) : smaller_size(nearest);
}
} // namespace fusiond_host

// ---- The same bits as another type.

inline int __float_as_int(float x)
{
    return fusiond_host::bits_as<int>(x);
}
inline unsigned __float_as_uint(float x)
{
    return fusiond_host::bits_as<unsigned>(x);
}
inline float __int_as_float(int x)
{
    return fusiond_host::bits_as<float>(x);
}
inline float __uint_as_float(unsigned x)
{
    return fusiond_host::bits_as<float>(x);
}
inline long long __double_as_longlong(double x)
{
    return fusiond_host::bits_as<long long>(x);
}
inline double __longlong_as_double(long long x)
{
    return fusiond_host::bits_as<double>(x);
}
inline int __double2hiint(double x)
{
    return (int)(fusiond_host::bits_as<unsigned long long>(x) >> 32);
}
inline int __double2loint(double x)
{
    return (int)fusiond_host::bits_as<unsigned long long>(x);
}
inline double __hiloint2double(int high, int low)
{
    return fusiond_host::bits_as<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

// ---- Floating to integer: _rn to nearest even, _rz toward zero, _ru up, _rd down.

#define FUSIOND_HOST_TO(FROM, TO, I)                                                                                   \
    inline I __##FROM##2##TO##_rn(FROM x)                                                                              \
    {                                                                                                                  \
        return fusiond_host::whole_to<I>(__builtin_rint((double)x));                                                   \
    }                                                                                                                  \
    inline I __##FROM##2##TO##_rz(FROM x)                                                                              \
    {                                                                                                                  \
        return fusiond_host::whole_to<I>(__builtin_trunc((double)x));                                                  \
    }                                                                                                                  \
    inline I __##FROM##2##TO##_ru(FROM x)                                                                              \
    {                                                                                                                  \
        return fusiond_host::whole_to<I>(__builtin_ceil((double)x));                                                   \
    }                                                                                                                  \
    inline I __##FROM##2##TO##_rd(FROM x)                                                                              \
    {                                                                                                                  \
        return fusiond_host::whole_to<I>(__builtin_floor((double)x));                                                  \
    }
FUSIOND_HOST_TO(float, int, int)
FUSIOND_HOST_TO(float, uint, unsigned)
FUSIOND_HOST_TO(float, ll, long long)
FUSIOND_HOST_TO(float, ull, unsigned long long)
FUSIOND_HOST_TO(double, int, int)
FUSIOND_HOST_TO(double, uint, unsigned)
FUSIOND_HOST_TO(double, ll, long long)
FUSIOND_HOST_TO(double, ull, unsigned long long)
#undef FUSIOND_HOST_TO

// ---- To float and double.

#define FUSIOND_HOST_FROM(NAME, FROM, EXACT)                                                                           \
    inline float __##NAME##2float_rn(FROM x)                                                                           \
    {                                                                                                                  \
        return (float)x;                                                                                               \
    }                                                                                                                  \
    inline float __##NAME##2float_rz(FROM x)                                                                           \
    {                                                                                                                  \
        return fusiond_host::float_directed((EXACT)x, 0);                                                              \
    }                                                                                                                  \
    inline float __##NAME##2float_ru(FROM x)                                                                           \
    {                                                                                                                  \
        return fusiond_host::float_directed((EXACT)x, 1);                                                              \
    }                                                                                                                  \
    inline float __##NAME##2float_rd(FROM x)                                                                           \
    {                                                                                                                  \
        return fusiond_host::float_directed((EXACT)x, -1);                                                             \
    }
FUSIOND_HOST_FROM(double, double, double)
FUSIOND_HOST_FROM(int, int, double)
FUSIOND_HOST_FROM(uint, unsigned, double)
// 64 bits of mantissa or more on every machine that has a long double of its own.
FUSIOND_HOST_FROM(ll, long long, long double)
FUSIOND_HOST_FROM(ull, unsigned long long, long double)
#undef FUSIOND_HOST_FROM
static_assert(__LDBL_MANT_DIG__ >= 64, "long double holds every 64-bit integer");

inline double __int2double_rn(int x)
{
    return x;
}
inline double __uint2double_rn(unsigned x)
{
    return x;
}
inline double __ll2double_rn(long long x)
{
    return (double)x;
}
inline double __ull2double_rn(unsigned long long x)
{
    return (double)x;
}

// ---- Integers.

inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
inline unsigned __brev(unsigned x)
{
    x = __builtin_bswap32(x);
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    return (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
}
inline unsigned long long __brevll(unsigned long long x)
{
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
inline int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
inline long long __mul64hi(long long a, long long b)
{
    return (long long)((__int128)a * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __mul24(int a, int b)
{
    return (int)((long long)(a << 8 >> 8) * (b << 8 >> 8));
}
inline unsigned __umul24(unsigned a, unsigned b)
{
    return (a & 0xffffffu) * (b & 0xffffffu);
}
inline int __hadd(int a, int b)
{
    return (int)(((long long)a + b) >> 1);
}
inline int __rhadd(int a, int b)
{
    return (int)(((long long)a + b + 1) >> 1);
}
inline unsigned __sad(int a, int b, unsigned c)
{
    const long long difference = (long long)a - b;
    return c + (unsigned)(difference < 0 ? -difference : difference);
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c)
{
    return c + (a > b ? a - b : b - a);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = selector >> 4 * i & 0xf;
        unsigned byte = (unsigned)(bytes >> 8 * (pick & 7)) & 0xff;
        if (pick & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; ++i)
        c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 4; ++i)
        c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
    return c;
}

// The larger and the smaller of two integers; of two of different types, as C converts them.
#define FUSIOND_HOST_EXTREMES(R, A, B)                                                                                 \
    inline R max(A a, B b)                                                                                             \
    {                                                                                                                  \
        return (R)a < (R)b ? (R)b : (R)a;                                                                              \
    }                                                                                                                  \
    inline R min(A a, B b)                                                                                             \
    {                                                                                                                  \
        return (R)b < (R)a ? (R)b : (R)a;                                                                              \
    }
FUSIOND_HOST_EXTREMES(int, int, int)
FUSIOND_HOST_EXTREMES(unsigned, unsigned, unsigned)
FUSIOND_HOST_EXTREMES(unsigned, int, unsigned)
FUSIOND_HOST_EXTREMES(unsigned, unsigned, int)
FUSIOND_HOST_EXTREMES(long, long, long)
FUSIOND_HOST_EXTREMES(unsigned long, unsigned long, unsigned long)
FUSIOND_HOST_EXTREMES(unsigned long, long, unsigned long)
FUSIOND_HOST_EXTREMES(unsigned long, unsigned long, long)
FUSIOND_HOST_EXTREMES(long long, long long, long long)
FUSIOND_HOST_EXTREMES(unsigned long long, unsigned long long, unsigned long long)
FUSIOND_HOST_EXTREMES(unsigned long long, long long, unsigned long long)
FUSIOND_HOST_EXTREMES(unsigned long long, unsigned long long, long long)
#undef FUSIOND_HOST_EXTREMES

#endif
