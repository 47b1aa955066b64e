/* Encoding and comparing messages, driven by their descriptors. */
#include "proto/message.h"

#include <string.h>

#include "proto/pack.h"

/* ---- text ---- */

struct text text_of(const char *string)
{
    return (struct text){string, string ? strlen(string) : 0};
}

bool text_is(struct text text, const char *string)
{
    return text.at && text.size == strlen(string) && memcmp(text.at, string, text.size) == 0;
}

const char *text_show(struct text text, char *ret, size_t room)
{
    size_t n = text.size < room - 1 ? text.size : room - 1;
    for (size_t i = 0; i < n; i++)
        ret[i] = text.at[i] >= ' ' && text.at[i] <= '~' ? text.at[i] : '?';
    ret[n] = '\0';
    return ret;
}

/* ---- encoding ---- */

size_t message_item_size(const struct message_field *field)
{
    switch (field->kind) {
    case FIELD_TEXTS:
        return sizeof(struct text);
    case FIELD_INTEGERS:
        return sizeof(int64_t);
    default:
        return field->type->size;
    }
}

/* The number of items of an array field. */
static size_t count_of(const struct message_field *field, const char *message)
{
    return *(const size_t *)(message + field->extent);
}

static const void *pointer_at(const char *at)
{
    const void *pointer;
    memcpy(&pointer, at, sizeof pointer);
    return pointer;
}

static int choice_at(const char *at)
{
    int number;
    memcpy(&number, at, sizeof number);
    return number;
}

bool message_has(const struct message_field *field, const void *message_at)
{
    const char *message = message_at;
    const char *at = message + field->offset;
    switch (field->kind) {
    case FIELD_FLAG:
        return *(const bool *)at;
    case FIELD_NUMBER:
    case FIELD_INTEGER:
    case FIELD_DIGEST:
        return *(const bool *)(message + field->extent);
    case FIELD_TEXT:
        return ((const struct text *)at)->at != NULL;
    case FIELD_BYTES:
        return ((const struct bytes *)at)->at != NULL;
    case FIELD_CHOICE:
        return choice_at(at) != 0;
    case FIELD_NESTED:
        return pointer_at(at) != NULL;
    default:
        return count_of(field, message) > 0;
    }
}

static void pack_text(msgpack_packer *packer, const struct text *text)
{
    msgpack_pack_str(packer, text->size);
    if (text->size)
        msgpack_pack_str_body(packer, text->at, text->size);
}

static void pack_bytes(msgpack_packer *packer, const void *at, size_t size)
{
    msgpack_pack_bin(packer, size);
    if (size)
        msgpack_pack_bin_body(packer, at, size);
}

static void pack_array(msgpack_packer *packer, const struct message_field *field, const char *message)
{
    size_t n = count_of(field, message);
    const char *items = pointer_at(message + field->offset);
    size_t size = message_item_size(field);
    msgpack_pack_array(packer, n);
    for (size_t i = 0; i < n; i++) {
        const void *item = items + i * size;
        if (field->kind == FIELD_TEXTS)
            pack_text(packer, item);
        else if (field->kind == FIELD_INTEGERS)
            msgpack_pack_int64(packer, *(const int64_t *)item);
        else
            message_encode(field->type, item, packer);
    }
}

static void pack_field(msgpack_packer *packer, const struct message_field *field, const char *message)
{
    const char *at = message + field->offset;
    switch (field->kind) {
    case FIELD_FLAG:
        msgpack_pack_true(packer);
        break;
    case FIELD_NUMBER:
        msgpack_pack_uint64(packer, *(const uint64_t *)at);
        break;
    case FIELD_INTEGER:
        msgpack_pack_int64(packer, *(const int64_t *)at);
        break;
    case FIELD_TEXT:
        pack_text(packer, (const struct text *)at);
        break;
    case FIELD_BYTES:
        pack_bytes(packer, ((const struct bytes *)at)->at, ((const struct bytes *)at)->size);
        break;
    case FIELD_DIGEST:
        pack_bytes(packer, at, DIGEST_SIZE);
        break;
    case FIELD_CHOICE: {
        const char *word = message_word(field, choice_at(at));
        struct text text = text_of(word ? word : "");
        pack_text(packer, &text);
        break;
    }
    case FIELD_NESTED:
        message_encode(field->type, pointer_at(at), packer);
        break;
    default:
        pack_array(packer, field, message);
    }
}

const char *message_word(const struct message_field *field, int value)
{
    for (const struct word *word = field->words; word->word; word++)
        if (word->value == value)
            return word->word;
    return NULL;
}

void message_encode(const struct message_type *type, const void *message, msgpack_packer *packer)
{
    size_t n = 0;
    for (size_t i = 0; i < type->n_fields; i++)
        n += message_has(&type->fields[i], message);
    msgpack_pack_map(packer, n);
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct message_field *field = &type->fields[i];
        if (!message_has(field, message))
            continue;
        struct text name = {field->name, field->name_size};
        pack_text(packer, &name);
        pack_field(packer, field, message);
    }
}

int message_pack(const struct message_type *type, const void *message, msgpack_sbuffer *out)
{
    struct pack pack;
    pack_begin(&pack, out);
    message_encode(type, message, &pack.packer);
    return pack_end(&pack);
}

/* ---- equality ---- */

static bool texts_equal(const struct text *a, const struct text *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->at, b->at, a->size) == 0);
}

static bool arrays_equal(const struct message_field *field, const char *a, const char *b)
{
    size_t n = count_of(field, a);
    size_t size = message_item_size(field);
    const char *left = pointer_at(a + field->offset), *right = pointer_at(b + field->offset);
    if (n != count_of(field, b))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *x = left + i * size, *y = right + i * size;
        bool same = field->kind == FIELD_TEXTS      ? texts_equal((const struct text *)x, (const struct text *)y)
                    : field->kind == FIELD_INTEGERS ? memcmp(x, y, size) == 0
                                                    : message_equal(field->type, x, y);
        if (!same)
            return false;
    }
    return true;
}

static bool fields_equal(const struct message_field *field, const char *a, const char *b)
{
    const char *x = a + field->offset, *y = b + field->offset;
    switch (field->kind) {
    case FIELD_FLAG:
        return true; /* both are present, so both are true */
    case FIELD_NUMBER:
    case FIELD_INTEGER:
        return memcmp(x, y, sizeof(uint64_t)) == 0;
    case FIELD_TEXT:
        return texts_equal((const struct text *)x, (const struct text *)y);
    case FIELD_BYTES: {
        const struct bytes *left = (const struct bytes *)x, *right = (const struct bytes *)y;
        return left->size == right->size && (left->size == 0 || memcmp(left->at, right->at, left->size) == 0);
    }
    case FIELD_DIGEST:
        return memcmp(x, y, DIGEST_SIZE) == 0;
    case FIELD_CHOICE:
        return choice_at(x) == choice_at(y);
    case FIELD_NESTED:
        return message_equal(field->type, pointer_at(x), pointer_at(y));
    default:
        return arrays_equal(field, a, b);
    }
}

bool message_equal(const struct message_type *type, const void *a, const void *b)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct message_field *field = &type->fields[i];
        if (message_has(field, a) != message_has(field, b))
            return false;
        if (message_has(field, a) && !fields_equal(field, a, b))
            return false;
    }
    return true;
}
