/* Casts over all bit patterns, NaN rules, arithmetic and vector moves on a device, against code of the host's own. */
#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/preamble/device.h"

/* ---- The 16-bit formats, by their definition. A long double holds a 64-bit integer exactly. */

struct format {
    const char *name;
    int fraction; /* bits */
    int bias;
};
static const struct format half = {"half", 10, 15};
static const struct format bfloat = {"bfloat", 7, 127};

static bool is_nan_pattern(const struct format *f, unsigned bits)
{
    unsigned infinity = (0x7fffu >> f->fraction) << f->fraction;
    return (bits & 0x7fff) > infinity;
}

static long double decode(const struct format *f, unsigned bits)
{
    unsigned exponent = (bits & 0x7fff) >> f->fraction;
    unsigned fraction = bits & ((1u << f->fraction) - 1);
    long double value;
    if (exponent == 0x7fffu >> f->fraction)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexpl(fraction, 1 - f->bias - f->fraction);
    else
        value = ldexpl(fraction + (1u << f->fraction), (int)exponent - f->bias - f->fraction);
    return bits & 0x8000 ? -value : value;
}

/* Rounded once, to nearest even. */
static unsigned encode(const struct format *f, long double value)
{
    unsigned sign = signbit(value) ? 0x8000 : 0;
    unsigned infinity = (0x7fffu >> f->fraction) << f->fraction;
    long double size = fabsl(value);
    if (isnan(value))
        return 0x7fff;
    if (isinf(value) || size == 0)
        return sign | (size == 0 ? 0 : infinity);
    int exponent = ilogbl(size);
    if (exponent < 1 - f->bias)
        exponent = 1 - f->bias;
    /* In units of the last place; reaching the next power of two carries into the exponent by itself. */
    long double units = nearbyintl(ldexpl(size, f->fraction - exponent));
    if (exponent + f->bias > (int)(infinity >> f->fraction))
        return sign | infinity;
    unsigned bits = ((unsigned)(exponent + f->bias - 1) << f->fraction) + (unsigned)units;
    return sign | (bits > infinity ? infinity : bits);
}

static bool same_pattern(const struct format *f, unsigned got, unsigned expected)
{
    return got == expected || (is_nan_pattern(f, got) && is_nan_pattern(f, expected));
}

Test(reference, B4_1_every_pattern_survives)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        cr_assert(same_pattern(&half, encode(&half, decode(&half, bits)), bits), "%04x", bits);
        cr_assert(same_pattern(&bfloat, encode(&bfloat, decode(&bfloat, bits)), bits), "%04x", bits);
    }
    cr_expect_eq(encode(&half, 65519.0L), 0x7bff);
    cr_expect_eq(encode(&half, 65520.0L), 0x7c00);
    cr_expect_eq(encode(&half, 0x1p-25L), 0);
    cr_expect_eq(encode(&half, 0x1.8p-25L), 1);
    cr_expect_eq(encode(&bfloat, 0x1.01p0L), 0x3f80);
    cr_expect_eq(encode(&bfloat, 0x1.0100001p0L), 0x3f81);
    cr_expect_eq(encode(&bfloat, -0x1p128L), 0xff80);
}

struct from_half {
    float f;
    uint32_t vector_f;
    double d;
    int32_t i32, u32;
    int64_t i64, u64;
    int32_t index, flags;
    uint32_t abs, other;
};

/* Toward zero, saturating. NaN: 0 for 32 bits, the top bit alone for 64 (the PTX manual, cvt). */
static int64_t to_signed(long double value, int bits)
{
    if (isnan(value))
        return bits == 64 ? INT64_MIN : 0;
    long double limit = ldexpl(1, bits - 1);
    if (value >= limit)
        return bits == 64 ? INT64_MAX : INT32_MAX;
    return value <= -limit ? (bits == 64 ? INT64_MIN : INT32_MIN) : (int64_t)value;
}
static uint64_t to_unsigned(long double value, int bits)
{
    if (isnan(value))
        return bits == 64 ? UINT64_C(1) << 63 : 0;
    if (value >= ldexpl(1, bits))
        return bits == 64 ? UINT64_MAX : UINT32_MAX;
    return value <= 0 ? 0 : (uint64_t)value;
}

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

