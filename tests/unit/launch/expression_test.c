/* B6.4: integer expressions, and everything that makes one wrong. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/launch/expression.h"

static const int64_t x_sizes[] = {100, 33}, x_strides[] = {64, 1}, big_sizes[] = {INT64_MAX, 0};
static const struct scope_tensor tensors[] = {
    {.name = {"x", 1}, .sizes = x_sizes, .n_sizes = 2, .strides = x_strides, .n_strides = 2},
    {.name = {"big", 3}, .sizes = big_sizes, .n_sizes = 2},
};
static const struct scope_scalar scalars[] = {
    {.name = {"n", 1}, .is_integer = true, .value = 7},
    {.name = {"least", 5}, .is_integer = true, .value = INT64_MIN},
    {.name = {"eps", 3}},
    {.name = {"max", 3}, .is_integer = true, .value = 5},
};
static const struct scope scope = {tensors, 2, scalars, 4};

static void expect(const char *text, int64_t expected)
{
    int64_t value = 0;
    struct error error = {0};
    cr_assert_eq(expression_evaluate(text_of(text), &scope, &value, &error), 0, "%s: %s", text, error.text);
    cr_assert_eq(value, expected, "%s gave %" PRId64, text, value);
}

static void expect_error(const char *text, const char *reason)
{
    int64_t value = 42;
    struct error error = {0};
    cr_assert_eq(expression_evaluate(text_of(text), &scope, &value, &error), -1, "%s gave %" PRId64, text, value);
    cr_assert_eq(error.code, STATUS_INVALID_LAUNCH);
    cr_assert_eq(value, 42, "%s: the result was touched", text);
    cr_assert(strstr(error.text, reason), "%s: \"%s\" is not in \"%s\"", text, reason, error.text);
    cr_assert(strstr(error.text, text), "the expression is not in \"%s\"", error.text);
}

Test(expression, B6_4_values)
{
    expect("0", 0);
    expect("9223372036854775807", INT64_MAX);
    expect(" 1 + 2 * 3 ", 7);
    expect("(1 + 2) * 3", 9);
    expect("10 - 3 - 2", 5);
    expect("100 / 7 / 2", 7);
    expect("100 % 7 * 2", 4);
    expect("-7 / 2", -3);
    expect("-7 % 2", -1);
    expect("--3", 3);
    expect("2 - -3", 5);
    expect("x.size[0]", 100);
    expect("x.stride[0] + x . stride [ 1 ]", 65);
    expect("x.size[n - 6]", 33);
    expect("n * n", 49);
    expect("ceilDiv(x.size[0], 64) * ceilDiv(x.size[1], 32)", 4);
    expect("ceilDiv(0, 5)", 0);
    expect("ceilDiv(-7, 2)", -3);
    expect("min(3, max(1, 2))", 2);
    expect("max(-1, -2)", -1);
    expect("max", 5);
    expect("max(max, 1)", 5);
    expect("least", INT64_MIN);
    expect("big.size[0] - 1", INT64_MAX - 1);
}

Test(expression, B6_4_comparisons_are_0_or_1)
{
    expect("1 < 2", 1);
    expect("2 < 1", 0);
    expect("2 <= 2", 1);
    expect("3 > 2", 1);
    expect("2 >= 3", 0);
    expect("1 + 1 == 2", 1);
    expect("1 != 1", 0);
    expect("(x.size[1] % 4 == 0) * 8 + (x.size[1] % 4 != 0) * 2", 2);
}

Test(expression, B6_4_overflow_is_an_error)
{
    expect_error("9223372036854775807 + 1", "does not fit 64 bits");
    expect_error("-9223372036854775807 - 2", "does not fit 64 bits");
    expect_error("4611686018427387904 * 2", "does not fit 64 bits");
    expect_error("9223372036854775808", "does not fit 64 bits");
    expect_error("-least", "does not fit 64 bits");
    expect_error("least / -1", "does not fit 64 bits");
    expect_error("least % -1", "does not fit 64 bits");
    expect_error("big.size[0] * x.size[0]", "position 13");
}

Test(expression, B6_4_division_by_zero_is_an_error)
{
    expect_error("1 / 0", "division by zero at position 3");
    expect_error("1 % (n - 7)", "division by zero");
    expect_error("ceilDiv(5, big.size[1])", "division by zero");
    expect_error("ceilDiv(5, -1)", "negative");
}

Test(expression, names_that_are_not_there)
{
    expect_error("y", "no scalar has this name");
    expect_error("x", "no scalar has this name");
    expect_error("n.size[0]", "no tensor has this name");
    expect_error("x.length[0]", "size and stride only");
    expect_error("x.size[2]", "outside the tensor's rank");
    expect_error("x.size[-1]", "outside the tensor's rank");
    expect_error("big.stride[0]", "outside the tensor's rank");
    expect_error("eps * 2", "not an integer");
    expect_error("pow(2, 3)", "no such function");
}

Test(expression, syntax)
{
    expect_error("", "a value is missing");
    expect_error("   ", "a value is missing");
    expect_error("1 +", "a value is missing");
    expect_error("(1", "parenthesis");
    expect_error("1)", "unexpected character at position 2");
    expect_error("1 2", "unexpected character at position 3");
    expect_error("1 < 2 < 3", "unexpected character");
    expect_error("x.size", "index in brackets");
    expect_error("x.size[0", "bracket");
    expect_error("min(1)", "comma");
    expect_error("min(1, 2", "parenthesis");
    expect_error("min(1, 2, 3)", "parenthesis");
    expect_error("1.5", "not a decimal integer");
    expect_error("0x10", "not a decimal integer");
    expect_error("12abc", "not a decimal integer");
    expect_error("1 = 1", "unexpected character");
    expect_error("1 && 1", "unexpected character");
    expect_error("*1", "unexpected character");
}

/* Also without a NUL at the end: sanitizers see a byte too many. */
Test(expression, every_beginning_of_a_long_expression)
{
    const char *text = "ceilDiv(x.size[0] + 3, min(n, 4)) * (x.stride[0] >= 1) - -2 % 7 == max(1, n)";
    for (size_t size = 0; size <= strlen(text); size++) {
        char *copy = malloc(size ? size : 1);
        memcpy(copy, text, size);
        int64_t value;
        struct error error = {0};
        int result = expression_evaluate((struct text){copy, size}, &scope, &value, &error);
        cr_assert_eq(result < 0, error.code == STATUS_INVALID_LAUNCH);
        free(copy);
    }
}

