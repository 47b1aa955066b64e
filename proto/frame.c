#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

/* The first buffer: most requests fit. */
#define FIRST_CAPACITY (16u << 10)
/* A buffer that grew beyond this for one large frame is given back once it is empty. */
#define KEEP_CAPACITY (64u << 10)

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
    if (reader->start < reader->end)
        memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
    reader->end -= reader->start;
    reader->start = 0;
}

uint8_t *frame_reader_room(struct frame_reader *reader, size_t *ret_room)
{
    compact(reader);
    if (reader->end == 0 && reader->capacity > KEEP_CAPACITY) {
        free(reader->buffer);
        reader->buffer = NULL;
        reader->capacity = 0;
    }
    if (reader->end == reader->capacity) {
        size_t capacity = reader->capacity ? 2 * reader->capacity : FIRST_CAPACITY;
        size_t most = reader->limit + LIMIT_FRAME_HEADER;
        if (capacity > most && most > reader->capacity)
            capacity = most;
        uint8_t *buffer = realloc(reader->buffer, capacity);
        if (!buffer)
            return NULL;
        reader->buffer = buffer;
        reader->capacity = capacity;
    }
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
