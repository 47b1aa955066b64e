#include "daemon/launch/launch.h"

/* What every function may use without being asked. */
#define DEFAULT_DYNAMIC_SHARED (48 << 10)

static int evaluate(const char *what, int i, struct text text, const struct scope *scope, int64_t *ret,
                    struct error *error)
{
    static const char *const names[] = {".x", ".y", ".z", ""};
    if (expression_evaluate(text, scope, ret, error) < 0)
        return error_wrap(error, "%s%s", what, names[i]);
    return 0;
}

int launch_params_evaluate(const struct launch *launch, const struct scope *scope, struct launch_params *ret,
                           struct error *error)
{
    struct launch_params params = {{1, 1, 1}, {1, 1, 1}, 0};
    if (!launch)
        return error_set(error, STATUS_INVALID_LAUNCH, "the fusion does not say how to launch it");
    if (launch->n_grid > 3 || launch->n_block > 3)
        return error_set(error, STATUS_INVALID_LAUNCH, "grid and block have at most 3 dimensions");
    for (int i = 0; i < (int)launch->n_grid; i++) {
        if (evaluate("grid", i, launch->grid[i], scope, &params.grid[i], error) < 0)
            return -1;
    }
    for (int i = 0; i < (int)launch->n_block; i++) {
        if (evaluate("block", i, launch->block[i], scope, &params.block[i], error) < 0)
            return -1;
    }
    if (launch->dynamic_shared_memory.at && evaluate("dynamic_shared_memory", 3, launch->dynamic_shared_memory, scope,
                                                     &params.dynamic_shared_memory, error) < 0)
        return -1;
    *ret = params;
    return 0;
}

static int settle(const char *what, int i, bool computed, bool force, int64_t given, int64_t *ret, struct error *error)
{
    static const char *const names[] = {".x", ".y", ".z", ""};
    if (computed && !force && given != *ret)
        return error_set(error, STATUS_INVALID_LAUNCH,
                         "%s%s: %lld is given, but the fusion computes %lld (force launches with what is given)", what,
                         names[i], (long long)given, (long long)*ret);
    *ret = given;
    return 0;
}

int launch_params_settle(const struct launch *launch, const struct scope *scope, const struct launch_override *override,
                         struct launch_params *ret, struct error *error)
{
    struct launch_params params = {{1, 1, 1}, {1, 1, 1}, 0};
    if (override->n_grid > 3 || override->n_block > 3)
        return error_set(error, STATUS_INVALID_LAUNCH, "grid and block have at most 3 dimensions");
    if (!launch && (override->n_grid == 0 || override->n_block == 0))
        return error_set(error, STATUS_INVALID_LAUNCH,
                         "the fusion does not say how to launch it, so grid and block must be given");
    if (launch && launch_params_evaluate(launch, scope, &params, error) < 0)
        return -1;
    /* A dimension that is left out is 1, so what is given says all of grid or block. */
    for (int i = 0; i < 3; i++) {
        int64_t grid = (size_t)i < override->n_grid ? override->grid[i] : 1;
        int64_t block = (size_t)i < override->n_block ? override->block[i] : 1;
        if ((override->n_grid &&
             settle("grid", i, launch && launch->n_grid, override->force, grid, &params.grid[i], error) < 0) ||
            (override->n_block &&
             settle("block", i, launch && launch->n_block, override->force, block, &params.block[i], error) < 0))
            return -1;
    }
    if (override->has_dynamic_shared_memory &&
        settle("dynamic_shared_memory", 3, launch && launch->dynamic_shared_memory.at, override->force,
               override->dynamic_shared_memory, &params.dynamic_shared_memory, error) < 0)
        return -1;
    *ret = params;
    return 0;
}

static int read_attribute(const struct driver *driver, int device, int attribute, int64_t *ret, struct error *error)
{
    int value;
    int result = driver->device_get_attribute(&value, attribute, device);
    if (result != 0)
        return driver_failed(driver, "cuDeviceGetAttribute", result, error);
    *ret = value;
    return 0;
}

int launch_limits_read(const struct driver *driver, int device, void *function, struct launch_limits *ret,
                       struct error *error)
{
    struct launch_limits limits;
    int threads, shared;
    for (int i = 0; i < 3; i++) {
        if (read_attribute(driver, device, DEVICE_MAX_GRID_X + i, &limits.grid[i], error) < 0 ||
            read_attribute(driver, device, DEVICE_MAX_BLOCK_X + i, &limits.block[i], error) < 0)
            return -1;
    }
    if (read_attribute(driver, device, DEVICE_MAX_THREADS_PER_BLOCK, &limits.threads, error) < 0 ||
        read_attribute(driver, device, DEVICE_MAX_SHARED_PER_BLOCK_OPTIN, &limits.dynamic_shared_memory, error) < 0)
        return -1;
    int result = driver->function_get_attribute(&threads, FUNCTION_MAX_THREADS_PER_BLOCK, function);
    if (result == 0)
        result = driver->function_get_attribute(&shared, FUNCTION_STATIC_SHARED, function);
    if (result != 0)
        return driver_failed(driver, "cuFuncGetAttribute", result, error);
    limits.threads = threads < limits.threads ? threads : limits.threads;
    limits.dynamic_shared_memory -= shared;
    *ret = limits;
    return 0;
}

static int check_dimension(const char *what, int i, int64_t value, int64_t least, int64_t most, struct error *error)
{
    if (value >= least && value <= most)
        return 0;
    return error_set(error, STATUS_INVALID_LAUNCH, "%s.%c: %lld; possible are %lld to %lld", what, "xyz"[i],
                     (long long)value, (long long)least, (long long)most);
}

int launch_params_check(const struct launch_params *params, const struct launch_limits *limits, struct error *error)
{
    int64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (check_dimension("grid", i, params->grid[i], 0, limits->grid[i], error) < 0 ||
            check_dimension("block", i, params->block[i], 1, limits->block[i], error) < 0)
            return -1;
        threads *= params->block[i];
    }
    if (threads > limits->threads)
        return error_set(error, STATUS_INVALID_LAUNCH, "block: %lld threads; device and kernel allow %lld",
                         (long long)threads, (long long)limits->threads);
    if (params->dynamic_shared_memory < 0 || params->dynamic_shared_memory > limits->dynamic_shared_memory)
        return error_set(error, STATUS_INVALID_LAUNCH,
                         "dynamic_shared_memory: %lld bytes; beside the kernel's static part the device has %lld",
                         (long long)params->dynamic_shared_memory, (long long)limits->dynamic_shared_memory);
    return 0;
}

int launch_kernel(const struct driver *driver, void *function, const struct launch_params *params,
                  const struct argument_bytes *arguments, void *stream, struct error *error)
{
    int result;
    if (params->grid[0] == 0 || params->grid[1] == 0 || params->grid[2] == 0)
        return 0;
    if (params->dynamic_shared_memory > DEFAULT_DYNAMIC_SHARED) {
        result =
            driver->function_set_attribute(function, FUNCTION_MAX_DYNAMIC_SHARED, (int)params->dynamic_shared_memory);
        if (result != 0)
            return driver_failed(driver, "cuFuncSetAttribute", result, error);
    }
    result =
        driver->launch_kernel(function, (unsigned)params->grid[0], (unsigned)params->grid[1], (unsigned)params->grid[2],
                              (unsigned)params->block[0], (unsigned)params->block[1], (unsigned)params->block[2],
                              (unsigned)params->dynamic_shared_memory, stream, arguments->pointers, NULL);
    return result == 0 ? 0 : driver_failed(driver, "cuLaunchKernel", result, error);
}
