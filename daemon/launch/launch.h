/* Launch parameters: computed, checked against device and function, and the launch itself. */
#ifndef DAEMON_LAUNCH_LAUNCH_H
#define DAEMON_LAUNCH_LAUNCH_H

#include "daemon/launch/arguments.h"
#include "daemon/launch/driver.h"

/* Blocks, threads, bytes. */
struct launch_params {
    int64_t grid[3], block[3];
    int64_t dynamic_shared_memory;
};

/* What device and function allow together. */
struct launch_limits {
    int64_t grid[3], block[3];
    int64_t threads;               /* per block: the lesser of device and function */
    int64_t dynamic_shared_memory; /* what the device offers less the function's static share */
};

/* Evaluate a fusion's launch description; absent dimensions are 1. INVALID_LAUNCH with the expression's text. */
int launch_params_evaluate(const struct launch *launch, const struct scope *scope, struct launch_params *ret,
                           struct error *error);

/* Launch parameters that the caller brings; what it leaves out is the fusion's, or 1. */
struct launch_override {
    const int64_t *grid, *block; /* n_grid, n_block of them: 0 to 3 */
    size_t n_grid, n_block;
    bool has_dynamic_shared_memory;
    int64_t dynamic_shared_memory;
    bool force; /* instead of what the fusion computes */
};

/* The fusion's launch parameters with the caller's: where both say something and it is not the same, INVALID_LAUNCH
 * with both values, unless forced. `launch` may be NULL: then grid and block must come from the caller. It may also say
 * nothing of one of the three, and then the caller is free there. */
int launch_params_settle(const struct launch *launch, const struct scope *scope, const struct launch_override *override,
                         struct launch_params *ret, struct error *error);

int launch_limits_read(const struct driver *driver, int device, void *function, struct launch_limits *ret,
                       struct error *error);

/* Every dimension and the product of the block's; INVALID_LAUNCH names the dimension, its value and the limit. */
int launch_params_check(const struct launch_params *params, const struct launch_limits *limits, struct error *error);

/* Queue the launch, after raising the function's limit of dynamic shared memory when it needs more than 48 KiB. The
 * parameters must have passed launch_params_check. An empty grid (a dimension of 0) launches nothing. */
int launch_kernel(const struct driver *driver, void *function, const struct launch_params *params,
                  const struct argument_bytes *arguments, void *stream, struct error *error);

#endif