static void check_from(const char *kernel_name, const struct format *f, const struct format *other)
{
    need_device();
    const struct gpu_kernel *kernel = device_kernel("numbers.cu", kernel_name, NULL);
    static struct from_half got[65536];
    gpu_pointer out = gpu_alloc(sizeof(got));
    gpu_run(kernel, (unsigned[3]){256, 1, 1}, (unsigned[3]){256, 1, 1}, 0, (void *[]){&out});
    gpu_read(got, out, sizeof(got));
    gpu_free(out);
    size_t wrong = 0;
    for (unsigned bits = 0; bits < 65536; bits++) {
        const struct from_half *g = &got[bits];
        long double value = decode(f, bits);
        float vector;
        memcpy(&vector, &g->vector_f, sizeof(vector));
        int flags =
            (value != 0) | (!isnan(value)) << 1 | !!isnan(value) << 2 | !!isinf(value) << 3 | !!isfinite(value) << 4;
        bool good = same_float(g->f, (float)value) && same_float(vector, (float)value) &&
                    (g->d == (double)value || isnan(value)) && isnan(g->d) == isnan((double)value) &&
                    g->i32 == to_signed(value, 32) && (uint32_t)g->u32 == to_unsigned(value, 32) &&
                    g->i64 == to_signed(value, 64) && (uint64_t)g->u64 == to_unsigned(value, 64) &&
                    g->index == (int32_t)to_signed(value, 64) && g->flags == flags && g->abs == (bits & 0x7fff) &&
                    same_pattern(other, g->other, encode(other, value));
        if (!good && ++wrong <= 10)
            cr_log_error("%s %04x: %a %a %a, %d %u %lld %llu, index %d, flags %d, abs %04x, other %04x", f->name, bits,
                         g->f, vector, g->d, g->i32, (unsigned)g->u32, (long long)g->i64, (unsigned long long)g->u64,
                         g->index, g->flags, g->abs, g->other);
    }
    cr_expect_eq(wrong, 0, "%zu of 65536 patterns are wrong", wrong);
}

Test(gpu_numbers, B4_1_all_casts_from_half)
{
    check_from("from_half", &half, &bfloat);
}

Test(gpu_numbers, B4_1_all_casts_from_bfloat)
{
    check_from("from_bfloat", &bfloat, &half);
}

/* Every upper half of a float with lower halves around the ties of both formats. */
Test(gpu_numbers, B4_1_casts_from_float)
{
    need_device();
    static const uint16_t lows[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2fff, 0x3000, 0x3001,
                                    0x5555, 0x6fff, 0x7000, 0x7fff, 0x8000, 0x8001, 0xaaaa, 0xefff, 0xf000, 0xffff};
    enum { N_LOWS = sizeof(lows) / sizeof(lows[0]), N = 65536 * N_LOWS };
    uint32_t *in = malloc(N * sizeof(*in));
    uint16_t(*got[2])[4] = {malloc(N * 8), malloc(N * 8)};
    for (size_t i = 0; i < N; i++)
        in[i] = (uint32_t)(i / N_LOWS) << 16 | lows[i % N_LOWS];
    const struct gpu_kernel *kernel = device_kernel("numbers.cu", "from_float", NULL);
    gpu_pointer from = gpu_alloc(N * sizeof(*in));
    gpu_pointer to[2] = {gpu_alloc(N * 8), gpu_alloc(N * 8)};
    int n = N;
    gpu_write(from, in, N * sizeof(*in));
    gpu_run(kernel, (unsigned[3]){(N + 255) / 256, 1, 1}, (unsigned[3]){256, 1, 1}, 0,
            (void *[]){&from, &to[0], &to[1], &n});
    size_t wrong = 0;
    for (int k = 0; k < 2; k++) {
        const struct format *f = k ? &bfloat : &half;
        gpu_read(got[k], to[k], N * 8);
        for (size_t i = 0; i < N; i++) {
            float value;
            memcpy(&value, &in[i], sizeof(value));
            unsigned expected = encode(f, value);
            for (int form = 0; form < 4; form++)
                if (!same_pattern(f, got[k][i][form], expected) && ++wrong <= 10)
                    cr_log_error("%a to %s, form %d: %04x, not %04x", value, f->name, form, got[k][i][form], expected);
        }
        gpu_free(to[k]);
        free(got[k]);
    }
    gpu_free(from);
    free(in);
    cr_expect_eq(wrong, 0, "%zu wrong", wrong);
}

