/* Every field of every message against every kind of wrong value. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proto/message.h"
#include "proto/scan.h"

static void pack_key(msgpack_packer *packer, const char *name)
{
    msgpack_pack_str(packer, strlen(name));
    msgpack_pack_str_body(packer, name, strlen(name));
}

/* Decode what was packed into *out, and empty it. *ret_error is set on failure. */
static int decode(const struct message_type *type, msgpack_sbuffer *out, struct error *ret_error)
{
    msgpack_zone zone;
    cr_assert(msgpack_zone_init(&zone, 1024));
    void *message = malloc(type->size + 1);
    cr_assert_not_null(message);
    cr_assert_eq(scan((const uint8_t *)out->data, out->size, ret_error), 0, "%s", ret_error->text);
    int got = message_parse(type, (const uint8_t *)out->data, out->size, &zone, message, ret_error);
    free(message);
    msgpack_zone_destroy(&zone);
    msgpack_sbuffer_clear(out);
    return got;
}

static void expect(const struct message_type *type, msgpack_sbuffer *out, enum status code, const char *text)
{
    struct error error = {0};
    cr_assert_eq(decode(type, out, &error), -1, "%s: no \"%s\"", type->name, text);
    cr_assert_eq(error.code, code, "%s: %s", type->name, error.text);
    cr_assert_str_eq(error.text, text, "%s: %s, not %s", type->name, error.text, text);
}

/* One value of each MessagePack type, and what it is called. */
enum sample { NIL, BOOL, INTEGER, FLOAT, DOUBLE, STRING, BINARY, ARRAY, MAP, SAMPLES };
static const char *const sample_names[SAMPLES] = {"nil",      "a bool", "an integer", "a float", "a float",
                                                  "a string", "bytes",  "an array",   "a map"};

static void pack_sample(msgpack_packer *packer, enum sample sample)
{
    switch (sample) {
    case NIL:
        msgpack_pack_nil(packer);
        break;
    case BOOL:
        msgpack_pack_true(packer);
        break;
    case INTEGER:
        msgpack_pack_int(packer, 1);
        break;
    case FLOAT:
        msgpack_pack_float(packer, 1);
        break;
    case DOUBLE:
        msgpack_pack_double(packer, 1);
        break;
    case STRING:
        pack_key(packer, "s");
        break;
    case BINARY:
        msgpack_pack_bin(packer, 1);
        msgpack_pack_bin_body(packer, "b", 1);
        break;
    case ARRAY:
        msgpack_pack_array(packer, 0);
        break;
    default:
        msgpack_pack_map(packer, 0);
    }
}

static const struct {
    enum sample good;
    const char *wanted;
} kinds[] = {
    [FIELD_FLAG] = {BOOL, "a bool"},           [FIELD_NUMBER] = {INTEGER, "an unsigned integer"},
    [FIELD_INTEGER] = {INTEGER, "an integer"}, [FIELD_TEXT] = {STRING, "a string"},
    [FIELD_BYTES] = {BINARY, "bytes"},         [FIELD_DIGEST] = {BINARY, "bytes"},
    [FIELD_CHOICE] = {STRING, "a string"},     [FIELD_TEXTS] = {ARRAY, "an array"},
    [FIELD_INTEGERS] = {ARRAY, "an array"},    [FIELD_NESTED] = {MAP, "a map"},
    [FIELD_LIST] = {ARRAY, "an array"},
};

/* For each field of the table: run `check` with the field's map begun, so that only the value is to be packed. */
static void each_field(void (*check)(const struct message_type *, const struct message_field *, msgpack_sbuffer *))
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    for (size_t i = 0; message_types[i]; i++)
        for (size_t j = 0; j < message_types[i]->n_fields; j++)
            check(message_types[i], &message_types[i]->fields[j], &out);
    msgpack_sbuffer_destroy(&out);
}

static msgpack_packer begin(const struct message_field *field, msgpack_sbuffer *out)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 1);
    pack_key(&packer, field->name);
    return packer;
}

