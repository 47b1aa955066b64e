/* The executor's channel to the daemon's front: clients come in, kernels are fetched. */
#ifndef DAEMON_EXECUTOR_FRONT_H
#define DAEMON_EXECUTOR_FRONT_H

#include <msgpack.h>
#include <stdbool.h>
#include <uv.h>

#include "daemon/base/channel.h"
#include "daemon/base/list.h"
#include "proto/message.h"

struct front;

struct front_events {
    /* A client's direct channel; the descriptor is the receiver's. */
    void (*on_attach)(struct front *front, int fd, uint64_t client, uint64_t pid);
    /* The front has closed the channel, or it is broken: the executor is to end. Called once. */
    void (*on_end)(struct front *front, const struct error *reason);
};

/* A kernel that is being asked for. Embedded in whoever wants it. */
struct fetch {
    struct list link;
    uint32_t id;
    uint8_t key[DIGEST_SIZE];
    const struct text *entries; /* as the client calls them, or none; must live until it is done */
    size_t n_entries;
    /* Called once, on the loop. kernel and image, a sealed memfd, are good until it returns; NULL and -1 beside an
     * error. */
    void (*done)(struct fetch *fetch, const struct kernel *kernel, int image_fd, const struct error *error);
};

/* Embedded in its owner. */
struct front {
    struct channel channel;
    struct list asked, waiting; /* struct fetch: unanswered, and those that have to wait their turn */
    size_t n_asked;
    uint32_t next_id;
    bool ended;
    const struct front_events *events;
    void *owner;
    void (*on_closed)(struct front *front);
};

int front_start(struct front *front, uv_loop_t *loop, int fd, const struct front_events *events, void *owner,
                struct error *error);
/* No fetch is unanswered. */
void front_close(struct front *front, void (*on_closed)(struct front *front));

/* Ask for the kernel of fetch->key, with its image. SHUTTING_DOWN when the front is gone. */
int front_fetch(struct front *front, struct fetch *fetch, struct error *error);
/* Tell all that are not answered this. */
void front_fail_fetches(struct front *front, const struct error *error);

/* Send one of executor_ready, executor_status, executor_fault. */
void front_send(struct front *front, const struct message_type *type, const void *message);

#endif
