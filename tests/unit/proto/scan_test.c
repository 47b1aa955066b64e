/* The look at a frame's bytes before anything is allocated for them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/scan.h"
#include "tests/unit/proto/fill.h"

static void expect_good_bytes(const void *bytes, size_t size)
{
    struct error error = {0};
    cr_assert_eq(scan(bytes, size, &error), 0, "%s", error.text);
    cr_assert_eq(scan_skip(bytes, size), size);
}
#define GOOD(literal) expect_good_bytes(literal, sizeof(literal) - 1)

static void expect_bad_bytes(const void *bytes, size_t size, const char *text)
{
    struct error error = {0};
    cr_assert_eq(scan(bytes, size, &error), -1, "%s", text);
    cr_assert_eq(error.code, STATUS_MALFORMED);
    cr_assert_str_eq(error.text, text);
    cr_assert_eq(scan(bytes, size, NULL), -1);
}
#define BAD(literal, text) expect_bad_bytes(literal, sizeof(literal) - 1, text)

/* Bytes that a test builds up, in a block of exactly their size so that a sanitizer sees a read beyond. */
struct builder {
    uint8_t *at;
    size_t size;
};

static void put(struct builder *builder, const void *bytes, size_t size)
{
    builder->at = realloc(builder->at, builder->size + size + 1);
    cr_assert_not_null(builder->at);
    if (size)
        memcpy(builder->at + builder->size, bytes, size);
    builder->size += size;
}
#define PUT(builder, literal) put(builder, literal, sizeof(literal) - 1)

/* A copy at the end of a block of exactly `size` bytes. */
static uint8_t *exact(const void *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    cr_assert_not_null(copy);
    if (size)
        memcpy(copy, bytes, size);
    return copy;
}

/* The shortest value that begins with each type byte, or how it is refused. */
Test(scan, every_type_byte)
{
    for (unsigned type = 0; type <= 0xff; type++) {
        uint8_t bytes[512] = {(uint8_t)type};
        struct error error = {0};
        size_t size = 1;
        bool good = true;
        if (type >= 0x80 && type <= 0x8f) {
            for (unsigned i = 0; i < (type & 0xf); i++) {
                bytes[size++] = 0xa0;
                bytes[size++] = 0xc0;
            }
        } else if (type >= 0x90 && type <= 0x9f) {
            size += type & 0xf; /* zeros */
        } else if (type >= 0xa0 && type <= 0xbf) {
            size += type & 0x1f;
        } else if (type >= 0xc0 && type <= 0xdf) {
            static const int extra[32] = {0, -1, 0, 0, 1,  2,  4,  -1, -1, -1, 4, 8, 1, 2, 4, 8,
                                          1, 2,  4, 8, -1, -1, -1, -1, -1, 1,  2, 4, 2, 4, 2, 4};
            good = extra[type - 0xc0] >= 0;
            size += good ? (size_t)extra[type - 0xc0] : 0; /* the length 0 */
        }
        uint8_t *copy = exact(bytes, size);
        cr_assert_eq(scan(copy, size, &error), good ? 0 : -1, "%02x: %s", type, error.text);
        cr_assert_eq(scan_skip(copy, size), good ? size : 0, "%02x", type);
        if (!good)
            cr_assert_str_eq(error.text, type == 0xc1 ? "byte 0 of 1: no value begins with this byte"
                                                      : "byte 0 of 1: extension types are not used here");
        free(copy);
        for (size_t cut = 0; good && cut < size; cut++) {
            copy = exact(bytes, cut);
            cr_assert_eq(scan(copy, cut, &error), -1, "%02x cut at %zu", type, cut);
            cr_assert_eq(scan_skip(copy, cut), 0);
            free(copy);
        }
    }
}

Test(scan, scalars_of_every_width)
{
    GOOD("\x00");
    GOOD("\x7f");
    GOOD("\xff");
    GOOD("\xcc\xff");
    GOOD("\xcd\xff\xff");
    GOOD("\xce\xff\xff\xff\xff");
    GOOD("\xcf\xff\xff\xff\xff\xff\xff\xff\xff");
    GOOD("\xd0\x80");
    GOOD("\xd1\x80\x00");
    GOOD("\xd2\x80\x00\x00\x00");
    GOOD("\xd3\x80\x00\x00\x00\x00\x00\x00\x00");
    GOOD("\xca\x7f\xc0\x00\x00");
    GOOD("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00");
}