/* Doubles on, just below and just above every tie of each format, and integers likewise. */
Test(gpu_numbers, B4_1_casts_from_double_round_once)
{
    need_device();
    enum { N = 2 * 65536 * 5 };
    double *in = malloc(N * sizeof(*in));
    uint16_t(*got)[2] = malloc(N * sizeof(*got));
    for (size_t i = 0; i < N; i++) {
        const struct format *f = i % 2 ? &bfloat : &half;
        unsigned bits = (unsigned)(i / 10);
        long double low = decode(f, bits);
        long double tie = (low + decode(f, (bits & 0x7fff) < 0x7fff ? bits + 1 : bits)) / 2;
        double value = (double)tie;
        int step = (int)(i / 2 % 5) - 2;
        for (; step < 0; step++)
            value = nextafter(value, -INFINITY);
        for (; step > 0; step--)
            value = nextafter(value, INFINITY);
        in[i] = value;
    }
    const struct gpu_kernel *kernel = device_kernel("numbers.cu", "from_double", NULL);
    gpu_pointer from = gpu_alloc(N * sizeof(*in));
    gpu_pointer to = gpu_alloc(N * sizeof(*got));
    int n = N;
    gpu_write(from, in, N * sizeof(*in));
    gpu_run(kernel, (unsigned[3]){(N + 255) / 256, 1, 1}, (unsigned[3]){256, 1, 1}, 0, (void *[]){&from, &to, &n});
    gpu_read(got, to, N * sizeof(*got));
    size_t wrong = 0;
    for (size_t i = 0; i < N; i++)
        for (int k = 0; k < 2; k++) {
            const struct format *f = k ? &bfloat : &half;
            if (!same_pattern(f, got[i][k], encode(f, in[i])) && ++wrong <= 10)
                cr_log_error("%a to %s: %04x, not %04x", in[i], f->name, got[i][k], encode(f, in[i]));
        }
    gpu_free(from);
    gpu_free(to);
    free(in);
    free(got);
    cr_expect_eq(wrong, 0, "%zu wrong", wrong);
}

static size_t some_integers(int64_t *ret)
{
    size_t n = 0;
    for (int shift = 0; shift < 64; shift++)
        for (int lead = 1; lead < 32; lead += 2)
            for (int step = -1; step <= 1; step++) {
                /* Around a power of two, and around ties: some leading bits followed by a half. */
                uint64_t value = ((uint64_t)lead << shift) + (shift > 8 ? UINT64_C(1) << (shift - 8) : 0);
                value += (uint64_t)(int64_t)step;
                ret[n++] = (int64_t)value;
                ret[n++] = (int64_t)(0 - value);
            }
    return n;
}

Test(gpu_numbers, B4_1_casts_from_integers_round_once)
{
    need_device();
    static int64_t in[64 * 16 * 3 * 2];
    static uint16_t got[2][64 * 16 * 3 * 2][4];
    int n = (int)some_integers(in);
    const struct gpu_kernel *kernel = device_kernel("numbers.cu", "from_int", NULL);
    gpu_pointer from = gpu_alloc(sizeof(in));
    gpu_pointer to[2] = {gpu_alloc(sizeof(got[0])), gpu_alloc(sizeof(got[1]))};
    gpu_write(from, in, sizeof(in));
    gpu_run(kernel, (unsigned[3]){((unsigned)n + 255) / 256, 1, 1}, (unsigned[3]){256, 1, 1}, 0,
            (void *[]){&from, &to[0], &to[1], &n});
    size_t wrong = 0;
    for (int k = 0; k < 2; k++) {
        const struct format *f = k ? &bfloat : &half;
        gpu_read(got[k], to[k], sizeof(got[k]));
        for (int i = 0; i < n; i++) {
            const long double values[4] = {(int32_t)in[i], (uint32_t)in[i], in[i], (uint64_t)in[i]};
            for (int form = 0; form < 4; form++)
                if (got[k][i][form] != encode(f, values[form]) && ++wrong <= 10)
                    cr_log_error("%Lg to %s, form %d: %04x, not %04x", values[form], f->name, form, got[k][i][form],
                                 encode(f, values[form]));
        }
        gpu_free(to[k]);
    }
    gpu_free(from);
    cr_expect_eq(wrong, 0, "%zu wrong", wrong);
}

