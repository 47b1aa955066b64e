/* Decoding of messages, driven by their descriptors. */
#include <string.h>

#include "proto/message.h"

/* Where the decoder is, for the error: a chain on the stack from the innermost field outwards. */
struct place {
    const struct place *outer;
    struct text name; /* as the peer sent it: shown with text_show */
    long index;       /* in an array; -1 for none */
};

struct decoder {
    msgpack_zone *zone;
    struct error *error;
};

static int decode_map(struct decoder *decoder, const struct message_type *type, const msgpack_object *map,
                      const struct place *place, void *ret);

/* ---- errors ---- */

static void print_place(const struct place *place, char *ret, size_t room)
{
    if (!place) {
        ret[0] = '\0';
        return;
    }
    print_place(place->outer, ret, room);
    size_t used = strlen(ret);
    char name[LIMIT_KEY + 1];
    if (place->index >= 0)
        snprintf(ret + used, room - used, "[%ld]", place->index);
    else
        snprintf(ret + used, room - used, "%s%s", used ? "." : "", text_show(place->name, name, sizeof name));
}

static int refuse(const struct decoder *decoder, const struct place *place, enum status code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int refuse(const struct decoder *decoder, const struct place *place, enum status code, const char *format, ...)
{
    char where[256], what[256];
    va_list args;
    print_place(place, where, sizeof where);
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(decoder->error, code, "%s%s%s", where, where[0] ? ": " : "", what);
}

static const char *type_of(const msgpack_object *value)
{
    switch (value->type) {
    case MSGPACK_OBJECT_NIL:
        return "nil";
    case MSGPACK_OBJECT_BOOLEAN:
        return "a bool";
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return "an integer";
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return "a float";
    case MSGPACK_OBJECT_STR:
        return "a string";
    case MSGPACK_OBJECT_BIN:
        return "bytes";
    case MSGPACK_OBJECT_ARRAY:
        return "an array";
    case MSGPACK_OBJECT_MAP:
        return "a map";
    default:
        return "an unknown type";
    }
}

static int wrong_type(const struct decoder *decoder, const struct place *place, const msgpack_object *value,
                      const char *wanted)
{
    return refuse(decoder, place, STATUS_INVALID_FIELD, "%s where %s is needed", type_of(value), wanted);
}

static int no_memory(const struct decoder *decoder)
{
    return error_set(decoder->error, STATUS_OUT_OF_MEMORY, "no memory to decode a message");
}

/* ---- decoding one value ---- */

static int decode_text(struct decoder *decoder, const msgpack_object *value, uint64_t max, const struct place *place,
                       struct text *ret)
{
    if (value->type != MSGPACK_OBJECT_STR)
        return wrong_type(decoder, place, value, "a string");
    size_t size = value->via.str.size;
    if (size > max)
        return refuse(decoder, place, STATUS_INVALID_FIELD, "%zu bytes are above the limit of %llu", size,
                      (unsigned long long)max);
    if (size && memchr(value->via.str.ptr, '\0', size))
        return refuse(decoder, place, STATUS_INVALID_FIELD, "a NUL byte in a string of %zu bytes", size);
    char *copy = msgpack_zone_malloc(decoder->zone, size + 1);
    if (!copy)
        return no_memory(decoder);
    if (size)
        memcpy(copy, value->via.str.ptr, size);
    copy[size] = '\0';
    *ret = (struct text){copy, size};
    return 0;
}

static int decode_bytes(struct decoder *decoder, const msgpack_object *value, uint64_t max, const struct place *place,
                        struct bytes *ret)
{
    if (value->type != MSGPACK_OBJECT_BIN)
        return wrong_type(decoder, place, value, "bytes");
    size_t size = value->via.bin.size;
    if (size > max)
        return refuse(decoder, place, STATUS_INVALID_FIELD, "%zu bytes are above the limit of %llu", size,
                      (unsigned long long)max);
    /* Empty bytes are present all the same, so they need an address. */
    *ret = (struct bytes){size ? (const uint8_t *)value->via.bin.ptr : (const uint8_t *)"", size};
    return 0;
}

static int decode_number(struct decoder *decoder, const msgpack_object *value, uint64_t max, const struct place *place,
                         uint64_t *ret)
{
    if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return refuse(decoder, place, STATUS_INVALID_FIELD, "%lld is below the limit of 0", (long long)value->via.i64);
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return wrong_type(decoder, place, value, "an unsigned integer");
    if (value->via.u64 > max)
        return refuse(decoder, place, STATUS_INVALID_FIELD, "%llu is above the limit of %llu",
                      (unsigned long long)value->via.u64, (unsigned long long)max);
    *ret = value->via.u64;
    return 0;
}

static int decode_integer(struct decoder *decoder, const msgpack_object *value, const struct place *place, int64_t *ret)
{
    if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) {
        *ret = value->via.i64;
        return 0;
    }
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return wrong_type(decoder, place, value, "an integer");
    if (value->via.u64 > INT64_MAX)
        return refuse(decoder, place, STATUS_INVALID_FIELD, "%llu is above the limit of %lld",
                      (unsigned long long)value->via.u64, (long long)INT64_MAX);
    *ret = (int64_t)value->via.u64;
    return 0;
}