Test(expression, nesting_is_bounded)
{
    char text[1025] = "";
    int64_t value;
    struct error error;
    memset(text, '(', 1024);
    cr_assert_eq(expression_evaluate(text_of(text), &scope, &value, &error), -1);
    cr_assert(strstr(error.text, "nested too deeply"), "%s", error.text);
    memset(text, '-', 1024);
    cr_assert_eq(expression_evaluate(text_of(text), &scope, &value, &error), -1);
    cr_assert(strstr(error.text, "nested too deeply"), "%s", error.text);
}

/* ---- without values ---- */

static int check(const char *text, bool reads[4], struct error *error)
{
    memset(reads, 0, 4 * sizeof *reads);
    return expression_check(text_of(text), &scope, reads, error);
}

Test(expression, B6_5_which_scalars_decide)
{
    static const struct {
        const char *text;
        bool reads[4]; /* n, least, eps, max */
    } cases[] = {
        {"x.size[0]", {0}},
        {"n", {true}},
        {"x.size[n] + least", {true, true}},
        {"max(1, 2)", {0}},
        {"max(max, n)", {true, false, false, true}},
        {"nn.size[0]", {0}},
        {"(n == 1) * x.stride[0]", {true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool reads[4];
        struct error error = {0};
        int status = check(cases[i].text, reads, &error);
        cr_assert_eq(status, strncmp(cases[i].text, "nn", 2) == 0 ? -1 : 0, "%s: %s", cases[i].text, error.text);
        cr_assert_eq(memcmp(reads, cases[i].reads, sizeof reads), 0, "%s", cases[i].text);
    }
}

Test(expression, what_depends_on_values_is_no_mistake_yet)
{
    static const char *const fine[] = {"1 / (n - 7)", "n % (x.size[0] - 100)",   "x.size[n]",
                                       "least - 1",   "9223372036854775807 * 2", "ceilDiv(1, n - 8)"};
    static const char *const wrong[] = {"",    "1 +", "y",       "x.size", "x.shape[0]",
                                        "eps", "n n", "f(1, 2)", "(n",     "99999999999999999999"};
    bool reads[4];
    struct error error;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        cr_assert_eq(check(fine[i], reads, &error), 0, "%s: %s", fine[i], error.text);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_eq(check(wrong[i], reads, &error), -1, "%s", wrong[i]);
        cr_assert_eq(error.code, STATUS_INVALID_LAUNCH);
    }
}
