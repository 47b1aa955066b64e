/*
 * A block's threads run one after the other on fibers. One that has to wait leaves its fiber where it is and another
 * goes on; one that never waits costs no switch, since the next begins on the same fiber.
 *
 *   NEW ──begin──► RUNNING ──wait──► WAITING ──what it waits for has come──► READY ──► RUNNING
 *                     └──return──► EXITED
 *
 * When nobody can run and not all have exited, the block is stuck, unless lanes wait for their warp to converge: that
 * has come about when every lane of it waits.
 */
#include "daemon/executor/host/block.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "daemon/executor/host/fiber.h"

#define THREADS FUSIOND_HOST_BLOCK_MAX
#define WARP FUSIOND_HOST_WARP
#define WARPS (THREADS / WARP)
/* At the far end of every stack; another value there means that the stack has run over. */
#define CANARY 0x5ca1ab1e0ddba115ull

enum state {
    STATE_NEW,
    STATE_RUNNING,
    STATE_READY,
    STATE_BARRIER,
    STATE_WARP,
    STATE_CONVERGE,
    STATE_GRID,
    STATE_EXITED,
};

/* How a thread's lanes meet. */
enum meeting {
    MEET_SYNC,
    MEET_SHUFFLE,
    MEET_BALLOT,
    MEET_GATHER,
};

struct strand; /* a fiber that runs threads */

struct thread {
    enum state state;
    struct strand *strand; /* while it has begun and not exited */
    unsigned next;         /* in a queue of threads */
    unsigned barrier;
    enum meeting meeting;
    unsigned mask;
    unsigned long long value; /* what it brings, and then what it gets */
    unsigned source;
    unsigned long long *values; /* gather: where the values of all go */
    unsigned long long site;
};

struct strand {
    struct fiber fiber;
    struct host_runner *runner;
    unsigned thread; /* the one it runs */
    struct strand *next_idle;
    unsigned long long *canary;
    bool begun;
};

struct barrier {
    unsigned arrived;
    unsigned threads; /* that are awaited; 0: all that have not exited */
    unsigned votes;
    unsigned first; /* of its waiters, a queue */
};

#define NOBODY 0xffffffffu

struct host_runner {
    struct fiber own; /* the OS thread */
    void *stacks;
    struct strand strands[THREADS];
    unsigned n_strands;  /* that have ever run */
    struct strand *idle; /* that run nothing */
    struct strand *running;

    struct host_block_grid *grid;
    struct fusiond_host_here here;
    unsigned n; /* threads */
    unsigned next_new;
    unsigned live;    /* that have not exited */
    unsigned waiting; /* for the grid */
    unsigned ready_first, ready_last;
    bool prefer_new;         /* somebody has yielded: threads that have not begun come first */
    unsigned at_barriers;    /* threads that wait at one */
    unsigned meeting[WARPS]; /* lanes that wait to meet */
    unsigned missing[WARPS]; /* lanes that have exited, or never were */
    unsigned block[3];
    struct thread threads[THREADS];
    struct barrier barriers[FUSIOND_HOST_BARRIERS];
    bool failed;
    char why[HOST_WHY];
};

static _Thread_local struct host_runner *current;

/* ---- queues ---- */

static void make_ready(struct host_runner *runner, unsigned thread)
{
    runner->threads[thread].state = STATE_READY;
    runner->threads[thread].next = NOBODY;
    if (runner->ready_first == NOBODY)
        runner->ready_first = thread;
    else
        runner->threads[runner->ready_last].next = thread;
    runner->ready_last = thread;
}

static unsigned take_ready(struct host_runner *runner)
{
    unsigned thread = runner->ready_first;
    if (thread != NOBODY)
        runner->ready_first = runner->threads[thread].next;
    return thread;
}

/* ---- which thread it is ---- */

static void set_here(struct host_runner *runner, unsigned thread)
{
    const unsigned *extents = runner->grid->block;
    const struct fusiond_host_here *here = &runner->here;
    *here->lane = thread % WARP;
    if (runner->n == extents[0]) {
        here->thread[0] = thread;
        return;
    }
    here->thread[0] = thread % extents[0];
    here->thread[1] = thread / extents[0] % extents[1];
    here->thread[2] = thread / extents[0] / extents[1];
}

