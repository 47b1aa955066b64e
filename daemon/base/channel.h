/*
 * A framed, asynchronous connection: frames and file descriptors in, frames and file descriptors out, on one socket.
 * Used for clients and for the daemon's own workers.
 *
 * uv_poll on the raw descriptor, because uv_pipe drops descriptors that a peer passes.
 */
#ifndef DAEMON_BASE_CHANNEL_H
#define DAEMON_BASE_CHANNEL_H

#include <msgpack.h>
#include <stdbool.h>
#include <uv.h>

#include "daemon/base/list.h"
#include "proto/error.h"
#include "proto/frame.h"

/* Descriptors received and not yet claimed by a message. */
#define CHANNEL_FDS 16

struct channel;

struct channel_events {
    /* One whole frame. The bytes are good until the function returns. */
    void (*on_frame)(struct channel *channel, const uint8_t *frame, size_t size);
    /* Bytes have come, and all frames in them are delivered. May be NULL. */
    void (*on_batch)(struct channel *channel);
    /* The stream is over: the peer closed it (code STATUS_OK), or broke it. Called at most once, on the loop, never
     * from within channel_send; no on_frame follows. The channel must then be closed. */
    void (*on_end)(struct channel *channel, const struct error *reason);
};

/* Embedded in its owner. start → close; the memory may be freed in close's callback. */
struct channel {
    uv_poll_t poll;
    int fd;
    int interest; /* what uv_poll watches for */
    struct frame_reader in;
    struct list out; /* struct output, in order */
    size_t out_bytes;
    size_t out_limit;
    uint64_t sent_total;
    int fds[CHANNEL_FDS];
    size_t n_fds;
    bool corked; /* frames are being handled: send at the end of the batch */
    bool paused; /* by its owner: no frames are handed out */
    bool ended;
    bool closing;
    bool finishing;      /* nothing more is sent after what waits */
    struct error broken; /* why sending failed; reported by on_end */
    const struct channel_events *events;
    void *owner;
    void (*on_closed)(struct channel *channel);
};

/* Take over the descriptor, which must be a connected stream socket; it is closed by channel_close. `in_limit` is the
 * largest frame accepted (channel->in.limit may be changed later), `out_limit` how many bytes may wait to be sent
 * before the peer counts as not reading. On failure the descriptor stays the caller's. */
int channel_start(struct channel *channel, uv_loop_t *loop, int fd, size_t in_limit, size_t out_limit,
                  const struct channel_events *events, void *owner, struct error *error);

/* Queue whole frames. `bytes` is copied; the descriptors are duplicated. What fails is reported by on_end. */
void channel_send(struct channel *channel, const char *bytes, size_t size, const int *fds, size_t n_fds);

/* Send what waits, then let the peer see the end of the stream; receiving goes on. Nothing is sent any more. */
void channel_finish_sending(struct channel *channel);

/* Give the stream up: on_end comes later, with this error. */
void channel_break(struct channel *channel, const struct error *error);

/* The next n received descriptors, in the order in which they came; the caller owns them. false: fewer are there. */
bool channel_take_fds(struct channel *channel, size_t n, int *ret);

/* For an owner that has enough to do: hand out no more frames, and leave what comes in the socket, so that the peer
 * waits. That the peer has closed is noticed all the same, and ends the channel without the frames that wait. */
void channel_pause(struct channel *channel);
/* Go on. Frames that wait are handed out before this returns, so it must not be called from on_frame; on_batch and
 * on_end come as ever. */
void channel_resume(struct channel *channel);

/* Whether a frame has begun and not ended. */
bool channel_has_partial_frame(const struct channel *channel);

/* Whether nothing is read because too much waits to be sent. */
bool channel_is_held(const struct channel *channel);

/* Stop and release everything; on_closed comes later, once. Output that has not been sent is offered to the socket
 * once more. */
void channel_close(struct channel *channel, void (*on_closed)(struct channel *channel));

#endif
