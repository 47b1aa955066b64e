#include "daemon/compiler/gcc_diagnostics.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compiler/compile_log.h"
#include "daemon/compiler/diagnostics.h"

/* What stands in for the names that the driver invents: "cc" and six characters. */
#define INVENTED "assembly"
#define INVENTED_SIZE 8

struct findings {
    const struct gcc_places *places;
    msgpack_zone *zone;
    FILE *log;
    struct diagnostic *list;
    size_t n;
    bool failed; /* memory ran out */
};

static struct text keep(struct findings *findings, const char *at, size_t size)
{
    size = size > DIAGNOSTIC_TEXT ? log_cut_size((struct text){at, size}, DIAGNOSTIC_TEXT) : size;
    char *copy = msgpack_zone_malloc(findings->zone, size + 1);
    findings->failed |= !copy;
    if (!copy)
        return (struct text){NULL, 0};
    memcpy(copy, at, size);
    copy[size] = '\0';
    return (struct text){copy, size};
}

/* Where a new diagnostic goes: behind the others, or in place of the last one that matters less. */
static struct diagnostic *place(struct findings *findings, enum severity severity)
{
    if (findings->n < LIMIT_DIAGNOSTICS)
        return &findings->list[findings->n++];
    for (size_t i = findings->n; severity == SEVERITY_ERROR && i-- > 0;) {
        if (findings->list[i].severity == SEVERITY_ERROR)
            continue;
        memmove(&findings->list[i], &findings->list[i + 1], (findings->n - i - 1) * sizeof *findings->list);
        return &findings->list[findings->n - 1];
    }
    return NULL;
}

static const char *without_folder(const struct findings *findings, const char *file)
{
    if (strncmp(file, "./", 2) == 0)
        file += 2;
    for (const char *const *folder = findings->places->includes; *folder; folder++) {
        size_t size = strlen(*folder);
        if (strncmp(file, *folder, size) == 0 && file[size] == '/')
            return file + size + 1;
    }
    return file;
}

static enum severity severity_of(const char *kind)
{
    if (strstr(kind, "error"))
        return SEVERITY_ERROR;
    return strcmp(kind, "warning") == 0 ? SEVERITY_WARNING : SEVERITY_NOTE;
}

/* One JSON object, and those that belong to it. */
static void take_finding(struct findings *findings, const json_t *json)
{
    const char *kind = json_string_value(json_object_get(json, "kind"));
    const char *message = json_string_value(json_object_get(json, "message"));
    const json_t *caret = json_object_get(json_array_get(json_object_get(json, "locations"), 0), "caret");
    const char *file = json_string_value(json_object_get(caret, "file"));
    json_int_t line = json_integer_value(json_object_get(caret, "line"));
    json_int_t column = json_integer_value(json_object_get(caret, "column"));
    const json_t *child;
    size_t i;
    if (!kind || !message)
        return;
    file = file ? without_folder(findings, file) : NULL;
    if (file && line > 0)
        fprintf(findings->log, "%s:%lld:%lld: ", file, (long long)line, (long long)column);
    fprintf(findings->log, "%s: %s\n", kind, message);
    enum severity severity = severity_of(kind);
    struct diagnostic *diagnostic = place(findings, severity);
    if (diagnostic)
        *diagnostic = (struct diagnostic){
            .severity = severity,
            .file = file ? keep(findings, file, strnlen(file, LIMIT_NAME)) : (struct text){NULL, 0},
            .line = (uint64_t)line,
            .has_line = file && line > 0 && line <= UINT32_MAX,
            .column = (uint64_t)column,
            .has_column = file && column > 0 && column <= UINT32_MAX,
            .text = keep(findings, message, strlen(message)),
        };
    json_array_foreach(json_object_get(json, "children"), i, child) take_finding(findings, child);
}

/* ---- lines of the assembler, the linker or the driver ---- */

/* Take the folder's name out of a line, and the names that differ from call to call. In place; the new size. */
static size_t hide_folder(const struct findings *findings, char *line, size_t size)
{
    const char *folder = findings->places->folder;
    size_t folder_size = folder ? strlen(folder) : 0;
    char *found;
    while (folder && (found = memmem(line, size, folder, folder_size))) {
        size_t gone = folder_size, rest;
        gone += found + gone < line + size && found[gone] == '/';
        rest = (size_t)(line + size - found) - gone;
        memmove(found, found + gone, rest);
        size -= gone;
        if (rest > INVENTED_SIZE && memcmp(found, "cc", 2) == 0 && found[INVENTED_SIZE] == '.')
            memcpy(found, INVENTED, INVENTED_SIZE);
    }
    return size;
}