static void check_types(const struct message_type *type, const struct message_field *field, msgpack_sbuffer *out)
{
    for (int sample = 0; sample < SAMPLES; sample++) {
        char text[160];
        if (sample == (int)kinds[field->kind].good)
            continue;
        msgpack_packer packer = begin(field, out);
        pack_sample(&packer, (enum sample)sample);
        snprintf(text, sizeof text, "%s: %s where %s is needed", field->name, sample_names[sample],
                 kinds[field->kind].wanted);
        expect(type, out, STATUS_INVALID_FIELD, text);
    }
}

Test(field, wrong_types)
{
    each_field(check_types);
}

static void check_numbers(const struct message_type *type, const struct message_field *field, msgpack_sbuffer *out)
{
    char text[160];
    struct error error = {0};
    if (field->kind != FIELD_NUMBER)
        return;
    msgpack_packer packer = begin(field, out);
    msgpack_pack_int(&packer, -1);
    snprintf(text, sizeof text, "%s: -1 is below the limit of 0", field->name);
    expect(type, out, STATUS_INVALID_FIELD, text);
    packer = begin(field, out);
    msgpack_pack_uint64(&packer, field->max);
    if (decode(type, out, &error) < 0)
        cr_assert_eq(error.code, STATUS_MISSING_FIELD, "%s", error.text); /* of another field */
    if (field->max == UINT64_MAX)
        return;
    packer = begin(field, out);
    msgpack_pack_uint64(&packer, field->max + 1);
    snprintf(text, sizeof text, "%s: %llu is above the limit of %llu", field->name, (unsigned long long)field->max + 1,
             (unsigned long long)field->max);
    expect(type, out, STATUS_INVALID_FIELD, text);
}

Test(field, numbers_at_their_limit_and_one_more)
{
    each_field(check_numbers);
}

Test(field, integers_of_both_signs)
{
    msgpack_sbuffer out;
    msgpack_packer packer;
    struct error error = {0};
    msgpack_sbuffer_init(&out);
    for (int i = 0; i < 3; i++) {
        static const int64_t values[] = {INT64_MIN, -1, INT64_MAX};
        msgpack_packer_init(&packer, &out, msgpack_sbuffer_write);
        msgpack_pack_map(&packer, 1);
        pack_key(&packer, "block_size");
        msgpack_pack_int64(&packer, values[i]);
        cr_assert_eq(decode(&compile_options_type, &out, &error), 0, "%s", error.text);
    }
    msgpack_packer_init(&packer, &out, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 1);
    pack_key(&packer, "block_size");
    msgpack_pack_uint64(&packer, (uint64_t)INT64_MAX + 1);
    expect(&compile_options_type, &out, STATUS_INVALID_FIELD,
           "block_size: 9223372036854775808 is above the limit of 9223372036854775807");
    msgpack_sbuffer_destroy(&out);
}

/* A string of `size` letters, or as many bytes. */
static void pack_letters(msgpack_packer *packer, enum field_kind kind, size_t size)
{
    char *letters = malloc(size + 1);
    cr_assert_not_null(letters);
    memset(letters, 'x', size);
    if (kind == FIELD_BYTES || kind == FIELD_DIGEST) {
        msgpack_pack_bin(packer, size);
        msgpack_pack_bin_body(packer, letters, size);
    } else {
        msgpack_pack_str(packer, size);
        msgpack_pack_str_body(packer, letters, size);
    }
    free(letters);
}

static void check_lengths(const struct message_type *type, const struct message_field *field, msgpack_sbuffer *out)
{
    char text[160];
    bool item = field->kind == FIELD_TEXTS;
    if (field->kind != FIELD_TEXT && field->kind != FIELD_BYTES && !item)
        return;
    for (uint64_t more = 0; more <= 1; more++) {
        struct error error = {0};
        msgpack_packer packer = begin(field, out);
        if (item)
            msgpack_pack_array(&packer, 1);
        pack_letters(&packer, field->kind, field->max + more);
        if (more) {
            snprintf(text, sizeof text, "%s%s: %llu bytes are above the limit of %llu", field->name, item ? "[0]" : "",
                     (unsigned long long)field->max + 1, (unsigned long long)field->max);
            expect(type, out, STATUS_INVALID_FIELD, text);
        } else if (decode(type, out, &error) < 0) {
            cr_assert_eq(error.code, STATUS_MISSING_FIELD, "%s", error.text);
        }
    }
    if (field->kind == FIELD_BYTES)
        return;
    msgpack_packer packer = begin(field, out);
    if (item)
        msgpack_pack_array(&packer, 1);
    msgpack_pack_str(&packer, 3);
    msgpack_pack_str_body(&packer, "a\0b", 3);
    snprintf(text, sizeof text, "%s%s: a NUL byte in a string of 3 bytes", field->name, item ? "[0]" : "");
    expect(type, out, STATUS_INVALID_FIELD, text);
}

