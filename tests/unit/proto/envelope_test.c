/* The array around every message, read and written. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proto/envelope.h"
#include "proto/frame.h"
#include "tests/unit/proto/fill.h"

static struct envelope read_good(const void *bytes, size_t size)
{
    struct envelope envelope;
    struct error error = {0};
    cr_assert_eq(envelope_read(bytes, size, &envelope, &error), 0, "%s", error.text);
    return envelope;
}
#define READ(literal) read_good(literal, sizeof(literal) - 1)

static void expect_bad(const void *bytes, size_t size, uint32_t id, const char *text)
{
    struct envelope envelope;
    struct error error = {0};
    uint8_t *copy = malloc(size);
    cr_assert_not_null(copy);
    memcpy(copy, bytes, size);
    cr_assert_eq(envelope_read(copy, size, &envelope, &error), -1, "%s", text);
    cr_assert_eq(error.code, STATUS_MALFORMED);
    cr_assert_str_eq(error.text, text);
    cr_assert_eq(envelope.id, id, "%s", text);
    free(copy);
}
#define BAD(literal, id, text) expect_bad(literal, sizeof(literal) - 1, id, text)

Test(envelope, a_request)
{
    static const char bytes[] = "\x94\x00\x07\xa4ping\x80";
    struct envelope envelope = READ("\x94\x00\x07\xa4ping\x80");
    cr_assert_eq(envelope.kind, ENVELOPE_REQUEST);
    cr_assert_eq(envelope.id, 7);
    cr_assert_eq(envelope.method, METHOD_PING);
    cr_assert(text_is(envelope.name, "ping"));
    envelope = read_good(bytes, sizeof bytes - 1);
    cr_assert_eq((const char *)envelope.body.at, bytes + 8);
    cr_assert_eq(envelope.body.size, 1);
    cr_assert_null(envelope.error.at);
}

Test(envelope, a_response_with_a_result)
{
    struct envelope envelope = READ("\x94\x01\x07\xc0\x81\xa1k\x05");
    cr_assert_eq(envelope.kind, ENVELOPE_RESPONSE);
    cr_assert_eq(envelope.id, 7);
    cr_assert_null(envelope.error.at);
    cr_assert_eq(envelope.body.size, 4);
    cr_assert_eq(envelope.body.at[0], 0x81);
    cr_assert_null(envelope.name.at);
}

Test(envelope, a_response_with_an_error)
{
    struct envelope envelope = READ("\x94\x01\x07\x81\xa1k\x05\xc0");
    cr_assert_eq(envelope.kind, ENVELOPE_RESPONSE);
    cr_assert_eq(envelope.error.size, 4);
    cr_assert_eq(envelope.error.at[0], 0x81);
    cr_assert_eq(envelope.body.size, 1);
    cr_assert_eq(envelope.body.at[0], 0xc0);
    envelope = READ("\x94\x01\x07\xde\x00\x01\xa1k\x05\xc0");
    cr_assert_eq(envelope.error.size, 6);
}

Test(envelope, a_notification)
{
    struct envelope envelope = READ("\x93\x02\xa4ping\x80");
    cr_assert_eq(envelope.kind, ENVELOPE_NOTIFICATION);
    cr_assert_eq(envelope.id, 0);
    cr_assert_eq(envelope.method, METHOD_PING);
    cr_assert_eq(envelope.body.size, 1);
}

Test(envelope, every_method_is_found)
{
    for (int i = 1; i < METHOD_COUNT; i++) {
        char bytes[64] = "\x93\x02";
        size_t n = strlen(methods[i].name);
        cr_assert_leq(n, LIMIT_METHOD);
        bytes[2] = (char)(0xa0 | n);
        memcpy(bytes + 3, methods[i].name, n);
        bytes[3 + n] = (char)0x80;
        cr_assert_eq(read_good(bytes, n + 4).method, (enum method)i);
    }
}

Test(envelope, an_unknown_method_is_read_and_named)
{
    struct envelope envelope = READ("\x94\x00\x07\xa4pong\x80");
    cr_assert_eq(envelope.method, METHOD_UNKNOWN);
    cr_assert(text_is(envelope.name, "pong"));
    envelope = READ("\x94\x00\x07\xa0\x80");
    cr_assert_eq(envelope.method, METHOD_UNKNOWN);
    envelope = READ("\x94\x00\x07\xd9\x04ping\x80");
    cr_assert_eq(envelope.method, METHOD_PING);
    envelope = READ("\x94\x00\x07\xda\x00\x04ping\x80");
    cr_assert_eq(envelope.method, METHOD_PING);
    envelope = READ("\x94\x00\x07\xdb\x00\x00\x00\x05ping\0\x80");
    cr_assert_eq(envelope.method, METHOD_UNKNOWN);
}

Test(envelope, ids_up_to_32_bits_in_every_width)
{
    cr_assert_eq(READ("\x94\x00\x00\xa4ping\x80").id, 0);
    cr_assert_eq(READ("\x94\x00\x7f\xa4ping\x80").id, 127);
    cr_assert_eq(READ("\x94\x00\xcc\xff\xa4ping\x80").id, 255);
    cr_assert_eq(READ("\x94\x00\xcd\xff\xff\xa4ping\x80").id, 65535);
    cr_assert_eq(READ("\x94\x00\xce\xff\xff\xff\xff\xa4ping\x80").id, 0xffffffffu);
    cr_assert_eq(READ("\x94\x00\xcf\x00\x00\x00\x00\xff\xff\xff\xff\xa4ping\x80").id, 0xffffffffu);
    BAD("\x94\x00\xcf\x00\x00\x00\x01\x00\x00\x00\x00\xa4ping\x80", 0,
        "envelope: the id must be an unsigned 32-bit integer");
    BAD("\x94\x00\xff\xa4ping\x80", 0, "envelope: the id must be an unsigned 32-bit integer");
    BAD("\x94\x00\xa1"
        "1\xa4ping\x80",
        0, "envelope: the id must be an unsigned 32-bit integer");
    BAD("\x94\x01\xc0\xc0\x80", 0, "envelope: the id must be an unsigned 32-bit integer");
}

Test(envelope, bad_forms)
{
    BAD("\xc0", 0, "envelope: not an array of 3 or 4 items");
    BAD("\x80", 0, "envelope: not an array of 3 or 4 items");
    BAD("\x92\x00\x01", 0, "envelope: not an array of 3 or 4 items");
    BAD("\x95\x00\x01\xa4ping\x80\xc0", 0, "envelope: not an array of 3 or 4 items");
    BAD("\x94\x03\x01\xa4ping\x80", 0,
        "envelope: the first item must be 0 (request), 1 (response) or 2 (notification)");
    BAD("\x94\xff\x01\xa4ping\x80", 0,
        "envelope: the first item must be 0 (request), 1 (response) or 2 (notification)");
    BAD("\x94\xa1\x30\x01\xa4ping\x80", 0,
        "envelope: the first item must be 0 (request), 1 (response) or 2 (notification)");
    BAD("\x93\x00\x01\xa4ping", 0, "envelope: a request and a response have 4 items, a notification has 3");
    BAD("\x93\x01\x01\xc0", 0, "envelope: a request and a response have 4 items, a notification has 3");
    BAD("\x94\x02\xa4ping\x80\xc0", 0, "envelope: a request and a response have 4 items, a notification has 3");
    BAD("\x94\x00\x07\x05\x80", 7, "envelope: the method must be a string of at most 32 bytes");
    BAD("\x94\x00\x07\xc4\x01x\x80", 7, "envelope: the method must be a string of at most 32 bytes");
    BAD("\x93\x02\xc0\x80", 0, "envelope: the method must be a string of at most 32 bytes");
    BAD("\x94\x00\x07\xd9\x21"
        "abcdefghijklmnopqrstuvwxyz0123456\x80",
        7, "envelope: the method must be a string of at most 32 bytes");
    BAD("\x94\x01\x07\x05\xc0", 7, "envelope: the error is neither nil nor a map");
    BAD("\x94\x01\x07\x90\xc0", 7, "envelope: the error is neither nil nor a map");
    BAD("\x94\x01\x07\x80\x80", 7, "envelope: the result beside an error must be nil");
    BAD("\x94\x01\x07\x80\x91\xc0", 7, "envelope: the result beside an error must be nil");
    BAD("\x94\x00\x07\xa4ping", 0, "byte 8 of 8: the value is cut off");
    BAD("\x94\x00\x07\xa4ping\x80\x80", 0, "byte 9 of 10: bytes follow the message");
}

Test(envelope, a_method_of_32_bytes)
{
    struct envelope envelope = READ("\x94\x00\x07\xd9\x20"
                                    "abcdefghijklmnopqrstuvwxyz012345\x80");
    cr_assert_eq(envelope.method, METHOD_UNKNOWN);
    cr_assert_eq(envelope.name.size, 32);
}

/* What was written, as a frame reader gives it back. */
static struct envelope read_back(const msgpack_sbuffer *out, struct frame_reader *reader)
{
    const uint8_t *payload = NULL;
    size_t size = 0, room = 0, done = 0;
    frame_reader_init(reader, LIMIT_FRAME_WORKER);
    while (done < out->size) {
        uint8_t *to = frame_reader_room(reader, &room);
        cr_assert_not_null(to);
        size_t n = room < out->size - done ? room : out->size - done;
        memcpy(to, out->data + done, n);
        frame_reader_filled(reader, n);
        done += n;
    }
    cr_assert_eq(frame_reader_next(reader, &payload, &size, NULL), 1);
    cr_assert_eq(size, out->size - LIMIT_FRAME_HEADER);
    return read_good(payload, size);
}