static void fail(struct host_runner *runner, const char *why)
{
    if (!runner->failed)
        snprintf(runner->why, sizeof runner->why, "block (%u, %u, %u), thread (%u, %u, %u): %s", runner->block[0],
                 runner->block[1], runner->block[2], runner->here.thread[0], runner->here.thread[1],
                 runner->here.thread[2], why);
    runner->failed = true;
}

/* ---- switching ---- */

/* Leave the running thread, which has been put where it waits; return when it goes on. */
static void leave(struct host_runner *runner)
{
    struct strand *strand = runner->running;
    unsigned thread = strand->thread;
    if (*strand->canary != CANARY) {
        fail(runner, "its stack of 64 KiB has run over");
    }
    fiber_switch(&strand->fiber, &runner->own);
    runner->running = strand;
    runner->threads[thread].state = STATE_RUNNING;
    set_here(runner, thread);
}

static void check_barriers_after_exit(struct host_runner *runner);
static void check_warp_after_exit(struct host_runner *runner, unsigned thread);

/* A strand's life: thread after thread, and sleep when there is none. */
static void run_threads(void *data)
{
    struct strand *strand = data;
    struct host_runner *runner = strand->runner;
    for (;;) {
        while (runner->next_new < runner->n && !runner->failed) {
            unsigned thread = strand->thread = runner->next_new++;
            runner->threads[thread].state = STATE_RUNNING;
            runner->threads[thread].strand = strand;
            set_here(runner, thread);
            runner->grid->entry->call(runner->grid->arguments);
            /* Maybe on from a wait, with other threads begun meanwhile. */
            thread = strand->thread;
            runner->threads[thread].state = STATE_EXITED;
            runner->live--;
            runner->missing[thread / WARP]++;
            if (runner->at_barriers > 0)
                check_barriers_after_exit(runner);
            if (runner->meeting[thread / WARP] > 0)
                check_warp_after_exit(runner, thread);
        }
        strand->next_idle = runner->idle;
        runner->idle = strand;
        fiber_switch(&strand->fiber, &runner->own);
        runner->running = strand;
    }
}

static struct strand *take_strand(struct host_runner *runner)
{
    struct strand *strand = runner->idle;
    if (strand) {
        runner->idle = strand->next_idle;
        return strand;
    }
    strand = &runner->strands[runner->n_strands];
    char *stack = (char *)runner->stacks + (size_t)runner->n_strands++ * HOST_STACK;
    strand->runner = runner;
    strand->canary = (unsigned long long *)(void *)stack;
    *strand->canary = CANARY;
    /* Not all tops at the same place of a cache: they are a power of two apart, and each is used for a few lines. */
    size_t size = HOST_STACK - sizeof CANARY * 2 - (runner->n_strands * 5 % 64) * 64;
    fiber_init(&strand->fiber, stack + sizeof CANARY * 2, size, run_threads, strand);
    return strand;
}

/* What strands were doing is forgotten: their threads are given up. */
static void forget_strands(struct host_runner *runner)
{
    for (unsigned i = 0; i < runner->n_strands; i++)
        fiber_finish(&runner->strands[i].fiber);
    runner->n_strands = 0;
    runner->idle = NULL;
}

static void go_on(struct host_runner *runner, struct strand *strand)
{
    runner->running = strand;
    fiber_switch(&runner->own, &strand->fiber);
    runner->running = NULL;
}

/* ---- barriers ---- */

static void release_barrier(struct host_runner *runner, struct barrier *barrier)
{
    unsigned long long vote = (unsigned long long)barrier->arrived << 32 | barrier->votes;
    unsigned thread = barrier->first;
    *barrier = (struct barrier){.first = NOBODY};
    while (thread != NOBODY) {
        unsigned next = runner->threads[thread].next;
        runner->threads[thread].value = vote;
        runner->at_barriers--;
        make_ready(runner, thread);
        thread = next;
    }
}

static bool is_complete(const struct host_runner *runner, const struct barrier *barrier)
{
    return barrier->arrived > 0 && barrier->arrived >= (barrier->threads ? barrier->threads : runner->live);
}

static void check_barriers_after_exit(struct host_runner *runner)
{
    for (unsigned i = 0; i < FUSIOND_HOST_BARRIERS; i++) {
        if (runner->barriers[i].threads == 0 && is_complete(runner, &runner->barriers[i]))
            release_barrier(runner, &runner->barriers[i]);
    }
}

