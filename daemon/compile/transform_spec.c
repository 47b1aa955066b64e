#include "daemon/compile/transform_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

static const char *const points[] = {[TRANSFORM_CODE] = "code", [TRANSFORM_SOURCE] = "source"};

const char *transform_point_word(enum transform_point point)
{
    return points[point];
}

static int refuse(const char *text, const char *why, struct error *error)
{
    return error_set(error, STATUS_INVALID_FIELD, "\"%.200s\" %s", text, why);
}

static bool is_name(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return size > 0 && name[size] == '\0' && size < TRANSFORM_NAME;
}

/* "NAME:POINT[:MS]", or without the point */
static int parse_head(const char *text, char *head, bool pointed, struct transform_spec *ret, struct error *error)
{
    char *rest = head, *end;
    const char *name = strsep(&rest, ":"), *point = pointed ? strsep(&rest, ":") : "code", *ms = strsep(&rest, ":");
    if (!is_name(name) || rest)
        return refuse(text, "does not begin with a name of letters, digits, '.', '_' and '-'", error);
    snprintf(ret->name, sizeof ret->name, "%s", name);
    if (point && strcmp(point, points[TRANSFORM_CODE]) == 0)
        ret->point = TRANSFORM_CODE;
    else if (point && strcmp(point, points[TRANSFORM_SOURCE]) == 0)
        ret->point = TRANSFORM_SOURCE;
    else
        return refuse(text, "has a point that is neither code nor source", error);
    ret->timeout_ms = TRANSFORM_MS;
    if (!ms)
        return 0;
    unsigned long long number = strtoull(ms, &end, 10);
    if (*ms < '0' || *ms > '9' || *end || number < 1 || number > LIMIT_DEADLINE_MS)
        return refuse(text, "has a time that is not 1 to 3600000 ms", error);
    ret->timeout_ms = number;
    return 0;
}

static int parse(const char *text, bool pointed, struct transform_spec *ret, struct error *error)
{
    size_t n = 0;
    *ret = (struct transform_spec){0};
    if (strlen(text) >= sizeof ret->words)
        return refuse(text, "is too long", error);
    snprintf(ret->words, sizeof ret->words, "%s", text);
    char *rest = ret->words, *head = strsep(&rest, " ");
    if (parse_head(text, head, pointed, ret, error) < 0)
        return -1;
    for (char *word; (word = strsep(&rest, " "));) {
        if (*word == '\0')
            continue;
        if (n > FILTER_ARGS)
            return refuse(text, "has too many arguments", error);
        ret->argv[n++] = word;
    }
    if (n == 0 || ret->argv[0][0] != '/')
        return refuse(text, "names no program by its absolute path", error);
    return 0;
}

int transform_spec_parse(const char *text, struct transform_spec *ret, struct error *error)
{
    if (parse(text, true, ret, error) == 0)
        return 0;
    return error_wrap(error, "--transform (NAME:POINT[:MS] PROGRAM [ARGUMENT]...)");
}

int observer_spec_parse(const char *text, struct transform_spec *ret, struct error *error)
{
    if (parse(text, false, ret, error) == 0)
        return 0;
    return error_wrap(error, "--observe (NAME[:MS] PROGRAM [ARGUMENT]...)");
}
