/* Allocation number n fails, for every n: nothing crashes, nothing half-written stays, and the error says so.
 * The linker leads the allocations of the library here (--wrap). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/pack.h"
#include "tests/unit/proto/fill.h"

static long countdown = -1; /* allocations that still succeed; -1: all */

static bool fails(void)
{
    if (countdown < 0)
        return false;
    if (countdown == 0)
        return true;
    countdown--;
    return false;
}

void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size)
{
    return fails() ? NULL : __real_realloc(at, size);
}

void *__real_msgpack_zone_malloc_expand(msgpack_zone *zone, size_t size);
void *__wrap_msgpack_zone_malloc_expand(msgpack_zone *zone, size_t size);
void *__wrap_msgpack_zone_malloc_expand(msgpack_zone *zone, size_t size)
{
    return fails() ? NULL : __real_msgpack_zone_malloc_expand(zone, size);
}

Test(memory, F24_a_frame_is_written_whole_or_not_at_all)
{
    msgpack_zone zone;
    msgpack_zone_init(&zone, 4096);
    struct worker_result result;
    fill_message(&worker_result_type, &result, &zone, 0);
    static char log[100000];
    memset(log, 'l', sizeof log);
    result.log = (struct text){log, sizeof log};
    int got = -1;
    long n = 0;
    for (; got < 0 && n < 100; n++) {
        msgpack_sbuffer out;
        msgpack_sbuffer_init(&out);
        cr_assert_eq(msgpack_sbuffer_write(&out, "before", 6), 0);
        countdown = n;
        got = envelope_write_message(&out, &worker_result_type, &result);
        countdown = -1;
        cr_assert_arr_eq(out.data, "before", 6);
        if (got < 0)
            cr_assert_eq(out.size, 6);
        else
            cr_assert_gt(out.size, sizeof log);
        msgpack_sbuffer_destroy(&out);
    }
    cr_assert_eq(got, 0);
    cr_assert_geq(n, 2);
    msgpack_zone_destroy(&zone);
}

Test(memory, F24_every_writer_reports_an_empty_hand)
{
    static struct ping_request ping;
    static struct ping_reply reply;
    struct failure failure = {.has_code = true, .code = 1, .name = TEXT_OF("x"), .text = TEXT_OF("y")};
    struct worker_ready ready = {.has_protocol = true};
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    countdown = 0;
    int got[] = {
        envelope_write_request(&out, 1, METHOD_PING, &ping), envelope_write_reply(&out, 1, METHOD_PING, &reply),
        envelope_write_failure(&out, 1, &failure),           envelope_write_message(&out, &worker_ready_type, &ready),
        message_pack(&failure_type, &failure, &out),
    };
    countdown = -1;
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++)
        cr_assert_eq(got[i], -1, "%zu", i);
    cr_assert_eq(out.size, 0);
    cr_assert_null(out.data);
}

Test(memory, F24_decoding_reports_no_memory)
{
    for (size_t i = 0; message_types[i]; i++) {
        const struct message_type *type = message_types[i];
        msgpack_zone zone;
        msgpack_sbuffer out;
        msgpack_zone_init(&zone, 4096);
        msgpack_sbuffer_init(&out);
        char *message = msgpack_zone_malloc(&zone, type->size + 1);
        char *copy = msgpack_zone_malloc(&zone, type->size + 1);
        fill_message(type, message, &zone, 0);
        cr_assert_eq(message_pack(type, message, &out), 0);
        memset(copy, 0x5a, type->size);
        int got = -1;
        for (long n = 0; got < 0; n++) {
            struct error error = {0};
            msgpack_zone small;
            cr_assert(msgpack_zone_init(&small, 1)); /* every allocation needs a chunk of its own */
            countdown = n;
            got = message_parse(type, (const uint8_t *)out.data, out.size, &small, copy, &error);
            countdown = -1;
            if (got < 0) {
                cr_assert_eq(error.code, STATUS_OUT_OF_MEMORY, "%s: %s", type->name, error.text);
                for (size_t j = 0; j < type->size; j++)
                    cr_assert_eq(copy[j], 0x5a, "%s is touched", type->name);
            } else {
                cr_assert(message_equal(type, message, copy));
            }
            msgpack_zone_destroy(&small);
        }
        msgpack_sbuffer_destroy(&out);
        msgpack_zone_destroy(&zone);
    }
}

Test(memory, F24_a_reader_keeps_what_it_has)
{
    struct frame_reader reader;
    size_t room = 0;
    frame_reader_init(&reader, LIMIT_FRAME);
    countdown = 0;
    cr_assert_null(frame_reader_room(&reader, &room));
    countdown = -1;
    uint8_t *to = frame_reader_room(&reader, &room);
    cr_assert_not_null(to);
    memset(to, 0, room);
    to[1] = 1; /* 65536 bytes */
    frame_reader_filled(&reader, room);
    countdown = 0;
    cr_assert_null(frame_reader_room(&reader, &room));
    countdown = -1;
    cr_assert(frame_reader_pending(&reader));
    const uint8_t *payload;
    size_t size;
    cr_assert_eq(frame_reader_next(&reader, &payload, &size, NULL), 0);
    cr_assert_not_null(frame_reader_room(&reader, &room));
    frame_reader_finish(&reader);
}