static unsigned long long arrive(struct host_runner *runner, unsigned number, unsigned threads, int predicate)
{
    struct barrier *barrier = &runner->barriers[number % FUSIOND_HOST_BARRIERS];
    unsigned self = runner->running->thread;
    struct thread *thread = &runner->threads[self];
    barrier->threads = threads;
    barrier->arrived++;
    barrier->votes += predicate != 0;
    if (is_complete(runner, barrier)) {
        unsigned long long vote = (unsigned long long)barrier->arrived << 32 | barrier->votes;
        release_barrier(runner, barrier);
        return vote;
    }
    thread->state = STATE_BARRIER;
    thread->barrier = number;
    thread->next = barrier->first;
    barrier->first = self;
    runner->at_barriers++;
    leave(runner);
    return thread->value;
}

static void block_sync(unsigned barrier, unsigned threads)
{
    arrive(current, barrier, threads, 0);
}

static unsigned long long block_vote(int predicate)
{
    return arrive(current, 0, 0, predicate);
}

/* ---- warps ---- */

/* The lanes of the thread's warp that wait to meet by this mask. */
static unsigned lanes_that_meet(const struct host_runner *runner, unsigned first, unsigned mask)
{
    unsigned lanes = 0;
    for (unsigned i = 0; i < WARP && first + i < runner->n; i++) {
        const struct thread *thread = &runner->threads[first + i];
        if (thread->state == STATE_WARP && thread->mask == mask)
            lanes |= 1u << i;
    }
    return lanes;
}

static unsigned lanes_alive(const struct host_runner *runner, unsigned first)
{
    unsigned lanes = 0;
    for (unsigned i = 0; i < WARP && first + i < runner->n; i++) {
        if (runner->threads[first + i].state != STATE_EXITED)
            lanes |= 1u << i;
    }
    return lanes;
}

/* Give everybody what it came for. All bring first, then all get: a value must not be read after it was replaced. */
static void meet(struct host_runner *runner, unsigned first, unsigned lanes)
{
    unsigned long long values[WARP];
    unsigned ballot = 0;
    for (unsigned i = 0; i < WARP; i++) {
        if (!(lanes >> i & 1))
            continue;
        values[i] = runner->threads[first + i].value;
        ballot |= values[i] ? 1u << i : 0;
    }
    for (unsigned i = 0; i < WARP; i++) {
        struct thread *thread = &runner->threads[first + i];
        if (!(lanes >> i & 1))
            continue;
        if (thread->meeting == MEET_SHUFFLE && (lanes >> (thread->source % WARP) & 1))
            thread->value = values[thread->source % WARP];
        else if (thread->meeting == MEET_BALLOT)
            thread->value = ballot;
        else if (thread->meeting == MEET_GATHER) {
            for (unsigned j = 0; j < WARP; j++)
                thread->values[j] = lanes >> j & 1 ? values[j] : 0;
            thread->value = lanes;
        }
    }
}

/* Release those who meet by the mask, if all of them are there; `self` runs and is only counted. */
static bool try_to_meet(struct host_runner *runner, unsigned first, unsigned mask, unsigned self)
{
    unsigned warp = first / WARP;
    /* Most often somebody is missing, and counting them is enough. */
    if (runner->meeting[warp] + runner->missing[warp] < (unsigned)__builtin_popcount(mask))
        return false;
    unsigned lanes = lanes_that_meet(runner, first, mask);
    if (lanes == 0 || (mask & lanes_alive(runner, first) & ~lanes) != 0)
        return false;
    meet(runner, first, lanes);
    runner->meeting[warp] -= (unsigned)__builtin_popcount(lanes);
    for (unsigned i = 0; i < WARP; i++) {
        if ((lanes >> i & 1) && first + i != self)
            make_ready(runner, first + i);
    }
    return true;
}

static void check_warp_after_exit(struct host_runner *runner, unsigned thread)
{
    unsigned first = thread / WARP * WARP;
    for (unsigned i = 0; i < WARP && first + i < runner->n; i++) {
        if (runner->threads[first + i].state == STATE_WARP)
            try_to_meet(runner, first, runner->threads[first + i].mask, NOBODY);
    }
}