Test(envelope, requests_and_replies_of_every_method)
{
    for (int i = 1; i < METHOD_COUNT; i++) {
        for (int reply = 0; reply <= 1; reply++) {
            const struct message_type *type = reply ? methods[i].reply : methods[i].request;
            struct frame_reader reader;
            struct error error = {0};
            msgpack_zone zone;
            msgpack_sbuffer out;
            msgpack_zone_init(&zone, 4096);
            msgpack_sbuffer_init(&out);
            void *message = msgpack_zone_malloc(&zone, type->size + 1);
            void *copy = msgpack_zone_malloc(&zone, type->size + 1);
            fill_message(type, message, &zone, 1);
            if (reply)
                cr_assert_eq(envelope_write_reply(&out, 0xffffffffu, (enum method)i, message), 0);
            else
                cr_assert_eq(envelope_write_request(&out, 0xffffffffu, (enum method)i, message), 0);
            struct envelope envelope = read_back(&out, &reader);
            cr_assert_eq(envelope.kind, reply ? ENVELOPE_RESPONSE : ENVELOPE_REQUEST);
            cr_assert_eq(envelope.id, 0xffffffffu);
            cr_assert_eq(envelope.method, reply ? METHOD_UNKNOWN : (enum method)i);
            cr_assert_eq(message_parse(type, envelope.body.at, envelope.body.size, &zone, copy, &error), 0, "%s",
                         error.text);
            cr_assert(message_equal(type, message, copy));
            frame_reader_finish(&reader);
            msgpack_sbuffer_destroy(&out);
            msgpack_zone_destroy(&zone);
        }
    }
}

