#include "daemon/launch/expression.h"

#include <ctype.h>
#include <string.h>

/* Parentheses, indices, arguments and minus signs inside each other: bounds the C stack. */
#define MAX_DEPTH 64

/* One evaluation. After the first error `failed` stays true and everything returns at once. */
struct parser {
    const char *start, *at, *end;
    const struct scope *scope;
    struct error *error;
    unsigned depth;
    bool failed;
    bool checking; /* only whether it could be evaluated: values mean nothing … */
    bool *reads;   /* … and each scalar that is named is noted here */
};

static int64_t parse_comparison(struct parser *parser);

static int64_t refuse(struct parser *parser, const char *at, const char *what)
{
    if (!parser->failed) {
        size_t size = (size_t)(parser->end - parser->start);
        /* Leave room for the reason in the error's text. */
        error_set(parser->error, STATUS_INVALID_LAUNCH, "\"%.*s%s\": %s at position %zu", size > 300 ? 300 : (int)size,
                  parser->start, size > 300 ? "…" : "", what, (size_t)(at - parser->start) + 1);
    }
    parser->failed = true;
    return 0;
}

/* ---- tokens ---- */

static void skip_space(struct parser *parser)
{
    while (parser->at < parser->end && (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\n'))
        parser->at++;
}

/* Step over a token if it comes next. */
static bool take(struct parser *parser, const char *token)
{
    size_t size = strlen(token);
    skip_space(parser);
    if ((size_t)(parser->end - parser->at) < size || memcmp(parser->at, token, size) != 0)
        return false;
    parser->at += size;
    return true;
}

static void expect(struct parser *parser, const char *token, const char *what)
{
    if (!parser->failed && !take(parser, token))
        refuse(parser, parser->at, what);
}

static struct text take_name(struct parser *parser)
{
    const char *start = parser->at;
    while (parser->at < parser->end && (isalnum((unsigned char)*parser->at) || *parser->at == '_'))
        parser->at++;
    return (struct text){start, (size_t)(parser->at - start)};
}

static bool same(struct text a, struct text b)
{
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/* ---- arithmetic ---- */

/* Applied to an operator of one character. */
static int64_t apply(struct parser *parser, const char *at, char op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    if (parser->failed || parser->checking)
        return 0;
    if ((op == '/' || op == '%') && b == 0)
        return refuse(parser, at, "division by zero");
    switch (op) {
    case '+':
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    default:
        /* The one quotient that does not fit. */
        overflow = a == INT64_MIN && b == -1;
        if (!overflow)
            result = op == '/' ? a / b : a % b;
    }
    return overflow ? refuse(parser, at, "the value does not fit 64 bits") : result;
}

static int64_t ceil_div(struct parser *parser, const char *at, int64_t a, int64_t b)
{
    if (parser->failed || parser->checking)
        return 0;
    if (b == 0)
        return refuse(parser, at, "division by zero");
    if (b < 0)
        return refuse(parser, at, "ceilDiv by a negative number");
    return a / b + (a % b > 0);
}

/* ---- the grammar ---- */

static int64_t parse_number(struct parser *parser)
{
    const char *start = parser->at;
    int64_t value = 0;
    while (parser->at < parser->end && isdigit((unsigned char)*parser->at)) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *parser->at - '0', &value))
            return refuse(parser, start, "the number does not fit 64 bits");
        parser->at++;
    }
    if (parser->at < parser->end && (isalpha((unsigned char)*parser->at) || *parser->at == '_' || *parser->at == '.'))
        return refuse(parser, start, "not a decimal integer");
    return value;
}

/* name( comparison , comparison ) after the name. */
static int64_t parse_call(struct parser *parser, struct text name)
{
    bool is_ceil = text_is(name, "ceilDiv"), is_min = text_is(name, "min"), is_max = text_is(name, "max");
    if (!is_ceil && !is_min && !is_max)
        return refuse(parser, name.at, "no such function (ceilDiv, min and max exist)");
    int64_t a = parse_comparison(parser);
    expect(parser, ",", "a comma is missing");
    int64_t b = parse_comparison(parser);
    expect(parser, ")", "a closing parenthesis is missing");
    if (is_ceil)
        return ceil_div(parser, name.at, a, b);
    return (a < b) == is_min ? a : b;
}

