#include "daemon/executor/host/grid.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/executor/host/jobs.h"

/* Of an argument's copy: what the strictest parameter asks for. */
#define ARGUMENT_ALIGNMENT 128u

struct grid {
    struct host_job job;
    struct host_block_grid shared; /* what its blocks see */
    struct host_launch launch;
    struct host_pool *pool;
    void *bytes;
    pthread_mutex_t lock;
    pthread_cond_t all_there;
    unsigned long long there, round; /* of the grid's own barrier */
    unsigned long long alive;        /* cooperative: blocks that have not ended */
    bool failed;
    char why[HOST_WHY];
};

/* ---- arguments ---- */

static size_t padded(size_t size)
{
    return (size + ARGUMENT_ALIGNMENT - 1) / ARGUMENT_ALIGNMENT * ARGUMENT_ALIGNMENT;
}

static int copy_arguments(struct grid *grid, struct error *error)
{
    const struct fusiond_host_entry *entry = grid->launch.entry;
    unsigned n = entry->n_parameters;
    size_t size = padded((n + 1) * sizeof(void *));
    for (unsigned i = 0; i < n; i++)
        size += padded(entry->parameters[i].size);
    grid->bytes = aligned_alloc(ARGUMENT_ALIGNMENT, size);
    if (!grid->bytes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %u arguments", n);
    void **pointers = grid->bytes;
    char *at = (char *)grid->bytes + padded((n + 1) * sizeof(void *));
    for (unsigned i = 0; i < n; i++) {
        memcpy(at, grid->launch.arguments[i], entry->parameters[i].size);
        pointers[i] = at;
        at += padded(entry->parameters[i].size);
    }
    grid->shared.arguments = pointers;
    return 0;
}

/* ---- blocks ---- */

static void note_failure(struct grid *grid, const char *why)
{
    pthread_mutex_lock(&grid->lock);
    if (!grid->failed)
        snprintf(grid->why, sizeof grid->why, "%s", why);
    grid->failed = true;
    atomic_store_explicit(&grid->shared.stop, true, memory_order_relaxed);
    pthread_cond_broadcast(&grid->all_there);
    pthread_mutex_unlock(&grid->lock);
}

static bool run_block(struct host_job *job, struct host_runner *runner, unsigned long long block)
{
    struct grid *grid = (struct grid *)job; /* the job is its first member */
    struct fusiond_host_here here;
    char why[HOST_WHY];
    host_image_here(grid->launch.image, &here);
    if (host_block_run(runner, &grid->shared, &here, block, why))
        return true;
    note_failure(grid, why);
    return false;
}

static void end_grid(struct host_job *job)
{
    struct grid *grid = (struct grid *)job;
    void (*done)(void *, const char *) = grid->launch.done;
    void *context = grid->launch.context;
    char why[HOST_WHY];
    bool failed = grid->failed;
    memcpy(why, grid->why, sizeof why);
    pthread_mutex_destroy(&grid->lock);
    pthread_cond_destroy(&grid->all_there);
    free(grid->bytes);
    free(grid);
    done(context, failed ? why : NULL);
}

static void print(void *context, const char *text, size_t size)
{
    host_pool_print(context, text, size);
}

/* ---- cooperative grids: every block has an OS thread ---- */

static bool wait_for_all(struct host_block_grid *shared)
{
    struct grid *grid = (struct grid *)((char *)shared - offsetof(struct grid, shared));
    pthread_mutex_lock(&grid->lock);
    unsigned long long round = grid->round;
    grid->there++;
    if (grid->there == grid->alive) {
        grid->there = 0;
        grid->round++;
        pthread_cond_broadcast(&grid->all_there);
    }
    while (grid->round == round && !grid->failed)
        pthread_cond_wait(&grid->all_there, &grid->lock);
    bool good = !grid->failed;
    pthread_mutex_unlock(&grid->lock);
    return good;
}

/* A block that has ended is not waited for. True: it was the last one. */
static bool leave_grid(struct grid *grid)
{
    pthread_mutex_lock(&grid->lock);
    bool last = --grid->alive == 0;
    if (!last && grid->there == grid->alive) {
        grid->there = 0;
        grid->round++;
        pthread_cond_broadcast(&grid->all_there);
    }
    pthread_mutex_unlock(&grid->lock);
    return last;
}

struct seat {
    struct grid *grid;
    unsigned long long block;
};

static void *run_seat(void *data)
{
    struct seat seat = *(struct seat *)data;
    struct host_pool *pool = seat.grid->pool;
    struct host_runner *runner;
    struct error error;
    free(data);
    if (host_runner_create(&runner, &error) == 0) {
        run_block(&seat.grid->job, runner, seat.block);
        host_runner_destroy(runner);
    } else {
        note_failure(seat.grid, error.text);
    }
    if (leave_grid(seat.grid)) {
        end_grid(&seat.grid->job);
        host_pool_ended(pool);
    }
    return NULL;
}

/* A thread for each block. Those that are begun fail when one cannot be. */
static void run_cooperative(struct grid *grid, unsigned long long blocks)
{
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    grid->alive = blocks;
    host_pool_began(grid->pool);
    struct host_pool *pool = grid->pool;
    for (unsigned long long i = 0; i < blocks; i++) {
        pthread_t thread;
        struct seat *seat = malloc(sizeof *seat);
        if (seat)
            *seat = (struct seat){grid, i};
        if (seat && pthread_create(&thread, &detached, run_seat, seat) == 0)
            continue;
        free(seat);
        note_failure(grid, "no thread for a block of a cooperative grid");
        for (; i < blocks; i++) {
            if (leave_grid(grid)) {
                end_grid(&grid->job);
                host_pool_ended(pool);
            }
        }
    }
    pthread_attr_destroy(&detached);
}

/* ---- the launch ---- */

static int check_extent(const char *what, int i, unsigned value, unsigned most, struct error *error)
{
    if (value >= 1 && value <= most)
        return 0;
    return error_set(error, STATUS_INVALID_LAUNCH, "%s.%c: %u; possible are 1 to %u", what, "xyz"[i], value, most);
}

static int check(const struct host_launch *launch, unsigned long long *ret_blocks, struct error *error)
{
    unsigned long long threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (check_extent("grid", i, launch->grid[i], i == 0 ? HOST_GRID_X_MAX : HOST_GRID_YZ_MAX, error) < 0 ||
            check_extent("block", i, launch->block[i], i == 2 ? HOST_BLOCK_Z_MAX : FUSIOND_HOST_BLOCK_MAX, error) < 0)
            return -1;
        threads *= launch->block[i];
        blocks *= launch->grid[i];
    }
    if (threads > FUSIOND_HOST_BLOCK_MAX)
        return error_set(error, STATUS_INVALID_LAUNCH, "block: %llu threads; the host device allows %u", threads,
                         FUSIOND_HOST_BLOCK_MAX);
    if (launch->dynamic_shared > FUSIOND_HOST_DYNAMIC_BYTES)
        return error_set(error, STATUS_INVALID_LAUNCH, "dynamic_shared_memory: %zu bytes; the host device has %d",
                         launch->dynamic_shared, FUSIOND_HOST_DYNAMIC_BYTES);
    if (launch->cooperative && blocks > HOST_GRID_COOPERATIVE_MAX)
        return error_set(error, STATUS_INVALID_LAUNCH,
                         "grid: %llu blocks; of a cooperative launch %u can be resident on the host device", blocks,
                         HOST_GRID_COOPERATIVE_MAX);
    *ret_blocks = blocks;
    return 0;
}

int host_grid_run(struct host_pool *pool, const struct host_launch *launch, struct error *error)
{
    unsigned long long blocks = 0;
    if (check(launch, &blocks, error) < 0)
        return -1;
    struct grid *grid = calloc(1, sizeof *grid);
    if (!grid)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a launch");
    grid->launch = *launch;
    grid->pool = pool;
    if (copy_arguments(grid, error) < 0) {
        free(grid);
        return -1;
    }
    pthread_mutex_init(&grid->lock, NULL);
    pthread_cond_init(&grid->all_there, NULL);
    grid->job.blocks = blocks;
    grid->job.run = run_block;
    grid->job.done = end_grid;
    grid->shared.entry = launch->entry;
    grid->shared.cooperative = launch->cooperative;
    grid->shared.wait = wait_for_all;
    grid->shared.print = print;
    grid->shared.print_context = pool;
    memcpy(grid->shared.grid, launch->grid, sizeof launch->grid);
    memcpy(grid->shared.block, launch->block, sizeof launch->block);
    if (launch->cooperative)
        run_cooperative(grid, blocks);
    else
        host_pool_post(pool, &grid->job);
    return 0;
}
