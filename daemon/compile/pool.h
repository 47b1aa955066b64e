/*
 * The compiler pool: a queue of programs, and as many worker processes as the machine can feed.
 *
 * It also knows the compiler: which library, which version, which targets, its digest. A probe process finds that out
 * at the start; every worker must have loaded the same file.
 */
#ifndef DAEMON_COMPILE_POOL_H
#define DAEMON_COMPILE_POOL_H

#include <msgpack.h>
#include <uv.h>

#include "daemon/compile/budget.h"
#include "daemon/compile/prefix.h"
#include "daemon/compile/queue.h"
#include "daemon/compile/verdict.h"
#include "daemon/resolve/resolve.h"
#include "proto/message.h"

struct pool;

struct pool_options {
    enum compiler_kind kind;           /* which back end of fusiond-compiler it runs */
    const char *compiler;              /* path of fusiond-compiler */
    const struct key_part *transforms; /* for the facts; outlive the pool */
    size_t n_transforms;
    const char *nvrtc;             /* path of libnvrtc, or NULL: the worker looks for it */
    const char *const *nvrtc_dirs; /* folders to look in; ends with NULL; may be NULL */
    const char *toolkit_include; /* the toolkit's include folders, or NULL: beside NVRTC; kind COMPILER_TOOLKIT only */
    const char *host_cc;         /* path or name of the C++ compiler; kind COMPILER_HOST only */
    const char *work_dir;        /* where its workers make their private folders */
    struct budget *budget;       /* of all pools together */
    uint64_t deadline_ms;        /* of a job that names none */
    struct queue_limits queue;   /* what may wait; one more is BUSY */
    bool on_demand;              /* the probe waits for pool_want() */
    struct stats_reply *stats;   /* counters of workers and queue; pools add to them */
    unsigned max_zygotes;        /* processes that hold precompiled headers; 0: none are used */
    uint64_t pch_bytes;          /* of these headers */
    uint64_t zygote_idle_ms;     /* how long one is kept that nobody needs */
};

/* What became of a job. Exactly one of result and error is meant: result is NULL when error.code is set. */
struct pool_outcome {
    const struct worker_result *result; /* what the compiler said; its bytes are good until `done` returns */
    enum cause cause;                   /* of an error that a worker's end led to; else CAUSE_NONE */
    unsigned attempts;                  /* workers that ended with it */
    struct error error;                 /* TIMEOUT, WORKER_DIED, RESOURCE_LIMIT, COMPILER_UNAVAILABLE, SHUTTING_DOWN */
    uint64_t queue_ns;
    uint64_t compile_ns;
};

/* One job, embedded in whoever wants it. */
struct pool_job {
    struct queue_place place;
    struct queue_owner owner;
    msgpack_sbuffer frame;           /* the packed worker_job; the job's owner destroys it */
    const struct job_prefix *prefix; /* with which it may be compiled from a precompiled header; NULL: it may not */
    const uint8_t *build;            /* of the facts that the job was made with; only that compiler may compile it */
    uint64_t deadline_ms;            /* 0: the pool's */
    uint64_t queued_ns;
    uint64_t queue_ns;
    unsigned attempts;
    bool forked; /* a zygote's child has had it */
    /* A worker has it; may be called from within pool_submit, and again after a crash. May be NULL. */
    void (*started)(struct pool_job *job);
    /* Called exactly once after a successful pool_submit, later, on the loop, unless the job is withdrawn. */
    void (*done)(struct pool_job *job, const struct pool_outcome *outcome);
};

/* Start probing, unless on_demand; a probe that fails is tried again ever more slowly. `on_facts` is called, on the
 * loop, whenever pool_facts() or pool_problem() has changed. */
int pool_create(uv_loop_t *loop, const struct pool_options *options, void (*on_facts)(void *owner), void *owner,
                struct pool **ret, struct error *error);

/* Of these three, NULL (a pool that is closed) is fine, and knows nothing. */
/* What is known of the compiler; NULL while nothing is. Good until the next on_facts. */
const struct compiler_facts *pool_facts(const struct pool *pool);
/* Why there is no compiler, or NULL: nothing is wrong, or the probe is still running. */
const char *pool_problem(const struct pool *pool);
/* How well the workers are shut in; 0 until the probe has told. */
enum sandbox pool_sandbox(const struct pool *pool);

/* What the compiler is given by a job that names no deadline; 0 of a pool that is closed. */
uint64_t pool_deadline_ms(const struct pool *pool);

/* Somebody needs this compiler: the first call starts the probe of a pool that was made on_demand. NULL is fine. */
void pool_want(struct pool *pool);

/* After BUSY: how long it may take until there is room for a few more jobs, a guess from what compiles have taken. */
uint64_t pool_retry_ms(const struct pool *pool);

/* Queue a job. -1 with BUSY, COMPILER_UNAVAILABLE (also for a job made with facts that are not the present ones) or
 * SHUTTING_DOWN, and then `done` is not called. */
int pool_submit(struct pool *pool, struct pool_job *job, struct error *error);

/* Somebody else wants it, too: if it still waits, its turn may come sooner. */
void pool_join(struct pool *pool, struct pool_job *job, const struct queue_owner *owner);
/* How many jobs come before one that waits, if no others arrive; 0 when it does not wait. */
size_t pool_ahead(const struct pool *pool, const struct pool_job *job);
/* Nobody wants it any more. true: it had not begun, and `done` is never called; false: a compile that has begun goes
 * on. */
bool pool_withdraw(struct pool *pool, struct pool_job *job);

/* Fail what waits, kill what runs, reap; then call back and free. NULL is fine only before pool_create. */
void pool_close(struct pool *pool, void (*on_closed)(void *owner));

#endif
