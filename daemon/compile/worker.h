/*
 * One compiler worker process, seen from the front.
 *
 *             worker_ready          job                 result
 *   STARTING ──────────────► IDLE ──────► BUSY ──────────────► IDLE
 *       │                     │            │ deadline
 *       └──────────┬──────────┴────────────┘
 *                  ▼ exit, kill, broken protocol
 *                 GONE  (reported once; the memory is the pool's to free)
 *
 * One that a zygote forks begins IDLE and is for one job; after its result it is ENDING.
 */
#ifndef DAEMON_COMPILE_WORKER_H
#define DAEMON_COMPILE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/child.h"
#include "daemon/base/list.h"
#include "proto/message.h"

enum worker_state {
    WORKER_STARTING,
    WORKER_IDLE,
    WORKER_BUSY,
    WORKER_ENDING,
    WORKER_GONE,
};

struct worker;

/* Why a worker is gone. */
struct worker_end {
    bool timed_out;    /* the job's deadline passed */
    bool on_purpose;   /* worker_stop */
    bool was_starting; /* it never became ready */
    const struct child_exit *exit;
    char text[ERROR_TEXT]; /* for people */
};

struct worker_events {
    /* Ready for jobs. A negative result kills it. Texts are good until the function returns. */
    int (*on_ready)(struct worker *worker, const struct worker_ready *ready);
    /* The job's answer; the worker is idle again, or ENDING. Bytes are good until the function returns. */
    void (*on_result)(struct worker *worker, const struct worker_result *result, uint64_t compile_ns);
    /* The process is reaped. Called once. */
    void (*on_gone)(struct worker *worker, const struct worker_end *end);
};

struct worker {
    struct list link; /* the pool's */
    struct child child;
    enum worker_state state;
    uint64_t started_ns; /* of the job */
    unsigned jobs_done;
    bool timed_out;
    bool stopping;
    bool never_ready;
    bool forked;             /* by a zygote, for one job */
    bool lent;               /* the pool's: it has the place of one that is idle */
    bool outdated;           /* the pool's: its library was replaced, so the job at hand is its last */
    char reason[ERROR_TEXT]; /* of a kill that the front decided on */
    const struct worker_events *events;
    void *pool;
    void *job; /* the pool's, while BUSY */
};

/* How to start a worker: argv[0] is the executable; ends with NULL. */
int worker_start(struct worker *worker, uv_loop_t *loop, char **argv, const struct worker_events *events, void *pool,
                 struct error *error);

/* A worker that a zygote is about to fork; see child_expect. It is idle at once: what it is given waits for it. */
int worker_expect(struct worker *worker, uv_loop_t *loop, const struct worker_events *events, void *pool,
                  int ret_remote[2], struct error *error);

/* Hand an idle worker a packed worker_job frame; it is killed when no result comes within deadline_ms. */
void worker_give(struct worker *worker, const char *frame, size_t size, uint64_t deadline_ms, void *job);

/* Let an idle worker go when it got no job for `ms`. */
void worker_retire_after(struct worker *worker, uint64_t ms);

/* Kill it; on_gone follows. */
void worker_stop(struct worker *worker);

#endif
