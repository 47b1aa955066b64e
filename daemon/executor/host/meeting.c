/* Where threads of a block wait for each other: barriers, and lanes of a warp that meet. */
#include "daemon/executor/host/meeting.h"

#include "daemon/executor/host/runner.h"

/* ---- barriers ---- */

static bool is_complete(const struct host_runner *runner, const struct barrier *barrier)
{
    return barrier->arrived > 0 && barrier->arrived >= (barrier->threads ? barrier->threads : runner->live);
}

static inline void release_barrier(struct host_runner *runner, struct barrier *barrier, unsigned waiting)
{
    if (barrier->threads == 0)
        barrier->result = (unsigned long long)barrier->arrived << 32 | barrier->votes;
    barrier->arrived = barrier->votes = 0;
    runner->at_barriers -= waiting;
    make_all_ready(runner, &barrier->waiters);
}

__attribute__((always_inline)) static inline unsigned long long arrive(unsigned number, unsigned threads, int predicate)
{
    struct host_runner *runner = host_runner_current;
    struct barrier *barrier = &runner->barriers[number % FUSIOND_HOST_BARRIERS];
    barrier->threads = threads;
    barrier->arrived++;
    barrier->votes += predicate != 0;
    if (is_complete(runner, barrier)) {
        release_barrier(runner, barrier, barrier->arrived - 1);
    } else {
        queue_add(runner, &barrier->waiters, runner->running->thread);
        runner->at_barriers++;
        leave(runner);
    }
    /* No other vote can have ended meanwhile: it would need this thread. */
    return barrier->result;
}

void meeting_block_sync(unsigned barrier, unsigned threads)
{
    arrive(barrier, threads, 0);
}

unsigned long long meeting_block_vote(int predicate)
{
    return arrive(0, 0, predicate);
}

/* ---- warps ---- */

/* Give everybody what it came for. All bring first, then all get: a value must not be read after it was replaced. */
static inline void exchange(struct thread *warp, unsigned lanes)
{
    unsigned long long values[WARP];
    unsigned ballot = 0;
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctz(rest);
        values[i] = warp[i].value;
        ballot |= values[i] ? 1u << i : 0;
    }
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        struct thread *thread = &warp[__builtin_ctz(rest)];
        if (thread->meeting == MEET_SHUFFLE) {
            if (lanes >> thread->source % WARP & 1)
                thread->value = values[thread->source % WARP];
        } else if (thread->meeting == MEET_BALLOT) {
            thread->value = ballot;
        } else if (thread->meeting == MEET_GATHER) {
            for (unsigned j = 0; j < WARP; j++)
                thread->values[j] = lanes >> j & 1 ? values[j] : 0;
            thread->value = lanes;
        }
    }
}

/* Release those who meet by the mask, if all of them are there; `self`, a lane, runs and is only counted. */
static inline bool try_to_meet(struct host_runner *runner, unsigned first, unsigned mask, unsigned self)
{
    struct warp *warp = &runner->warps[first / WARP];
    struct thread *threads = &runner->threads[first];
    unsigned lanes = 0;
    if (mask & ~(warp->meeting | warp->exited))
        return false;
    for (unsigned rest = warp->meeting & mask; rest; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctz(rest);
        lanes |= threads[i].mask == mask ? 1u << i : 0;
    }
    if (lanes == 0 || (mask & ~(lanes | warp->exited)))
        return false;
    exchange(threads, lanes);
    warp->meeting &= ~lanes;
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctz(rest);
        if (i != self)
            queue_add(runner, &runner->ready, first + i);
    }
    return true;
}

/* The thread's value is what it gets. */
__attribute__((always_inline)) static inline struct thread *
meet(unsigned mask, enum meeting meeting, unsigned long long value, unsigned source, unsigned long long *values)
{
    struct host_runner *runner = host_runner_current;
    unsigned self = runner->running->thread, lane = self % WARP;
    struct thread *thread = &runner->threads[self];
    thread->mask = mask | 1u << lane; /* who calls is meant, whatever the mask says */
    thread->meeting = meeting;
    thread->value = value;
    thread->source = source;
    thread->values = values;
    runner->warps[self / WARP].meeting |= 1u << lane;
    if (!try_to_meet(runner, self - lane, thread->mask, lane))
        leave(runner);
    return thread;
}

void meeting_warp_sync(unsigned mask)
{
    meet(mask, MEET_SYNC, 0, 0, NULL);
}

unsigned long long meeting_warp_shuffle(unsigned mask, unsigned long long value, unsigned source)
{
    return meet(mask, MEET_SHUFFLE, value, source, NULL)->value;
}

unsigned meeting_warp_ballot(unsigned mask, int predicate)
{
    return (unsigned)meet(mask, MEET_BALLOT, predicate != 0, 0, NULL)->value;
}

unsigned meeting_warp_gather(unsigned mask, unsigned long long value, unsigned long long values[32])
{
    return (unsigned)meet(mask, MEET_GATHER, value, 0, values)->value;
}

unsigned meeting_warp_converged(unsigned long long site)
{
    struct host_runner *runner = host_runner_current;
    unsigned self = runner->running->thread;
    runner->threads[self].site = site;
    runner->warps[self / WARP].converging |= 1u << self % WARP;
    leave(runner);
    return (unsigned)runner->threads[self].value;
}

bool meeting_converge(struct host_runner *runner)
{
    bool any = false;
    for (unsigned first = 0; first < runner->n; first += WARP) {
        struct warp *warp = &runner->warps[first / WARP];
        unsigned lanes = 0;
        if (!warp->converging)
            continue;
        unsigned long long site = runner->threads[first + (unsigned)__builtin_ctz(warp->converging)].site;
        for (unsigned rest = warp->converging; rest; rest &= rest - 1) {
            unsigned i = (unsigned)__builtin_ctz(rest);
            lanes |= runner->threads[first + i].site == site ? 1u << i : 0;
        }
        warp->converging &= ~lanes;
        for (unsigned rest = lanes; rest; rest &= rest - 1) {
            unsigned thread = first + (unsigned)__builtin_ctz(rest);
            runner->threads[thread].value = lanes;
            queue_add(runner, &runner->ready, thread);
        }
        any = true;
    }
    return any;
}

/* ---- both ---- */

void meeting_after_exit(struct host_runner *runner, unsigned thread)
{
    unsigned first = thread / WARP * WARP;
    for (unsigned i = 0; runner->at_barriers > 0 && i < FUSIOND_HOST_BARRIERS; i++) {
        struct barrier *barrier = &runner->barriers[i];
        if (barrier->threads == 0 && is_complete(runner, barrier))
            release_barrier(runner, barrier, barrier->arrived);
    }
    for (unsigned rest = runner->warps[thread / WARP].meeting; rest; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctz(rest);
        if (runner->warps[thread / WARP].meeting >> i & 1)
            try_to_meet(runner, first, runner->threads[first + i].mask, NOBODY);
    }
}
