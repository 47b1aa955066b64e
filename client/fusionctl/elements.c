#include "client/fusionctl/elements.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- floats of less than 32 bits ---- */

/* Bits of exponent and mantissa; `saturates`: overflow gives the largest number; `no_infinity`: all exponents are of
 * numbers, and only all bits set is NaN (e4m3). */
struct small_float {
    int exponent, mantissa;
    bool saturates, no_infinity;
};

static const struct small_float half = {5, 10, false, false}, bfloat = {8, 7, false, false}, e4m3 = {4, 3, true, true},
                                e5m2 = {5, 2, true, false};

static uint32_t largest_finite(const struct small_float *format)
{
    uint32_t all = (1u << (format->exponent + format->mantissa)) - 1;
    return format->no_infinity ? all - 1 : all - (1u << format->mantissa);
}

static uint32_t small_encode(const struct small_float *format, double value)
{
    int bias = (1 << (format->exponent - 1)) - 1, exponent;
    uint32_t sign = signbit(value) ? 1u << (format->exponent + format->mantissa) : 0;
    uint32_t infinity = ((1u << format->exponent) - 1) << format->mantissa;
    if (isnan(value))
        return format->no_infinity ? sign | (infinity | ((1u << format->mantissa) - 1)) : sign | infinity | 1u;
    double magnitude = fabs(value);
    uint32_t overflow = format->saturates ? largest_finite(format) : infinity;
    if (isinf(value))
        return sign | overflow;
    frexp(magnitude, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    /* The mantissa as an integer, its leading one included; rounding may carry into the exponent by itself. */
    double scaled = nearbyint(ldexp(magnitude, format->mantissa - exponent));
    if (scaled >= ldexp(1.0, format->mantissa + 1)) {
        scaled /= 2.0;
        exponent++;
    }
    if (exponent + bias >= 1 << format->exponent)
        return sign | overflow;
    uint32_t bits = (uint32_t)scaled;
    if (bits >> format->mantissa)
        bits += (uint32_t)(exponent + bias - 1) << format->mantissa;
    return sign | (bits > largest_finite(format) ? overflow : bits);
}

static double small_decode(const struct small_float *format, uint32_t bits)
{
    int bias = (1 << (format->exponent - 1)) - 1;
    uint32_t mantissa = bits & ((1u << format->mantissa) - 1);
    int exponent = (int)(bits >> format->mantissa & ((1u << format->exponent) - 1));
    bool negative = bits >> (format->exponent + format->mantissa) & 1u;
    double magnitude;
    if (exponent == (1 << format->exponent) - 1 && !format->no_infinity)
        magnitude = mantissa ? (double)NAN : (double)INFINITY;
    else if (format->no_infinity && (bits & 0x7f) == 0x7f)
        magnitude = (double)NAN;
    else if (exponent == 0)
        magnitude = ldexp(mantissa, 1 - bias - format->mantissa);
    else
        magnitude = ldexp(mantissa + (1u << format->mantissa), exponent - bias - format->mantissa);
    return negative ? -magnitude : magnitude;
}

/* ---- all of them ---- */

unsigned elements_parts(enum dtype dtype)
{
    return dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128 ? 2 : 1;
}

/* Every type that C has: X(dtype, C type). */
#define C_TYPES(X)                                                                                                     \
    X(DTYPE_INT8, int8_t)                                                                                              \
    X(DTYPE_INT16, int16_t)                                                                                            \
    X(DTYPE_INT32, int32_t)                                                                                            \
    X(DTYPE_INT64, int64_t)                                                                                            \
    X(DTYPE_UINT8, uint8_t)                                                                                            \
    X(DTYPE_UINT16, uint16_t)                                                                                          \
    X(DTYPE_UINT32, uint32_t)                                                                                          \
    X(DTYPE_UINT64, uint64_t)                                                                                          \
    X(DTYPE_FLOAT32, float)                                                                                            \
    X(DTYPE_FLOAT64, double)                                                                                           \
    X(DTYPE_COMPLEX64, float)                                                                                          \
    X(DTYPE_COMPLEX128, double)

double elements_get(enum dtype dtype, const void *bytes, size_t i)
{
    switch (dtype) {
#define READ(name, type)                                                                                               \
    case name:                                                                                                         \
        return (double)((const type *)bytes)[i];
        C_TYPES(READ)
#undef READ
    case DTYPE_BOOL:
        return ((const uint8_t *)bytes)[i] != 0;
    case DTYPE_FLOAT16:
        return small_decode(&half, ((const uint16_t *)bytes)[i]);
    case DTYPE_BFLOAT16:
        return small_decode(&bfloat, ((const uint16_t *)bytes)[i]);
    case DTYPE_FLOAT8_E4M3:
        return small_decode(&e4m3, ((const uint8_t *)bytes)[i]);
    case DTYPE_FLOAT8_E5M2:
        return small_decode(&e5m2, ((const uint8_t *)bytes)[i]);
    default:
        return (double)NAN;
    }
}

void elements_put(enum dtype dtype, void *bytes, size_t i, double value)
{
    switch (dtype) {
#define WRITE(name, type)                                                                                              \
    case name:                                                                                                         \
        ((type *)bytes)[i] = (type)value;                                                                              \
        break;
        C_TYPES(WRITE)
#undef WRITE
    case DTYPE_BOOL:
        ((uint8_t *)bytes)[i] = value != 0.0;
        break;
    case DTYPE_FLOAT16:
        ((uint16_t *)bytes)[i] = (uint16_t)small_encode(&half, value);
        break;
    case DTYPE_BFLOAT16:
        ((uint16_t *)bytes)[i] = (uint16_t)small_encode(&bfloat, value);
        break;
    case DTYPE_FLOAT8_E4M3:
        ((uint8_t *)bytes)[i] = (uint8_t)small_encode(&e4m3, value);
        break;
    case DTYPE_FLOAT8_E5M2:
        ((uint8_t *)bytes)[i] = (uint8_t)small_encode(&e5m2, value);
        break;
    default:
        break;
    }
}

static bool is_signed_integer(enum dtype dtype)
{
    return dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 || dtype == DTYPE_INT64;
}

static bool is_unsigned_integer(enum dtype dtype)
{
    return dtype == DTYPE_UINT8 || dtype == DTYPE_UINT16 || dtype == DTYPE_UINT32 || dtype == DTYPE_UINT64;
}

/* The i-th of a sequence of 64-bit numbers (a counter through the finaliser of splitmix64). */
static uint64_t random_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void elements_fill(enum dtype dtype, void *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = random_bits(seed, i);
        double value = (double)(bits >> 11) * 0x1p-51 - 2.0;
        if (dtype == DTYPE_BOOL)
            value = (double)(bits >> 63);
        else if (is_signed_integer(dtype))
            value = (double)(bits >> 57) - 64.0;
        else if (is_unsigned_integer(dtype))
            value = (double)(bits >> 57);
        elements_put(dtype, bytes, i, value);
    }
}

