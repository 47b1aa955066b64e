/* Fuzz target: whatever bytes a peer sends go through the frame reader, the scan, the envelope and the decoder of every
 * message type; what decodes must survive encoding and decoding again.
 *
 * Input: one byte that says how the rest arrives. Bit 0: the rest is a stream with frame headers of its own; else it is
 * the payload of one frame. The other bits: how many bytes each read brings. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that does not hold: the input is a finding. */
#define HOLDS(condition) ((condition) ? (void)0 : broken(#condition, __LINE__))

static void broken(const char *condition, int line)
{
    fprintf(stderr, "frame_message.c:%d: ERROR: does not hold: %s\n", line, condition);
    abort();
}

static FILE *discard(void)
{
    static FILE *out;
    if (!out)
        out = fopen("/dev/null", "we");
    HOLDS(out != NULL);
    return out;
}

/* A decoded message, packed and decoded again, is the same; packed twice, it gives the same bytes. */
static void check_round_trip(const struct message_type *type, const void *message, msgpack_zone *zone)
{
    struct error error = {0};
    msgpack_sbuffer first, second;
    void *copy = msgpack_zone_malloc(zone, type->size + 1);
    HOLDS(copy != NULL);
    msgpack_sbuffer_init(&first);
    msgpack_sbuffer_init(&second);
    HOLDS(message_pack(type, message, &first) == 0);
    HOLDS(scan((const uint8_t *)first.data, first.size, &error) == 0);
    HOLDS(message_parse(type, (const uint8_t *)first.data, first.size, zone, copy, &error) == 0);
    HOLDS(message_equal(type, message, copy));
    HOLDS(message_equal(type, copy, message));
    HOLDS(message_pack(type, copy, &second) == 0);
    HOLDS(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    message_print(type, message, discard(), (int)(first.size % 3) - 1);
    msgpack_sbuffer_destroy(&first);
    msgpack_sbuffer_destroy(&second);
}

/* What was just appended to the buffer is a frame that can be read, with this message in it. */
static void check_written(const struct message_type *type, const void *message, msgpack_sbuffer *out,
                          msgpack_zone *zone)
{
    struct error error = {0};
    struct envelope envelope;
    void *copy = msgpack_zone_malloc(zone, type->size + 1);
    HOLDS(copy != NULL && out->size > LIMIT_FRAME_HEADER);
    HOLDS(envelope_read((const uint8_t *)out->data + LIMIT_FRAME_HEADER, out->size - LIMIT_FRAME_HEADER, &envelope,
                        &error) == 0);
    struct bytes body = envelope.error.at ? envelope.error : envelope.body;
    HOLDS(message_parse(type, body.at, body.size, zone, copy, &error) == 0);
    HOLDS(message_equal(type, message, copy));
    msgpack_sbuffer_clear(out);
}

/* Every way in which a message of this type may travel. */
static void check_envelopes(const struct message_type *type, const void *message, msgpack_zone *zone)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    HOLDS(envelope_write_message(&out, type, message) == 0);
    check_written(type, message, &out, zone);
    for (int i = 1; i < METHOD_COUNT; i++) {
        if (methods[i].reply != type)
            continue;
        HOLDS(envelope_write_reply(&out, 7, (enum method)i, message) == 0);
        check_written(type, message, &out, zone);
    }
    if (type == &failure_type) {
        HOLDS(envelope_write_failure(&out, 7, message) == 0);
        check_written(type, message, &out, zone);
    }
    msgpack_sbuffer_destroy(&out);
}

/* Offer one value to the decoder of every type. */
static void check_value(const uint8_t *bytes, size_t size)
{
    msgpack_zone zone;
    msgpack_object object;
    size_t offset = 0;
    HOLDS(msgpack_zone_init(&zone, 2048));
    HOLDS(msgpack_unpack((const char *)bytes, size, &offset, &zone, &object) == MSGPACK_UNPACK_SUCCESS);
    HOLDS(offset == size);
    struct error error = {0};
    for (size_t i = 0; message_types[i]; i++) {
        const struct message_type *type = message_types[i];
        void *message = msgpack_zone_malloc(&zone, type->size + 1);
        HOLDS(message != NULL);
        if (message_decode(type, &object, &zone, message, &error) == 0) {
            check_round_trip(type, message, &zone);
            check_envelopes(type, message, &zone);
        } else {
            HOLDS(status_known(error.code) && error.text[0] && strlen(error.text) < ERROR_TEXT);
        }
    }
    if (error.code != STATUS_OK) {
        struct failure failure = failure_of(&error);
        check_envelopes(&failure_type, &failure, &zone);
    }
    msgpack_zone_destroy(&zone);
}

