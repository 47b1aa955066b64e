/* The host device as a back end: device_ops over images, grids, streams and memfds. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/executor/host/grid.h"
#include "daemon/executor/host/image.h"
#include "daemon/executor/host/memory.h"
#include "daemon/executor/host/pool.h"
#include "daemon/executor/host/stream.h"

struct host_device {
    struct backend backend;
    struct host_pool *pool;
    struct host_streams streams;
    void (*on_closed)(void *context);
    void *context;
};

struct device_module {
    struct host_image *image;
};

static struct host_device *device_of(struct backend *backend)
{
    return container_of(backend, struct host_device, backend);
}

/* ---- kernels ---- */

static int load(struct backend *backend, enum image_kind kind, int fd, size_t size, const struct load_options *options,
                struct device_module **ret, struct error *error)
{
    (void)backend, (void)size, (void)options;
    if (kind != IMAGE_KIND_SHARED_OBJECT)
        return error_set(error, STATUS_LOAD_FAILED, "the host device loads shared objects, not %s",
                         image_kind_word((int)kind));
    struct device_module *module = calloc(1, sizeof *module);
    if (!module)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a kernel");
    if (host_image_load(fd, &module->image, error) < 0) {
        free(module);
        if (error)
            error->code = STATUS_LOAD_FAILED;
        return -1;
    }
    *ret = module;
    return 0;
}

static void unload(struct backend *backend, struct device_module *module)
{
    (void)backend;
    host_image_destroy(module->image);
    free(module);
}

/* What a launcher needs of an entry; device_function.handle. Lives as long as the module, in its image. */
static int find(struct device_module *module, const char *lowered, const char *name, struct device_function *ret,
                struct error *error)
{
    const struct fusiond_host_entry *entry = host_image_find(module->image, lowered, strlen(lowered));
    if (!entry)
        entry = host_image_find(module->image, name, strlen(name));
    if (!entry)
        return error_set(error, STATUS_LOAD_FAILED, "the image has no entry \"%.200s\"", name);
    if (entry->n_parameters > LIMIT_PARAMS)
        return error_set(error, STATUS_LOAD_FAILED, "entry %.200s has %u parameters, the limit is %u", name,
                         entry->n_parameters, LIMIT_PARAMS);
    int64_t statics = (int64_t)host_image_shared_bytes(module->image);
    *ret = (struct device_function){
        .handle = (void *)entry,
        .limits = {.grid = {HOST_GRID_X_MAX, HOST_GRID_YZ_MAX, HOST_GRID_YZ_MAX},
                   .block = {FUSIOND_HOST_BLOCK_MAX, FUSIOND_HOST_BLOCK_MAX, HOST_BLOCK_Z_MAX},
                   .threads = FUSIOND_HOST_BLOCK_MAX,
                   .dynamic_shared_memory = FUSIOND_HOST_DYNAMIC_BYTES},
        .static_shared_memory = (uint32_t)statics,
        .has_params = true,
        .n_params = entry->n_parameters,
        .own = module->image,
    };
    for (unsigned i = 0; i < entry->n_parameters; i++)
        ret->param_sizes[i] = entry->parameters[i].size;
    return 0;
}

/* ---- memory ---- */

static int allocate(struct backend *backend, uint64_t size, bool exportable, struct device_memory *ret,
                    struct error *error)
{
    struct device_memory memory;
    (void)backend;
    if (host_memory_allocate(size, &memory, error) < 0)
        return -1;
    memory.exportable = exportable;
    *ret = memory;
    return 0;
}

static int import(struct backend *backend, const struct device_import *from, struct device_memory *ret,
                  struct error *error)
{
    (void)backend;
    return host_memory_import(from, ret, error);
}

static int export(struct backend *backend, const struct device_memory *memory, enum memory_kind *ret_kind,
                  uint64_t *ret_size, int *ret_fd, struct error *error)
{
    (void)backend;
    /* Any could be; but what works here should work on a GPU. */
    if (!memory->exportable)
        return error_set(error, STATUS_INVALID_BUFFER, "the buffer was not allocated as exportable");
    return host_memory_export(memory, ret_kind, ret_size, ret_fd, error);
}

static void release(struct backend *backend, struct device_memory *memory)
{
    (void)backend;
    host_memory_release(memory);
}

/* ---- streams ---- */

