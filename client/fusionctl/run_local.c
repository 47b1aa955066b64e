/* Launching in a CUDA context of this process, as an application would with fusiond_load and fusiond_launch. */
#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/run_device.h"
#include "daemon/launch/driver.h"

struct local {
    struct run_device base;
    const struct driver *driver;
    int ordinal, device;
    void *context;
    struct fusiond_fusion *fusion;
    struct fusiond_module *module;
    struct run_call *call;
    uint64_t *addresses; /* of memory, one per parameter; 0: none */
};

static struct local *local_of(struct run_device *device)
{
    return (struct local *)device;
}

static int check(const struct local *local, const char *call, int result, struct error *error)
{
    return result == 0 ? 0 : driver_failed(local->driver, call, result, error);
}

static int load(struct run_device *device, struct fusiond_fusion *fusion, const struct fusiond_kernel *kernel,
                struct error *error)
{
    struct local *local = local_of(device);
    struct fusiond_error public_error;
    local->fusion = fusion;
    if (fusiond_load(kernel, local->ordinal, &local->module, &public_error) < 0)
        return run_error(&public_error, error);
    return 0;
}

/* Bytes of memory that a parameter needs here; 0: none. */
static int size_of(const struct param *param, const struct shape *shape, const struct run_tensor *tensor, size_t *ret,
                   struct error *error)
{
    int64_t spanned = 0;
    *ret = tensor->size;
    if (param->kind != PARAM_KIND_INTERMEDIATE)
        return 0;
    if (shape_elements(shape, true, &spanned, error) < 0)
        return -1;
    if (__builtin_mul_overflow((size_t)spanned, dtype_size(param->dtype), ret))
        return error_set(error, STATUS_INVALID_LAUNCH, "%lld elements are too many", (long long)spanned);
    return 0;
}

static int place_tensor(struct local *local, const struct param *param, const struct shape *shape,
                        const struct run_tensor *tensor, uint64_t *ret_address, struct error *error)
{
    const struct driver *driver = local->driver;
    size_t size;
    if (size_of(param, shape, tensor, &size, error) < 0)
        return -1;
    if (size == 0)
        return 0;
    if (check(local, "cuMemAlloc", driver->memory_allocate(ret_address, size), error) < 0)
        return -1;
    if (param->kind != PARAM_KIND_TENSOR)
        return check(local, "cuMemsetD8", driver->memory_set(*ret_address, 0xff, size), error);
    return check(local, "cuMemcpyHtoD", driver->copy_to_device(*ret_address, tensor->bytes, size), error);
}

/* The tensor that an output is written into; n: none. */
static size_t aliased(const struct fusion *fusion, size_t i)
{
    const struct output *output =
        fusion->params[i].kind == PARAM_KIND_OUTPUT ? fusion_output(fusion, &fusion->params[i]) : NULL;
    size_t j = fusion->n_params;
    if (output && output->alias.at) {
        for (j = 0; j < fusion->n_params && !text_is(fusion->params[j].name, output->alias.at); j++)
            ;
    }
    return j;
}

static int place(struct run_device *device, struct run_call *call, const struct run_data *data, struct error *error)
{
    struct local *local = local_of(device);
    const struct fusion *fusion = call->message;
    local->call = call;
    local->addresses = calloc(call->n + 1, sizeof *local->addresses);
    if (!local->addresses)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", call->n);
    for (size_t i = 0; i < call->n; i++) {
        const struct param *param = &fusion->params[i];
        if (param->kind == PARAM_KIND_SCALAR || aliased(fusion, i) < call->n)
            continue;
        if (place_tensor(local, param, &call->call.shapes[i], &data->tensors[i], &local->addresses[i], error) < 0)
            return error_wrap(error, "tensor %s", param->name.at);
        call->arguments[i].address = local->addresses[i];
    }
    for (size_t i = 0; i < call->n; i++) {
        size_t j = aliased(fusion, i);
        if (j < call->n)
            call->arguments[i].address = local->addresses[j];
    }
    return 0;
}

/* What a launch expects to be zero. */
static int zero_intermediates(struct local *local, struct error *error)
{
    const struct fusion *fusion = local->call->message;
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        const struct run_tensor none = {0};
        size_t size;
        if (param->kind != PARAM_KIND_INTERMEDIATE || !fusion_intermediate(fusion, param)->zero)
            continue;
        if (size_of(param, &local->call->call.shapes[i], &none, &size, error) < 0)
            return -1;
        if (size > 0 && check(local, "cuMemsetD8", local->driver->memory_set(local->addresses[i], 0, size), error) < 0)
            return -1;
    }
    return 0;
}