Test(field, lengths_at_their_limit_and_one_more, .timeout = 60)
{
    each_field(check_lengths);
}

static void check_digests(const struct message_type *type, const struct message_field *field, msgpack_sbuffer *out)
{
    char text[160];
    if (field->kind != FIELD_DIGEST)
        return;
    for (size_t size = 0; size <= DIGEST_SIZE + 1; size++) {
        struct error error = {0};
        msgpack_packer packer = begin(field, out);
        pack_letters(&packer, FIELD_DIGEST, size);
        if (size == DIGEST_SIZE) {
            if (decode(type, out, &error) < 0)
                cr_assert_eq(error.code, STATUS_MISSING_FIELD, "%s", error.text);
        } else {
            snprintf(text, sizeof text, "%s: %zu bytes where a digest has 32", field->name, size);
            expect(type, out, STATUS_INVALID_FIELD, text);
        }
    }
}

Test(field, digests_have_32_bytes)
{
    each_field(check_digests);
}

static void check_counts(const struct message_type *type, const struct message_field *field, msgpack_sbuffer *out)
{
    char text[160];
    if (field->kind != FIELD_TEXTS && field->kind != FIELD_INTEGERS && field->kind != FIELD_LIST)
        return;
    for (uint64_t more = 0; more <= 1; more++) {
        struct error error = {0};
        msgpack_packer packer = begin(field, out);
        msgpack_pack_array(&packer, field->max_items + more);
        for (uint64_t i = 0; i < field->max_items + more; i++)
            pack_sample(&packer, field->kind == FIELD_TEXTS ? STRING : field->kind == FIELD_INTEGERS ? INTEGER : MAP);
        if (more) {
            snprintf(text, sizeof text, "%s: %llu items are above the limit of %llu", field->name,
                     (unsigned long long)field->max_items + 1, (unsigned long long)field->max_items);
            expect(type, out, STATUS_INVALID_FIELD, text);
        } else if (decode(type, out, &error) < 0) {
            cr_assert_eq(error.code, STATUS_MISSING_FIELD, "%s", error.text);
        }
    }
}

Test(field, counts_at_their_limit_and_one_more)
{
    each_field(check_counts);
}

static void check_items(const struct message_type *type, const struct message_field *field, msgpack_sbuffer *out)
{
    char text[160];
    if (field->kind != FIELD_TEXTS && field->kind != FIELD_INTEGERS && field->kind != FIELD_LIST)
        return;
    enum sample good = field->kind == FIELD_TEXTS ? STRING : field->kind == FIELD_INTEGERS ? INTEGER : MAP;
    for (int sample = 0; sample < SAMPLES; sample++) {
        if (sample == (int)good)
            continue;
        msgpack_packer packer = begin(field, out);
        msgpack_pack_array(&packer, 1);
        pack_sample(&packer, (enum sample)sample);
        snprintf(text, sizeof text, "%s[0]: %s where %s is needed", field->name, sample_names[sample],
                 sample_names[good]);
        expect(type, out, STATUS_INVALID_FIELD, text);
    }
}

Test(field, items_of_wrong_types)
{
    each_field(check_items);
}

static void check_words(const struct message_type *type, const struct message_field *field, msgpack_sbuffer *out)
{
    if (field->kind != FIELD_CHOICE)
        return;
    char known[192] = "", text[256];
    for (const struct word *word = field->words; word->word; word++) {
        struct error error = {0};
        msgpack_packer packer = begin(field, out);
        pack_key(&packer, word->word);
        if (decode(type, out, &error) < 0)
            cr_assert_eq(error.code, STATUS_MISSING_FIELD, "%s", error.text);
        strcat(strcat(known, known[0] ? ", " : ""), word->word);
        cr_assert_str_eq(message_word(field, word->value), word->word);
    }
    cr_assert_null(message_word(field, 0));
    cr_assert_null(message_word(field, 12345));
    msgpack_packer packer = begin(field, out);
    pack_key(&packer, "");
    snprintf(text, sizeof text, "%s: \"\" is none of %s", field->name, known);
    expect(type, out, STATUS_INVALID_FIELD, text);
}

