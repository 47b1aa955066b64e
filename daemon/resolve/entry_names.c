#include "daemon/resolve/entry_names.h"

#include <stdio.h>
#include <string.h>

#include "daemon/resolve/zone.h"

#define STEM_SIZE (sizeof PLACEHOLDER_STEM - 1)
#define NUMBERED_SIZE (STEM_SIZE + 2)

/* ---- placeholders ---- */

void placeholder_write(size_t index, char ret[PLACEHOLDER_SIZE + 1])
{
    snprintf(ret, PLACEHOLDER_SIZE + 1, PLACEHOLDER_STEM "%02u" PLACEHOLDER_TAIL, (unsigned)(index % 100));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* How much of a placeholder stands at `at`; its number, once both digits do. */
static size_t placeholder_match(const char *at, const char *end, size_t *ret_index)
{
    size_t room = (size_t)(end - at), n = 0;
    while (n < room && n < STEM_SIZE && at[n] == PLACEHOLDER_STEM[n])
        n++;
    while (n < room && n >= STEM_SIZE && n < NUMBERED_SIZE && is_digit(at[n]))
        n++;
    if (n < NUMBERED_SIZE)
        return n;
    *ret_index = (size_t)(at[STEM_SIZE] - '0') * 10 + (size_t)(at[STEM_SIZE + 1] - '0');
    while (n < room && n < PLACEHOLDER_SIZE && at[n] == PLACEHOLDER_TAIL[n - NUMBERED_SIZE])
        n++;
    return n;
}

const char *placeholder_find(const char *at, const char *end, size_t *ret_index)
{
    for (; at < end && (at = memmem(at, (size_t)(end - at), PLACEHOLDER_STEM, STEM_SIZE)); at += STEM_SIZE)
        if (placeholder_match(at, end, ret_index) == PLACEHOLDER_SIZE)
            return at;
    return NULL;
}

/* ---- lists ---- */

struct text entry_name(struct entry_names names, size_t index)
{
    const char *at = names.at, *end = at + names.size;
    for (; at < end; at += strlen(at) + 1)
        if (index-- == 0)
            return text_of(at);
    return (struct text){0};
}

size_t entry_names_count(struct entry_names names)
{
    size_t n = 0;
    for (size_t i = 0; i < names.size; i++)
        n += names.at[i] == '\0';
    return n;
}

bool entry_names_equal(struct entry_names a, struct entry_names b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

int entry_names_pack(const struct text *texts, size_t n, msgpack_zone *zone, struct entry_names *ret,
                     struct error *error)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += texts[i].size + 1;
    char *bytes = zone_array(zone, size, 1, error), *at = bytes;
    if (!bytes)
        return -1;
    for (size_t i = 0; i < n; i++) {
        memcpy(at, texts[i].at, texts[i].size);
        at += texts[i].size + 1;
    }
    *ret = (struct entry_names){bytes, size};
    return 0;
}

int entry_names_unpack(struct entry_names names, msgpack_zone *zone, struct text **ret, size_t *ret_n,
                       struct error *error)
{
    size_t n = entry_names_count(names);
    struct text *texts = zone_array(zone, n, sizeof *texts, error);
    if (!texts)
        return -1;
    for (size_t i = 0; i < n; i++)
        texts[i] = entry_name(names, i);
    *ret = texts;
    *ret_n = n;
    return 0;
}

struct text entry_identifier(struct text entry)
{
    const char *end = entry.at + entry.size;
    const char *open = memchr(entry.at, '<', entry.size);
    /* "a::f<1>::g" ends with a name, too. */
    if (open && end[-1] == '>')
        end = open;
    const char *colon = memrchr(entry.at, ':', (size_t)(end - entry.at));
    const char *at = colon ? colon + 1 : entry.at;
    return (struct text){at, (size_t)(end - at)};
}

/* ---- putting names into texts ---- */

/* A text while it is copied. It never grows: no name is longer than a placeholder. */
struct writer {
    struct entry_names names;
    char *at;
};

static void write_bytes(struct writer *writer, const char *from, size_t size)
{
    memmove(writer->at, from, size); /* a line may be written over itself */
    writer->at += size;
}

/* The length of a placeholder in a mangled name, right in front of it. */
static bool is_mangled(const char *line, const char *placeholder)
{
    return placeholder - line >= 2 && placeholder[-2] == '6' && placeholder[-1] == '4';
}

/* What a line's placeholder becomes. `size` is how many bytes of it stand there: fewer than all at the end of a text
 * that was cut. Moves *ret_from to where the replaced bytes begin. */
static size_t name_for(struct entry_names names, const char *line, const char *placeholder, size_t size, size_t index,
                       const char **ret_from, char ret[PLACEHOLDER_SIZE + 4])
{
    struct text name = entry_name(names, index);
    *ret_from = placeholder;
    if (!name.at) /* nobody's: it stays */
        return (size_t)snprintf(ret, PLACEHOLDER_SIZE + 4, "%.*s", (int)size, placeholder);
    size_t shown = name.size < size ? name.size : size;
    if (!is_mangled(line, placeholder))
        return (size_t)snprintf(ret, PLACEHOLDER_SIZE + 4, "%.*s", (int)shown, name.at);
    *ret_from -= 2;
    return (size_t)snprintf(ret, PLACEHOLDER_SIZE + 4, "%zu%.*s", name.size, (int)shown, name.at);
}

/* The placeholder, or the beginning of one at the end of everything, that comes next in the line. */
static const char *next_in_line(const char *at, const char *line_end, const char *text_end, size_t *ret_size,
                                size_t *ret_index)
{
    const char *found = placeholder_find(at, line_end, ret_index);
    *ret_size = PLACEHOLDER_SIZE;
    if (found || line_end != text_end)
        return found;
    const char *from = line_end - at < (ptrdiff_t)PLACEHOLDER_SIZE ? at : line_end - PLACEHOLDER_SIZE + 1;
    for (; line_end - from >= (ptrdiff_t)NUMBERED_SIZE; from++) {
        *ret_size = (size_t)(line_end - from);
        if (placeholder_match(from, line_end, ret_index) == *ret_size)
            return from;
    }
    return NULL;
}

/* Copy a line; where column `column` of it comes to stand is put into *ret_column. */
static void write_line(struct writer *writer, struct text line, const char *text_end, size_t column, size_t *ret_column)
{
    const char *at = line.at, *end = line.at + line.size, *placeholder, *from;
    const char *start = writer->at;
    char name[PLACEHOLDER_SIZE + 4];
    size_t size, index;
    *ret_column = SIZE_MAX;
    while ((placeholder = next_in_line(at, end, text_end, &size, &index))) {
        size_t name_size = name_for(writer->names, line.at, placeholder, size, index, &from, name);
        size_t begins = (size_t)(from - line.at), ends = (size_t)(placeholder - line.at) + size;
        if (*ret_column == SIZE_MAX && column < begins)
            *ret_column = (size_t)(writer->at - start) + column - (size_t)(at - line.at);
        write_bytes(writer, at, (size_t)(from - at));
        if (*ret_column == SIZE_MAX && column < ends) {
            size_t within = column - begins;
            *ret_column = (size_t)(writer->at - start) + (within < name_size ? within : name_size - 1);
        }
        write_bytes(writer, name, name_size);
        at = line.at + ends;
    }
    if (*ret_column == SIZE_MAX)
        *ret_column = (size_t)(writer->at - start) + column - (size_t)(at - line.at);
    write_bytes(writer, at, (size_t)(end - at));
}

size_t entry_names_write(struct entry_names names, struct text line, char *to)
{
    struct writer writer = {names, to};
    size_t ignored;
    write_line(&writer, line, NULL, 0, &ignored);
    return (size_t)(writer.at - to);
}

/* Whether a line has a caret and nothing else. */
static bool read_caret(struct text line, size_t *ret_column)
{
    size_t n = 0;
    while (n < line.size && (line.at[n] == ' ' || line.at[n] == '\t'))
        n++;
    if (n + 1 != line.size || line.at[n] != '^')
        return false;
    *ret_column = n;
    return true;
}

static struct text next_line(const char *at, const char *end)
{
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return (struct text){at, (size_t)((stop ? stop : end) - at)};
}

/* Whether there may be anything to replace. */
static bool may_hold(struct text text)
{
    return text.size && memmem(text.at, text.size, PLACEHOLDER_STEM, STEM_SIZE);
}

/* As entry_names_put(); and where the first caret comes to stand, or SIZE_MAX without one. */
static int put(struct entry_names names, struct text text, msgpack_zone *zone, struct text *ret, size_t *ret_caret,
               struct error *error)
{
    *ret_caret = SIZE_MAX;
    if (names.size == 0 || !may_hold(text)) {
        *ret = text;
        return 0;
    }
    char *copy = zone_array(zone, text.size + 1, 1, error),
         *scratch = copy ? zone_array(zone, text.size + 1, 1, error) : NULL;
    if (!scratch)
        return -1;
    struct writer writer = {names, copy};
    struct text above = {0};
    const char *end = text.at + text.size;
    for (const char *at = text.at; at < end;) {
        struct text line = next_line(at, end);
        size_t column, moved;
        if (above.at && read_caret(line, &column) && column < above.size) {
            struct writer nowhere = {names, scratch};
            write_line(&nowhere, above, end, column, &moved);
            write_bytes(&writer, line.at, moved < column ? moved : column);
            *writer.at++ = '^';
            if (*ret_caret == SIZE_MAX)
                *ret_caret = moved;
        } else {
            write_line(&writer, line, end, 0, &moved);
        }
        above = line;
        at = line.at + line.size;
        if (at < end)
            *writer.at++ = *at++;
    }
    *writer.at = '\0';
    *ret = (struct text){copy, (size_t)(writer.at - copy)};
    return 0;
}

int entry_names_put(struct entry_names names, struct text text, msgpack_zone *zone, struct text *ret,
                    struct error *error)
{
    size_t ignored;
    return put(names, text, zone, ret, &ignored, error);
}

int entry_names_put_diagnostics(struct entry_names names, struct diagnostic *diagnostics, size_t n, msgpack_zone *zone,
                                struct error *error)
{
    for (size_t i = 0; i < n; i++) {
        size_t caret;
        if (put(names, diagnostics[i].text, zone, &diagnostics[i].text, &caret, error) < 0)
            return -1;
        /* The quoted line is indented by two, and columns count from 1. */
        if (diagnostics[i].has_column && caret != SIZE_MAX && caret > 0)
            diagnostics[i].column = caret - 1;
    }
    return 0;
}
