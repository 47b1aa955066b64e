/*
 * The zygotes of a compiler: processes that have made a precompiled header of what many programs begin with, and fork a
 * worker for each such program (daemon/compiler/zygote.h). Here is decided which prefixes get one, and which zygote
 * goes when there are too many.
 *
 *            prefixes_compiled          zygote_ready            idle, evicted, dropped, refused
 *   (none) ────────────────────► STARTING ─────────► READY ───────────────────────────────────► ENDING
 *                                   └───────── error, deadline: barred for a while ────────────────┘
 *
 * A program without a ready zygote is compiled as ever; nothing waits for one.
 */
#ifndef DAEMON_COMPILE_ZYGOTES_H
#define DAEMON_COMPILE_ZYGOTES_H

#include <msgpack.h>
#include <uv.h>

#include "daemon/base/child.h"
#include "daemon/compile/prefix.h"
#include "daemon/resolve/resolve.h"
#include "proto/message.h"

struct zygotes;

struct zygotes_options {
    const char *work_dir;      /* where their folders are */
    unsigned max;              /* zygotes, of all compilers together; 0: none at all */
    uint64_t max_bytes;        /* of their headers, likewise */
    uint64_t idle_ms;          /* one that forks nothing for this long goes */
    struct stats_reply *stats; /* what several compilers' zygotes have together is counted here only */
};

/* Removes what an earlier daemon has left, and then is ready. */
int zygotes_create(uv_loop_t *loop, const struct zygotes_options *options, struct zygotes **ret, struct error *error);

/* Whether a compiler makes headers that change nothing. */
bool zygotes_trust(const struct compiler_facts *facts);

/* A job with this prefix was compiled by an ordinary worker, of the compiler that has that identity. A zygote may be
 * started: by argv (ends with NULL), with the job's frame as its sample. */
void zygotes_compiled(struct zygotes *zygotes, const struct job_prefix *prefix, const msgpack_sbuffer *frame,
                      char **argv, const char *identity);

/* Whether one is ready for the prefix. */
bool zygotes_have(const struct zygotes *zygotes, const struct job_prefix *prefix);

/* Let it fork an expected child, to which `remote` belongs; both are closed. One must be ready. */
void zygotes_fork(struct zygotes *zygotes, const struct job_prefix *prefix, struct child *child, const int remote[2]);

/* The compiler did not use the header: there is no zygote of the prefix for a while. */
void zygotes_refused(struct zygotes *zygotes, const struct job_prefix *prefix);

/* The compiler has changed: all of them go when their children have ended. */
void zygotes_drop(struct zygotes *zygotes);

/* Kill them all, which ends their children too; then call back and free. */
void zygotes_close(struct zygotes *zygotes, void (*on_closed)(void *owner), void *owner);

#endif
