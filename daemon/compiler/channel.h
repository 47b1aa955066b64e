/* The worker's end of the socketpair: whole frames, blocking. */
#ifndef DAEMON_COMPILER_CHANNEL_H
#define DAEMON_COMPILER_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/frame.h"
#include "proto/message.h"

/* Does not own the descriptor. */
struct channel {
    int fd;
    struct frame_reader reader;
};

void channel_init(struct channel *channel, int fd);
void channel_finish(struct channel *channel);

/* Wait for a frame: 1 and its payload, valid until the next call; 0 when the other side closed between frames;
 * -1 with MALFORMED, FRAME_TOO_LARGE, OUT_OF_MEMORY or SYSTEM. */
int channel_read(struct channel *channel, const uint8_t **ret_payload, size_t *ret_size, struct error *error);

/* Send bytes that already are whole frames. */
int channel_write(struct channel *channel, const void *bytes, size_t size, struct error *error);

/* Pack and send one message of the worker channel. */
int channel_write_message(struct channel *channel, const struct message_type *type, const void *message,
                          struct error *error);

#endif