static int queue(struct local *local, struct error *error)
{
    struct fusiond_error public_error;
    if (zero_intermediates(local, error) < 0)
        return -1;
    if (fusiond_launch(local->module, 0, local->fusion, (const void *)local->call->arguments, local->call->n, NULL,
                       NULL, &public_error) < 0)
        return run_error(&public_error, error);
    return 0;
}

static int launch(struct run_device *device, struct fusiond_launch *ret, struct error *error)
{
    struct local *local = local_of(device);
    struct fusiond_error public_error;
    if (fusiond_launch_params(local->fusion, (const void *)local->call->arguments, local->call->n, ret, &public_error) <
        0)
        return run_error(&public_error, error);
    if (queue(local, error) < 0)
        return -1;
    return check(local, "cuCtxSynchronize", local->driver->context_synchronize(), error);
}

static int read(struct run_device *device, struct run_data *data, struct error *error)
{
    struct local *local = local_of(device);
    for (size_t i = 0; i < data->n; i++) {
        struct run_tensor *tensor = &data->tensors[i];
        if (local->call->message->params[i].kind != PARAM_KIND_OUTPUT || tensor->size == 0)
            continue;
        if (check(local, "cuMemcpyDtoH", local->driver->copy_to_host(tensor->bytes, local->addresses[i], tensor->size),
                  error) < 0)
            return -1;
    }
    return 0;
}

/* Record events[0], then launch and record the next, n times. The queue stays full, so that an interval is a kernel. */
static int queue_all(struct local *local, void **events, size_t n, struct error *error)
{
    if (check(local, "cuEventRecord", local->driver->event_record(events[0], NULL), error) < 0)
        return -1;
    for (size_t i = 1; i <= n; i++) {
        if (queue(local, error) < 0 ||
            check(local, "cuEventRecord", local->driver->event_record(events[i], NULL), error) < 0)
            return -1;
    }
    return check(local, "cuEventSynchronize", local->driver->event_synchronize(events[n]), error);
}

static int time_launches(struct run_device *device, unsigned n, uint64_t *ret_ns, struct error *error)
{
    struct local *local = local_of(device);
    const struct driver *driver = local->driver;
    void **events = calloc(n + 1, sizeof *events);
    int result = 0;
    if (!events)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %u events", n);
    for (size_t i = 0; result == 0 && i <= n; i++)
        result = check(local, "cuEventCreate", driver->event_create(&events[i], 0), error);
    if (result == 0)
        result = queue_all(local, events, n, error);
    for (size_t i = 0; result == 0 && i < n; i++) {
        float ms = 0;
        result = check(local, "cuEventElapsedTime", driver->event_elapsed_ms(&ms, events[i], events[i + 1]), error);
        ret_ns[i] = (uint64_t)((double)ms * 1e6);
    }
    for (size_t i = 0; i <= n; i++) {
        if (events[i])
            driver->event_destroy(events[i]);
    }
    free(events);
    run_sort_times(ret_ns, n);
    return result;
}

static void destroy(struct run_device *device)
{
    struct local *local = local_of(device);
    void *popped;
    fusiond_module_destroy(local->module);
    for (size_t i = 0; local->addresses && i < local->call->n; i++) {
        if (local->addresses[i])
            local->driver->memory_free(local->addresses[i]);
    }
    free(local->addresses);
    if (local->context) {
        local->driver->context_pop(&popped);
        local->driver->primary_context_release(local->device);
    }
    free(local);
}

static const struct run_device_ops local_ops = {
    .load = load, .place = place, .launch = launch, .read = read, .time = time_launches, .destroy = destroy};

static int enter(struct local *local, struct error *error)
{
    const struct driver *driver = local->driver = driver_get(error);
    int count = 0;
    void *context;
    if (!driver)
        return -1;
    if (check(local, "cuDeviceGetCount", driver->device_get_count(&count), error) < 0)
        return -1;
    if (local->ordinal >= count)
        return error_set(error, STATUS_NO_DRIVER, "device %d: there are %d", local->ordinal, count);
    if (check(local, "cuDeviceGet", driver->device_get(&local->device, local->ordinal), error) < 0 ||
        check(local, "cuDeviceGetName",
              driver->device_get_name(local->base.name, sizeof local->base.name, local->device), error) < 0 ||
        check(local, "cuDevicePrimaryCtxRetain", driver->primary_context_retain(&context, local->device), error) < 0)
        return -1;
    if (check(local, "cuCtxPushCurrent", driver->context_push(context), error) < 0) {
        driver->primary_context_release(local->device);
        return -1;
    }
    local->context = context;
    return 0;
}

int run_local_open(int ordinal, struct run_device **ret, struct error *error)
{
    struct local *local = calloc(1, sizeof *local);
    if (!local)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a device");
    local->base.ops = &local_ops;
    local->ordinal = ordinal;
    if (enter(local, error) < 0) {
        destroy(&local->base);
        return -1;
    }
    *ret = &local->base;
    return 0;
}
