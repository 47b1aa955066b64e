/* Launches on the host device: a grid of one entry, checked, run by a pool, ended by a callback. */
#ifndef DAEMON_EXECUTOR_HOST_GRID_H
#define DAEMON_EXECUTOR_HOST_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/executor/host/image.h"
#include "daemon/executor/host/pool.h"
#include "proto/error.h"

/* Blocks of a cooperative grid: each has an OS thread of its own. */
#define HOST_GRID_COOPERATIVE_MAX 256u

/* Static facts, for the checks that are the same for every device. */
#define HOST_GRID_X_MAX 2147483647u
#define HOST_GRID_YZ_MAX 65535u
#define HOST_BLOCK_Z_MAX 64u

struct host_launch {
    const struct host_image *image;
    const struct fusiond_host_entry *entry;
    unsigned grid[3];
    unsigned block[3];
    size_t dynamic_shared;
    bool cooperative;
    /* One per parameter of the entry, each to as many bytes as the parameter has; copied before the call returns. */
    const void *const *arguments;
    /* Once, from a thread of the pool that holds no lock, perhaps before host_grid_run has returned. `why` is NULL
     * unless the kernel trapped: an assertion, a deadlock of its barriers, a stack that ran over. Then no more of its
     * blocks were begun, and what it wrote is undefined; the process is as good as before. It may launch. */
    void (*done)(void *context, const char *why);
    void *context;
};

/* Start a grid. Returns before it has run. Grids run beside each other, in no order: who wants one starts the second
 * in the first one's callback. Wrong extents, too much dynamic shared memory, or too many blocks for a cooperative grid
 * are errors INVALID_LAUNCH that name value and limit, and nothing has begun; then `done` is never called. */
int host_grid_run(struct host_pool *pool, const struct host_launch *launch, struct error *error);

#endif