static struct thread *meet_by(unsigned mask, enum meeting meeting, unsigned long long value)
{
    struct host_runner *runner = current;
    unsigned self = runner->running->thread;
    struct thread *thread = &runner->threads[self];
    thread->state = STATE_WARP;
    thread->mask = mask | 1u << self % WARP; /* who calls is meant, whatever the mask says */
    thread->meeting = meeting;
    thread->value = value;
    runner->meeting[self / WARP]++;
    if (try_to_meet(runner, self / WARP * WARP, thread->mask, self))
        thread->state = STATE_RUNNING;
    else
        leave(runner);
    return thread;
}

static void warp_sync(unsigned mask)
{
    meet_by(mask, MEET_SYNC, 0);
}

static unsigned long long warp_shuffle(unsigned mask, unsigned long long value, unsigned source)
{
    current->threads[current->running->thread].source = source;
    return meet_by(mask, MEET_SHUFFLE, value)->value;
}

static unsigned warp_ballot(unsigned mask, int predicate)
{
    return (unsigned)meet_by(mask, MEET_BALLOT, predicate != 0)->value;
}

static unsigned warp_gather(unsigned mask, unsigned long long value, unsigned long long values[32])
{
    current->threads[current->running->thread].values = values;
    return (unsigned)meet_by(mask, MEET_GATHER, value)->value;
}

static unsigned warp_converged(unsigned long long site)
{
    struct host_runner *runner = current;
    struct thread *thread = &runner->threads[runner->running->thread];
    thread->state = STATE_CONVERGE;
    thread->site = site;
    leave(runner);
    return (unsigned)thread->value;
}

/* Nobody can run: in every warp, the lanes at the place of the first one that waits to converge go on together. */
static bool converge(struct host_runner *runner)
{
    bool any = false;
    for (unsigned first = 0; first < runner->n; first += WARP) {
        unsigned lanes = 0;
        unsigned long long site = 0;
        for (unsigned i = 0; i < WARP && first + i < runner->n; i++) {
            const struct thread *thread = &runner->threads[first + i];
            if (thread->state != STATE_CONVERGE || (lanes && thread->site != site))
                continue;
            site = thread->site;
            lanes |= 1u << i;
        }
        for (unsigned i = 0; i < WARP; i++) {
            if (!(lanes >> i & 1))
                continue;
            runner->threads[first + i].value = lanes;
            make_ready(runner, first + i);
            any = true;
        }
    }
    return any;
}

/* ---- the rest of the table ---- */

static void yield(void)
{
    struct host_runner *runner = current;
    make_ready(runner, runner->running->thread);
    runner->prefer_new = true;
    leave(runner);
}

__attribute__((noreturn)) static void trap(const char *text)
{
    struct host_runner *runner = current;
    fail(runner, text);
    /* The thread is given up where it stands. */
    fiber_switch(&runner->running->fiber, &runner->own);
    __builtin_trap();
}

static void grid_sync(void)
{
    struct host_runner *runner = current;
    if (!runner->grid->cooperative)
        trap("the grid waits for itself, but the launch is not cooperative");
    runner->threads[runner->running->thread].state = STATE_GRID;
    runner->waiting++;
    leave(runner);
}

static int cooperative(void)
{
    return current->grid->cooperative;
}

static int print(const char *format, __builtin_va_list arguments)
{
    struct host_block_grid *grid = current->grid;
    char text[1024];
    int n = vsnprintf(text, sizeof text, format, arguments);
    size_t size = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    if (grid->print)
        grid->print(grid->print_context, text, size);
    else
        fwrite(text, 1, size, stdout);
    return n;
}

static unsigned long long nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
}

const struct fusiond_host_runtime *host_block_runtime(void)
{
    static const struct fusiond_host_runtime runtime = {
        .abi = FUSIOND_HOST_ABI,
        .block_sync = block_sync,
        .block_vote = block_vote,
        .grid_sync = grid_sync,
        .cooperative = cooperative,
        .warp_sync = warp_sync,
        .warp_shuffle = warp_shuffle,
        .warp_ballot = warp_ballot,
        .warp_gather = warp_gather,
        .warp_converged = warp_converged,
        .yield = yield,
        .trap = trap,
        .print = print,
        .clock = nanoseconds,
    };
    return &runtime;
}

const char *host_block_where(unsigned ret_block[3], unsigned ret_thread[3])
{
    const struct host_runner *runner = current;
    if (!runner || !runner->running)
        return NULL;
    memcpy(ret_block, runner->block, sizeof runner->block);
    memcpy(ret_thread, runner->here.thread, 3 * sizeof *ret_thread);
    return runner->grid->entry->name;
}

