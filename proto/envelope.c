#include "proto/envelope.h"

#include <string.h>

#include "proto/frame.h"
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

/* The error of a response: nil or a map. */
static int read_error(const uint8_t **at, const uint8_t *end, struct envelope *ret, struct error *error)
{
    if (**at == 0xc0) {
        *at += 1;
        return 0;
    }
    const uint8_t *start = *at;
    size_t size = scan_skip(start, (size_t)(end - start));
    if (size == 0)
        return malformed(error, "the error is neither nil nor a map");
    ret->error = (struct bytes){start, size};
    *at += size;
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
    if (ret->kind == ENVELOPE_RESPONSE) {
        if (read_error(&at, end, ret, error) < 0)
            return -1;
    } else {
        if (read_string(&at, &ret->name) < 0 || ret->name.size > LIMIT_METHOD)
            return malformed(error, "the method must be a string of at most 32 bytes");
        ret->method = method_of(ret->name);
    }
    ret->body = (struct bytes){at, (size_t)(end - at)};
    return 0;
}

int envelope_read_message(const uint8_t *frame, size_t size, const struct message_type *type, msgpack_zone *zone,
                          void *ret, struct error *error)
{
    struct envelope envelope;
    if (envelope_read(frame, size, &envelope, error) < 0)
        return -1;
    if (envelope.kind != ENVELOPE_NOTIFICATION || !text_is(envelope.name, type->name))
        return error_set(error, STATUS_MALFORMED, "\"%.*s\" where %s is expected",
                         envelope.name.at ? (int)envelope.name.size : 0, envelope.name.at ? envelope.name.at : "",
                         type->name);
    return message_parse(type, envelope.body.at, envelope.body.size, zone, ret, error);
}

/* ---- writing ---- */

/* Leave room for the header; the payload's size is known at the end. */
static size_t begin(msgpack_sbuffer *out, msgpack_packer *packer)
{
    size_t start = out->size;
    static const char header[LIMIT_FRAME_HEADER];
    msgpack_sbuffer_write(out, header, sizeof header);
    msgpack_packer_init(packer, out, msgpack_sbuffer_write);
    return start;
}

static void end(msgpack_sbuffer *out, size_t start)
{
    frame_header((uint8_t *)out->data + start, out->size - start - LIMIT_FRAME_HEADER);
}

static void pack_string(msgpack_packer *packer, const char *string)
{
    size_t size = strlen(string);
    msgpack_pack_str(packer, size);
    msgpack_pack_str_body(packer, string, size);
}

void envelope_write_request(msgpack_sbuffer *out, uint32_t id, enum method method, const void *params)
{
    msgpack_packer packer;
    size_t start = begin(out, &packer);
    msgpack_pack_array(&packer, 4);
    msgpack_pack_uint8(&packer, ENVELOPE_REQUEST);
    msgpack_pack_uint32(&packer, id);
    pack_string(&packer, methods[method].name);
    message_encode(methods[method].request, params, &packer);
    end(out, start);
}

void envelope_write_reply(msgpack_sbuffer *out, uint32_t id, enum method method, const void *result)
{
    msgpack_packer packer;
    size_t start = begin(out, &packer);
    msgpack_pack_array(&packer, 4);
    msgpack_pack_uint8(&packer, ENVELOPE_RESPONSE);
    msgpack_pack_uint32(&packer, id);
    msgpack_pack_nil(&packer);
    message_encode(methods[method].reply, result, &packer);
    end(out, start);
}

void envelope_write_failure(msgpack_sbuffer *out, uint32_t id, const struct failure *failure)
{
    msgpack_packer packer;
    size_t start = begin(out, &packer);
    msgpack_pack_array(&packer, 4);
    msgpack_pack_uint8(&packer, ENVELOPE_RESPONSE);
    msgpack_pack_uint32(&packer, id);
    message_encode(&failure_type, failure, &packer);
    msgpack_pack_nil(&packer);
    end(out, start);
}

void envelope_write_message(msgpack_sbuffer *out, const struct message_type *type, const void *message)
{
    msgpack_packer packer;
    size_t start = begin(out, &packer);
    msgpack_pack_array(&packer, 3);
    msgpack_pack_uint8(&packer, ENVELOPE_NOTIFICATION);
    pack_string(&packer, type->name);
    message_encode(type, message, &packer);
    end(out, start);
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
