#include "daemon/resolve/ptx_names.h"

#include <stdio.h>
#include <string.h>

#include "daemon/resolve/zone.h"

#define NUMBERS_PER_LINE 32

/* The text on its way. */
struct ptx {
    struct entry_names names;
    msgpack_zone *zone;
    char *to;
};

static struct text next_line(const char *at, const char *end)
{
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return (struct text){at, stop ? (size_t)(stop - at) + 1 : (size_t)(end - at)};
}

static bool begins(struct text line, const char *with)
{
    while (line.size && (*line.at == ' ' || *line.at == '\t'))
        line.at++, line.size--;
    return line.size >= strlen(with) && memcmp(line.at, with, strlen(with)) == 0;
}

static const char *put_lines(struct ptx *ptx, const char *at, const char *end)
{
    ptx->to += entry_names_write(ptx->names, (struct text){at, (size_t)(end - at)}, ptx->to);
    return end;
}

/* The numbers of a line of bytes, 0 to 255. SIZE_MAX when it has anything else. */
static size_t read_numbers(struct text line, char *ret)
{
    size_t n = 0;
    const char *end = line.at + line.size, *at = memchr(line.at, '8', line.size);
    for (at = at ? at + 1 : end; at < end; at++) {
        unsigned value = 0, digits = 0;
        for (; at < end && *at >= '0' && *at <= '9' && digits < 4; at++, digits++)
            value = value * 10 + (unsigned)(*at - '0');
        if (digits && value <= 255)
            ret[n++] = (char)value;
        else if (digits)
            return SIZE_MAX;
        if (at < end && !strchr(" \t\r\n,", *at))
            return SIZE_MAX;
    }
    return n;
}

static void write_numbers(struct ptx *ptx, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *before = i % NUMBERS_PER_LINE ? "," : i ? "\n.b8 " : ".b8 ";
        ptx->to += snprintf(ptx->to, sizeof "\n.b8 255", "%s%u", before, (unsigned)(unsigned char)bytes[i]);
    }
    *ptx->to++ = '\n';
}

/* The lines of bytes from `at` on, which are one string with its NUL when there is a placeholder in it. Returns behind
 * them; NULL when memory ran out. */
static const char *put_bytes(struct ptx *ptx, const char *at, const char *end, struct error *error)
{
    const char *behind = at;
    size_t n = 0, index;
    bool plain = true;
    struct text line;
    while (behind < end && begins(line = next_line(behind, end), ".b8"))
        behind += line.size;
    char *bytes = zone_array(ptx->zone, (size_t)(behind - at), 1, error);
    if (!bytes)
        return NULL;
    for (const char *from = at; from < behind && plain; from += line.size) {
        line = next_line(from, behind);
        size_t more = read_numbers(line, bytes + n);
        plain = more != SIZE_MAX;
        n += plain ? more : 0;
    }
    if (!plain || n == 0 || memchr(bytes, '\0', n) != bytes + n - 1 || !placeholder_find(bytes, bytes + n, &index)) {
        memcpy(ptx->to, at, (size_t)(behind - at));
        ptx->to += behind - at;
        return behind;
    }
    write_numbers(ptx, bytes, entry_names_write(ptx->names, (struct text){bytes, n}, bytes));
    return behind;
}

static const char *put_section(struct ptx *ptx, const char *at, const char *end, struct error *error)
{
    while (at && at < end) {
        struct text line = next_line(at, end);
        if (begins(line, "}"))
            return at;
        at = begins(line, ".b8") ? put_bytes(ptx, at, end, error) : put_lines(ptx, at, at + line.size);
    }
    return at;
}

int ptx_names_put(struct entry_names names, struct bytes ptx, msgpack_zone *zone, struct bytes *ret,
                  struct error *error)
{
    static const char head[] = ".debug_str";
    const char *at = (const char *)ptx.at, *end = at + ptx.size;
    /* A number has up to three digits, with a comma where it had one before, and lines are of another length. */
    const char *section = memmem(at, ptx.size, head, sizeof head - 1);
    char *copy = zone_array(zone, ptx.size + (section ? 2 * (size_t)(end - section) : 0) + 8, 1, error);
    struct ptx writer = {names, zone, copy};
    if (!copy)
        return -1;
    while (at && section) {
        at = put_lines(&writer, at, section + sizeof head - 1);
        at = put_section(&writer, at, end, error);
        section = at ? memmem(at, (size_t)(end - at), head, sizeof head - 1) : NULL;
    }
    if (!at)
        return -1;
    put_lines(&writer, at, end);
    *ret = (struct bytes){(const uint8_t *)copy, (size_t)(writer.to - copy)};
    return 0;
}