Test(field, words)
{
    each_field(check_words);
}

/* Every message whose first needed field is left out, and every key that is not in the table. */
Test(field, missing_unknown_and_duplicate)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    for (size_t i = 0; message_types[i]; i++) {
        const struct message_type *type = message_types[i];
        const struct message_field *needed = NULL;
        msgpack_packer packer;
        struct error error = {0};
        char text[160];
        for (size_t j = 0; j < type->n_fields && !needed; j++)
            needed = type->fields[j].needed ? &type->fields[j] : NULL;
        msgpack_packer_init(&packer, &out, msgpack_sbuffer_write);
        msgpack_pack_map(&packer, 0);
        if (needed) {
            snprintf(text, sizeof text, "%s: needed, but absent", needed->name);
            expect(type, &out, STATUS_MISSING_FIELD, text);
        } else {
            cr_assert_eq(decode(type, &out, &error), 0, "%s", error.text);
        }
        msgpack_pack_map(&packer, 1);
        pack_key(&packer, "no_such_field");
        msgpack_pack_map(&packer, 0);
        if (type->strict) {
            snprintf(text, sizeof text, "no_such_field: %s has no such field", type->name);
            expect(type, &out, STATUS_UNKNOWN_FIELD, text);
        } else if (decode(type, &out, &error) < 0) {
            cr_assert_eq(error.code, STATUS_MISSING_FIELD, "%s", error.text);
        }
        msgpack_pack_map(&packer, 2);
        for (int twice = 0; twice < 2; twice++) {
            const struct message_field *field = type->n_fields ? &type->fields[0] : NULL;
            pack_key(&packer, field ? field->name : "unknown");
            if (field && field->kind == FIELD_DIGEST)
                pack_letters(&packer, FIELD_DIGEST, DIGEST_SIZE);
            else if (field && field->kind == FIELD_CHOICE)
                pack_key(&packer, field->words[0].word);
            else if (field && field->kind == FIELD_NESTED)
                break;
            else
                pack_sample(&packer, field ? kinds[field->kind].good : NIL);
        }
        if (type->n_fields && type->fields[0].kind == FIELD_NESTED) {
            msgpack_sbuffer_clear(&out); /* its content would be refused first */
            continue;
        }
        snprintf(text, sizeof text, "%s: given twice", type->n_fields ? type->fields[0].name : "unknown");
        expect(type, &out, STATUS_DUPLICATE_FIELD, text);
    }
    msgpack_sbuffer_destroy(&out);
}

/* A failure leaves the result as it was. */
Test(field, what_is_refused_is_not_returned)
{
    msgpack_zone zone;
    struct hello_request hello, before;
    struct error error = {0};
    cr_assert(msgpack_zone_init(&zone, 1024));
    memset(&hello, 0x5a, sizeof hello);
    memcpy(&before, &hello, sizeof hello);
    static const char bytes[] = "\x81\xacprotocol_min\x01";
    cr_assert_eq(message_parse(&hello_request_type, (const uint8_t *)bytes, sizeof bytes - 1, &zone, &hello, &error),
                 -1);
    cr_assert_eq(memcmp(&hello, &before, sizeof hello), 0);
    cr_assert_eq(message_parse(&hello_request_type, (const uint8_t *)"\x80\x80", 2, &zone, &hello, &error), -1);
    cr_assert_str_eq(error.text, "hello_request: 2 bytes are not one MessagePack value");
    cr_assert_eq(message_parse(&hello_request_type, (const uint8_t *)"\x81", 1, &zone, &hello, &error), -1);
    cr_assert_eq(error.code, STATUS_MALFORMED);
    cr_assert_eq(memcmp(&hello, &before, sizeof hello), 0);
    msgpack_zone_destroy(&zone);
}