/* ---- NaN rules. */

struct extremes {
    float max, min, fmax, fmin;
    double dmax, dmin, dfmax, dfmin;
    double mixed_max, mixed_fmax;
    float half_max, half_min, bfloat_max, bfloat_min;
};

static bool equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void check_extremes(const char *const *defines, bool ignores)
{
    need_device();
    static const float in[] = {0.f, -0.f, 1.f, -1.f, 2.5f, -3.f, 1000.f, INFINITY, -INFINITY, NAN, -NAN};
    enum { N = sizeof(in) / sizeof(in[0]) };
    static struct extremes got[N][N];
    const struct gpu_kernel *kernel = device_kernel("numbers.cu", "extremes", defines);
    gpu_pointer from = gpu_alloc(sizeof(in));
    gpu_pointer to = gpu_alloc(sizeof(got));
    int n = N;
    gpu_write(from, in, sizeof(in));
    gpu_run(kernel, (unsigned[3]){N, 1, 1}, (unsigned[3]){N, 1, 1}, 0, (void *[]){&from, &to, &n});
    gpu_read(got, to, sizeof(got));
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            const struct extremes *g = &got[a][b];
            double larger = fmax(in[a], in[b]);
            double smaller = fmin(in[a], in[b]);
            bool nan = isnan(in[a]) || isnan(in[b]);
            double max = nan ? NAN : larger;
            double min = nan ? NAN : smaller;
            cr_expect(equal(g->max, max) && equal(g->min, min) && equal(g->dmax, max) && equal(g->dmin, min) &&
                          equal(g->mixed_max, max),
                      "max, min of %g, %g: %g, %g", in[a], in[b], g->max, g->min);
            cr_expect(equal(g->half_max, max) && equal(g->half_min, min) && equal(g->bfloat_max, max) &&
                          equal(g->bfloat_min, min),
                      "16-bit max, min of %g, %g: %g, %g, %g, %g", in[a], in[b], g->half_max, g->half_min,
                      g->bfloat_max, g->bfloat_min);
            max = ignores ? larger : max;
            min = ignores ? smaller : min;
            cr_expect(equal(g->fmax, max) && equal(g->fmin, min) && equal(g->dfmax, max) && equal(g->dfmin, min) &&
                          equal(g->mixed_fmax, max),
                      "fmax, fmin of %g, %g: %g, %g", in[a], in[b], g->fmax, g->fmin);
        }
    gpu_free(from);
    gpu_free(to);
}

Test(gpu_numbers, B4_1_max_and_min_propagate_nan)
{
    check_extremes(NULL, false);
}

Test(gpu_numbers, B4_1_fmax_and_fmin_ignore_nan_on_request)
{
    static const char *const defines[] = {"-DFUSIOND_FMAX_IGNORES_NAN", NULL};
    check_extremes(defines, true);
}

/* ---- Arithmetic. */

struct reals {
    double relu, sigmoid, silu, frac, reciprocal, abs, clamp, threshold, signbit, rsqrt;
    double lerp0, lerp1, lerp_half, remainder, fmod, pow2, pow_minus3;
    int64_t classes;
};

