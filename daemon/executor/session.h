/*
 * One client's direct channel: its requests, its fusions, buffers and streams.
 *
 *   OPEN ──the executor ends──► FINISHING ──nothing waits──► DRAINING ──nothing under way──► freed
 *     └───end of the channel, broken protocol──────────────────▲
 *
 * FINISHING takes no more requests and still answers. DRAINING has no channel any more: the session outlives it until
 * the device has done all that it queued. Requests that come back meanwhile answer nobody.
 *
 * A client that asks for more than the device gets done is not read from until some of it is done: it waits, and
 * nobody else does.
 */
#ifndef DAEMON_EXECUTOR_SESSION_H
#define DAEMON_EXECUTOR_SESSION_H

#include "daemon/base/channel.h"
#include "daemon/base/patience.h"
#include "daemon/executor/buffers.h"
#include "daemon/executor/defined.h"
#include "daemon/executor/entry_cache.h"
#include "daemon/executor/streams.h"
#include "proto/envelope.h"

/* Operations of one session that the device may have before it, and requests that may wait for it. Drivers block who
 * queues more than about a thousand. */
#define SESSION_QUEUED 256u
#define SESSION_REQUESTS 1024u
/* Bytes that waiting requests may hold of what came or will be sent inline. With one request more, their answers are
 * below SESSION_OUT. */
#define SESSION_HELD_BYTES (1u << 20)
/* What may wait to be sent to a client that reads slowly; larger results travel as memfds. */
#define SESSION_OUT (4u << 20)

struct process;

enum session_state {
    SESSION_OPEN,
    SESSION_FINISHING,
    SESSION_DRAINING,
};

/* Owned by the process's list. */
struct session {
    struct list link;
    struct process *process;
    struct channel channel;
    struct patience patience;
    int open_handles;
    enum session_state state;
    uint64_t client; /* the front's number for it */
    uint64_t pid;    /* a label */

    struct defined *fusions;
    uint64_t next_fusion;
    struct entry_cache entries;
    struct buffers buffers;
    struct streams streams;

    uint64_t moment;       /* counts what is queued */
    size_t queued;         /* on all streams, and not known to be done */
    struct list busy;      /* struct stream: those with something under way */
    struct list condemned; /* struct buffer: to be released once what may use them is done, in the order of that */
    size_t requests;       /* that wait for the device or for a kernel */
    uint64_t held_bytes;
    size_t exclusive; /* requests that are not queued to the end: what comes after must not overtake them */
};

/* A request that waits. Its first member; freed by operation_end. */
struct operation {
    struct session *session;
    uint32_t id;
    uint64_t held_bytes;
    struct stream_mark mark;
    /* The device got there: answer. Then the operation ends. */
    void (*done)(struct operation *operation, const struct error *error);
    /* Release what the kind holds; may be NULL. */
    void (*finish)(struct operation *operation);
};

/* Take over the descriptor. */
int session_create(struct process *process, int fd, uint64_t client, uint64_t pid, struct error *error);

/* End it from this side: now, or once everything is answered. Harmless when it is ending. */
void session_close(struct session *session);
void session_finish(struct session *session);

/* Answer; nothing happens when the client is gone. The one place that writes replies. */
void session_reply(struct session *session, uint32_t id, enum method method, const void *result, const int *fds,
                   size_t n_fds);
/* The same with a result that is packed already. */
void session_reply_packed(struct session *session, uint32_t id, const msgpack_sbuffer *result);
void session_fail(struct session *session, uint32_t id, const struct error *error);

/* A new operation of `size` bytes. OUT_OF_MEMORY. */
int operation_create(struct session *session, uint32_t id, size_t size, struct operation **ret, struct error *error);
/* Count inline bytes that it holds. */
void operation_hold(struct operation *operation, uint64_t bytes);
/* Before its first work is queued: what was queued before is none of its business. */
void operation_begin(struct stream *stream);
/* Its work is queued: wait for it, then `done` is called and the operation ends. */
void operation_wait(struct operation *operation, struct stream *stream);
void operation_end(struct operation *operation);

/* Take a buffer away that may still be in use: it is released once what is queued now is done. */
void session_condemn(struct session *session, struct buffer *buffer);

/* Something is done: release, read on, end. */
void session_advance(struct session *session);

/* An error of work as its client is told it: which kernel, and whether the device is lost. */
void session_explain(const struct stream_mark *mark, const struct error *error, struct error *ret);

#endif
