/*
 * A block's threads run one after the other on strands, which are fibers. One that has to wait leaves its strand where
 * it is and another goes on, without a detour; one that never waits costs no switch, since the next begins on the same
 * strand.
 *
 *   not begun ──► runs ──wait──► in a queue, or a lane of a set ──what it waits for has come──► ready ──► runs
 *                  └──return──► exited
 *
 * When nobody can run and not all have exited, the OS thread's own fiber looks what is left: threads that wait for the
 * grid, lanes that wait for their warp to converge (which has come about now), or a block that is stuck.
 */
#include "daemon/executor/host/block.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "daemon/executor/host/meeting.h"
#include "daemon/executor/host/runner.h"

/* At the far end of every stack; another value there means that the stack has run over. */
#define CANARY 0x5ca1ab1e0ddba115ull
/* A thread that waits has at least this much left. */
#define STACK_RESERVE 2048u
/* A thread that yields so often may wait for another block, which may need the CPU. */
#define YIELDS_PER_PAUSE 64u

_Thread_local struct host_runner *host_runner_current;

/* ---- failing ---- */

static void fail_block(struct host_runner *runner, const char *why)
{
    if (!runner->failed)
        snprintf(runner->why, sizeof runner->why, "block (%u, %u, %u): %s", runner->block[0], runner->block[1],
                 runner->block[2], why);
    runner->failed = true;
}

void runner_fail(struct host_runner *runner, const char *why)
{
    const unsigned *thread = runner->here.thread;
    if (!runner->failed)
        snprintf(runner->why, sizeof runner->why, "block (%u, %u, %u), thread (%u, %u, %u): %s", runner->block[0],
                 runner->block[1], runner->block[2], thread[0], thread[1], thread[2], why);
    runner->failed = true;
}

__attribute__((noreturn)) static void trap(const char *text)
{
    struct host_runner *runner = host_runner_current;
    runner_fail(runner, text);
    /* The thread is given up where it stands. */
    fiber_switch(&runner->running->fiber, &runner->own);
    __builtin_trap();
}

/* ---- strands ---- */

/* A strand's life: thread after thread, and sleep when there is none. */
static void run_threads(void *data)
{
    struct strand *strand = data;
    struct host_runner *runner = strand->runner;
    for (;;) {
        runner->running = strand;
        while (can_begin(runner) && !runner->failed) {
            unsigned thread = strand->thread = runner->next_new++;
            struct warp *warp = &runner->warps[thread / WARP];
            set_here(runner, thread);
            runner->grid->entry->call(runner->grid->arguments);
            runner->live--;
            warp->exited |= 1u << thread % WARP;
            if (runner->at_barriers | warp->meeting)
                meeting_after_exit(runner, thread);
        }
        strand->next_idle = runner->idle;
        runner->idle = strand;
        fiber_switch(&strand->fiber, next_fiber(runner));
    }
}

