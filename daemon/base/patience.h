/* A clock for what the peer of a channel owes: the rest of a frame that it has begun, or to take its replies. */
#ifndef DAEMON_BASE_PATIENCE_H
#define DAEMON_BASE_PATIENCE_H

#include "daemon/base/channel.h"

/* From a frame's first byte to its last. */
#define PATIENCE_FRAME_MS 5000
/* How long a peer with too many replies to take may take none of them. */
#define PATIENCE_READ_MS 5000

enum lateness {
    LATE_FRAME, /* the frame has not ended */
    LATE_READ,  /* no reply was taken */
};

/* Embedded in the channel's owner. */
struct patience {
    uv_timer_t timer;
    struct channel *channel;
    bool held;        /* it runs because of the replies */
    uint64_t held_at; /* how much of them had been sent when it was started */
    void (*on_late)(struct patience *patience, enum lateness what);
    void (*on_closed)(struct patience *patience);
};

void patience_init(struct patience *patience, uv_loop_t *loop, struct channel *channel,
                   void (*on_late)(struct patience *patience, enum lateness what));

/* A frame is whole. The next one, if it has begun, gets its own time. */
void patience_frame_ended(struct patience *patience);
/* See what the peer owes now: after a batch of frames, and after a reply. */
void patience_watch(struct patience *patience);

/* Stop; on_closed comes later, once. The channel may be gone by then. */
void patience_close(struct patience *patience, void (*on_closed)(struct patience *patience));

#endif
