/*
 * One client's direct channel: its requests, its fusions, buffers and streams.
 *
 *   OPEN ──end of the channel, broken protocol, lost device──► DRAINING ──nothing under way──► freed
 *
 * A session outlives its channel until the device has done all that it queued. Requests that come back meanwhile find
 * the channel closed and answer nobody.
 */
#ifndef DAEMON_EXECUTOR_SESSION_H
#define DAEMON_EXECUTOR_SESSION_H

#include "daemon/base/channel.h"
#include "daemon/executor/buffers.h"
#include "daemon/executor/defined.h"
#include "daemon/executor/streams.h"
#include "proto/envelope.h"

/* Requests of one session that may wait for the device at a time, and bytes that may wait to be written to it. */
#define SESSION_OPERATIONS 4096u
#define SESSION_WRITE_BYTES (64u << 20)

struct process;

enum session_state {
    SESSION_OPEN,
    SESSION_DRAINING,
};

/* Owned by the process's list. */
struct session {
    struct list link;
    struct process *process;
    struct channel channel;
    enum session_state state;
    bool channel_closed;
    uint64_t client; /* the front's number for it */
    uint64_t pid;    /* a label */
    struct defined *fusions;
    struct buffers buffers;
    struct streams streams;
    uint64_t next_fusion;
    size_t n_operations;
    uint64_t write_bytes; /* inline bytes on their way to the device */
    bool drained;         /* what was queued when the channel ended is done */
};

/* A request that waits for the device. Allocated with what its kind needs behind it; freed by operation_finish. */
struct operation {
    struct session *session;
    uint32_t id;
    struct device_mark mark;
    struct stream *stream;
    uint64_t launched; /* how many launches of the stream came before the mark */
    /* The device got there; error as device_mark says. Answers, if it is for a client to know. */
    void (*done)(struct operation *operation, const struct error *error);
    /* Release what the kind holds; may be NULL. */
    void (*finish)(struct operation *operation);
};

/* Take over the descriptor. */
int session_create(struct process *process, int fd, uint64_t client, uint64_t pid, struct error *error);

/* End it from this side. Harmless when it is ending. */
void session_close(struct session *session);

/* Answer; nothing happens when the client is gone. The one place that writes replies. */
void session_reply(struct session *session, uint32_t id, enum method method, const void *result, const int *fds,
                   size_t n_fds);
/* The same with a result that is packed already. */
void session_reply_packed(struct session *session, uint32_t id, const msgpack_sbuffer *result);
void session_fail(struct session *session, uint32_t id, const struct error *error);

/* A new operation of `size` bytes whose first member is a struct operation; NULL with BUSY or OUT_OF_MEMORY. */
void *operation_create(struct session *session, uint32_t id, size_t size, struct error *error);
/* Free one that was not queued. */
void operation_destroy(struct operation *operation);
/* Wait for everything that is queued on the stream; then `done` is called and the operation freed. */
void operation_queue(struct operation *operation, struct stream *stream);

/* Release memory once what is queued now has used it: on one stream, or with NULL on all of the session. On failure it
 * stays the caller's. OUT_OF_MEMORY. */
int session_release_later(struct session *session, const struct device_memory *memory, struct stream *only,
                          struct error *error);

#endif