/* .size[index] or .stride[index] after a name. */
static int64_t parse_member(struct parser *parser, struct text name)
{
    const struct scope_tensor *tensor = NULL;
    for (size_t i = 0; i < parser->scope->n_tensors && !tensor; i++) {
        if (same(parser->scope->tensors[i].name, name))
            tensor = &parser->scope->tensors[i];
    }
    if (!tensor)
        return refuse(parser, name.at, "no tensor has this name");
    skip_space(parser);
    struct text member = take_name(parser);
    bool is_size = text_is(member, "size");
    if (!is_size && !text_is(member, "stride"))
        return refuse(parser, member.at, "a tensor has size and stride only");
    expect(parser, "[", "an index in brackets is missing");
    const char *at = parser->at;
    int64_t index = parse_comparison(parser);
    expect(parser, "]", "a closing bracket is missing");
    if (parser->failed || parser->checking)
        return 0;
    size_t n = is_size ? tensor->n_sizes : tensor->n_strides;
    if (index < 0 || (uint64_t)index >= n)
        return refuse(parser, at, "the index is outside the tensor's rank");
    return is_size ? tensor->sizes[index] : tensor->strides[index];
}

static int64_t parse_scalar(struct parser *parser, struct text name)
{
    for (size_t i = 0; i < parser->scope->n_scalars; i++) {
        const struct scope_scalar *scalar = &parser->scope->scalars[i];
        if (!same(scalar->name, name))
            continue;
        if (parser->checking)
            parser->reads[i] = true;
        return scalar->is_integer ? scalar->value : refuse(parser, name.at, "the scalar is not an integer");
    }
    return refuse(parser, name.at, "no scalar has this name");
}

static int64_t parse_primary(struct parser *parser)
{
    skip_space(parser);
    if (parser->at == parser->end)
        return refuse(parser, parser->at, "a value is missing");
    if (isdigit((unsigned char)*parser->at))
        return parse_number(parser);
    if (take(parser, "(")) {
        int64_t value = parse_comparison(parser);
        expect(parser, ")", "a closing parenthesis is missing");
        return value;
    }
    struct text name = take_name(parser);
    if (name.size == 0)
        return refuse(parser, parser->at, "unexpected character");
    if (take(parser, "("))
        return parse_call(parser, name);
    if (take(parser, "."))
        return parse_member(parser, name);
    return parse_scalar(parser, name);
}

static int64_t parse_unary(struct parser *parser)
{
    skip_space(parser);
    const char *at = parser->at;
    if (parser->failed || !take(parser, "-"))
        return parser->failed ? 0 : parse_primary(parser);
    if (++parser->depth > MAX_DEPTH)
        return refuse(parser, at, "nested too deeply");
    int64_t value = parse_unary(parser);
    parser->depth--;
    return apply(parser, at, '-', 0, value);
}

static int64_t parse_product(struct parser *parser)
{
    int64_t value = parse_unary(parser);
    while (!parser->failed) {
        skip_space(parser);
        const char *at = parser->at;
        char op = '\0';
        for (const char *candidate = "*/%"; *candidate && !op; candidate++)
            op = at < parser->end && *at == *candidate ? *candidate : '\0';
        if (!op)
            break;
        parser->at++;
        value = apply(parser, at, op, value, parse_unary(parser));
    }
    return value;
}

static int64_t parse_sum(struct parser *parser)
{
    int64_t value = parse_product(parser);
    while (!parser->failed) {
        skip_space(parser);
        const char *at = parser->at;
        if (at == parser->end || (*at != '+' && *at != '-'))
            break;
        parser->at++;
        value = apply(parser, at, *at, value, parse_product(parser));
    }
    return value;
}

static int64_t parse_comparison(struct parser *parser)
{
    if (parser->failed)
        return 0;
    if (++parser->depth > MAX_DEPTH)
        return refuse(parser, parser->at, "nested too deeply");
    int64_t value = parse_sum(parser);
    /* Longer operators first. */
    if (take(parser, "=="))
        value = value == parse_sum(parser);
    else if (take(parser, "!="))
        value = value != parse_sum(parser);
    else if (take(parser, "<="))
        value = value <= parse_sum(parser);
    else if (take(parser, ">="))
        value = value >= parse_sum(parser);
    else if (take(parser, "<"))
        value = value < parse_sum(parser);
    else if (take(parser, ">"))
        value = value > parse_sum(parser);
    parser->depth--;
    return value;
}

static int64_t parse(struct parser *parser)
{
    int64_t value = parse_comparison(parser);
    skip_space(parser);
    if (!parser->failed && parser->at < parser->end)
        refuse(parser, parser->at, "unexpected character");
    return value;
}

int expression_evaluate(struct text text, const struct scope *scope, int64_t *ret, struct error *error)
{
    struct parser parser = {
        .start = text.at, .at = text.at, .end = text.at + text.size, .scope = scope, .error = error};
    int64_t value = parse(&parser);
    if (parser.failed)
        return -1;
    *ret = value;
    return 0;
}

int expression_check(struct text text, const struct scope *scope, bool *reads, struct error *error)
{
    struct parser parser = {
        .start = text.at,
        .at = text.at,
        .end = text.at + text.size,
        .scope = scope,
        .error = error,
        .checking = true,
        .reads = reads,
    };
    parse(&parser);
    return parser.failed ? -1 : 0;
}
