#include "proto/envelope.h"

#include <string.h>

#include "proto/frame.h"
#include "proto/pack.h"
#include "proto/scan.h"

/* ---- reading ----
 * scan() has vouched for the bytes, so the head of the array can be read without further length checks. */

/* Step over an unsigned integer. -1 when the value is something else. */
static int read_unsigned(const uint8_t **at, uint64_t *ret)
{
    uint8_t type = **at;
    if (type <= 0x7f) {
        *ret = type;
        *at += 1;
        return 0;
    }
    if (type < 0xcc || type > 0xcf)
        return -1;
    size_t n = (size_t)1 << (type - 0xcc);
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value = value << 8 | (*at)[1 + i];
    *at += 1 + n;
    *ret = value;
    return 0;
}

/* Step over a string. */
static int read_string(const uint8_t **at, struct text *ret)
{
    uint8_t type = **at;
    size_t n = 0, extra = 0;
    if (type >= 0xa0 && type <= 0xbf)
        n = type & 0x1f;
    else if (type >= 0xd9 && type <= 0xdb)
        extra = (size_t)1 << (type - 0xd9);
    else
        return -1;
    for (size_t i = 0; i < extra; i++)
        n = n << 8 | (*at)[1 + i];
    *ret = (struct text){(const char *)*at + 1 + extra, n};
    *at += 1 + extra + n;
    return 0;
}

static enum method method_of(struct text name)
{
    for (int i = 1; i < METHOD_COUNT; i++)
        if (text_is(name, methods[i].name))
            return (enum method)i;
    return METHOD_UNKNOWN;
}

static int malformed(struct error *error, const char *what)
{
    return error_set(error, STATUS_MALFORMED, "envelope: %s", what);
}

/* Whether a value is a map, by its type byte. */
static bool is_map(uint8_t type)
{
    return (type >= 0x80 && type <= 0x8f) || type == 0xde || type == 0xdf;
}

#define NIL 0xc0

/* Error and result of a response: nil and the result, or a map and nil. */
static int read_outcome(const uint8_t *at, const uint8_t *end, struct envelope *ret, struct error *error)
{
    if (*at == NIL) {
        ret->body = (struct bytes){at + 1, (size_t)(end - at - 1)};
        return 0;
    }
    if (!is_map(*at))
        return malformed(error, "the error is neither nil nor a map");
    if (end[-1] != NIL || at + scan_skip(at, (size_t)(end - at)) + 1 != end)
        return malformed(error, "the result beside an error must be nil");
    ret->error = (struct bytes){at, (size_t)(end - at - 1)};
    ret->body = (struct bytes){end - 1, 1};
    return 0;
}

int envelope_read(const uint8_t *frame, size_t size, struct envelope *ret, struct error *error)
{
    const uint8_t *at = frame, *end = frame + size;
    uint64_t kind, id;
    *ret = (struct envelope){0};

    if (scan(frame, size, error) < 0)
        return -1;
    uint8_t head = *at++;
    if (head != 0x93 && head != 0x94)
        return malformed(error, "not an array of 3 or 4 items");
    if (read_unsigned(&at, &kind) < 0 || kind > ENVELOPE_NOTIFICATION)
        return malformed(error, "the first item must be 0 (request), 1 (response) or 2 (notification)");
    ret->kind = (enum envelope_kind)kind;
    if ((ret->kind == ENVELOPE_NOTIFICATION) != (head == 0x93))
        return malformed(error, "a request and a response have 4 items, a notification has 3");
    if (ret->kind != ENVELOPE_NOTIFICATION) {
        if (read_unsigned(&at, &id) < 0 || id > LIMIT_REQUEST_ID)
            return malformed(error, "the id must be an unsigned 32-bit integer");
        ret->id = (uint32_t)id;
    }
    if (ret->kind == ENVELOPE_RESPONSE)
        return read_outcome(at, end, ret, error);
    struct text name;
    if (read_string(&at, &name) < 0 || name.size > LIMIT_METHOD)
        return malformed(error, "the method must be a string of at most 32 bytes");
    ret->name = name;
    ret->method = method_of(name);
    ret->body = (struct bytes){at, (size_t)(end - at)};
    return 0;
}

