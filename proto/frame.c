#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

/* The first buffer: most requests fit. One that grew beyond it for a large frame is given back once it is empty, so
 * that an idle connection holds no more than this. */
#define FIRST_CAPACITY (16u << 10)

void frame_reader_init(struct frame_reader *reader, size_t limit)
{
    *reader = (struct frame_reader){.limit = limit};
}

void frame_reader_finish(struct frame_reader *reader)
{
    free(reader->buffer);
    *reader = (struct frame_reader){.limit = reader->limit};
}

/* Move what is unread to the front, so that the whole rest of the buffer is room. */
static void compact(struct frame_reader *reader)
{
    if (reader->start == 0)
        return;
    memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
    reader->end -= reader->start;
    reader->start = 0;
}

/* Nothing is held: start over, with a small buffer. */
static void rewind_empty(struct frame_reader *reader)
{
    reader->start = reader->end = 0;
    if (reader->capacity > FIRST_CAPACITY) {
        free(reader->buffer);
        reader->buffer = NULL;
        reader->capacity = 0;
    }
}

/* A larger buffer, up to one whole frame of the largest size. */
static int grow(struct frame_reader *reader)
{
    size_t most = reader->limit + LIMIT_FRAME_HEADER;
    size_t capacity = 2 * reader->capacity;
    if (capacity < FIRST_CAPACITY)
        capacity = FIRST_CAPACITY;
    if (capacity > most)
        capacity = most;
    if (capacity <= reader->capacity)
        return -1;
    uint8_t *buffer = realloc(reader->buffer, capacity);
    if (!buffer)
        return -1;
    reader->buffer = buffer;
    reader->capacity = capacity;
    return 0;
}

uint8_t *frame_reader_room(struct frame_reader *reader, size_t *ret_room)
{
    if (reader->start == reader->end)
        rewind_empty(reader);
    else
        compact(reader);
    if (reader->end == reader->capacity && grow(reader) < 0)
        return NULL;
    *ret_room = reader->capacity - reader->end;
    return reader->buffer + reader->end;
}

void frame_reader_filled(struct frame_reader *reader, size_t n)
{
    reader->end += n;
}

int frame_reader_next(struct frame_reader *reader, const uint8_t **ret_payload, size_t *ret_size, struct error *error)
{
    size_t held = reader->end - reader->start;
    if (held == 0)
        rewind_empty(reader);
    if (held < LIMIT_FRAME_HEADER)
        return 0;
    const uint8_t *at = reader->buffer + reader->start;
    size_t size = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
    if (size == 0)
        return error_set(error, STATUS_MALFORMED, "a frame of 0 bytes");
    if (size > reader->limit)
        return error_set(error, STATUS_FRAME_TOO_LARGE, "a frame of %zu bytes is above the limit of %zu", size,
                         reader->limit);
    if (held - LIMIT_FRAME_HEADER < size)
        return 0;
    *ret_payload = at + LIMIT_FRAME_HEADER;
    *ret_size = size;
    reader->start += LIMIT_FRAME_HEADER + size;
    return 1;
}

int frame_reader_pending(const struct frame_reader *reader)
{
    return reader->end > reader->start;
}

void frame_header(uint8_t header[4], size_t size)
{
    header[0] = (uint8_t)(size >> 24);
    header[1] = (uint8_t)(size >> 16);
    header[2] = (uint8_t)(size >> 8);
    header[3] = (uint8_t)size;
}
