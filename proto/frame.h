/* Frames: a 32-bit big-endian length, then that many bytes. Reading is incremental, under a limit. */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

/* Collects incoming bytes and hands out whole frames. The buffer grows as bytes arrive, never to the length that a
 * header claims nor beyond one frame of the limit, and an empty one is at most 16 KiB. Owner: whoever reads the
 * descriptor. */
struct frame_reader {
    uint8_t *buffer;
    size_t start; /* first unread byte */
    size_t end;   /* end of what was read */
    size_t capacity;
    size_t limit; /* largest payload accepted; may be raised between frames */
};

void frame_reader_init(struct frame_reader *reader, size_t limit);
void frame_reader_finish(struct frame_reader *reader);

/* Room for the next read(2): *ret_room is at least 1. NULL when memory ran out, or when a buffer as large as the limit
 * is full: take all frames out first (then every byte is moved at most once). The pointer is good until the next call.
 */
uint8_t *frame_reader_room(struct frame_reader *reader, size_t *ret_room);
/* n bytes were read into the room. */
void frame_reader_filled(struct frame_reader *reader, size_t n);

/* The next whole frame: 1 and its payload, valid until the next call with this reader; 0 when more bytes are needed;
 * -1 with FRAME_TOO_LARGE or MALFORMED (an empty frame). After -1 the stream cannot be read any further. */
int frame_reader_next(struct frame_reader *reader, const uint8_t **ret_payload, size_t *ret_size, struct error *error);

/* Whether bytes of an incomplete frame are held: a deadline runs while this is true. */
int frame_reader_pending(const struct frame_reader *reader);

/* Write the header for a payload of `size` bytes. */
void frame_header(uint8_t header[4], size_t size);

#endif
