/* Why a compile has no result: what the end of its worker tells, told apart by cause. */
#ifndef DAEMON_COMPILE_VERDICT_H
#define DAEMON_COMPILE_VERDICT_H

#include <stdbool.h>

#include "daemon/compile/worker.h"

enum cause {
    CAUSE_NONE,     /* nothing ended */
    CAUSE_DEADLINE, /* killed when its time was over */
    CAUSE_CPU_TIME, /* SIGXCPU */
    CAUSE_STACK,    /* the stack's handler says so */
    CAUSE_MEMORY,   /* the abort's text, or the exit code */
    CAUSE_CRASH,    /* a signal that a program brings upon itself */
    CAUSE_UNKNOWN,  /* killed from outside, or gone without a word */
};

/* The cause, with the error that a client is told once nothing is tried again: TIMEOUT, RESOURCE_LIMIT,
 * COMPILER_CRASHED, WORKER_DIED. `attempts`: how many workers the job has cost, this one included. */
enum cause verdict_of(const struct worker_end *end, uint64_t deadline_ms, unsigned attempts, struct error *ret);

/* Whether another attempt may end otherwise: a deadline or a limit would be met again. */
static inline bool verdict_allows_retry(enum cause cause)
{
    return cause == CAUSE_CRASH || cause == CAUSE_UNKNOWN;
}

#endif
