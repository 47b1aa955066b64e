/* Decoding, encoding, comparing and printing of messages. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "proto/envelope.h"
#include "proto/message.h"
#include "proto/scan.h"
#include "tests/unit/proto/fill.h"

Test(message, every_message_survives_decode_encode_decode)
{
    for (size_t i = 0; message_types[i]; i++) {
        const struct message_type *type = message_types[i];
        msgpack_zone zone;
        msgpack_sbuffer first, second;
        struct error error = {0};
        msgpack_zone_init(&zone, 4096);
        msgpack_sbuffer_init(&first);
        msgpack_sbuffer_init(&second);
        char *message = msgpack_zone_malloc(&zone, type->size + 1);
        char *copy = msgpack_zone_malloc(&zone, type->size + 1);
        char *other = msgpack_zone_malloc(&zone, type->size + 1);
        fill_message(type, message, &zone, 0);
        message_pack(type, message, &first);
        cr_assert_eq(scan((const uint8_t *)first.data, first.size, &error), 0, "%s: %s", type->name, error.text);
        cr_assert_eq(message_parse(type, (const uint8_t *)first.data, first.size, &zone, copy, &error), 0, "%s: %s",
                     type->name, error.text);
        cr_assert(message_equal(type, message, copy), "%s", type->name);
        message_pack(type, copy, &second);
        cr_assert_eq(first.size, second.size, "%s", type->name);
        cr_assert_eq(memcmp(first.data, second.data, first.size), 0, "%s", type->name);
        if (type->n_fields) {
            memset(other, 0, type->size);
            cr_assert_not(message_equal(type, message, other), "%s", type->name);
        }
        msgpack_sbuffer_destroy(&first);
        msgpack_sbuffer_destroy(&second);
        msgpack_zone_destroy(&zone);
    }
}

/* Decode a compile_request of which only `packed` is known to be odd, and expect one error text. */
static void expect_error(const struct message_type *type, const char *packed, size_t size, enum status code,
                         const char *text)
{
    msgpack_zone zone;
    struct error error = {0};
    char message[4096];
    cr_assert_lt(type->size, sizeof message);
    msgpack_zone_init(&zone, 1024);
    cr_assert_eq(scan((const uint8_t *)packed, size, &error), 0, "%s", error.text);
    cr_assert_eq(message_parse(type, (const uint8_t *)packed, size, &zone, message, &error), -1);
    cr_assert_eq(error.code, code, "%s: %s", status_name(error.code), error.text);
    cr_assert_str_eq(error.text, text);
    msgpack_zone_destroy(&zone);
}
#define EXPECT_ERROR(type, packed, code, text) expect_error(&type, packed, sizeof(packed) - 1, code, text)

Test(message, errors_name_field_value_and_limit)
{
    EXPECT_ERROR(hello_request_type, "\x81\xacprotocol_min\x01", STATUS_MISSING_FIELD,
                 "protocol_max: needed, but absent");
    EXPECT_ERROR(hello_request_type, "\x81\xacprotocol_min\xce\x00\x01\x00\x00", STATUS_INVALID_FIELD,
                 "protocol_min: 65536 is above the limit of 65535");
    EXPECT_ERROR(hello_request_type, "\x81\xacprotocol_min\xff", STATUS_INVALID_FIELD,
                 "protocol_min: -1 is below the limit of 0");
    EXPECT_ERROR(hello_request_type, "\x82\xacprotocol_min\x01\xacprotocol_min\x01", STATUS_DUPLICATE_FIELD,
                 "protocol_min: given twice");
    EXPECT_ERROR(hello_request_type, "\x82\xa1x\x01\xa1x\x01", STATUS_DUPLICATE_FIELD, "x: given twice");
    EXPECT_ERROR(hello_request_type, "\x93\x01\x02\x03", STATUS_INVALID_FIELD, "an array where a map is needed");
    EXPECT_ERROR(compile_request_type,
                 "\x81\xa6"
                 "fusion\x81\xa6"
                 "colour\x01",
                 STATUS_UNKNOWN_FIELD, "fusion.colour: fusion has no such field");
    EXPECT_ERROR(compile_request_type,
                 "\x81\xa6"
                 "fusion\x81\xaaindex_type\xa5int16",
                 STATUS_INVALID_FIELD, "fusion.index_type: \"int16\" is none of int32, int64");
    EXPECT_ERROR(compile_request_type,
                 "\x81\xa6"
                 "fusion\x81\xa7"
                 "entries\x92\xa1k\x05",
                 STATUS_INVALID_FIELD, "fusion.entries[1]: an integer where a string is needed");
    EXPECT_ERROR(compile_request_type,
                 "\x81\xa6"
                 "fusion\x81\xa4"
                 "code\xa3"
                 "a\0b",
                 STATUS_INVALID_FIELD, "fusion.code: a NUL byte in a string of 3 bytes");
    EXPECT_ERROR(kernel_get_request_type, "\x81\xa3key\xc4\x02\x01\x02", STATUS_INVALID_FIELD,
                 "key: 2 bytes where a digest has 32");
}

Test(message, a_key_with_a_nul_is_no_field)
{
    msgpack_zone zone;
    struct ping_request ping;
    struct hello_request hello;
    struct error error = {0};
    static const char packed[] = "\x81\xadprotocol_min\0\x01";
    msgpack_zone_init(&zone, 1024);
    cr_assert_eq(message_parse(&ping_request_type, (const uint8_t *)packed, sizeof packed - 1, &zone, &ping, &error),
                 0);
    cr_assert_eq(message_parse(&hello_request_type, (const uint8_t *)packed, sizeof packed - 1, &zone, &hello, &error),
                 -1);
    cr_assert_eq(error.code, STATUS_MISSING_FIELD);
    msgpack_zone_destroy(&zone);
}

Test(message, prints_as_json)
{
    struct failure failure = {
        .code = 40, .has_code = true, .name = TEXT_OF("COMPILE_FAILED"), .text = TEXT_OF("a \"b\"\n")};
    char *out = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&out, &size);
    message_print(&failure_type, &failure, stream, -1);
    fclose(stream);
    cr_assert_str_eq(out, "{\"code\": 40, \"name\": \"COMPILE_FAILED\", \"text\": \"a \\\"b\\\"\\n\"}\n");
    free(out);
}
