#include "daemon/compiler/gcc_diagnostics.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compiler/compile_log.h"
#include "daemon/compiler/diagnostics.h"

struct findings {
    gcc_folders folders;
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
    for (gcc_folders folder = findings->folders; *folder; folder++) {
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
    if (file)
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

/* A line of the assembler, the linker or the driver. */
static void take_line(struct findings *findings, struct text line)
{
    char shown[512];
    text_show(line, shown, sizeof shown);
    fprintf(findings->log, "%.*s\n", (int)line.size, line.at);
    bool is_error = strstr(shown, "rror:") || strstr(shown, "undefined reference") || strstr(shown, "fatal");
    struct diagnostic *diagnostic = is_error ? place(findings, SEVERITY_ERROR) : NULL;
    if (diagnostic)
        *diagnostic = (struct diagnostic){.severity = SEVERITY_ERROR, .text = keep(findings, line.at, line.size)};
}

static void take_all(struct findings *findings, struct text said)
{
    struct text rest = said, line;
    while (log_next_line(&rest, &line)) {
        json_t *array = line.size && line.at[0] == '[' ? json_loadb(line.at, line.size, 0, NULL) : NULL;
        const json_t *one;
        size_t i;
        if (line.size == 0)
            continue;
        if (json_is_array(array)) {
            json_array_foreach(array, i, one) take_finding(findings, one);
        } else {
            take_line(findings, line);
        }
        json_decref(array);
    }
}

int gcc_diagnostics_parse(struct text said, gcc_folders folders, msgpack_zone *zone, struct diagnostic **ret,
                          size_t *ret_n, char **ret_log, size_t *ret_log_size, struct error *error)
{
    struct findings findings = {.folders = folders, .zone = zone};
    char *log = NULL;
    size_t log_size = 0;
    findings.list = msgpack_zone_malloc(zone, LIMIT_DIAGNOSTICS * sizeof *findings.list);
    findings.log = open_memstream(&log, &log_size);
    findings.failed = !findings.list || !findings.log;
    if (!findings.failed)
        take_all(&findings, said);
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