Test(scan, strings_and_bytes_with_every_length_field)
{
    static const char *const heads[] = {"\xd9\x03", "\xda\x00\x03", "\xdb\x00\x00\x00\x03",
                                        "\xc4\x03", "\xc5\x00\x03", "\xc6\x00\x00\x00\x03"};
    static const size_t sizes[] = {2, 3, 5, 2, 3, 5};
    for (size_t i = 0; i < 6; i++) {
        struct builder builder = {0};
        put(&builder, heads[i], sizes[i]);
        PUT(&builder, "abc");
        expect_good_bytes(builder.at, builder.size);
        uint8_t *cut = exact(builder.at, builder.size - 1);
        cr_assert_eq(scan(cut, builder.size - 1, NULL), -1);
        free(cut);
        free(builder.at);
    }
}

Test(scan, nothing_at_all)
{
    BAD("", "byte 0 of 0: the value is cut off");
}

Test(scan, bytes_after_the_value)
{
    BAD("\xc0\xc0", "byte 1 of 2: bytes follow the message");
    BAD("\x92\x01\x02\x03", "byte 3 of 4: bytes follow the message");
    cr_assert_eq(scan_skip((const uint8_t *)"\x92\x01\x02\x03", 4), 3);
}

Test(scan, F12_lying_lengths)
{
    BAD("\xdd\xff\xff\xff\xff", "byte 0 of 5: an array has more items than the frame has bytes");
    BAD("\xdc\xff\xff", "byte 0 of 3: an array has more items than the frame has bytes");
    BAD("\x91", "byte 0 of 1: an array has more items than the frame has bytes");
    BAD("\xdf\xff\xff\xff\xff", "byte 0 of 5: a map has too many keys");
    BAD("\xde\x00\x60", "byte 0 of 3: a map has more keys than the frame has bytes");
    BAD("\x81\xa5kx", "byte 1 of 4: a string is longer than the rest of the frame");
    BAD("\xdb\xff\xff\xff\xffx", "byte 0 of 6: a string is longer than the rest of the frame");
    BAD("\xc6\xff\xff\xff\xffx", "byte 0 of 6: a string is longer than the rest of the frame");
    BAD("\xa2x", "byte 0 of 2: a string is longer than the rest of the frame");
    BAD("\x92\xa1", "byte 0 of 2: an array has more items than the frame has bytes");
}

/* Array headers that each claim all that follows: the sum of the claims grows with the square of the bytes. */
Test(scan, F12_chained_array_headers)
{
    struct builder builder = {0};
    struct error error = {0};
    for (int i = 0; i < 30000; i++)
        PUT(&builder, "\xdc\xff\xff");
    cr_assert_eq(scan(builder.at, builder.size, &error), -1);
    cr_assert_str_eq(error.text, "byte 36 of 90000: values are nested too deeply");
    free(builder.at);
}

Test(scan, F12_nesting_of_100000)
{
    struct builder builder = {0};
    for (int i = 0; i < 100000; i++)
        PUT(&builder, "\x91");
    PUT(&builder, "\xc0");
    expect_bad_bytes(builder.at, builder.size, "byte 12 of 100001: values are nested too deeply");
    free(builder.at);
}

Test(scan, F12_depth_at_the_limit_and_one_more)
{
    for (int map = 0; map <= 1; map++) {
        struct builder builder = {0};
        for (unsigned i = 0; i < LIMIT_DEPTH - 1; i++)
            if (map)
                PUT(&builder, "\x81\xa1k");
            else
                PUT(&builder, "\x91");
        struct builder deeper = {0};
        put(&deeper, builder.at, builder.size);
        PUT(&builder, "\x90");
        expect_good_bytes(builder.at, builder.size);
        PUT(&deeper, "\x91\x90");
        cr_assert_eq(scan(deeper.at, deeper.size, NULL), -1);
        free(builder.at);
        free(deeper.at);
    }
}

/* The level of a container that has ended is free again. */
Test(scan, many_containers_beside_each_other)
{
    struct builder builder = {0};
    PUT(&builder, "\xdc\x03\xe8");
    for (int i = 0; i < 1000; i++)
        PUT(&builder, "\x92\x80\x91\x90");
    expect_good_bytes(builder.at, builder.size);
    free(builder.at);
}

Test(scan, F12_values_at_the_limit_and_one_more)
{
    uint8_t *bytes = calloc(1, 5 + LIMIT_VALUES);
    cr_assert_not_null(bytes);
    bytes[0] = 0xdd;
    for (unsigned more = 0; more <= 1; more++) {
        unsigned n = LIMIT_VALUES - 1 + more; /* the array itself is one */
        for (int i = 0; i < 4; i++)
            bytes[1 + i] = (uint8_t)(n >> (24 - 8 * i));
        if (more)
            expect_bad_bytes(bytes, 5 + n, "byte 131076 of 131077: the frame holds too many values");
        else
            expect_good_bytes(bytes, 5 + n);
    }
    free(bytes);
}

