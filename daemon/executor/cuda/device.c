#include "daemon/executor/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Kernels of a few microseconds are waited for by looking; whoever takes longer is looked at once a millisecond. */
#define SPIN_NS 200000u
#define POLL_MS 1u

/* ---- results ---- */

enum consequence {
    NONE,
    PROCESS,
    DEVICE,
};

static enum consequence consequence_of(int result)
{
    static const struct {
        int number;
        enum consequence consequence;
    } rows[] = {
#define RESULT(number, name, consequence) {number, consequence},
#include "daemon/executor/cuda/results.def"
#undef RESULT
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].number == result)
            return rows[i].consequence;
    }
    return NONE;
}

#define RESULT_OUT_OF_MEMORY 2

int cuda_check(struct cuda_device *device, const char *call, int result, struct error *error)
{
    struct error own;
    if (result == 0)
        return 0;
    driver_failed(device->driver, call, result, &own);
    if (result == RESULT_OUT_OF_MEMORY)
        own.code = STATUS_OUT_OF_MEMORY;
    if (consequence_of(result) != NONE && device->lost.code == STATUS_OK) {
        device->lost = own;
        cuda_device_watch(device);
    }
    if (error)
        *error = own;
    return -1;
}

/* ---- looking ---- */

static void stop_looking(struct cuda_device *device)
{
    uv_idle_stop(&device->spin);
    uv_timer_stop(&device->poll);
}

/* Tell of the loss once, from the loop and from no call of the executor's. */
static void look(struct cuda_device *device, bool thoroughly)
{
    if (device->lost.code == STATUS_OK)
        cuda_streams_look(device, thoroughly);
    if (device->lost.code != STATUS_OK) {
        if (!device->told) {
            device->told = true;
            device->backend.on_lost(&device->backend, &device->lost);
        }
        cuda_streams_fail(device);
    }
    if (list_empty(&device->owing))
        stop_looking(device);
}

static void on_poll(uv_timer_t *timer)
{
    look(timer->data, true);
}

static void on_spin(uv_idle_t *idle)
{
    struct cuda_device *device = idle->data;
    look(device, false);
    if (uv_is_active((uv_handle_t *)idle) && uv_hrtime() > device->spin_until_ns) {
        uv_idle_stop(idle);
        uv_timer_start(&device->poll, on_poll, POLL_MS, POLL_MS);
    }
}

void cuda_device_watch(struct cuda_device *device)
{
    device->spin_until_ns = uv_hrtime() + SPIN_NS;
    uv_idle_start(&device->spin, on_spin);
}

/* ---- what there is ---- */

