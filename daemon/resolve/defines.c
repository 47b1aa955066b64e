#include "daemon/resolve/defines.h"

#include <string.h>

#include "daemon/resolve/identifiers.h"
#include "daemon/resolve/sorted.h"
#include "daemon/resolve/zone.h"

/* Names that the daemon or the compiler sets, or that would rewrite the daemon's own text. A '*' at the end stands for
 * any rest. Other names with underscores stay free: __CUDA_NO_HALF_OPERATORS__ and its kin are common. */
static const struct {
    const char *name, *why;
} reserved[] = {
    {"NDEBUG", "compile.asserts decides about it"},
    {"FUSIOND_*", "such names are the daemon's"},
    {"fusiond", "it is the namespace around the code"},
    {"namespace", "it is a keyword of the text around the code"},
    {"include", "it is a directive of the text around the code"},
    {"defined", "the preprocessor does not allow it"},
    {"__cplusplus", "the compiler sets it"},
    {"__CUDACC*", "the compiler sets it"},
    {"__NVCC*", "the compiler sets it"},
    {"__CUDA_ARCH*", "the compiler sets it"},
    {"__CUDA_API_*", "the compiler sets it"},
    {"__FILE__", "the compiler sets it"},
    {"__LINE__", "the compiler sets it"},
    {"__DATE__", "the compiler sets it"},
    {"__TIME__", "the compiler sets it"},
    {"__COUNTER__", "the compiler sets it"},
    {"__has_include", "the compiler sets it"},
};

static bool matches(struct text name, const char *pattern)
{
    size_t size = strlen(pattern);
    if (pattern[size - 1] != '*')
        return text_is(name, pattern);
    return name.size >= size - 1 && memcmp(name.at, pattern, size - 1) == 0;
}

static int check_name(struct text name, size_t i, struct error *error)
{
    char printable[PRINTABLE];
    if (!is_identifier(name))
        return error_set(error, STATUS_INVALID_OPTION, "fusion.compile.defines[%zu].name: \"%s\" is no C identifier", i,
                         text_printable(name, printable));
    for (size_t row = 0; row < sizeof reserved / sizeof reserved[0]; row++)
        if (matches(name, reserved[row].name))
            return error_set(error, STATUS_INVALID_OPTION, "fusion.compile.defines[%zu].name: \"%s\" is reserved; %s",
                             i, text_printable(name, printable), reserved[row].why);
    return 0;
}

/* What would make a definition take in the line behind it. */
static const char *reaches_on(struct text value)
{
    if (value.size && value.at[value.size - 1] == '\\')
        return "a backslash at its end";
    if (memmem(value.at, value.size, "/*", 2))
        return "the beginning of a block comment";
    if (memmem(value.at, value.size, "R\"", 2))
        return "the beginning of a raw string";
    return NULL;
}

/* A value ends with its line: a line feed would begin text of its own. */
static int check_value(struct text value, size_t i, struct error *error)
{
    if (!value.at)
        return 0;
    for (size_t at = 0; at < value.size; at++) {
        unsigned char c = (unsigned char)value.at[at];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return error_set(error, STATUS_INVALID_OPTION,
                             "fusion.compile.defines[%zu].value: has the control character 0x%02x at byte %zu", i, c,
                             at);
    }
    const char *what = reaches_on(value);
    if (what)
        return error_set(error, STATUS_INVALID_OPTION,
                         "compile.defines[%zu].value: has %s, which would take in the "
                         "text behind the definition",
                         i, what);
    return 0;
}

int defines_check(const struct compile_options *compile, msgpack_zone *zone, struct error *error)
{
    char printable[PRINTABLE];
    struct numbered *names = zone_array(zone, compile->n_defines, sizeof *names, error);
    if (!names)
        return -1;
    for (size_t i = 0; i < compile->n_defines; i++) {
        const struct define *define = &compile->defines[i];
        if (check_name(define->name, i, error) || check_value(define->value, i, error))
            return -1;
        names[i] = (struct numbered){define->name, i};
    }
    sorted_sort(names, compile->n_defines);
    const struct numbered *twice = sorted_twice(names, compile->n_defines);
    if (twice)
        return error_set(error, STATUS_INVALID_OPTION, "fusion.compile.defines[%zu].name: \"%s\" is given twice",
                         twice->number, text_printable(twice->name, printable));
    return 0;
}

struct text define_value(const struct define *define)
{
    return define->value.at ? define->value : TEXT_OF("1");
}

int define_write(const char *form, const struct define *define, msgpack_zone *zone, struct text *ret,
                 struct error *error)
{
    struct text value = define_value(define);
    return zone_format(zone, ret, error, "%s%.*s=%.*s", form, (int)define->name.size, define->name.at, (int)value.size,
                       value.at);
}