static int stream_create(struct backend *backend, int64_t priority, struct device_stream **ret, struct error *error)
{
    (void)priority; /* the pool takes launches in their order */
    return host_stream_create(&device_of(backend)->streams, ret, error);
}

static int launch(struct device_stream *stream, const struct device_function *function,
                  const struct launch_params *params, bool cooperative, const struct argument_bytes *arguments,
                  struct error *error)
{
    struct host_launch launch = {
        .image = function->own,
        .entry = function->handle,
        .dynamic_shared = (size_t)params->dynamic_shared_memory,
        .cooperative = cooperative,
    };
    for (int i = 0; i < 3; i++) {
        launch.grid[i] = (unsigned)params->grid[i];
        launch.block[i] = (unsigned)params->block[i];
    }
    int64_t blocks = params->grid[0] * params->grid[1] * params->grid[2];
    if (cooperative && blocks > HOST_GRID_COOPERATIVE_MAX)
        return error_set(error, STATUS_INVALID_LAUNCH,
                         "grid: %lld blocks; of a cooperative launch %u can be resident on the host device",
                         (long long)blocks, HOST_GRID_COOPERATIVE_MAX);
    return host_stream_launch(stream, &launch, arguments, error);
}

static int write_memory(struct device_stream *stream, uint64_t address, const void *from, uint64_t size,
                        struct error *error)
{
    return host_stream_copy(stream, (void *)(uintptr_t)address, from, size, error);
}

static int read_memory(struct device_stream *stream, void *to, uint64_t address, uint64_t size, struct error *error)
{
    return host_stream_copy(stream, to, (const void *)(uintptr_t)address, size, error);
}

static int fill(struct device_stream *stream, uint64_t address, uint8_t value, uint64_t size, struct error *error)
{
    return host_stream_fill(stream, (void *)(uintptr_t)address, value, size, error);
}

/* ---- life ---- */

static void on_streams_closed(uv_handle_t *handle)
{
    struct host_device *device = container_of(handle->data, struct host_device, streams);
    void (*on_closed)(void *) = device->on_closed;
    void *context = device->context;
    free(device);
    on_closed(context);
}

static void close_device(struct backend *backend, void (*on_closed)(void *context), void *context)
{
    struct host_device *device = device_of(backend);
    device->on_closed = on_closed;
    device->context = context;
    host_pool_destroy(device->pool);
    host_streams_close(&device->streams, on_streams_closed);
}

static const struct device_ops ops = {
    .close = close_device,
    .load = load,
    .unload = unload,
    .find = find,
    .allocate = allocate,
    .import = import,
    .export = export,
    .release = release,
    .stream_create = stream_create,
    .stream_destroy = host_stream_destroy,
    .launch = launch,
    .write = write_memory,
    .read = read_memory,
    .fill = fill,
    .mark = host_stream_mark,
    .stamp = host_stream_stamp,
    .elapsed = host_stamp_elapsed,
    .stamp_destroy = host_stamp_destroy,
};

static unsigned available_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

/* "model name : …" of the first CPU, read when it is first asked for. */
static const char *cpu_name(void)
{
    static char name[128];
    char line[256];
    if (name[0])
        return name;
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(name, sizeof name, "CPU");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file)
        fclose(file);
    return name;
}

static struct device_facts read_facts(unsigned threads)
{
    return (struct device_facts){
        .kind = DEVICE_KIND_HOST,
        .name = text_of(cpu_name()),
        .memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
        .multiprocessors = threads,
    };
}

size_t host_devices_probe(struct device *ret, size_t room, char problem[ERROR_TEXT])
{
    if (room == 0) {
        snprintf(problem, ERROR_TEXT, "there are too many devices");
        return 0;
    }
    struct device_facts facts = read_facts(available_cpus());
    ret[0] = device_describe(&facts);
    return 1;
}

int host_device_open(uv_loop_t *loop, unsigned threads, struct backend **ret, struct error *error)
{
    struct host_pool_options options = {.threads = threads ? threads : available_cpus()};
    struct host_device *device = calloc(1, sizeof *device);
    if (!device)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the host device");
    if (host_pool_create(&options, &device->pool, error) < 0) {
        free(device);
        return -1;
    }
    if (host_streams_init(&device->streams, loop, device->pool, error) < 0) {
        host_pool_destroy(device->pool);
        free(device);
        return -1;
    }
    device->backend.ops = &ops;
    device->backend.facts = read_facts(host_pool_threads(device->pool));
    *ret = &device->backend;
    return 0;
}