/* "NAME:LINE: Error: text" of the assembler, where NAME is one that the compiler passed on: not the assembly. */
static bool take_position(struct findings *findings, struct text line, struct text *ret_file, uint64_t *ret_line)
{
    const char *colon = memchr(line.at, ':', line.size), *end = line.at + line.size;
    uint64_t number = 0;
    if (!colon || colon == line.at || memmem(line.at, (size_t)(colon - line.at), INVENTED, INVENTED_SIZE))
        return false;
    const char *at = colon + 1;
    for (; at < end && *at >= '0' && *at <= '9' && number < UINT32_MAX; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    if (number == 0 || number > UINT32_MAX || end - at < 2 || at[0] != ':')
        return false;
    size_t size = (size_t)(colon - line.at);
    *ret_file = keep(findings, line.at, size < LIMIT_NAME ? size : LIMIT_NAME);
    *ret_line = number;
    return true;
}

static void take_line(struct findings *findings, char *at, size_t size)
{
    struct text line = {at, hide_folder(findings, at, size)};
    char shown[512];
    text_show(line, shown, sizeof shown);
    fprintf(findings->log, "%.*s\n", (int)line.size, line.at);
    bool is_error = strstr(shown, "rror:") || strstr(shown, "undefined reference") || strstr(shown, "fatal");
    struct diagnostic *diagnostic = is_error ? place(findings, SEVERITY_ERROR) : NULL;
    if (!diagnostic)
        return;
    *diagnostic = (struct diagnostic){.severity = SEVERITY_ERROR, .text = keep(findings, line.at, line.size)};
    diagnostic->has_line = take_position(findings, line, &diagnostic->file, &diagnostic->line);
}

/* ---- all of it ---- */

/* The elements of an array one by one, so that one that was cut off, or makes no sense, costs only what follows. */
static void take_array(struct findings *findings, char *at, size_t size)
{
    char *end = at + size;
    for (char *c = at; c < end; c++) {
        if ((unsigned char)*c < ' ') /* the compiler quotes source text as it is */
            *c = '?';
    }
    at++;
    while (at < end && *at != ']') {
        json_error_t where;
        json_t *one = json_loadb(at, (size_t)(end - at), JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &where);
        if (!one) {
            fprintf(findings->log, "[fusiond: the rest of the compiler's findings, %zu bytes, cannot be read]\n",
                    (size_t)(end - at));
            return;
        }
        take_finding(findings, one);
        json_decref(one);
        at += where.position;
        at += strspn(at, " ");
        at += at < end && *at == ',';
    }
}

static void take_all(struct findings *findings, char *said, size_t size)
{
    struct text rest = {said, size}, line;
    while (log_next_line(&rest, &line)) {
        char *at = said + (line.at - said);
        bool is_array = line.size > 1 && at[0] == '[' && (at[1] == '{' || at[1] == ']');
        if (is_array)
            take_array(findings, at, line.size);
        else if (line.size > 0)
            take_line(findings, at, line.size);
    }
}

int gcc_diagnostics_parse(char *said, size_t size, const struct gcc_places *places, msgpack_zone *zone,
                          struct diagnostic **ret, size_t *ret_n, char **ret_log, size_t *ret_log_size,
                          struct error *error)
{
    struct findings findings = {.places = places, .zone = zone};
    char *log = NULL;
    size_t log_size = 0;
    findings.list = msgpack_zone_malloc(zone, LIMIT_DIAGNOSTICS * sizeof *findings.list);
    findings.log = open_memstream(&log, &log_size);
    findings.failed = !findings.list || !findings.log;
    if (!findings.failed)
        take_all(&findings, said, size);
    if (findings.log && fclose(findings.log) != 0)
        findings.failed = true;
    if (findings.failed) {
        free(log);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the diagnostics");
    }
    *ret = findings.list;
    *ret_n = findings.n;
    *ret_log = log;
    *ret_log_size = log_size;
    return 0;
}

/* ---- how it ended ---- */

/* What a program says of itself behind its name; the driver of its stages. */
static enum gcc_end end_in(const char *text)
{
    static const struct {
        const char *words;
        enum gcc_end end;
    } ends[] = {
        {"out of memory allocating ", GCC_END_MEMORY},
        {"memory exhausted", GCC_END_MEMORY},
        {"virtual memory exhausted", GCC_END_MEMORY},
        {"fatal error: Killed signal terminated program", GCC_END_KILLED},
        {"fatal error: CPU time limit exceeded signal terminated program", GCC_END_CPU},
        {"internal compiler error: CPU time limit exceeded signal terminated program", GCC_END_CPU},
        /* The compiler explains its own crashes, unless it has no stack left to do so. */
        {"internal compiler error: Segmentation fault signal terminated program", GCC_END_STACK},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (strncmp(text, ends[i].words, strlen(ends[i].words)) == 0)
            return ends[i].end;
    }
    return GCC_END_DONE;
}

enum gcc_end gcc_diagnostics_end(struct text said)
{
    struct text line;
    enum gcc_end end = GCC_END_DONE;
    while (end == GCC_END_DONE && log_next_line(&said, &line)) {
        char start[512];
        snprintf(start, sizeof start, "%.*s", (int)(line.size < sizeof start ? line.size : sizeof start - 1), line.at);
        size_t name = strcspn(start, ":[{ \"");
        if (name > 0 && strncmp(start + name, ": ", 2) == 0)
            end = end_in(start + name + 2);
    }
    return end;
}