Test(scan, keys_of_a_map_at_the_limit_and_one_more)
{
    for (unsigned more = 0; more <= 1; more++) {
        struct builder builder = {0};
        uint8_t head[3] = {0xde, 0, (uint8_t)(LIMIT_MAP + more)};
        put(&builder, head, sizeof head);
        for (unsigned i = 0; i < LIMIT_MAP + more; i++)
            PUT(&builder, "\xa0\xc0");
        if (more)
            expect_bad_bytes(builder.at, builder.size, "byte 0 of 197: a map has too many keys");
        else
            expect_good_bytes(builder.at, builder.size);
        free(builder.at);
    }
}

Test(scan, a_key_at_the_limit_and_one_more)
{
    for (unsigned more = 0; more <= 1; more++) {
        struct builder builder = {0};
        uint8_t head[3] = {0x81, 0xd9, (uint8_t)(LIMIT_KEY + more)};
        put(&builder, head, sizeof head);
        for (unsigned i = 0; i < LIMIT_KEY + more; i++)
            PUT(&builder, "k");
        PUT(&builder, "\xc0");
        if (more)
            expect_bad_bytes(builder.at, builder.size, "byte 1 of 69: a map's key is too long");
        else
            expect_good_bytes(builder.at, builder.size);
        free(builder.at);
    }
}

Test(scan, keys_must_be_strings)
{
    BAD("\x81\x01\x02", "byte 1 of 3: a map's key must be a string");
    BAD("\x81\xc0\x02", "byte 1 of 3: a map's key must be a string");
    BAD("\x81\xc4\x01k\x02", "byte 1 of 5: a map's key must be a string");
    BAD("\x81\x80\x02", "byte 1 of 3: a map's key must be a string");
    BAD("\x82\xa1k\x91\x01\x05\x06", "byte 5 of 7: a map's key must be a string");
    GOOD("\x82\xa1k\x91\x01\xa1l\x81\xa1m\xa1n");
}

Test(scan, extension_types_are_refused)
{
    BAD("\xd4\x01\x02", "byte 0 of 3: extension types are not used here");
    BAD("\xc7\x01\x05x", "byte 0 of 4: extension types are not used here");
    BAD("\x92\x01\xd6\xff\x00\x00\x00\x00", "byte 2 of 8: extension types are not used here");
    BAD("\x91\xc1", "byte 1 of 2: no value begins with this byte");
}

/* Every message type, filled, cut at every byte. */
Test(scan, F13_truncation_at_every_byte_of_every_message, .timeout = 60)
{
    for (size_t i = 0; message_types[i]; i++) {
        msgpack_zone zone;
        msgpack_sbuffer out;
        msgpack_zone_init(&zone, 4096);
        msgpack_sbuffer_init(&out);
        void *message = msgpack_zone_malloc(&zone, message_types[i]->size + 1);
        fill_message(message_types[i], message, &zone, 0);
        message_pack(message_types[i], message, &out);
        expect_good_bytes(out.data, out.size);
        for (size_t cut = 0; cut < out.size; cut++) {
            uint8_t *copy = exact(out.data, cut);
            cr_assert_eq(scan(copy, cut, NULL), -1, "%s cut at %zu", message_types[i]->name, cut);
            free(copy);
        }
        msgpack_sbuffer_destroy(&out);
        msgpack_zone_destroy(&zone);
    }
}

/* What the table describes must fit in what scan() lets through. */
static unsigned depth_of(const struct message_type *type)
{
    unsigned deepest = 1;
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct message_field *field = &type->fields[i];
        unsigned depth = 1;
        if (field->kind == FIELD_TEXTS || field->kind == FIELD_INTEGERS)
            depth = 2;
        else if (field->kind == FIELD_NESTED)
            depth = 1 + depth_of(field->type);
        else if (field->kind == FIELD_LIST)
            depth = 2 + depth_of(field->type);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

Test(scan, limits_leave_room_for_every_message)
{
    for (size_t i = 0; message_types[i]; i++) {
        const struct message_type *type = message_types[i];
        cr_assert_leq(1 + depth_of(type), LIMIT_DEPTH, "%s in its envelope", type->name);
        cr_assert_leq(type->n_fields, LIMIT_MAP, "%s", type->name);
        for (size_t j = 0; j < type->n_fields; j++)
            cr_assert_leq(strlen(type->fields[j].name), LIMIT_KEY, "%s", type->fields[j].name);
    }
    cr_assert_leq(6 * LIMIT_HEADERS, LIMIT_VALUES, "a list of headers alone");
}
