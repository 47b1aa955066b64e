#include "daemon/compiler/compile_log.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool log_next_line(struct text *rest, struct text *ret_line)
{
    if (rest->size == 0)
        return false;
    const char *end = memchr(rest->at, '\n', rest->size);
    size_t size = end ? (size_t)(end - rest->at) : rest->size;
    *ret_line = (struct text){rest->at, size};
    size_t step = size + (end != NULL);
    rest->at += step;
    rest->size -= step;
    return true;
}

/* Bytes of the UTF-8 character at `at`; 0 when there is none. Overlong forms and surrogates are none. */
static size_t character(const uint8_t *at, size_t size)
{
    size_t n = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > size)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
        (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return n;
}

void log_make_utf8(char *at, size_t size)
{
    uint8_t *bytes = (uint8_t *)at;
    for (size_t i = 0; i < size;) {
        size_t n = character(bytes + i, size - i);
        if (n == 0)
            bytes[i] = '?';
        i += n ? n : 1;
    }
}

size_t log_rename(char *at, size_t size, struct text name, const char *by)
{
    const char *rest = at, *end = at + size;
    size_t by_size = strlen(by);
    char *to = at;
    for (const char *found; name.size >= by_size && name.size > 0 &&
                            (found = memmem(rest, (size_t)(end - rest), name.at, name.size)) != NULL;) {
        size_t before = (size_t)(found - rest);
        memmove(to, rest, before);
        memcpy(to + before, by, by_size);
        to += before + by_size;
        rest = found + name.size;
    }
    memmove(to, rest, (size_t)(end - rest));
    return (size_t)(to - at) + (size_t)(end - rest);
}

size_t log_cut_size(struct text text, size_t limit)
{
    if (text.size <= limit)
        return text.size;
    while (limit > 0 && ((uint8_t)text.at[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

const char *log_bound(struct text log, msgpack_zone *zone, size_t *ret_size, bool *ret_cut)
{
    enum { MARKER = 128 };
    size_t size = log.size;
    char marker[MARKER] = "";
    if (log.size > LIMIT_LOG) {
        size = log_cut_size(log, LIMIT_LOG - MARKER);
        /* End with a whole line, unless that line is most of the log. */
        const char *end = memrchr(log.at, '\n', size);
        if (end != NULL && (size_t)(end - log.at) > LIMIT_LOG / 2)
            size = (size_t)(end - log.at);
        snprintf(marker, sizeof marker, "\n[fusiond: log cut here, %zu of %zu bytes left out]\n", log.size - size,
                 log.size);
    }
    size_t marker_size = strlen(marker);
    char *ret = msgpack_zone_malloc(zone, size + marker_size + 1);
    if (ret == NULL)
        return NULL;
    if (size > 0)
        memcpy(ret, log.at, size);
    memcpy(ret + size, marker, marker_size + 1);
    *ret_size = size + marker_size;
    *ret_cut = marker_size > 0;
    return ret;
}