static void read_uuid(const struct driver *driver, int number, char ret[48])
{
    uint8_t uuid[16];
    int n = 0;
    ret[0] = '\0';
    if (!driver->device_get_uuid || driver->device_get_uuid(uuid, number) != 0)
        return;
    n += snprintf(ret, 48, "GPU-");
    for (int i = 0; i < 16; i++)
        n += snprintf(ret + n, 48 - (size_t)n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static int read_facts(const struct driver *driver, unsigned ordinal, int number, char *name, size_t room, char uuid[48],
                      struct device_facts *ret, struct error *error)
{
    int multiprocessors = 0;
    size_t memory = 0;
    unsigned capability;
    int result = driver->device_get_name(name, (int)room, number);
    if (result == 0)
        result = driver->device_get_attribute(&multiprocessors, DEVICE_MULTIPROCESSORS, number);
    if (result == 0 && driver->device_total_memory)
        result = driver->device_total_memory(&memory, number);
    if (result != 0)
        return driver_failed(driver, "asking what device it is", result, error);
    if (driver_capability(driver, number, &capability, error) < 0)
        return -1;
    read_uuid(driver, number, uuid);
    *ret = (struct device_facts){
        .kind = DEVICE_KIND_CUDA,
        .ordinal = ordinal,
        .name = text_of(name),
        .uuid = text_of(uuid[0] ? uuid : NULL),
        .capability = capability,
        .memory_bytes = memory,
        .multiprocessors = (unsigned)multiprocessors,
        .driver = (unsigned)driver->version,
    };
    return 0;
}

/* Whether contexts of the device are MPS's. Of a driver that does not tell: whether the MPS daemon's pipe is where it
 * is by default. */
static bool mps_runs(const struct driver *driver)
{
    struct stat status;
    int number, enabled;
    if (driver->device_get(&number, 0) == 0 && driver->device_get_attribute(&enabled, DEVICE_MPS_ENABLED, number) == 0)
        return enabled != 0;
    return stat("/tmp/nvidia-mps/control", &status) == 0 && S_ISFIFO(status.st_mode);
}

size_t cuda_devices_probe(struct device *ret, size_t room, bool *ret_mps, char problem[ERROR_TEXT])
{
    static char names[64][256], uuids[64][48], buses[64][32];
    struct error error;
    size_t n = 0;
    int count = 0;
    const struct driver *driver = driver_get(&error);
    *ret_mps = driver && mps_runs(driver);
    if (!driver || driver->device_get_count(&count) != 0) {
        snprintf(problem, ERROR_TEXT, "%s", driver ? "the CUDA driver does not count its devices" : error.text);
        return 0;
    }
    for (int i = 0; i < count && n < room && n < 64; i++) {
        struct device_facts facts;
        int number;
        if (driver->device_get(&number, i) != 0 ||
            read_facts(driver, (unsigned)i, number, names[n], sizeof names[n], uuids[n], &facts, &error) < 0) {
            snprintf(problem, ERROR_TEXT, "CUDA device %d does not tell what it is", i);
            continue;
        }
        ret[n] = device_describe(&facts);
        if (driver->device_get_pci && driver->device_get_pci(buses[n], sizeof buses[n], number) == 0)
            ret[n].pci = text_of(buses[n]);
        n++;
    }
    return n;
}

/* ---- life ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct cuda_device *device = handle->data;
    if (--device->open_handles > 0)
        return;
    void (*on_closed)(void *) = device->on_closed;
    void *context = device->close_context;
    device->driver->primary_context_release(device->device);
    free(device);
    on_closed(context);
}

static void close_device(struct backend *backend, void (*on_closed)(void *context), void *context)
{
    struct cuda_device *device = cuda_device_of(backend);
    device->on_closed = on_closed;
    device->close_context = context;
    stop_looking(device);
    cuda_streams_finish(device);
    cuda_memory_close(device);
    uv_close((uv_handle_t *)&device->spin, on_handle_closed);
    uv_close((uv_handle_t *)&device->poll, on_handle_closed);
}

static const struct device_ops ops = {
    .close = close_device,
    .load = cuda_load,
    .unload = cuda_unload,
    .find = cuda_find,
    .allocate = cuda_allocate,
    .import = cuda_import,
    .export = cuda_export,
    .release = cuda_release,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .launch = cuda_launch,
    .write = cuda_write,
    .read = cuda_read,
    .fill = cuda_fill,
    .mark = cuda_mark,
    .stamp = cuda_stamp,
    .elapsed = cuda_elapsed,
    .stamp_destroy = cuda_stamp_destroy,
};

/* Entry points that a client's own launches do not need, so that an older driver still serves those. */
static int check_driver(const struct driver *driver, struct error *error)
{
    if (driver->context_set_current && driver->stream_create && driver->stream_destroy && driver->stream_query &&
        driver->stream_synchronize && driver->event_query && driver->host_allocate && driver->host_free &&
        driver->host_address && driver->copy_to_device_async && driver->copy_to_host_async && driver->memory_set_async)
        return 0;
    return error_set(error, STATUS_NO_DRIVER, "the CUDA driver (%d.%d) is too old for an executor",
                     driver->version / 1000, driver->version % 1000 / 10);
}

int cuda_device_open(uv_loop_t *loop, unsigned ordinal, struct backend **ret, struct error *error)
{
    const struct driver *driver = driver_get(error);
    int count = 0;
    if (!driver || check_driver(driver, error) < 0)
        return -1;
    if (driver->device_get_count(&count) != 0 || ordinal >= (unsigned)count)
        return error_set(error, STATUS_NO_DEVICE, "there is no CUDA device %u; the driver has %d", ordinal, count);
    struct cuda_device *device = calloc(1, sizeof *device);
    if (!device)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a device");
    *device = (struct cuda_device){.driver = driver, .loop = loop, .open_handles = 2};
    int result = driver->device_get(&device->device, (int)ordinal);
    if (result == 0)
        result = driver->primary_context_retain(&device->context, device->device);
    bool retained = result == 0;
    if (result == 0)
        result = driver->context_set_current(device->context);
    if (result != 0 || read_facts(driver, ordinal, device->device, device->name, sizeof device->name, device->uuid,
                                  &device->backend.facts, error) < 0) {
        if (result != 0)
            driver_failed(driver, "a context", result, error);
        if (retained)
            driver->primary_context_release(device->device);
        free(device);
        return -1;
    }
    list_init(&device->owing);
    list_init(&device->pages);
    list_init(&device->ipc);
    list_init(&device->staging);
    if (cuda_memory_open(device, error) < 0) {
        driver->primary_context_release(device->device);
        free(device);
        return -1;
    }
    uv_idle_init(loop, &device->spin);
    uv_timer_init(loop, &device->poll);
    device->spin.data = device->poll.data = device;
    device->backend.ops = &ops;
    *ret = &device->backend;
    return 0;
}
