#include "proto/scan.h"

#include <stdbool.h>

#include "proto/limits.h"

/* What is still open while walking the bytes: how many values a container waits for, and whether it is a map. */
struct level {
    uint64_t left;
    bool map;
};

struct cursor {
    const uint8_t *at;
    size_t size;
    size_t offset;
    struct error *error;
};

static int refuse(const struct cursor *cursor, const char *what)
{
    return error_set(cursor->error, STATUS_MALFORMED, "byte %zu of %zu: %s", cursor->offset, cursor->size, what);
}

/* Read `n` bytes of a big-endian number; the caller has checked that they are there. */
static uint64_t big_endian(const uint8_t *at, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value = value << 8 | at[i];
    return value;
}

enum shape { SHAPE_SCALAR, SHAPE_STRING, SHAPE_BYTES, SHAPE_ARRAY, SHAPE_MAP, SHAPE_REFUSED };

struct head {
    enum shape shape;
    size_t extra;   /* bytes of the length field, or of a scalar's value */
    uint64_t count; /* when the type byte itself holds it */
};

/* What a type byte announces. */
static struct head head_of(uint8_t type)
{
    if (type <= 0x7f || type >= 0xe0)
        return (struct head){SHAPE_SCALAR, 0, 0};
    if (type <= 0x8f)
        return (struct head){SHAPE_MAP, 0, type & 0x0f};
    if (type <= 0x9f)
        return (struct head){SHAPE_ARRAY, 0, type & 0x0f};
    if (type <= 0xbf)
        return (struct head){SHAPE_STRING, 0, type & 0x1f};
    switch (type) {
    case 0xc0: /* nil */
    case 0xc2: /* false */
    case 0xc3: /* true */
        return (struct head){SHAPE_SCALAR, 0, 0};
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return (struct head){SHAPE_BYTES, (size_t)1 << (type - 0xc4), 0};
    case 0xca: /* float 32 */
        return (struct head){SHAPE_SCALAR, 4, 0};
    case 0xcb: /* float 64 */
        return (struct head){SHAPE_SCALAR, 8, 0};
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return (struct head){SHAPE_SCALAR, (size_t)1 << (type - 0xcc), 0};
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return (struct head){SHAPE_SCALAR, (size_t)1 << (type - 0xd0), 0};
    case 0xd9:
    case 0xda:
    case 0xdb:
        return (struct head){SHAPE_STRING, (size_t)1 << (type - 0xd9), 0};
    case 0xdc:
    case 0xdd:
        return (struct head){SHAPE_ARRAY, (size_t)2 << (type - 0xdc), 0};
    case 0xde:
    case 0xdf:
        return (struct head){SHAPE_MAP, (size_t)2 << (type - 0xde), 0};
    default: /* 0xc1, which the format never uses, and the extension types */
        return (struct head){SHAPE_REFUSED, 0, 0};
    }
}

/* Step over one value's head and, for a scalar or string, its content. */
static int step(struct cursor *cursor, bool key, struct head *ret_head)
{
    if (cursor->offset >= cursor->size)
        return refuse(cursor, "the value is cut off");
    struct head head = head_of(cursor->at[cursor->offset]);
    if (head.shape == SHAPE_REFUSED)
        return refuse(cursor, cursor->at[cursor->offset] == 0xc1 ? "no value begins with this byte"
                                                                 : "extension types are not used here");
    if (key && head.shape != SHAPE_STRING)
        return refuse(cursor, "a map's key must be a string");
    size_t left = cursor->size - cursor->offset - 1;
    if (head.extra > left)
        return refuse(cursor, "the value is cut off");
    const uint8_t *content = cursor->at + cursor->offset + 1;
    left -= head.extra;
    if (head.shape != SHAPE_SCALAR && head.extra)
        head.count = big_endian(content, head.extra);
    switch (head.shape) {
    case SHAPE_STRING:
    case SHAPE_BYTES:
        if (head.count > left)
            return refuse(cursor, "a string is longer than the rest of the frame");
        if (key && head.count > LIMIT_KEY)
            return refuse(cursor, "a map's key is too long");
        cursor->offset += 1 + head.extra + (size_t)head.count;
        break;
    case SHAPE_ARRAY:
        if (head.count > left)
            return refuse(cursor, "an array has more items than the frame has bytes");
        cursor->offset += 1 + head.extra;
        break;
    case SHAPE_MAP:
        if (head.count > LIMIT_MAP)
            return refuse(cursor, "a map has too many keys");
        if (2 * head.count > left)
            return refuse(cursor, "a map has more keys than the frame has bytes");
        cursor->offset += 1 + head.extra;
        break;
    default:
        cursor->offset += 1 + head.extra;
    }
    *ret_head = head;
    return 0;
}

/* Walk over one value and everything in it. */
static int walk(struct cursor *cursor)
{
    struct level levels[LIMIT_DEPTH];
    size_t depth = 0;

    for (size_t values = 1;; values++) {
        struct head head = {SHAPE_SCALAR, 0, 0};
        bool key = depth && levels[depth - 1].map && levels[depth - 1].left % 2 == 0;
        size_t start = cursor->offset;
        if (values > LIMIT_VALUES)
            return refuse(cursor, "the frame holds too many values");
        if (step(cursor, key, &head) < 0)
            return -1;
        if (depth)
            levels[depth - 1].left--;
        if (head.shape == SHAPE_ARRAY || head.shape == SHAPE_MAP) {
            if (depth == LIMIT_DEPTH) {
                cursor->offset = start;
                return refuse(cursor, "values are nested too deeply");
            }
            bool map = head.shape == SHAPE_MAP;
            levels[depth++] = (struct level){map ? 2 * head.count : head.count, map};
        }
        while (depth && levels[depth - 1].left == 0)
            depth--;
        if (!depth)
            return 0;
    }
}

int scan(const uint8_t *bytes, size_t size, struct error *error)
{
    struct cursor cursor = {bytes, size, 0, error};
    if (walk(&cursor) < 0)
        return -1;
    if (cursor.offset != size)
        return refuse(&cursor, "bytes follow the message");
    return 0;
}

size_t scan_skip(const uint8_t *bytes, size_t size)
{
    struct cursor cursor = {bytes, size, 0, NULL};
    return walk(&cursor) < 0 ? 0 : cursor.offset;
}
