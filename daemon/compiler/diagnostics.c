#include "daemon/compiler/diagnostics.h"

#include <string.h>

#include "daemon/compiler/compile_log.h"

/* Severity words. Several start alike, so each is matched together with what may follow it. */
static const struct {
    const char *word;
    enum severity severity;
} severities[] = {
    {"catastrophic error", SEVERITY_ERROR},
    {"Catastrophic error", SEVERITY_ERROR},
    {"internal error", SEVERITY_ERROR},
    {"Internal error", SEVERITY_ERROR},
    {"Command-line error", SEVERITY_ERROR},
    {"fatal error", SEVERITY_ERROR},
    {"fatal", SEVERITY_ERROR},
    {"error", SEVERITY_ERROR},
    {"Error", SEVERITY_ERROR},
    {"command-line warning", SEVERITY_WARNING},
    {"Command-line warning", SEVERITY_WARNING},
    {"warning", SEVERITY_WARNING},
    {"Warning", SEVERITY_WARNING},
    {"remark", SEVERITY_NOTE},
    {"note", SEVERITY_NOTE},
};

/* The file in which NVRTC puts the name expressions. It is no file of the client's. */
#define NAME_MAP "__nv_name_map"

static bool starts_with(struct text text, const char *prefix)
{
    size_t size = strlen(prefix);
    return text.size >= size && memcmp(text.at, prefix, size) == 0;
}

static struct text skip(struct text text, size_t n)
{
    return (struct text){text.at + n, text.size - n};
}

/* "error: …", "warning #177-D: …", "error   : …". ret_text is what stands after the severity word: the number of a
 * warning belongs to it, since it is what -diag-suppress wants. */
static bool read_severity(struct text at, enum severity *ret, struct text *ret_text)
{
    for (size_t i = 0; i < sizeof severities / sizeof severities[0]; i++) {
        if (!starts_with(at, severities[i].word))
            continue;
        struct text rest = skip(at, strlen(severities[i].word));
        while (rest.size > 0 && rest.at[0] == ' ')
            rest = skip(rest, 1);
        bool numbered = rest.size > 0 && rest.at[0] == '#' && memchr(rest.at, ':', rest.size) != NULL;
        if (!numbered) {
            if (rest.size == 0 || rest.at[0] != ':')
                continue;
            rest = skip(rest, 1);
            while (rest.size > 0 && rest.at[0] == ' ')
                rest = skip(rest, 1);
        }
        *ret = severities[i].severity;
        *ret_text = rest;
        return true;
    }
    return false;
}

/* "fusion.cu(3): " in front of a severity. File names may hold parentheses, so every ")" is tried. */
static bool read_position(struct text line, struct diagnostic *ret)
{
    const char *from = line.at;
    const char *end = line.at + line.size;
    const char *close;
    while ((close = memmem(from, (size_t)(end - from), "): ", 3)) != NULL) {
        from = close + 1;
        const char *open = close;
        uint64_t number = 0;
        while (open > line.at && open[-1] >= '0' && open[-1] <= '9')
            open--;
        if (open == close || close - open > 10 || open <= line.at + 1 || open[-1] != '(')
            continue;
        for (const char *digit = open; digit < close; digit++)
            number = number * 10 + (uint64_t)(*digit - '0');
        struct text rest = skip(line, (size_t)(close - line.at) + 3);
        if (number > 0xffffffffu || !read_severity(rest, &ret->severity, &ret->text))
            continue;
        ret->file = (struct text){line.at, (size_t)(open - 1 - line.at)};
        ret->line = number;
        ret->has_line = true;
        return true;
    }
    return false;
}

/* "ptxas fatal   : …", "ptxas application ptx input, line 26; error   : …". The line is one of the PTX, not of the
 * client's code, so it stays in the text. */
static bool read_assembler(struct text line, struct diagnostic *ret)
{
    struct text rest = line, ignored;
    if (!starts_with(line, "ptxas ") && !starts_with(line, "nvlink "))
        return false;
    while (rest.size > 0 && rest.at[0] != ' ')
        rest = skip(rest, 1);
    bool found = read_severity(skip(rest, 1), &ret->severity, &ignored);
    for (; !found && rest.size > 2; rest = skip(rest, 1))
        found = starts_with(rest, "; ") && read_severity(skip(rest, 2), &ret->severity, &ignored);
    if (found)
        ret->text = line;
    return found;
}

