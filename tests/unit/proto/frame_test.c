/* Frames out of a stream of bytes, under a limit. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/limits.h"

#define FIRST (16u << 10)

/* Hand `size` bytes to the reader as reads would, taking no frames out. */
static void feed(struct frame_reader *reader, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    while (size) {
        size_t room = 0;
        uint8_t *to = frame_reader_room(reader, &room);
        cr_assert_not_null(to);
        cr_assert_gt(room, 0);
        size_t n = size < room ? size : room;
        memcpy(to, from, n);
        frame_reader_filled(reader, n);
        from += n;
        size -= n;
    }
}

/* A frame of `size` bytes of the given value; the caller frees it. */
static uint8_t *make_frame(size_t size, int value)
{
    uint8_t *frame = malloc(LIMIT_FRAME_HEADER + size);
    cr_assert_not_null(frame);
    frame_header(frame, size);
    memset(frame + LIMIT_FRAME_HEADER, value, size);
    return frame;
}

static void feed_frame(struct frame_reader *reader, size_t size, int value)
{
    uint8_t *frame = make_frame(size, value);
    feed(reader, frame, LIMIT_FRAME_HEADER + size);
    free(frame);
}

static void expect_frame(struct frame_reader *reader, size_t size, int value)
{
    const uint8_t *payload = NULL;
    size_t got = 0;
    struct error error = {0};
    cr_assert_eq(frame_reader_next(reader, &payload, &got, &error), 1, "%s", error.text);
    cr_assert_eq(got, size);
    for (size_t i = 0; i < size; i++)
        cr_assert_eq(payload[i], (uint8_t)value, "byte %zu", i);
}

static void expect_none(struct frame_reader *reader)
{
    const uint8_t *payload = (const uint8_t *)"untouched";
    size_t got = 77;
    struct error error = {0};
    cr_assert_eq(frame_reader_next(reader, &payload, &got, &error), 0, "%s", error.text);
    cr_assert_eq(got, 77);
    cr_assert_str_eq((const char *)payload, "untouched");
}

static void expect_error(struct frame_reader *reader, enum status code, const char *text)
{
    const uint8_t *payload = NULL;
    size_t got = 77;
    struct error error = {0};
    cr_assert_eq(frame_reader_next(reader, &payload, &got, &error), -1);
    cr_assert_eq(error.code, code);
    cr_assert_str_eq(error.text, text);
    cr_assert_null(payload);
    cr_assert_eq(got, 77);
}

Test(frame, header_is_big_endian)
{
    uint8_t header[4];
    frame_header(header, 0x01020304);
    cr_assert_arr_eq(header, "\x01\x02\x03\x04", 4);
    frame_header(header, 0xffffffff);
    cr_assert_arr_eq(header, "\xff\xff\xff\xff", 4);
}

Test(frame, F13_one_byte_at_a_time)
{
    struct frame_reader reader;
    frame_reader_init(&reader, 1000);
    for (int round = 0; round < 3; round++) {
        uint8_t *frame = make_frame(300, round);
        for (size_t i = 0; i < 304; i++) {
            expect_none(&reader);
            cr_assert_eq(frame_reader_pending(&reader), i > 0);
            feed(&reader, frame + i, 1);
        }
        cr_assert(frame_reader_pending(&reader));
        expect_frame(&reader, 300, round);
        cr_assert_not(frame_reader_pending(&reader));
        free(frame);
    }
    frame_reader_finish(&reader);
}

Test(frame, several_frames_in_one_read)
{
    struct frame_reader reader;
    frame_reader_init(&reader, 1000);
    feed_frame(&reader, 1, 'a');
    feed_frame(&reader, 20, 'b');
    feed_frame(&reader, 300, 'c');
    feed(&reader, "\0\0\0\3xy", 6);
    expect_frame(&reader, 1, 'a');
    expect_frame(&reader, 20, 'b');
    cr_assert(frame_reader_pending(&reader));
    expect_frame(&reader, 300, 'c');
    expect_none(&reader);
    cr_assert(frame_reader_pending(&reader));
    feed(&reader, "z", 1);
    const uint8_t *payload = NULL;
    size_t size = 0;
    cr_assert_eq(frame_reader_next(&reader, &payload, &size, NULL), 1);
    cr_assert_eq(size, 3);
    cr_assert_arr_eq(payload, "xyz", 3);
    expect_none(&reader);
    cr_assert_not(frame_reader_pending(&reader));
    frame_reader_finish(&reader);
}

Test(frame, a_frame_of_exactly_the_limit_and_one_more)
{
    struct frame_reader reader;
    frame_reader_init(&reader, LIMIT_FRAME_GREETING);
    feed_frame(&reader, LIMIT_FRAME_GREETING, 'g');
    expect_frame(&reader, LIMIT_FRAME_GREETING, 'g');
    feed(&reader, "\0\0\x10\x01", 4);
    expect_error(&reader, STATUS_FRAME_TOO_LARGE, "a frame of 4097 bytes is above the limit of 4096");
    expect_error(&reader, STATUS_FRAME_TOO_LARGE, "a frame of 4097 bytes is above the limit of 4096");
    frame_reader_finish(&reader);
}