Test(envelope, a_failure_travels)
{
    struct error error = {0};
    struct frame_reader reader;
    msgpack_zone zone;
    msgpack_sbuffer out;
    msgpack_zone_init(&zone, 4096);
    msgpack_sbuffer_init(&out);
    error_set(&error, STATUS_BUSY, "%d jobs are queued, the limit is %d", 5, 4);
    struct failure failure = failure_of(&error), copy;
    cr_assert_eq(envelope_write_failure(&out, 9, &failure), 0);
    struct envelope envelope = read_back(&out, &reader);
    cr_assert_eq(envelope.kind, ENVELOPE_RESPONSE);
    cr_assert_eq(envelope.id, 9);
    cr_assert_eq(message_parse(&failure_type, envelope.error.at, envelope.error.size, &zone, &copy, &error), 0);
    cr_assert_eq(copy.code, STATUS_BUSY);
    cr_assert_str_eq(copy.name.at, "BUSY");
    cr_assert_str_eq(copy.text.at, "5 jobs are queued, the limit is 4");
    cr_assert(copy.retryable);
    frame_reader_finish(&reader);
    msgpack_sbuffer_destroy(&out);
    msgpack_zone_destroy(&zone);
}

Test(envelope, frames_are_appended)
{
    static struct ping_request ping;
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    cr_assert_eq(envelope_write_request(&out, 1, METHOD_PING, &ping), 0);
    cr_assert_eq(envelope_write_request(&out, 2, METHOD_PING, &ping), 0);
    cr_assert_eq(out.size, 26);
    cr_assert_arr_eq(out.data, "\0\0\0\x09\x94\0\x01\xa4ping\x80\0\0\0\x09\x94\0\x02\xa4ping\x80", 26);
    msgpack_sbuffer_destroy(&out);
}