/* Whether the line starts a diagnostic. The texts point into the log. */
static bool read_head(struct text line, struct diagnostic *ret)
{
    *ret = (struct diagnostic){0};
    if (line.size == 0 || line.at[0] == ' ' || line.at[0] == '\t')
        return false;
    if (read_assembler(line, ret) || read_position(line, ret))
        return true;
    if (starts_with(line, "nvrtc: "))
        line = skip(line, strlen("nvrtc: "));
    else if (starts_with(line, "At end of source: "))
        line = skip(line, strlen("At end of source: "));
    return read_severity(line, &ret->severity, &ret->text);
}

/* A line with nothing but a caret under the quoted source line, which is indented by two. */
static bool read_caret(struct text line, uint64_t *ret_column)
{
    size_t n = 0;
    while (n < line.size && (line.at[n] == ' ' || line.at[n] == '\t'))
        n++;
    if (n < 2 || n + 1 != line.size || line.at[n] != '^' || n - 1 > 0xffffffffu)
        return false;
    *ret_column = n - 1;
    return true;
}

/* The next diagnostic with its continuation lines: indented, up to a line that is not. */
static bool next(struct text *rest, struct diagnostic *ret)
{
    struct text line;
    do {
        if (!log_next_line(rest, &line))
            return false;
    } while (!read_head(line, ret));
    for (;;) {
        struct text after = *rest;
        if (!log_next_line(&after, &line) || line.size == 0 || line.at[0] != ' ')
            return true;
        if (!ret->has_column && ret->has_line)
            ret->has_column = read_caret(line, &ret->column);
        ret->text.size = (size_t)(line.at + line.size - ret->text.at);
        *rest = after;
    }
}

static int copy(struct text *text, size_t limit, msgpack_zone *zone)
{
    size_t size = log_cut_size(*text, limit);
    char *at = msgpack_zone_malloc(zone, size + 1);
    if (at == NULL)
        return -1;
    memcpy(at, text->at, size);
    at[size] = '\0';
    *text = (struct text){at, size};
    return 0;
}

static int keep(struct diagnostic *diagnostic, msgpack_zone *zone)
{
    if (text_is(diagnostic->file, NAME_MAP)) {
        diagnostic->file = (struct text){0};
        diagnostic->has_line = diagnostic->has_column = false;
        diagnostic->line = diagnostic->column = 0;
    }
    if (diagnostic->file.at != NULL && copy(&diagnostic->file, LIMIT_NAME, zone) < 0)
        return -1;
    return copy(&diagnostic->text, DIAGNOSTIC_TEXT, zone);
}

int diagnostics_parse(struct text log, msgpack_zone *zone, struct diagnostic **ret, size_t *ret_n, struct error *error)
{
    struct diagnostic one;
    size_t errors = 0, others = 0, n = 0;
    for (struct text rest = log; next(&rest, &one);)
        *(one.severity == SEVERITY_ERROR ? &errors : &others) += 1;
    if (errors > LIMIT_DIAGNOSTICS)
        errors = LIMIT_DIAGNOSTICS;
    if (others > LIMIT_DIAGNOSTICS - errors)
        others = LIMIT_DIAGNOSTICS - errors;
    if (errors + others == 0) {
        *ret = NULL;
        *ret_n = 0;
        return 0;
    }

    struct diagnostic *list = msgpack_zone_malloc(zone, (errors + others) * sizeof *list);
    if (list == NULL)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the diagnostics");
    for (struct text rest = log; errors + others > 0 && next(&rest, &one);) {
        size_t *left = one.severity == SEVERITY_ERROR ? &errors : &others;
        if (*left == 0)
            continue;
        *left -= 1;
        if (keep(&one, zone) < 0)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the diagnostics");
        list[n++] = one;
    }
    *ret = list;
    *ret_n = n;
    return 0;
}