Test(frame, the_limit_is_raised_between_frames)
{
    struct frame_reader reader;
    frame_reader_init(&reader, LIMIT_FRAME_GREETING);
    uint8_t *large = make_frame(100000, 'l');
    feed_frame(&reader, 100, 'h');
    feed(&reader, large, 2000); /* arrived together with the greeting */
    expect_frame(&reader, 100, 'h');
    reader.limit = LIMIT_FRAME;
    expect_none(&reader);
    feed(&reader, large + 2000, 98004);
    expect_frame(&reader, 100000, 'l');
    free(large);
    frame_reader_finish(&reader);
}

Test(frame, an_empty_frame_is_malformed)
{
    struct frame_reader reader;
    frame_reader_init(&reader, 1000);
    feed(&reader, "\0\0\0", 3);
    expect_none(&reader);
    feed(&reader, "\0", 1);
    expect_error(&reader, STATUS_MALFORMED, "a frame of 0 bytes");
    frame_reader_finish(&reader);
}

Test(frame, F12_a_header_of_4_GiB_is_refused_once_it_is_read)
{
    struct frame_reader reader;
    frame_reader_init(&reader, LIMIT_FRAME_WORKER);
    feed(&reader, "\xff\xff\xff", 3);
    expect_none(&reader);
    feed(&reader, "\xff", 1);
    expect_error(&reader, STATUS_FRAME_TOO_LARGE, "a frame of 4294967295 bytes is above the limit of 134217728");
    cr_assert_leq(reader.capacity, FIRST);
    frame_reader_finish(&reader);
}

/* Whatever arrives before hello, and however it is cut, one connection holds one small buffer. */
Test(frame, F12_little_memory_before_hello)
{
    struct frame_reader reader;
    frame_reader_init(&reader, LIMIT_FRAME_GREETING);
    for (int i = 0; i < 100; i++) {
        feed_frame(&reader, LIMIT_FRAME_GREETING, 'x');
        cr_assert_leq(reader.capacity, LIMIT_FRAME_GREETING + LIMIT_FRAME_HEADER);
        expect_frame(&reader, LIMIT_FRAME_GREETING, 'x');
    }
    frame_reader_finish(&reader);
}

/* A header claims 16 MiB; memory follows what arrives. */
Test(frame, F12_memory_follows_the_bytes_and_not_the_claim)
{
    struct frame_reader reader;
    static const uint8_t chunk[1000];
    size_t held = 4;
    frame_reader_init(&reader, LIMIT_FRAME);
    feed(&reader, "\x01\0\0\0", 4);
    expect_none(&reader);
    cr_assert_leq(reader.capacity, FIRST);
    for (int i = 0; i < 1000; i++) {
        feed(&reader, chunk, sizeof chunk);
        held += sizeof chunk;
        cr_assert_leq(reader.capacity, held * 2 > FIRST ? held * 2 : FIRST);
    }
    frame_reader_finish(&reader);
}

/* Someone who reads on without taking frames out meets the end of the buffer, not the end of memory. */
Test(frame, a_full_buffer_does_not_grow_beyond_one_frame)
{
    struct frame_reader reader;
    size_t room = 0, total = 0;
    frame_reader_init(&reader, LIMIT_FRAME_GREETING);
    while (frame_reader_room(&reader, &room)) {
        frame_reader_filled(&reader, room);
        total += room;
        cr_assert_leq(total, LIMIT_FRAME_GREETING + LIMIT_FRAME_HEADER);
    }
    cr_assert_eq(total, LIMIT_FRAME_GREETING + LIMIT_FRAME_HEADER);
    frame_reader_finish(&reader);
}

Test(frame, F18_the_buffer_of_an_idle_connection_is_small_again)
{
    struct frame_reader reader;
    frame_reader_init(&reader, LIMIT_FRAME);
    feed_frame(&reader, LIMIT_FRAME, 'x');
    cr_assert_eq(reader.capacity, LIMIT_FRAME + LIMIT_FRAME_HEADER);
    const uint8_t *payload = NULL;
    size_t size = 0;
    cr_assert_eq(frame_reader_next(&reader, &payload, &size, NULL), 1);
    cr_assert_eq(size, LIMIT_FRAME);
    cr_assert_eq(payload[LIMIT_FRAME - 1], 'x');
    expect_none(&reader);
    cr_assert_leq(reader.capacity, FIRST);
    feed_frame(&reader, 10, 'y');
    cr_assert_leq(reader.capacity, FIRST);
    expect_frame(&reader, 10, 'y');
    frame_reader_finish(&reader);
    cr_assert_null(reader.buffer);
    cr_assert_eq(reader.capacity, 0);
}

Test(frame, a_finished_reader_can_be_finished_again_and_used)
{
    struct frame_reader reader;
    frame_reader_init(&reader, 1000);
    frame_reader_finish(&reader);
    feed_frame(&reader, 10, 'x');
    frame_reader_finish(&reader);
    cr_assert_not(frame_reader_pending(&reader));
    expect_none(&reader);
    frame_reader_finish(&reader);
}