bool elements_parse(enum dtype dtype, const char *text, void *ret)
{
    char *end = NULL;
    errno = 0;
    if (elements_parts(dtype) != 1 || !*text)
        return false;
    if (is_signed_integer(dtype) || is_unsigned_integer(dtype)) {
        unsigned bits = dtype == DTYPE_INT8 || dtype == DTYPE_UINT8     ? 8
                        : dtype == DTYPE_INT16 || dtype == DTYPE_UINT16 ? 16
                        : dtype == DTYPE_INT32 || dtype == DTYPE_UINT32 ? 32
                                                                        : 64;
        long long value = 0;
        unsigned long long unsigned_value = 0;
        bool fits;
        if (is_signed_integer(dtype)) {
            value = strtoll(text, &end, 10);
            fits = value >= -(1ll << (bits - 2)) * 2 && value <= ((1ll << (bits - 2)) - 1) * 2 + 1;
            unsigned_value = (unsigned long long)value;
        } else {
            unsigned_value = strtoull(text, &end, 10);
            fits = *text != '-' && (bits == 64 || unsigned_value >> bits == 0);
        }
        if (errno || *end || !fits)
            return false;
        memcpy(ret, &unsigned_value, bits / 8); /* little-endian */
        return true;
    }
    if (dtype == DTYPE_BOOL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
        *(uint8_t *)ret = *text == 't';
        return true;
    }
    double value = strtod(text, &end);
    if (*end || (errno == ERANGE && isinf(value)))
        return false;
    elements_put(dtype, ret, 0, value);
    return true;
}