Test(envelope, a_message_of_the_worker_channel)
{
    struct error error = {0};
    struct frame_reader reader;
    msgpack_zone zone;
    msgpack_sbuffer out;
    struct worker_job job, copy;
    struct worker_ready ready;
    msgpack_zone_init(&zone, 4096);
    msgpack_sbuffer_init(&out);
    fill_message(&worker_job_type, &job, &zone, 0);
    cr_assert_eq(envelope_write_message(&out, &worker_job_type, &job), 0);
    struct envelope envelope = read_back(&out, &reader);
    cr_assert_eq(envelope.kind, ENVELOPE_NOTIFICATION);
    const uint8_t *frame = (const uint8_t *)out.data + LIMIT_FRAME_HEADER;
    size_t size = out.size - LIMIT_FRAME_HEADER;
    cr_assert_eq(envelope_read_message(frame, size, &worker_job_type, &zone, &copy, &error), 0, "%s", error.text);
    cr_assert(message_equal(&worker_job_type, &job, &copy));
    cr_assert_eq(envelope_read_message(frame, size, &worker_ready_type, &zone, &ready, &error), -1);
    cr_assert_str_eq(error.text, "\"worker_job\" where worker_ready is expected");
    cr_assert_eq(
        envelope_read_message((const uint8_t *)"\x94\x01\x07\xc0\x80", 5, &worker_ready_type, &zone, &ready, &error),
        -1);
    cr_assert_str_eq(error.text, "a request or a response where worker_ready is expected");
    cr_assert_eq(
        envelope_read_message((const uint8_t *)"\x93\x02\xa3x\ny\x80", 7, &worker_ready_type, &zone, &ready, &error),
        -1);
    cr_assert_str_eq(error.text, "\"x?y\" where worker_ready is expected");
    cr_assert_eq(envelope_read_message((const uint8_t *)"\x93\x02", 2, &worker_ready_type, &zone, &ready, &error), -1);
    cr_assert_eq(error.code, STATUS_MALFORMED);
    frame_reader_finish(&reader);
    msgpack_sbuffer_destroy(&out);
    msgpack_zone_destroy(&zone);
}

/* A frame that no reader would take is not written. */
Test(envelope, a_frame_above_every_limit_is_refused)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    cr_assert_eq(msgpack_sbuffer_write(&out, "before", 6), 0);
    size_t size = LIMIT_FRAME_WORKER / 2;
    uint8_t *bytes = calloc(1, size);
    cr_assert_not_null(bytes);
    struct worker_result result = {
        .has_result = true, .result_name = TEXT_OF("x"), .image = {bytes, size}, .ptx = {bytes, size}};
    cr_assert_eq(envelope_write_message(&out, &worker_result_type, &result), -1);
    cr_assert_eq(out.size, 6);
    result.ptx.size -= 1000;
    cr_assert_eq(envelope_write_message(&out, &worker_result_type, &result), 0);
    free(bytes);
    msgpack_sbuffer_destroy(&out);
}
