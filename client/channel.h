/* Frames with descriptors over a socket: what a connection to the daemon and a device's direct channel share. */
#ifndef CLIENT_CHANNEL_H
#define CLIENT_CHANNEL_H

#include "client/socket.h"
#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/message.h"

/* Owner: the connection or device around it. Used by one thread at a time. */
struct channel {
    const char *peer; /* who is at the other end, for errors; static */
    int fd;           /* -1: closed */
    uint64_t spin_ns; /* poll for an answer that long before sleeping */
    struct frame_reader reader;
    msgpack_sbuffer out;   /* the request that channel_write packed */
    struct socket_fds fds; /* arrived, and not taken by a reply yet */
};

/* A successful reply, not decoded: `body` lies in the channel's buffer until the next receive. */
struct reply {
    const uint8_t *frame;
    size_t size;
    struct bytes body;
};

/* Bytes of a frame that outlive the channel's buffer. */
struct frame_copy {
    uint8_t *bytes;
    size_t size;
};

void channel_init(struct channel *channel, const char *peer);
void channel_finish(struct channel *channel);

/* Close the socket and forget everything that arrived. */
void channel_close(struct channel *channel);

/* Pack a request into channel->out, which is to be sent as it is. `params` NULL: a request without fields. -1 with
 * OUT_OF_MEMORY or FRAME_TOO_LARGE. */
int channel_write(struct channel *channel, uint32_t id, enum method method, const void *params, struct error *error);

enum channel_result {
    CHANNEL_FRAME = 1,   /* *ret and *ret_reply are filled; they lie in the channel's buffer */
    CHANNEL_END = 0,     /* the stream has ended */
    CHANNEL_NOTHING = 2, /* no whole frame is there yet */
};
/* The next frame: waits for it until deadline_ns (0: for ever). -1: the stream cannot be used any further. */
int channel_receive(struct channel *channel, uint64_t deadline_ns, struct envelope *ret, struct reply *ret_reply,
                    struct error *error);
/* The same without waiting. */
int channel_receive_now(struct channel *channel, struct envelope *ret, struct reply *ret_reply, struct error *error);

/* Say in *error what the error of a response says. Returns -1. */
int channel_failure(const struct channel *channel, struct bytes failure, struct error *error);

/* Own the frame of the last reply; `body` of the reply then points into the copy. -1 with OUT_OF_MEMORY. */
int channel_keep(struct channel *channel, struct reply *reply, struct frame_copy *ret, struct error *error);

/* Close the descriptors that arrived unless there are exactly `declared`: then they stay for the caller, in
 * channel->fds. -1 with UNEXPECTED_FDS. */
int channel_expect_fds(struct channel *channel, uint64_t declared, struct error *error);

#endif