/* ---- a block ---- */

static void begin_block(struct host_runner *runner, struct host_block_grid *grid, const struct fusiond_host_here *here,
                        unsigned long long index)
{
    runner->grid = grid;
    runner->here = *here;
    runner->n = runner->live = grid->block[0] * grid->block[1] * grid->block[2];
    runner->next_new = 0;
    runner->waiting = 0;
    runner->ready_first = NOBODY;
    runner->failed = false;
    runner->prefer_new = false;
    runner->at_barriers = 0;
    here->thread[0] = here->thread[1] = here->thread[2] = 0;
    for (unsigned i = 0; i < runner->n; i++)
        runner->threads[i].state = STATE_NEW;
    for (unsigned i = 0; i < WARPS; i++) {
        unsigned lanes = runner->n > i * WARP ? runner->n - i * WARP : 0;
        runner->meeting[i] = 0;
        runner->missing[i] = lanes < WARP ? WARP - lanes : 0;
    }
    for (unsigned i = 0; i < FUSIOND_HOST_BARRIERS; i++)
        runner->barriers[i] = (struct barrier){.first = NOBODY};
    runner->block[0] = (unsigned)(index % grid->grid[0]);
    runner->block[1] = (unsigned)(index / grid->grid[0] % grid->grid[1]);
    runner->block[2] = (unsigned)(index / grid->grid[0] / grid->grid[1]);
    memcpy(here->block, runner->block, sizeof runner->block);
    memcpy(here->block_dim, grid->block, sizeof grid->block);
    memcpy(here->grid_dim, grid->grid, sizeof grid->grid);
}

/* All that live wait for the grid: the OS thread does it for them. */
static void wait_for_grid(struct host_runner *runner)
{
    if (!runner->grid->wait(runner->grid)) {
        fail(runner, "another block has failed");
        return;
    }
    runner->waiting = 0;
    for (unsigned i = 0; i < runner->n; i++) {
        if (runner->threads[i].state == STATE_GRID)
            make_ready(runner, i);
    }
}

static void run_all(struct host_runner *runner)
{
    while (runner->live > 0 && !runner->failed) {
        bool begin_one = runner->prefer_new && runner->next_new < runner->n;
        unsigned thread = begin_one ? NOBODY : take_ready(runner);
        runner->prefer_new = false;
        if (thread != NOBODY)
            go_on(runner, runner->threads[thread].strand);
        else if (runner->next_new < runner->n)
            go_on(runner, take_strand(runner));
        else if (runner->waiting > 0 && runner->waiting == runner->live)
            wait_for_grid(runner);
        else if (!converge(runner))
            fail(runner, "it waits at a barrier, or for lanes of its warp, that others never reach");
    }
}

bool host_block_run(struct host_runner *runner, struct host_block_grid *grid, const struct fusiond_host_here *here,
                    unsigned long long index, char why[HOST_WHY])
{
    begin_block(runner, grid, here, index);
    current = runner;
    run_all(runner);
    current = NULL;
    for (unsigned i = 0; i < runner->n_strands && !runner->failed; i++) {
        if (*runner->strands[i].canary != CANARY)
            fail(runner, "a stack of 64 KiB has run over");
    }
    if (!runner->failed)
        return true;
    memcpy(why, runner->why, HOST_WHY);
    forget_strands(runner);
    return false;
}

/* ---- life ---- */

int host_runner_create(struct host_runner **ret, struct error *error)
{
    struct host_runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a block's threads");
    /* Touched only as far as threads wait. One page below, which nobody may touch. */
    const size_t guard = 4096;
    char *stacks = mmap(NULL, guard + (size_t)THREADS * HOST_STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED) {
        free(runner);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %u stacks", THREADS);
    }
    mprotect(stacks, guard, PROT_NONE);
    runner->stacks = stacks + guard;
    fiber_init_thread(&runner->own);
    *ret = runner;
    return 0;
}

void host_runner_destroy(struct host_runner *runner)
{
    if (!runner)
        return;
    forget_strands(runner);
    munmap((char *)runner->stacks - 4096, 4096 + (size_t)THREADS * HOST_STACK);
    free(runner);
}
