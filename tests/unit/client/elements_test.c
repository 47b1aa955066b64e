/* Elements of every dtype as doubles and back. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "client/fusionctl/elements.h"
#include "daemon/launch/arguments.h"

/* Every bit pattern of a small type decodes and encodes to itself. */
static void round_trip(enum dtype dtype, unsigned bits)
{
    for (uint32_t pattern = 0; pattern < 1u << bits; pattern++) {
        uint32_t in = pattern, out = 0;
        double value = elements_get(dtype, &in, 0);
        elements_put(dtype, &out, 0, value);
        if (isnan(value))
            cr_assert(isnan(elements_get(dtype, &out, 0)), "pattern %#x", pattern);
        else if (isinf(value) && dtype == DTYPE_FLOAT8_E5M2)
            cr_assert_eq(fabs(elements_get(dtype, &out, 0)), 57344.0, "infinity saturates");
        else
            cr_assert_eq(out, pattern, "pattern %#x is %g and came back as %#x", pattern, value, out);
    }
}

Test(elements, every_bit_pattern_survives)
{
    round_trip(DTYPE_FLOAT16, 16);
    round_trip(DTYPE_BFLOAT16, 16);
    round_trip(DTYPE_FLOAT8_E4M3, 8);
    round_trip(DTYPE_FLOAT8_E5M2, 8);
    round_trip(DTYPE_INT8, 8);
    round_trip(DTYPE_UINT16, 16);
}

static void expect(enum dtype dtype, double in, double expected)
{
    uint32_t bits = 0;
    elements_put(dtype, &bits, 0, in);
    double out = elements_get(dtype, &bits, 0);
    cr_assert(out == expected, "%g gave %.9g", in, out);
}

Test(elements, rounding_is_to_nearest_even)
{
    expect(DTYPE_FLOAT16, 2049, 2048);
    expect(DTYPE_FLOAT16, 2051, 2052);
    expect(DTYPE_FLOAT16, 65519, 65504);
    expect(DTYPE_FLOAT16, 65520, INFINITY);
    expect(DTYPE_FLOAT16, 0x1p-25, 0);
    expect(DTYPE_FLOAT16, 0x1.8p-25, 0x1p-24);
    expect(DTYPE_BFLOAT16, 257, 256);
    expect(DTYPE_BFLOAT16, 259, 260);
    expect(DTYPE_BFLOAT16, -1e39, -INFINITY);
    expect(DTYPE_FLOAT8_E4M3, 1000, 448);
    expect(DTYPE_FLOAT8_E4M3, 17, 16);
    expect(DTYPE_FLOAT8_E4M3, INFINITY, 448);
    expect(DTYPE_FLOAT8_E5M2, 1e9, 57344);
    expect(DTYPE_INT8, -3.7, -3);
}

Test(elements, random_numbers_follow_from_the_seed_and_stay_in_range)
{
    enum { N = 10000 };
    static float a[N], b[N];
    static int8_t integers[N];
    double sum = 0;
    elements_fill(DTYPE_FLOAT32, a, N, 7);
    elements_fill(DTYPE_FLOAT32, b, N, 7);
    cr_assert_eq(memcmp(a, b, sizeof a), 0);
    elements_fill(DTYPE_FLOAT32, b, N, 8);
    cr_assert_neq(memcmp(a, b, sizeof a), 0);
    elements_fill(DTYPE_INT8, integers, N, 7);
    for (int i = 0; i < N; i++) {
        cr_assert(a[i] >= -2.0f && a[i] <= 2.0f);
        cr_assert(integers[i] >= -64 && integers[i] <= 63);
        sum += a[i];
    }
    cr_assert_lt(fabs(sum / N), 0.1);
}

static bool parses(enum dtype dtype, const char *text)
{
    char room[16];
    return elements_parse(dtype, text, room);
}

Test(elements, scalars_are_parsed_within_their_type)
{
    int64_t wide;
    uint8_t flag;
    double real;
    cr_assert(elements_parse(DTYPE_INT64, "-9223372036854775808", &wide) && wide == INT64_MIN);
    cr_assert(elements_parse(DTYPE_FLOAT64, "1e-5", &real) && real == 1e-5);
    cr_assert(elements_parse(DTYPE_BOOL, "true", &flag) && flag == 1);
    cr_assert(parses(DTYPE_INT8, "-128") && parses(DTYPE_INT8, "127"));
    cr_assert(parses(DTYPE_UINT64, "18446744073709551615") && parses(DTYPE_BFLOAT16, "1.5"));
    cr_assert(parses(DTYPE_INT32, "2147483647"));
    cr_assert_not(parses(DTYPE_INT32, "2147483648"));
    cr_assert_not(parses(DTYPE_INT64, "9223372036854775808"));
    cr_assert_not(parses(DTYPE_INT8, "128"));
    cr_assert_not(parses(DTYPE_UINT8, "256"));
    cr_assert_not(parses(DTYPE_UINT8, "-1"));
    cr_assert_not(parses(DTYPE_INT32, "1.5"));
    cr_assert_not(parses(DTYPE_FLOAT32, "x"));
    cr_assert_not(parses(DTYPE_FLOAT32, ""));
    cr_assert_not(parses(DTYPE_COMPLEX64, "1"));
}