static struct reals reals_of(double x, bool single)
{
    double rest = fmod(x, -2);
    double sigmoid = 1 / (1 + exp(-x));
    return (struct reals){
        .relu = x <= 0 ? 0 : x,
        .sigmoid = sigmoid,
        /* A float's exp(-x) overflows before x / (1 + exp(-x)) has become 0. */
        .silu = single && x < -88.7 && !isinf(x) ? -0.0 : x / (1 + exp(-x)),
        .frac = x - trunc(x),
        .reciprocal = 1 / x,
        .abs = fabs(x),
        .clamp = isnan(x) ? x : fmin(fmax(x, -1), 2),
        .threshold = x <= 0.5 ? -7 : x,
        .signbit = signbit(x) ? 1 : 0,
        .rsqrt = 1 / sqrt(x),
        .lerp0 = x + 0 * (3 - x),
        .lerp1 = 3 - 0 * (3 - x),
        .lerp_half = 3 - 0.5 * (3 - x),
        .remainder = rest > 0 ? rest - 2 : rest,
        .fmod = rest,
        .pow2 = x * x,
        .pow_minus3 = 1 / (x * x * x),
        .classes = (isnan(x) != 0) | (isinf(x) != 0) << 1 | (isfinite(x) != 0) << 2 | (x == INFINITY) << 3 |
                   (x == -INFINITY) << 4 | 1 << 5,
    };
}

static void check_reals(const char *name, bool single)
{
    need_device();
    static const double in[] = {0,     -0.0, 1,    -1,  0.5, 0.25, -0.75,   1.5,     -1.5,    2,        -2,        3,
                                -3.25, 7.75, -100, 100, -90, 1000, 0x1p-20, -0x1p20, 12345.5, INFINITY, -INFINITY, NAN};
    enum { N = sizeof(in) / sizeof(in[0]) };
    static struct reals got[N];
    const struct gpu_kernel *kernel = device_kernel("numbers.cu", name, NULL);
    gpu_pointer from = gpu_alloc(sizeof(in));
    gpu_pointer to = gpu_alloc(sizeof(got));
    gpu_write(from, in, sizeof(in));
    gpu_run(kernel, (unsigned[3]){1, 1, 1}, (unsigned[3]){N, 1, 1}, 0, (void *[]){&from, &to});
    gpu_read(got, to, sizeof(got));
    double tolerance = single ? 1e-6 : 1e-14;
    for (int i = 0; i < N; i++) {
        struct reals expected = reals_of(in[i], single);
        const double *e = &expected.relu;
        const double *g = &got[i].relu;
        for (int k = 0; k < (int)(offsetof(struct reals, classes) / sizeof(double)); k++) {
            bool near = equal(g[k], e[k]) || fabs(g[k] - e[k]) <= tolerance * fabs(e[k]) || fabs(g[k] - e[k]) < 1e-37;
            cr_expect(near, "%s: field %d of %g: %.17g, not %.17g", name, k, in[i], g[k], e[k]);
        }
        cr_expect_eq(got[i].classes, expected.classes, "%s: classes of %g: %lld", name, in[i],
                     (long long)got[i].classes);
    }
    gpu_free(from);
    gpu_free(to);
}

Test(gpu_numbers, B4_1_real_functions)
{
    check_reals("reals<float>", true);
    check_reals("reals<double>", false);
}

struct integers {
    int64_t ceil, gcd, pow, remainder, fmod, max, min, clamp, threshold, abs, signbit, aligned, bits;
    uint64_t unsigned_max;
    int64_t unsigned_min;
    int32_t narrow_pow, narrow_remainder, narrow_fmod, narrow_max, zero, zero_later;
};

static int64_t gcd_of(int64_t a, int64_t b)
{
    return b == 0 ? llabs(a) : gcd_of(b, a % b);
}

static int64_t power(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    uint64_t result = 1;
    for (int64_t i = 0; i < exponent; i++)
        result *= (uint64_t)base;
    return (int64_t)result;
}

