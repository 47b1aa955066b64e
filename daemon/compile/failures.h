/*
 * Compiles that failed a short while ago: the same again is answered from here, and costs no worker.
 *
 *   what the compiler said of the code     remembered at once: it would say the same
 *   crashes, limits, deadlines             remembered from the second one on, since a busy machine can be the reason
 *                                          for one; a deadline only for requests that give the compiler no more time
 *
 * It knows nothing of a loop: times are passed in. Bounded in number and bytes; the oldest go first.
 */
#ifndef DAEMON_COMPILE_FAILURES_H
#define DAEMON_COMPILE_FAILURES_H

#include "daemon/base/list.h"
#include "daemon/compile/verdict.h"
#include "daemon/kernel_store.h"
#include "proto/message.h"

#define FAILURES_MAX 1024u
#define FAILURES_MAX_BYTES (8u << 20)
/* Ends of a worker after which a key is not compiled for a while. */
#define FAILURES_STRIKES 2u

struct failed_compile;

struct failures {
    struct failed_compile *by_id;
    struct list by_age; /* the oldest first */
    size_t n, bytes;
    uint64_t keep_ns; /* 0: nothing is remembered */
};

void failures_init(struct failures *failures, uint64_t keep_ms);
void failures_finish(struct failures *failures);

/* A compile of this kernel failed. cause: CAUSE_NONE when the compiler itself rejected the code; strikes: workers that
 * it has cost. The failure is copied; when memory runs out it is not remembered. */
void failures_add(struct failures *failures, const struct kernel_id *id, const struct failure *failure,
                  enum cause cause, unsigned strikes, uint64_t deadline_ms, uint64_t now_ns);
/* It compiled after all. */
void failures_forget(struct failures *failures, const struct kernel_id *id);

/* What to answer without compiling, marked as remembered; NULL: compile. Good until the next call that changes
 * anything. */
const struct failure *failures_find(struct failures *failures, const struct kernel_id *id, uint64_t deadline_ms,
                                    uint64_t now_ns);

#endif