/* What was read as a request of a known method can be written and read as the same one. */
static void check_request(const struct envelope *envelope)
{
    msgpack_zone zone;
    msgpack_sbuffer out;
    struct error error = {0};
    struct envelope again;
    const struct message_type *type = methods[envelope->method].request;
    HOLDS(msgpack_zone_init(&zone, 2048));
    msgpack_sbuffer_init(&out);
    void *message = msgpack_zone_malloc(&zone, type->size + 1);
    HOLDS(message != NULL);
    if (message_parse(type, envelope->body.at, envelope->body.size, &zone, message, &error) == 0) {
        HOLDS(envelope_write_request(&out, envelope->id, envelope->method, message) == 0);
        HOLDS(envelope_read((const uint8_t *)out.data + 4, out.size - 4, &again, &error) == 0);
        HOLDS(again.id == envelope->id && again.method == envelope->method);
    }
    msgpack_sbuffer_destroy(&out);
    msgpack_zone_destroy(&zone);
}

static void check_worker_message(const uint8_t *frame, size_t size)
{
    static const struct message_type *const types[] = {&worker_ready_type, &worker_job_type, &worker_result_type};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        msgpack_zone zone;
        struct error error = {0};
        HOLDS(msgpack_zone_init(&zone, 2048));
        void *message = msgpack_zone_malloc(&zone, types[i]->size);
        HOLDS(message != NULL);
        if (envelope_read_message(frame, size, types[i], &zone, message, &error) == 0)
            check_round_trip(types[i], message, &zone);
        msgpack_zone_destroy(&zone);
    }
}

static void check_frame(const uint8_t *frame, size_t size)
{
    struct envelope envelope;
    struct error error = {0};
    int scanned = scan(frame, size, &error);
    int got = envelope_read(frame, size, &envelope, &error);
    HOLDS((scanned == 0) == (scan_skip(frame, size) == size));
    HOLDS(got == 0 || error.code == STATUS_MALFORMED);
    HOLDS(scanned == 0 || got < 0);
    if (scanned == 0)
        check_value(frame, size);
    check_worker_message(frame, size);
    if (got < 0)
        return;
    HOLDS(scan(envelope.body.at, envelope.body.size, &error) == 0);
    check_value(envelope.body.at, envelope.body.size);
    if (envelope.error.at) {
        HOLDS(scan(envelope.error.at, envelope.error.size, &error) == 0);
        check_value(envelope.error.at, envelope.error.size);
    }
    if (envelope.kind == ENVELOPE_REQUEST && envelope.method != METHOD_UNKNOWN)
        check_request(&envelope);
}

/* Take out every whole frame. -1 when the stream cannot be read any further. */
static int take_frames(struct frame_reader *reader)
{
    const uint8_t *payload = NULL;
    size_t size = 0;
    struct error error = {0};
    int got;
    while ((got = frame_reader_next(reader, &payload, &size, &error)) == 1) {
        uint8_t *exact = malloc(size); /* so that a read beyond the frame is seen */
        HOLDS(exact != NULL);
        memcpy(exact, payload, size);
        check_frame(exact, size);
        free(exact);
        reader->limit = LIMIT_FRAME; /* as after hello */
    }
    HOLDS(got == 0 || error.code == STATUS_MALFORMED || error.code == STATUS_FRAME_TOO_LARGE);
    return got;
}

/* Bring bytes to the reader, at most `step` at a time. */
static int feed(struct frame_reader *reader, const uint8_t *data, size_t size, size_t step)
{
    while (size) {
        size_t room = 0;
        uint8_t *to = frame_reader_room(reader, &room);
        HOLDS(to && room && reader->capacity <= reader->limit + LIMIT_FRAME_HEADER);
        size_t n = size < room ? size : room;
        n = n < step ? n : step;
        memcpy(to, data, n);
        frame_reader_filled(reader, n);
        data += n;
        size -= n;
        if (take_frames(reader) < 0)
            return -1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_reader reader;
    if (size < 2)
        return 0;
    bool stream = data[0] & 1;
    size_t step = (size_t)(data[0] >> 1) * 16 + 1;
    data++;
    size--;
    frame_reader_init(&reader, stream ? LIMIT_FRAME_GREETING : LIMIT_FRAME);
    if (!stream) {
        uint8_t header[LIMIT_FRAME_HEADER];
        frame_header(header, size);
        feed(&reader, header, sizeof header, 1);
    }
    feed(&reader, data, size, step);
    HOLDS(stream || !frame_reader_pending(&reader));
    frame_reader_finish(&reader);
    return 0;
}