int envelope_read_message(const uint8_t *frame, size_t size, const struct message_type *type, msgpack_zone *zone,
                          void *ret, struct error *error)
{
    struct envelope envelope;
    if (envelope_read(frame, size, &envelope, error) < 0)
        return -1;
    if (envelope.kind != ENVELOPE_NOTIFICATION)
        return error_set(error, STATUS_MALFORMED, "a request or a response where %s is expected", type->name);
    if (!text_is(envelope.name, type->name)) {
        char name[LIMIT_METHOD + 1];
        return error_set(error, STATUS_MALFORMED, "\"%s\" where %s is expected",
                         text_show(envelope.name, name, sizeof name), type->name);
    }
    return message_parse(type, envelope.body.at, envelope.body.size, zone, ret, error);
}

/* ---- writing ---- */

/* Leave room for the header; the payload's size is known at the end. */
static void begin(struct pack *pack, msgpack_sbuffer *out, size_t items, enum envelope_kind kind)
{
    static const char header[LIMIT_FRAME_HEADER];
    pack_begin(pack, out);
    pack->packer.callback(pack->packer.data, header, sizeof header);
    msgpack_pack_array(&pack->packer, items);
    msgpack_pack_uint8(&pack->packer, (uint8_t)kind);
}

static int end(struct pack *pack)
{
    size_t size = pack->out->size - pack->start - LIMIT_FRAME_HEADER;
    if (!pack->failed && size > LIMIT_FRAME_WORKER)
        pack->failed = true; /* nobody would read it */
    if (pack_end(pack) < 0)
        return -1;
    frame_header((uint8_t *)pack->out->data + pack->start, size);
    return 0;
}

static void pack_string(msgpack_packer *packer, const char *string)
{
    size_t size = strlen(string);
    msgpack_pack_str(packer, size);
    msgpack_pack_str_body(packer, string, size);
}

int envelope_write_request(msgpack_sbuffer *out, uint32_t id, enum method method, const void *params)
{
    struct pack pack;
    begin(&pack, out, 4, ENVELOPE_REQUEST);
    msgpack_pack_uint32(&pack.packer, id);
    pack_string(&pack.packer, methods[method].name);
    message_encode(methods[method].request, params, &pack.packer);
    return end(&pack);
}

int envelope_write_reply(msgpack_sbuffer *out, uint32_t id, enum method method, const void *result)
{
    struct pack pack;
    begin(&pack, out, 4, ENVELOPE_RESPONSE);
    msgpack_pack_uint32(&pack.packer, id);
    msgpack_pack_nil(&pack.packer);
    message_encode(methods[method].reply, result, &pack.packer);
    return end(&pack);
}

int envelope_write_packed(msgpack_sbuffer *out, uint32_t id, struct bytes result)
{
    struct pack pack;
    begin(&pack, out, 4, ENVELOPE_RESPONSE);
    msgpack_pack_uint32(&pack.packer, id);
    msgpack_pack_nil(&pack.packer);
    pack.packer.callback(pack.packer.data, (const char *)result.at, result.size);
    return end(&pack);
}

int envelope_write_failure(msgpack_sbuffer *out, uint32_t id, const struct failure *failure)
{
    struct pack pack;
    begin(&pack, out, 4, ENVELOPE_RESPONSE);
    msgpack_pack_uint32(&pack.packer, id);
    message_encode(&failure_type, failure, &pack.packer);
    msgpack_pack_nil(&pack.packer);
    return end(&pack);
}

int envelope_write_notification(msgpack_sbuffer *out, const char *name, const struct message_type *type,
                                const void *message)
{
    struct pack pack;
    begin(&pack, out, 3, ENVELOPE_NOTIFICATION);
    pack_string(&pack.packer, name);
    message_encode(type, message, &pack.packer);
    return end(&pack);
}

int envelope_write_message(msgpack_sbuffer *out, const struct message_type *type, const void *message)
{
    return envelope_write_notification(out, type->name, type, message);
}

struct failure failure_of(const struct error *error)
{
    return (struct failure){
        .code = (uint64_t)error->code,
        .has_code = true,
        .name = text_of(status_name(error->code)),
        .text = text_of(error->text),
        .retryable = status_retryable(error->code),
    };
}
