/* The array around every message: [0, id, method, params], [1, id, error, result], [2, method, params]. */
#ifndef PROTO_ENVELOPE_H
#define PROTO_ENVELOPE_H

#include <msgpack.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/message.h"

enum envelope_kind {
    ENVELOPE_REQUEST = 0,
    ENVELOPE_RESPONSE = 1,
    ENVELOPE_NOTIFICATION = 2,
};

/* What a frame holds. Everything points into the frame; nothing is decoded yet. */
struct envelope {
    enum envelope_kind kind;
    uint32_t id;        /* request, response */
    enum method method; /* request; METHOD_UNKNOWN for a name that is not in the table */
    struct text name;   /* request, notification: the method as it was sent, not NUL-terminated */
    struct bytes body;  /* the packed params or result (nil beside an error), for message_parse */
    struct bytes error; /* response: the packed failure, a map; absent when it is nil */
};

/* Scan one frame and find its parts, allocating nothing. -1 with MALFORMED; ret->id is the request's id if that much
 * could be read, else 0, so that an error can be answered. */
int envelope_read(const uint8_t *frame, size_t size, struct envelope *ret, struct error *error);

/* Append a whole frame, header included, to the buffer. -1 when memory ran out or the payload is above
 * LIMIT_FRAME_WORKER; the buffer then holds what it held before. */
int envelope_write_request(msgpack_sbuffer *out, uint32_t id, enum method method, const void *params);
int envelope_write_reply(msgpack_sbuffer *out, uint32_t id, enum method method, const void *result);
/* The same for a result that is packed already. */
int envelope_write_packed(msgpack_sbuffer *out, uint32_t id, struct bytes result);
int envelope_write_failure(msgpack_sbuffer *out, uint32_t id, const struct failure *failure);

/* A notification to a client: a frame with [2, name, map]. */
#define NOTIFICATION_COMPILE_PROGRESS "compile.progress"
int envelope_write_notification(msgpack_sbuffer *out, const char *name, const struct message_type *type,
                                const void *message);

/* A message of the worker channel: a frame with [2, type name, map]. */
int envelope_write_message(msgpack_sbuffer *out, const struct message_type *type, const void *message);
/* Read one, which must be of the given type. */
int envelope_read_message(const uint8_t *frame, size_t size, const struct message_type *type, msgpack_zone *zone,
                          void *ret, struct error *error);

/* A failure that says what `error` says. The texts point into *error. */
struct failure failure_of(const struct error *error);

#endif
