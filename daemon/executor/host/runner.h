/* How the threads of a block take turns on one OS thread: the part that block.c and meeting.c share. */
#ifndef DAEMON_EXECUTOR_HOST_RUNNER_H
#define DAEMON_EXECUTOR_HOST_RUNNER_H

#include <stdint.h>

#include "daemon/executor/host/block.h"
#include "daemon/executor/host/fiber.h"

#define THREADS FUSIOND_HOST_BLOCK_MAX
#define WARP FUSIOND_HOST_WARP
#define WARPS (THREADS / WARP)
/* No thread, as a number of one. */
#define NOBODY 0xffffffffu

/* What lanes come together for. */
enum meeting {
    MEET_SYNC,
    MEET_SHUFFLE,
    MEET_BALLOT,
    MEET_GATHER,
};

/* A thread of the block, from its first wait on: one that never waits leaves no trace here. */
struct thread {
    struct strand *strand;
    unsigned next; /* in a queue of threads */
    /* While it waits for lanes of its warp. */
    enum meeting meeting;
    unsigned mask;
    unsigned source;
    unsigned long long value;   /* what it brings, and then what it gets */
    unsigned long long *values; /* gather: where the values of all go */
    unsigned long long site;
};

/* A fiber that runs threads, one after the other. */
struct strand {
    struct fiber fiber;
    struct host_runner *runner;
    unsigned thread; /* the one it runs */
    struct strand *next_idle;
    unsigned long long *canary;
    char *limit; /* of its stack: a frame below has run over, or is about to */
};

/* First in, first out. */
struct queue {
    unsigned first, last;
};

struct barrier {
    unsigned arrived;
    unsigned threads; /* that are awaited; 0: all that have not exited */
    unsigned votes;
    unsigned long long result; /* of the last vote */
    struct queue waiters;
};

/* Sets of lanes, one bit each. */
struct warp {
    unsigned exited; /* or never were */
    unsigned meeting;
    unsigned converging;
    unsigned at_grid;
};

struct host_runner {
    struct strand *running;
    struct queue ready;
    unsigned n; /* threads */
    unsigned next_new;
    unsigned live;        /* that have not exited */
    unsigned at_barriers; /* threads that wait at one */
    unsigned at_grid;     /* threads that wait for the grid */
    unsigned yields;
    bool prefer_new; /* somebody has yielded: threads that have not begun come first */
    bool failed;
    struct strand *idle; /* that run nothing */
    struct host_block_grid *grid;
    struct fusiond_host_here here;
    struct fiber own; /* the OS thread */
    struct warp warps[WARPS];
    struct barrier barriers[FUSIOND_HOST_BARRIERS];
    struct thread threads[THREADS];
    uint16_t index[THREADS][3]; /* in a block of these extents: */
    unsigned extents[3];
    unsigned block[3];
    unsigned n_strands; /* that have ever run */
    unsigned n_used;    /* by this block */
    struct strand *used[THREADS];
    struct strand strands[THREADS];
    char *stacks;
    bool lends_stack;
    char signal_stack[16384];
    char why[HOST_WHY];
};

/* The runner of the calling OS thread, while it runs a block. */
extern _Thread_local struct host_runner *host_runner_current;

/* The block ends here, with this reason unless it has one; whoever calls goes on to the OS thread's own fiber. */
void runner_fail(struct host_runner *runner, const char *why);

/* A strand to begin threads on. */
struct strand *runner_take_strand(struct host_runner *runner);

/* A thread has exited: barriers and lanes that waited for it alone go on. */
void meeting_after_exit(struct host_runner *runner, unsigned thread);
/* Nobody can run: in every warp, the lanes at the place of the first one that waits to converge go on together. */
bool meeting_converge(struct host_runner *runner);

/* ---- whose turn it is ---- */

static inline void queue_add(struct host_runner *runner, struct queue *queue, unsigned thread)
{
    runner->threads[thread].next = NOBODY;
    if (queue->first == NOBODY)
        queue->first = thread;
    else
        runner->threads[queue->last].next = thread;
    queue->last = thread;
}

/* All of them are ready now. */
static inline void make_all_ready(struct host_runner *runner, struct queue *queue)
{
    if (queue->first == NOBODY)
        return;
    if (runner->ready.first == NOBODY)
        runner->ready.first = queue->first;
    else
        runner->threads[runner->ready.last].next = queue->first;
    runner->ready.last = queue->last;
    queue->first = NOBODY;
}

static inline bool can_begin(const struct host_runner *runner)
{
    return runner->next_new < runner->n;
}

/* Who goes on: a thread that is ready, else one that has not begun, else the OS thread, which sees what is left. */
static inline struct fiber *next_fiber(struct host_runner *runner)
{
    unsigned thread = runner->ready.first;
    if (runner->failed)
        return &runner->own;
    if (thread != NOBODY && !(runner->prefer_new && can_begin(runner))) {
        runner->ready.first = runner->threads[thread].next;
        return &runner->threads[thread].strand->fiber;
    }
    runner->prefer_new = false;
    return can_begin(runner) ? &runner_take_strand(runner)->fiber : &runner->own;
}

/* Where the thread stands, for its image. */
static inline void set_here(struct host_runner *runner, unsigned thread)
{
    const struct fusiond_host_here *here = &runner->here;
    *here->lane = thread % WARP;
    here->thread[0] = runner->index[thread][0];
    here->thread[1] = runner->index[thread][1];
    here->thread[2] = runner->index[thread][2];
}

/* Leave the running thread, which is in the queue of what it waits for; returns when it goes on. */
__attribute__((always_inline)) static inline void leave(struct host_runner *runner)
{
    struct strand *strand = runner->running;
    if ((char *)__builtin_frame_address(0) < strand->limit)
        runner_fail(runner, "its stack of 64 KiB has run over");
    runner->threads[strand->thread].strand = strand;
    struct fiber *next = next_fiber(runner);
    if (next != &strand->fiber)
        fiber_switch(&strand->fiber, next);
    runner->running = strand;
    set_here(runner, strand->thread);
}

#endif
