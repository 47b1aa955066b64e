/*
 * Fuzz target of daemon/launch/expression.c. The first byte of an input chooses:
 *
 *   even  the rest is an expression's text: it is evaluated or refused, twice alike, within its bytes
 *   odd   the rest makes a random tree, which is written as text, evaluated by the module, and compared with the value
 *         that the tree has in 128 bits: an expression has that value, or an error if any part of it does not fit
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/launch/expression.h"
#include "proto/limits.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "not so: %s, line %d\n", #condition, __LINE__);                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static const int64_t x_sizes[] = {100, 33, 0}, x_strides[] = {64, 1};
static const struct scope_tensor tensors[] = {
    {.name = {"x", 1}, .sizes = x_sizes, .n_sizes = 3, .strides = x_strides, .n_strides = 2}};
static const struct scope_scalar scalars[] = {
    {.name = {"n", 1}, .is_integer = true, .value = 7},
    {.name = {"least", 5}, .is_integer = true, .value = INT64_MIN},
    {.name = {"most", 4}, .is_integer = true, .value = INT64_MAX},
    {.name = {"eps", 3}},
};
static const struct scope scope = {tensors, 1, scalars, 4};

/* ---- any text ---- */

static void evaluate_text(const uint8_t *bytes, size_t size)
{
    /* A copy of exactly its size, so that a read beyond its end is found. */
    char *text = malloc(size + !size);
    struct error first = {0}, second = {0};
    int64_t value = 42, again = 43;
    CHECK(text);
    memcpy(text, bytes, size);
    int result = expression_evaluate((struct text){text, size}, &scope, &value, &first);
    CHECK(expression_evaluate((struct text){text, size}, &scope, &again, &second) == result);
    if (result == 0) {
        CHECK(value == again);
    } else {
        CHECK(value == 42 && again == 43);
        CHECK(first.code == STATUS_INVALID_LAUNCH && strcmp(first.text, second.text) == 0);
        CHECK(strstr(first.text, "at position "));
    }
    free(text);
}

/* ---- a tree ---- */

struct source {
    const uint8_t *at, *end;
};

static unsigned take(struct source *source, unsigned n)
{
    return source->at < source->end ? *source->at++ % n : 0;
}

struct value {
    __int128 number;
    bool fits; /* neither it nor a part of it overflows or divides by zero */
};

static struct value value_of(__int128 number, bool fits)
{
    fits = fits && number >= INT64_MIN && number <= INT64_MAX;
    return (struct value){fits ? number : 0, fits};
}

static struct value write_tree(struct source *source, FILE *out, unsigned depth);

static struct value write_leaf(struct source *source, FILE *out)
{
    static const struct {
        const char *text;
        int64_t value;
    } leaves[] = {
        {"x.size[0]", 100},
        {"x.size[ 1 ]", 33},
        {"x . stride[0]", 64},
        {"x.size[2]", 0},
        {"n", 7},
        {"least", INT64_MIN},
        {"most", INT64_MAX},
        {"0", 0},
        {"1", 1},
        {"9223372036854775807", INT64_MAX},
        {"4294967296", 1ll << 32},
        {"3037000500", 3037000500},
    };
    unsigned i = take(source, sizeof leaves / sizeof leaves[0]);
    fputs(leaves[i].text, out);
    return value_of(leaves[i].value, true);
}

static struct value divide(struct value a, struct value b, bool remainder, bool fits)
{
    if (!fits || b.number == 0)
        return value_of(0, false);
    if (a.number == INT64_MIN && b.number == -1)
        return value_of(0, false); /* the quotient does not fit, and the remainder is refused with it */
    return value_of(remainder ? a.number % b.number : a.number / b.number, true);
}

static struct value ceil_div(struct value a, struct value b, bool fits)
{
    if (!fits || b.number <= 0)
        return value_of(0, false);
    __int128 quotient = a.number / b.number;
    return value_of(quotient + (quotient * b.number < a.number), true);
}

/* (a OP b) */
static struct value write_operation(struct source *source, FILE *out, unsigned depth)
{
    static const char *const operators[] = {"+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">="};
    unsigned op = take(source, 11);
    fputs("(", out);
    struct value a = write_tree(source, out, depth + 1);
    fprintf(out, " %s ", operators[op]);
    struct value b = write_tree(source, out, depth + 1);
    fputs(")", out);
    bool fits = a.fits && b.fits;
    switch (op) {
    case 0:
        return value_of(a.number + b.number, fits);
    case 1:
        return value_of(a.number - b.number, fits);
    case 2:
        return value_of(a.number * b.number, fits);
    case 3:
    case 4:
        return divide(a, b, op == 4, fits);
    case 5:
        return value_of(a.number == b.number, fits);
    case 6:
        return value_of(a.number != b.number, fits);
    case 7:
        return value_of(a.number < b.number, fits);
    case 8:
        return value_of(a.number <= b.number, fits);
    case 9:
        return value_of(a.number > b.number, fits);
    default:
        return value_of(a.number >= b.number, fits);
    }
}

static struct value write_call(struct source *source, FILE *out, unsigned depth)
{
    static const char *const names[] = {"min", "max", "ceilDiv"};
    unsigned function = take(source, 3);
    fprintf(out, "%s(", names[function]);
    struct value a = write_tree(source, out, depth + 1);
    fputs(", ", out);
    struct value b = write_tree(source, out, depth + 1);
    fputs(")", out);
    bool fits = a.fits && b.fits;
    if (function == 2)
        return ceil_div(a, b, fits);
    return value_of((a.number < b.number) == (function == 0) ? a.number : b.number, fits);
}

static struct value write_tree(struct source *source, FILE *out, unsigned depth)
{
    unsigned kind = depth < 12 ? take(source, 4) : 0;
    if (kind == 0)
        return write_leaf(source, out);
    if (kind == 1)
        return write_operation(source, out, depth);
    if (kind == 2)
        return write_call(source, out, depth);
    fputs("-(", out);
    struct value a = write_tree(source, out, depth + 1);
    fputs(")", out);
    return value_of(-a.number, a.fits);
}

static void evaluate_tree(const uint8_t *bytes, size_t size)
{
    struct source source = {bytes, bytes + size};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    CHECK(out);
    struct value expected = write_tree(&source, out, 0);
    CHECK(fclose(out) == 0);
    struct error error = {0};
    int64_t got = 0;
    int result = expression_evaluate((struct text){text, length}, &scope, &got, &error);
    if (result != (expected.fits ? 0 : -1) || (result == 0 && got != (int64_t)expected.number)) {
        fprintf(stderr, "%s\ngave %d, %lld %s\n", text, result, (long long)got, error.text);
        abort();
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > 0 && bytes[0] % 2)
        evaluate_tree(bytes + 1, size - 1);
    else if (size > 0)
        evaluate_text(bytes + 1, size - 1);
    return 0;
}
