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

static void expect_print(const struct message_type *type, const void *message, int indent, const char *text)
{
    char *out = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&out, &size);
    cr_assert_not_null(stream);
    message_print(type, message, stream, indent);
    fclose(stream);
    cr_assert_str_eq(out, text);
    free(out);
}

Test(message, prints_indented)
{
    int64_t sizes[] = {1, -2};
    struct sample_tensor tensors[] = {{.sizes = sizes, .n_sizes = 2}, {0}};
    struct text entries[] = {TEXT_OF("a"), TEXT_OF("b")};
    struct launch launch = {.dynamic_shared_memory = TEXT_OF("4")};
    struct fusion fusion = {.code = TEXT_OF("x"),
                            .entries = entries,
                            .n_entries = 2,
                            .structured = true,
                            .index_type = INDEX_TYPE_INT32,
                            .launch = &launch};
    struct compile_request request = {.fusion = &fusion, .sample = tensors, .n_sample = 2};
    expect_print(&compile_request_type, &request, 1,
                 "{\n"
                 " \"fusion\": {\n"
                 "  \"code\": \"x\",\n"
                 "  \"entries\": [\n"
                 "   \"a\",\n"
                 "   \"b\"\n"
                 "  ],\n"
                 "  \"structured\": true,\n"
                 "  \"index_type\": \"int32\",\n"
                 "  \"launch\": {\n"
                 "   \"dynamic_shared_memory\": \"4\"\n"
                 "  }\n"
                 " },\n"
                 " \"sample\": [\n"
                 "  {\n"
                 "   \"sizes\": [1, -2]\n"
                 "  },\n"
                 "  {}\n"
                 " ]\n"
                 "}\n");
    struct blob_put_request put = {.bytes = {(const uint8_t *)"abc", 3}};
    expect_print(&blob_put_request_type, &put, -1, "{\"bytes\": {\"bytes\": 3}}\n");
    struct blob_put_reply reply = {.has_digest = true, .digest = {0xab, 1}};
    expect_print(&blob_put_reply_type, &reply, -1,
                 "{\"digest\": \"ab01000000000000000000000000000000000000000000000000000000000000\"}\n");
}

/* JSON is UTF-8, whatever a label holds. */
Test(message, prints_what_is_no_utf8_as_replacements)
{
    static const struct {
        const char *text, *printed;
    } rows[] = {
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\xff", "a\\ufffd"},
        {"\xc3", "\\ufffd"},
        {"\xc0\xaf", "\\ufffd\\ufffd"},
        {"\xe0\x80\x80", "\\ufffd\\ufffd\\ufffd"},
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},
        {"\xf0\x80\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xe2\x82z", "\\ufffd\\ufffdz"},
        {"\x01\x7f\t\\", "\\u0001\\u007f\\t\\\\"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct failure failure = {.text = text_of(rows[i].text)};
        char expected[128];
        snprintf(expected, sizeof expected, "{\"text\": \"%s\"}\n", rows[i].printed);
        expect_print(&failure_type, &failure, -1, expected);
    }
}

Test(message, shown_texts_are_printable)
{
    char shown[8];
    cr_assert_str_eq(text_show(TEXT_OF("a\nb\0\xff~ "), shown, sizeof shown), "a?b??~ ");
    cr_assert_str_eq(text_show(TEXT_OF("longer than that"), shown, sizeof shown), "longer ");
    cr_assert_str_eq(text_show((struct text){0}, shown, sizeof shown), "");
    EXPECT_ERROR(compile_request_type,
                 "\x81\xa7"
                 "fus\nion\x01",
                 STATUS_UNKNOWN_FIELD, "fus?ion: compile_request has no such field");
    EXPECT_ERROR(compile_request_type,
                 "\x81\xa6"
                 "fusion\x81\xaaindex_type\xa3i\x1b[",
                 STATUS_INVALID_FIELD, "fusion.index_type: \"i?[\" is none of int32, int64");
}