struct strand *runner_take_strand(struct host_runner *runner)
{
    struct strand *strand = runner->idle;
    if (strand) {
        runner->idle = strand->next_idle;
    } else {
        strand = &runner->strands[runner->n_strands];
        char *stack = runner->stacks + (size_t)runner->n_strands * HOST_STACK;
        /* Not all tops at the same place of a cache: they are a power of two apart, and each is used for a few lines.
         */
        size_t size = HOST_STACK - sizeof CANARY * 2 - (runner->n_strands * 5 % 64) * 64;
        runner->n_strands++;
        strand->runner = runner;
        strand->canary = (unsigned long long *)(void *)stack;
        *strand->canary = CANARY;
        strand->limit = stack + STACK_RESERVE;
        fiber_init(&strand->fiber, stack + sizeof CANARY * 2, size, run_threads, strand);
    }
    runner->used[runner->n_used++] = strand;
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

/* ---- what kernels ask for ---- */

static void yield(void)
{
    struct host_runner *runner = host_runner_current;
    bool alone = runner->ready.first == NOBODY && !can_begin(runner);
    if (atomic_load_explicit(&runner->grid->stop, memory_order_relaxed))
        trap("another block has failed");
    if (alone || ++runner->yields % YIELDS_PER_PAUSE == 0) {
        /* What it waits for may hang on lanes that wait for their warp. */
        if (!meeting_converge(runner) && alone) {
            sched_yield();
            return;
        }
        sched_yield();
    }
    queue_add(runner, &runner->ready, runner->running->thread);
    runner->prefer_new = true;
    leave(runner);
}

static void grid_sync(void)
{
    struct host_runner *runner = host_runner_current;
    unsigned self = runner->running->thread;
    if (!runner->grid->cooperative)
        trap("it waits for the whole grid, but the launch is not cooperative");
    runner->warps[self / WARP].at_grid |= 1u << self % WARP;
    runner->at_grid++;
    leave(runner);
}

static int cooperative(void)
{
    return host_runner_current->grid->cooperative;
}

static int print(const char *format, __builtin_va_list arguments)
{
    struct host_block_grid *grid = host_runner_current->grid;
    char text[HOST_PRINT];
    int n = vsnprintf(text, sizeof text, format, arguments);
    if (n > 0)
        grid->print(grid->print_context, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
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
        .block_sync = meeting_block_sync,
        .block_vote = meeting_block_vote,
        .grid_sync = grid_sync,
        .cooperative = cooperative,
        .warp_sync = meeting_warp_sync,
        .warp_shuffle = meeting_warp_shuffle,
        .warp_ballot = meeting_warp_ballot,
        .warp_gather = meeting_warp_gather,
        .warp_converged = meeting_warp_converged,
        .yield = yield,
        .trap = trap,
        .print = print,
        .clock = nanoseconds,
    };
    return &runtime;
}

const char *host_block_where(unsigned ret_block[3], unsigned ret_thread[3], const void **ret_stacks)
{
    const struct host_runner *runner = host_runner_current;
    if (!runner || !runner->running)
        return NULL;
    memcpy(ret_block, runner->block, sizeof runner->block);
    memcpy(ret_thread, runner->here.thread, 3 * sizeof *ret_thread);
    *ret_stacks = runner->stacks;
    return runner->grid->entry->name;
}

/* ---- a block ---- */

static void number_threads(struct host_runner *runner, const unsigned extents[3])
{
    if (memcmp(runner->extents, extents, sizeof runner->extents) == 0)
        return;
    memcpy(runner->extents, extents, sizeof runner->extents);
    for (unsigned i = 0; i < extents[0] * extents[1] * extents[2]; i++) {
        runner->index[i][0] = (uint16_t)(i % extents[0]);
        runner->index[i][1] = (uint16_t)(i / extents[0] % extents[1]);
        runner->index[i][2] = (uint16_t)(i / extents[0] / extents[1]);
    }
}

static void begin_block(struct host_runner *runner, struct host_block_grid *grid, const struct fusiond_host_here *here,
                        unsigned long long index)
{
    runner->grid = grid;
    runner->here = *here;
    runner->n = runner->live = grid->block[0] * grid->block[1] * grid->block[2];
    runner->next_new = runner->n_used = 0;
    runner->at_barriers = runner->at_grid = 0;
    runner->ready.first = NOBODY;
    runner->failed = runner->prefer_new = false;
    number_threads(runner, grid->block);
    for (unsigned i = 0; i * WARP < runner->n; i++) {
        unsigned lanes = runner->n - i * WARP;
        runner->warps[i] = (struct warp){.exited = lanes < WARP ? ~0u << lanes : 0};
    }
    for (unsigned i = 0; i < FUSIOND_HOST_BARRIERS; i++) {
        struct barrier *barrier = &runner->barriers[i];
        barrier->arrived = barrier->votes = 0;
        barrier->waiters.first = NOBODY;
    }
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
        fail_block(runner, "another block has failed");
        return;
    }
    runner->at_grid = 0;
    for (unsigned first = 0; first < runner->n; first += WARP) {
        struct warp *warp = &runner->warps[first / WARP];
        for (; warp->at_grid; warp->at_grid &= warp->at_grid - 1)
            queue_add(runner, &runner->ready, first + (unsigned)__builtin_ctz(warp->at_grid));
    }
}

