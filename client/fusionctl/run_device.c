#include "client/fusionctl/run_device.h"

#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/elements.h"

static int check(const struct run_device *device, const char *call, int result, struct error *error)
{
    return result == 0 ? 0 : driver_failed(device->driver, call, result, error);
}

int run_device_init(int ordinal, struct run_device *ret, struct error *error)
{
    struct run_device device = {.driver = driver_get(error)};
    int count = 0;
    if (!device.driver)
        return -1;
    if (check(&device, "cuDeviceGetCount", device.driver->device_get_count(&count), error) < 0)
        return -1;
    if (ordinal >= count)
        return error_set(error, STATUS_NO_DRIVER, "device %d: there are %d", ordinal, count);
    if (check(&device, "cuDeviceGet", device.driver->device_get(&device.device, ordinal), error) < 0 ||
        check(&device, "cuDeviceGetName",
              device.driver->device_get_name(device.name, sizeof device.name, device.device), error) < 0 ||
        check(&device, "cuDevicePrimaryCtxRetain",
              device.driver->primary_context_retain(&device.context, device.device), error) < 0)
        return -1;
    if (check(&device, "cuCtxPushCurrent", device.driver->context_push(device.context), error) < 0) {
        device.driver->primary_context_release(device.device);
        return -1;
    }
    *ret = device;
    return 0;
}

void run_device_finish(struct run_device *device)
{
    void *popped;
    if (!device->driver)
        return;
    for (size_t i = 0; i < device->n; i++) {
        if (device->buffers[i].address)
            device->driver->memory_free(device->buffers[i].address);
        free(device->buffers[i].host);
    }
    free(device->buffers);
    device->driver->context_pop(&popped);
    device->driver->primary_context_release(device->device);
    *device = (struct run_device){0};
}

static int fill_buffer(struct run_device *device, const struct param *param, const struct shape *shape, uint64_t seed,
                       struct run_buffer *buffer, struct error *error)
{
    int64_t spanned;
    if (shape_elements(shape, false, &buffer->elements, error) < 0 || shape_elements(shape, true, &spanned, error) < 0)
        return -1;
    size_t element = dtype_size(param->dtype);
    if ((uint64_t)spanned > SIZE_MAX / 2 / element)
        return error_set(error, STATUS_INVALID_LAUNCH, "%lld elements are too many", (long long)spanned);
    buffer->size = (size_t)spanned * element;
    if (buffer->size == 0)
        return 0;
    buffer->host = malloc(buffer->size);
    if (!buffer->host)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu bytes", buffer->size);
    if (check(device, "cuMemAlloc", device->driver->memory_allocate(&buffer->address, buffer->size), error) < 0)
        return -1;
    if (param->kind == PARAM_KIND_OUTPUT)
        return check(device, "cuMemsetD8", device->driver->memory_set(buffer->address, 0xff, buffer->size), error);
    elements_fill(param->dtype, buffer->host, (size_t)spanned * elements_parts(param->dtype), seed);
    return check(device, "cuMemcpyHtoD", device->driver->copy_to_device(buffer->address, buffer->host, buffer->size),
                 error);
}

int run_device_fill(struct run_device *device, struct run_call *run, uint64_t seed, struct error *error)
{
    device->buffers = calloc(run->n + 1, sizeof *device->buffers);
    if (!device->buffers)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", run->n);
    device->n = run->n;
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        if (param->kind != PARAM_KIND_TENSOR && param->kind != PARAM_KIND_OUTPUT)
            continue;
        uint64_t own_seed = seed * 1000003u + i;
        if (fill_buffer(device, param, &run->call.shapes[i], own_seed, &device->buffers[i], error) < 0)
            return error_wrap(error, "tensor %s", param->name.at);
        run->arguments[i].address = device->buffers[i].address;
    }
    return 0;
}

int run_device_read(struct run_device *device, size_t param, struct error *error)
{
    struct run_buffer *buffer = &device->buffers[param];
    if (buffer->size == 0)
        return 0;
    return check(device, "cuMemcpyDtoH", device->driver->copy_to_host(buffer->host, buffer->address, buffer->size),
                 error);
}

int run_device_wait(struct run_device *device, struct error *error)
{
    return check(device, "cuCtxSynchronize", device->driver->context_synchronize(), error);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Record events[0], then launch and record the next, n times. The queue stays full, so that an interval is a kernel. */
static int queue_all(struct run_device *device, const struct run_launcher *launcher, void **events, size_t n,
                     struct error *error)
{
    if (check(device, "cuEventRecord", device->driver->event_record(events[0], NULL), error) < 0)
        return -1;
    for (size_t i = 1; i <= n; i++) {
        if (launcher->launch(launcher->data, error) < 0 ||
            check(device, "cuEventRecord", device->driver->event_record(events[i], NULL), error) < 0)
            return -1;
    }
    return check(device, "cuEventSynchronize", device->driver->event_synchronize(events[n]), error);
}

int run_device_time(struct run_device *device, const struct run_launcher *launcher, size_t n, uint64_t *ret_ns,
                    struct error *error)
{
    void **events = calloc(n + 1, sizeof *events);
    int result = 0;
    if (!events)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu events", n);
    for (size_t i = 0; result == 0 && i <= n; i++)
        result = check(device, "cuEventCreate", device->driver->event_create(&events[i], 0), error);
    if (result == 0)
        result = queue_all(device, launcher, events, n, error);
    for (size_t i = 0; result == 0 && i < n; i++) {
        float ms = 0;
        result =
            check(device, "cuEventElapsedTime", device->driver->event_elapsed_ms(&ms, events[i], events[i + 1]), error);
        ret_ns[i] = (uint64_t)((double)ms * 1e6);
    }
    for (size_t i = 0; i <= n; i++) {
        if (events[i])
            device->driver->event_destroy(events[i]);
    }
    free(events);
    qsort(ret_ns, n, sizeof *ret_ns, compare);
    return result;
}