static int decode_digest(struct decoder *decoder, const msgpack_object *value, const struct place *place, uint8_t *ret)
{
    if (value->type != MSGPACK_OBJECT_BIN)
        return wrong_type(decoder, place, value, "bytes");
    if (value->via.bin.size != DIGEST_SIZE)
        return refuse(decoder, place, STATUS_INVALID_FIELD, "%u bytes where a digest has %d", value->via.bin.size,
                      DIGEST_SIZE);
    memcpy(ret, value->via.bin.ptr, DIGEST_SIZE);
    return 0;
}

static int decode_choice(struct decoder *decoder, const msgpack_object *value, const struct word *words,
                         const struct place *place, int *ret)
{
    if (value->type != MSGPACK_OBJECT_STR)
        return wrong_type(decoder, place, value, "a string");
    char known[192] = "";
    for (; words->word; words++) {
        size_t size = value->via.str.size;
        if (size == strlen(words->word) && memcmp(value->via.str.ptr, words->word, size) == 0) {
            *ret = words->value;
            return 0;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", words->word);
    }
    char shown[49];
    text_show((struct text){value->via.str.ptr, value->via.str.size}, shown, sizeof shown);
    return refuse(decoder, place, STATUS_INVALID_FIELD, "\"%s\" is none of %s", shown, known);
}

/* ---- decoding arrays ---- */

static int decode_item(struct decoder *decoder, const struct message_field *field, const msgpack_object *value,
                       const struct place *place, void *ret)
{
    switch (field->kind) {
    case FIELD_TEXTS:
        return decode_text(decoder, value, field->max, place, ret);
    case FIELD_INTEGERS:
        return decode_integer(decoder, value, place, ret);
    default:
        return decode_map(decoder, field->type, value, place, ret);
    }
}

static int decode_array(struct decoder *decoder, const struct message_field *field, const msgpack_object *value,
                        const struct place *place, void *ret_items, size_t *ret_count)
{
    if (value->type != MSGPACK_OBJECT_ARRAY)
        return wrong_type(decoder, place, value, "an array");
    size_t n = value->via.array.size;
    if (n > field->max_items)
        return refuse(decoder, place, STATUS_INVALID_FIELD, "%zu items are above the limit of %llu", n,
                      (unsigned long long)field->max_items);
    if (n == 0)
        return 0;
    size_t size = message_item_size(field);
    char *items = msgpack_zone_malloc(decoder->zone, n * size);
    if (!items)
        return no_memory(decoder);
    memset(items, 0, n * size);
    for (size_t i = 0; i < n; i++) {
        struct place item = {place, {NULL, 0}, (long)i};
        if (decode_item(decoder, field, &value->via.array.ptr[i], &item, items + i * size) < 0)
            return -1;
    }
    memcpy(ret_items, &items, sizeof items); /* a pointer of the items' type, not a void * */
    *ret_count = n;
    return 0;
}

/* ---- decoding messages ---- */

static int decode_field(struct decoder *decoder, const struct message_field *field, const msgpack_object *value,
                        const struct place *place, char *message)
{
    void *at = message + field->offset;
    bool *has = (bool *)(message + field->extent);
    int number = 0;

    switch (field->kind) {
    case FIELD_FLAG:
        if (value->type != MSGPACK_OBJECT_BOOLEAN)
            return wrong_type(decoder, place, value, "a bool");
        *(bool *)at = value->via.boolean;
        return 0;
    case FIELD_NUMBER:
        *has = true;
        return decode_number(decoder, value, field->max, place, at);
    case FIELD_INTEGER:
        *has = true;
        return decode_integer(decoder, value, place, at);
    case FIELD_TEXT:
        return decode_text(decoder, value, field->max, place, at);
    case FIELD_BYTES:
        return decode_bytes(decoder, value, field->max, place, at);
    case FIELD_DIGEST:
        *has = true;
        return decode_digest(decoder, value, place, at);
    case FIELD_CHOICE:
        if (decode_choice(decoder, value, field->words, place, &number) < 0)
            return -1;
        memcpy(at, &number, sizeof number); /* every enum of the table has an int's size */
        return 0;
    case FIELD_NESTED: {
        void *nested = msgpack_zone_malloc(decoder->zone, field->type->size + 1);
        if (!nested)
            return no_memory(decoder);
        if (decode_map(decoder, field->type, value, place, nested) < 0)
            return -1;
        memcpy(at, &nested, sizeof nested);
        return 0;
    }
    default:
        return decode_array(decoder, field, value, place, at, (size_t *)(message + field->extent));
    }
}

static size_t find_field(const struct message_type *type, const msgpack_object_str *key, size_t next)
{
    for (size_t n = 0, i = next; n < type->n_fields; n++, i++) {
        if (i >= type->n_fields)
            i = 0;
        const struct message_field *field = &type->fields[i];
        if (field->name_size == key->size && memcmp(field->name, key->ptr, key->size) == 0)
            return i;
    }
    return type->n_fields;
}

static bool same_key(const msgpack_object *a, const msgpack_object *b)
{
    return a->via.str.size == b->via.str.size && memcmp(a->via.str.ptr, b->via.str.ptr, a->via.str.size) == 0;
}

/* A duplicate of a key that the message doesn't have. */
static bool seen_before(const msgpack_object_map *map, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (same_key(&map->ptr[i].key, &map->ptr[j].key))
            return true;
    return false;
}

static int decode_map(struct decoder *decoder, const struct message_type *type, const msgpack_object *value,
                      const struct place *place, void *ret)
{
    if (value->type != MSGPACK_OBJECT_MAP)
        return wrong_type(decoder, place, value, "a map");
    const msgpack_object_map *map = &value->via.map;
    bool seen[LIMIT_MAP] = {false};
    size_t next = 0; /* the field that a peer which keeps the table's order sends now, or a later one */
    memset(ret, 0, type->size);

    for (size_t i = 0; i < map->size; i++) {
        const msgpack_object_str *key = &map->ptr[i].key.via.str;
        struct place inner = {place, {key->ptr, key->size}, -1};
        size_t at = find_field(type, key, next);
        if (at == type->n_fields) {
            if (type->strict)
                return refuse(decoder, &inner, STATUS_UNKNOWN_FIELD, "%s has no such field", type->name);
            if (seen_before(map, i))
                return refuse(decoder, &inner, STATUS_DUPLICATE_FIELD, "given twice");
            continue;
        }
        if (seen[at])
            return refuse(decoder, &inner, STATUS_DUPLICATE_FIELD, "given twice");
        seen[at] = true;
        next = at + 1;
        if (decode_field(decoder, &type->fields[at], &map->ptr[i].val, &inner, ret) < 0)
            return -1;
    }
    for (size_t i = 0; i < type->n_fields; i++) {
        struct place inner = {place, {type->fields[i].name, type->fields[i].name_size}, -1};
        if (type->fields[i].needed && !seen[i])
            return refuse(decoder, &inner, STATUS_MISSING_FIELD, "needed, but absent");
    }
    return 0;
}

int message_decode(const struct message_type *type, const msgpack_object *map, msgpack_zone *zone, void *ret,
                   struct error *error)
{
    struct decoder decoder = {zone, error};
    void *message = msgpack_zone_malloc(zone, type->size + 1);
    if (!message)
        return no_memory(&decoder);
    if (decode_map(&decoder, type, map, NULL, message) < 0)
        return -1;
    memcpy(ret, message, type->size);
    return 0;
}

int message_parse(const struct message_type *type, const uint8_t *bytes, size_t size, msgpack_zone *zone, void *ret,
                  struct error *error)
{
    msgpack_object object;
    size_t offset = 0;
    msgpack_unpack_return got = msgpack_unpack((const char *)bytes, size, &offset, zone, &object);
    if (got == MSGPACK_UNPACK_NOMEM_ERROR)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to unpack a message of %zu bytes", size);
    if (got != MSGPACK_UNPACK_SUCCESS || offset != size)
        return error_set(error, STATUS_MALFORMED, "%s: %zu bytes are not one MessagePack value", type->name, size);
    return message_decode(type, &object, zone, ret, error);
}