static int64_t floored(int64_t a, int64_t b)
{
    int64_t rest = b ? a % b : 0;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static struct integers integers_of(int64_t a, int64_t b)
{
    unsigned bits = 1;
    while (bits < (a & 0xffff))
        bits *= 2;
    int64_t raised = a < -3 ? -3 : a;
    int32_t na = (int32_t)a;
    int32_t nb = (int32_t)b;
    return (struct integers){
        .ceil = a >= 0 && b > 0 ? a / b + (a % b != 0) : 0,
        .gcd = gcd_of(a, b),
        .pow = power(a, b),
        .remainder = floored(a, b),
        .fmod = b ? a % b : 0,
        .max = a > b ? a : b,
        .min = a < nb ? a : nb,
        .clamp = raised > b ? b : raised,
        .threshold = a <= b ? 77 : a,
        .abs = llabs(a),
        .signbit = a<0, .aligned = ((a & 0xffff) + 127) / 128 * 128, .bits = bits, .unsigned_max = nb> 0 &&
                           (uint64_t)a < (uint64_t)nb
                       ? (uint64_t)nb
                       : (uint64_t)a,
        .unsigned_min = b < 0 || (uint64_t)b < (uint64_t)a ? b : a,
        .narrow_pow = (int32_t)power(na, nb),
        .narrow_remainder = (int32_t)floored(na, nb),
        .narrow_fmod = nb ? na % nb : 0,
        .narrow_max = na > nb ? na : nb,
    };
}

Test(gpu_numbers, B4_1_integer_functions_and_magic_zero)
{
    need_device();
    static const int64_t in[] = {0, 1, -1, 2, -2, 3, 7, -7, 12, 30, 63, -64, 1000, 65535, 100003, -100003};
    enum { N = sizeof(in) / sizeof(in[0]) };
    static struct integers got[N][N];
    const struct gpu_kernel *kernel = device_kernel("numbers.cu", "integers", NULL);
    gpu_pointer from = gpu_alloc(sizeof(in));
    gpu_pointer to = gpu_alloc(sizeof(got));
    int n = N;
    gpu_write(from, in, sizeof(in));
    gpu_run(kernel, (unsigned[3]){N, 1, 1}, (unsigned[3]){N, 1, 1}, 0, (void *[]){&from, &to, &n});
    gpu_read(got, to, sizeof(got));
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            struct integers expected = integers_of(in[a], in[b]);
            const int64_t *e = &expected.ceil;
            const int64_t *g = &got[a][b].ceil;
            for (int k = 0; k < (int)(offsetof(struct integers, narrow_pow) / sizeof(int64_t)); k++)
                cr_expect_eq(g[k], e[k], "field %d of %lld, %lld: %lld, not %lld", k, (long long)in[a],
                             (long long)in[b], (long long)g[k], (long long)e[k]);
            const int32_t *narrow_e = &expected.narrow_pow;
            const int32_t *narrow_g = &got[a][b].narrow_pow;
            for (int k = 0; k < 6; k++)
                cr_expect_eq(narrow_g[k], narrow_e[k], "narrow field %d of %lld, %lld: %d, not %d", k, (long long)in[a],
                             (long long)in[b], narrow_g[k], narrow_e[k]);
        }
    gpu_free(from);
    gpu_free(to);
}

/* ---- Vector moves: 7 widths, 16 slots of 32 bytes each (see moves.cu), 15 of them used. */

Test(gpu_numbers, B4_1_moves_of_every_width)
{
    need_device();
    enum { SLOTS = 16, USED = 15, WIDTHS = 7, SIZE = WIDTHS * SLOTS * 32 };
    static const int widths[WIDTHS] = {1, 2, 4, 8, 12, 16, 32};
    static unsigned char in[SIZE];
    static unsigned char got[SIZE];
    static unsigned char blank[SIZE];
    for (int i = 0; i < SIZE; i++)
        in[i] = (unsigned char)(i * 37 % 237); /* never the filler */
    memset(blank, 0xee, sizeof(blank));
    gpu_pointer from = gpu_alloc(SIZE);
    gpu_pointer to = gpu_alloc(SIZE);
    gpu_write(from, in, SIZE);
    gpu_write(to, blank, SIZE);
    const struct gpu_kernel *kernel = device_kernel("moves.cu", "moves", NULL);
    gpu_run(kernel, (unsigned[3]){1, 1, 1}, (unsigned[3]){1, 1, 1}, 0, (void *[]){&to, &from});
    gpu_read(got, to, SIZE);
    for (int w = 0; w < WIDTHS; w++)
        for (int slot = 0; slot < USED; slot++)
            for (int i = 0; i < 32; i++) {
                int at = (w * SLOTS + slot) * 32 + i;
                int expected = i < widths[w] ? in[at] : 0xee;
                cr_expect_eq(got[at], expected, "width %d, slot %d, byte %d: %02x, not %02x", widths[w], slot, i,
                             got[at], expected);
            }
    gpu_free(from);
    gpu_free(to);
}