/* Say who waits where. */
static void fail_stuck(struct host_runner *runner)
{
    char why[HOST_WHY - 48]; /* what fail_block puts in front */
    unsigned lanes = 0;
    size_t used = (size_t)snprintf(why, sizeof why, "its threads wait for each other for ever: %u of %u have exited",
                                   runner->n - runner->live, runner->n);
    for (unsigned i = 0; i * WARP < runner->n; i++)
        lanes += (unsigned)__builtin_popcount(runner->warps[i].meeting);
    for (unsigned i = 0; i < FUSIOND_HOST_BARRIERS && used < sizeof why; i++) {
        const struct barrier *barrier = &runner->barriers[i];
        if (barrier->arrived > 0)
            used += (size_t)snprintf(why + used, sizeof why - used, ", barrier %u has %u of %u", i, barrier->arrived,
                                     barrier->threads ? barrier->threads : runner->live);
    }
    if (runner->at_grid > 0 && used < sizeof why)
        used += (size_t)snprintf(why + used, sizeof why - used, ", %u wait for the grid", runner->at_grid);
    if (lanes > 0 && used < sizeof why)
        snprintf(why + used, sizeof why - used, ", %u wait for lanes of their warps", lanes);
    fail_block(runner, why);
}

static void run_all(struct host_runner *runner)
{
    while (runner->live > 0 && !runner->failed) {
        struct fiber *next = next_fiber(runner);
        if (next != &runner->own)
            fiber_switch(&runner->own, next);
        else if (runner->at_grid > 0 && runner->at_grid == runner->live)
            wait_for_grid(runner);
        else if (!meeting_converge(runner))
            fail_stuck(runner);
    }
    runner->running = NULL;
}

bool host_block_run(struct host_runner *runner, struct host_block_grid *grid, const struct fusiond_host_here *here,
                    unsigned long long index, char why[HOST_WHY])
{
    begin_block(runner, grid, here, index);
    host_runner_current = runner;
    run_all(runner);
    host_runner_current = NULL;
    for (unsigned i = 0; i < runner->n_used; i++) {
        if (*runner->used[i]->canary != CANARY)
            fail_block(runner, "a stack of 64 KiB has run over");
    }
    if (!runner->failed)
        return true;
    memcpy(why, runner->why, HOST_WHY);
    forget_strands(runner);
    return false;
}

/* ---- life ---- */

/* A handler of faults needs a stack of its own: the one that ran over has no room for it. */
static void lend_signal_stack(struct host_runner *runner)
{
    stack_t present;
    const stack_t own = {.ss_sp = runner->signal_stack, .ss_size = sizeof runner->signal_stack};
    runner->lends_stack =
        sigaltstack(NULL, &present) == 0 && (present.ss_flags & SS_DISABLE) && sigaltstack(&own, NULL) == 0;
}

static void take_back_signal_stack(struct host_runner *runner)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (runner->lends_stack)
        sigaltstack(&none, NULL);
}

int host_runner_create(struct host_runner **ret, struct error *error)
{
    struct host_runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a block's threads");
    /* Touched only as far as threads wait. */
    char *stacks = mmap(NULL, HOST_GUARD + (size_t)THREADS * HOST_STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED) {
        free(runner);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %u stacks", THREADS);
    }
    mprotect(stacks, HOST_GUARD, PROT_NONE);
    runner->stacks = stacks + HOST_GUARD;
    fiber_memory_is_fresh(runner->stacks, (size_t)THREADS * HOST_STACK);
    fiber_init_thread(&runner->own);
    lend_signal_stack(runner);
    *ret = runner;
    return 0;
}

void host_runner_destroy(struct host_runner *runner)
{
    if (!runner)
        return;
    take_back_signal_stack(runner);
    forget_strands(runner);
    munmap(runner->stacks - HOST_GUARD, HOST_GUARD + (size_t)THREADS * HOST_STACK);
    free(runner);
}
