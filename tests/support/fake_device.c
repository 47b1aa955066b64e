#include "tests/support/fake_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct device_module {
    struct fake_device *device;
    char *image; /* with a NUL behind it */
    size_t users;
};

struct fake_function {
    fake_kernel kernel;
};

struct fake_memory {
    struct list link;
    uint64_t address, size;
    int fd; /* -1: malloc's */
    void *map;
    uint64_t mapped;
};

struct device_stamp {
    struct fake_device *device;
    uint64_t ns;
    bool reached, given_up;
};

enum fake_work {
    WORK_LAUNCH,
    WORK_WRITE,
    WORK_READ,
    WORK_FILL,
    WORK_STAMP,
    WORK_MARK,
};

struct operation {
    struct list link;
    enum fake_work work;
    struct launch_params params;
    fake_kernel kernel;
    uint8_t *bytes; /* of a launch: all arguments */
    void **pointers;
    uint64_t address, size;
    const void *from;
    void *to;
    uint8_t value;
    struct device_stamp *stamp;
    struct device_mark *mark;
};

struct device_stream {
    struct list link;
    struct fake_device *device;
    struct list operations;
    struct error failed; /* since the last mark */
};

static struct fake_device *fake_of(struct backend *backend)
{
    return container_of(backend, struct fake_device, backend);
}

static void breach(struct fake_device *device, const char *what)
{
    if (!device->misuse)
        device->misuse = what;
    fprintf(stderr, "fake device: %s\n", what);
}

static int refuse(struct fake_device *device, enum fake_call call, struct error *error)
{
    if (device->lost.code != STATUS_OK) {
        *error = device->lost;
        return -1;
    }
    if (device->failures[call].code == STATUS_OK || device->failures[call].after-- > 0)
        return 0;
    enum status code = device->failures[call].code;
    device->failures[call].code = STATUS_OK;
    return error_set(error, code, "the test makes call %d fail", call);
}

/* ---- memory ---- */

static int allocate(struct backend *backend, uint64_t size, bool exportable, struct device_memory *ret,
                    struct error *error)
{
    struct fake_device *device = fake_of(backend);
    if (refuse(device, FAKE_ALLOCATE, error) < 0)
        return -1;
    if (size == 0)
        breach(device, "an allocation of 0 bytes");
    if (size > device->memory_limit - device->bytes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "%llu bytes", (unsigned long long)size);
    struct fake_memory *memory = calloc(1, sizeof *memory);
    memory->fd = -1;
    memory->size = size;
    if (exportable) {
        memory->fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        memory->mapped = (size + 4095) / 4096 * 4096;
        if (ftruncate(memory->fd, (off_t)memory->mapped) < 0 || fcntl(memory->fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
            abort();
        memory->map = mmap(NULL, memory->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
        memory->address = (uint64_t)(uintptr_t)memory->map;
    } else {
        memory->map = aligned_alloc(256, (size + 255) / 256 * 256);
        memory->address = (uint64_t)(uintptr_t)memory->map;
        memset(memory->map, 0xcd, size); /* whoever reads what nobody wrote is to notice */
    }
    list_push(&device->memory, &memory->link);
    device->n_memory++;
    device->bytes += size;
    *ret = (struct device_memory){memory->address, size, exportable, memory};
    return 0;
}

static int import(struct backend *backend, const struct device_import *from, struct device_memory *ret,
                  struct error *error)
{
    struct fake_device *device = fake_of(backend);
    struct stat status;
    if (refuse(device, FAKE_IMPORT, error) < 0)
        return -1;
    if (from->kind != MEMORY_KIND_MEMFD)
        return error_set(error, STATUS_INVALID_BUFFER, "kind: not for this device");
    if (fstat(from->fd, &status) < 0 || (uint64_t)status.st_size < from->offset + from->size)
        return error_set(error, STATUS_INVALID_BUFFER, "size: beyond the memfd");
    struct fake_memory *memory = calloc(1, sizeof *memory);
    memory->fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
    memory->mapped = from->offset + from->size;
    memory->map = mmap(NULL, memory->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    memory->address = (uint64_t)(uintptr_t)memory->map + from->offset;
    memory->size = from->size;
    list_push(&device->memory, &memory->link);
    device->n_memory++;
    *ret = (struct device_memory){memory->address, from->size, false, memory};
    return 0;
}

static int export(struct backend *backend, const struct device_memory *memory, enum memory_kind *ret_kind,
                  uint64_t *ret_size, int *ret_fd, struct error *error)
{
    const struct fake_memory *own = memory->own;
    if (refuse(fake_of(backend), FAKE_EXPORT, error) < 0)
        return -1;
    if (!memory->exportable)
        return error_set(error, STATUS_INVALID_BUFFER, "it is not exportable");
    *ret_kind = MEMORY_KIND_MEMFD;
    *ret_size = own->mapped;
    *ret_fd = fcntl(own->fd, F_DUPFD_CLOEXEC, 0);
    return 0;
}

static void release(struct backend *backend, struct device_memory *memory)
{
    struct fake_device *device = fake_of(backend);
    struct fake_memory *own = memory->own;
    list_remove(&own->link);
    device->n_memory--;
    if (own->fd < 0 || memory->exportable)
        device->bytes -= own->size;
    if (own->fd >= 0) {
        munmap(own->map, own->mapped);
        close(own->fd);
    } else {
        free(own->map);
    }
    free(own);
}

/* Whether the bytes belong to memory that is there. */
static void check_memory(struct fake_device *device, uint64_t address, uint64_t size)
{
    for (struct list *link = device->memory.next; link != &device->memory; link = link->next) {
        struct fake_memory *memory = container_of(link, struct fake_memory, link);
        if (address >= memory->address && address + size <= memory->address + memory->size)
            return;
    }
    breach(device, "work on memory that is not there");
}

/* ---- modules ---- */

static int load(struct backend *backend, enum image_kind kind, int fd, size_t size, const struct load_options *options,
                struct device_module **ret, struct error *error)
{
    struct fake_device *device = fake_of(backend);
    (void)kind;
    device->last_options = *options;
    if (refuse(device, FAKE_LOAD, error) < 0)
        return -1;
    if (device->module_bytes > device->memory_limit - device->bytes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no room for a module");
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_WRITE))
        breach(device, "an image that can change");
    struct device_module *module = calloc(1, sizeof *module);
    module->device = device;
    module->image = calloc(1, size + 1);
    if (pread(fd, module->image, size, 0) != (ssize_t)size || strncmp(module->image, "broken", 6) == 0) {
        free(module->image);
        free(module);
        return error_set(error, STATUS_LOAD_FAILED, "the loader says: broken");
    }
    device->n_modules++;
    device->n_loads++;
    device->bytes += device->module_bytes;
    *ret = module;
    return 0;
}

static void unload(struct backend *backend, struct device_module *module)
{
    struct fake_device *device = fake_of(backend);
    device->n_modules--;
    device->bytes -= device->module_bytes;
    free(module->image);
    free(module);
}

static int find(struct device_module *module, const char *lowered, const char *name, struct device_function *ret,
                struct error *error)
{
    struct fake_device *device = module->device;
    size_t length = strlen(lowered);
    (void)name;
    if (refuse(device, FAKE_FIND, error) < 0)
        return -1;
    *ret = (struct device_function){
        .limits = {{INT32_MAX, 65535, 65535}, {1024, 1024, 64}, 1024, 100000},
        .registers = 16,
        .static_shared_memory = 64,
    };
    for (size_t i = 0; i < FAKE_KERNELS && device->kernels[i].name; i++) {
        if (strcmp(device->kernels[i].name, lowered) == 0)
            ret->handle = (void *)device->kernels[i].kernel;
    }
    const char *line = module->image;
    while (line && (strncmp(line, lowered, length) != 0 || (line[length] != ' ' && line[length] != '\n')))
        line = (line = strchr(line, '\n')) ? line + 1 : NULL;
    if (!line || !ret->handle)
        return error_set(error, STATUS_NOT_FOUND, "the image has no %s", lowered);
    line += length;
    ret->has_params = strncmp(line, " ?", 2) != 0;
    while (ret->has_params && *line == ' ') {
        char *end;
        ret->param_sizes[ret->n_params++] = strtoul(line, &end, 10);
        line = end;
    }
    return 0;
}

/* ---- streams ---- */

static int stream_create(struct backend *backend, int64_t priority, struct device_stream **ret, struct error *error)
{
    struct fake_device *device = fake_of(backend);
    (void)priority;
    if (refuse(device, FAKE_STREAM, error) < 0)
        return -1;
    struct device_stream *stream = calloc(1, sizeof *stream);
    stream->device = device;
    list_init(&stream->operations);
    list_push(&device->streams, &stream->link);
    device->n_streams++;
    *ret = stream;
    return 0;
}

static void stream_destroy(struct device_stream *stream)
{
    if (!list_empty(&stream->operations))
        breach(stream->device, "a stream destroyed with work on it");
    list_remove(&stream->link);
    stream->device->n_streams--;
    free(stream);
}

static struct operation *queue(struct device_stream *stream, enum fake_work work)
{
    struct fake_device *device = stream->device;
    struct operation *operation = calloc(1, sizeof *operation);
    operation->work = work;
    list_push(&stream->operations, &operation->link);
    if (work != WORK_MARK && ++device->n_queued > device->deepest)
        device->deepest = device->n_queued;
    if (!device->held)
        uv_async_send(&device->wake);
    return operation;
}

static int launch(struct device_stream *stream, const struct device_function *function,
                  const struct launch_params *params, bool cooperative, const struct argument_bytes *arguments,
                  struct error *error)
{
    size_t total = 0;
    if (refuse(stream->device, FAKE_LAUNCH, error) < 0)
        return -1;
    if (params->grid[0] < 1 || params->grid[1] < 1 || params->grid[2] < 1)
        breach(stream->device, "an empty grid");
    struct operation *operation = queue(stream, WORK_LAUNCH);
    operation->params = *params;
    operation->kernel = (fake_kernel)function->handle;
    stream->device->last_cooperative = cooperative;
    for (size_t i = 0; i < arguments->n; i++)
        total += (arguments->sizes[i] + 15) & ~(size_t)15;
    operation->bytes = aligned_alloc(16, total + 16);
    operation->pointers = calloc(arguments->n + 1, sizeof(void *));
    uint8_t *at = operation->bytes;
    for (size_t i = 0; i < arguments->n; i++) {
        memcpy(at, arguments->pointers[i], arguments->sizes[i]);
        operation->pointers[i] = at;
        at += (arguments->sizes[i] + 15) & ~(size_t)15;
    }
    return 0;
}

static int write_memory(struct device_stream *stream, uint64_t address, const void *from, uint64_t size,
                        struct error *error)
{
    if (refuse(stream->device, FAKE_WRITE, error) < 0)
        return -1;
    struct operation *operation = queue(stream, WORK_WRITE);
    operation->address = address;
    operation->from = from;
    operation->size = size;
    return 0;
}

static int read_memory(struct device_stream *stream, void *to, uint64_t address, uint64_t size, struct error *error)
{
    if (refuse(stream->device, FAKE_READ, error) < 0)
        return -1;
    struct operation *operation = queue(stream, WORK_READ);
    operation->address = address;
    operation->to = to;
    operation->size = size;
    return 0;
}

static int fill(struct device_stream *stream, uint64_t address, uint8_t value, uint64_t size, struct error *error)
{
    if (refuse(stream->device, FAKE_FILL, error) < 0)
        return -1;
    struct operation *operation = queue(stream, WORK_FILL);
    operation->address = address;
    operation->value = value;
    operation->size = size;
    return 0;
}

static void mark(struct device_stream *stream, struct device_mark *which)
{
    queue(stream, WORK_MARK)->mark = which;
    if (stream->device->lost.code != STATUS_OK)
        uv_async_send(&stream->device->wake);
}

static int stamp(struct device_stream *stream, struct device_stamp **ret, struct error *error)
{
    if (refuse(stream->device, FAKE_STAMP, error) < 0)
        return -1;
    struct device_stamp *one = calloc(1, sizeof *one);
    one->device = stream->device;
    stream->device->n_stamps++;
    queue(stream, WORK_STAMP)->stamp = one;
    *ret = one;
    return 0;
}

static int elapsed(const struct device_stamp *from, const struct device_stamp *to, uint64_t *ret_ns,
                   struct error *error)
{
    if (refuse(from->device, FAKE_ELAPSED, error) < 0)
        return -1;
    if (!from->reached || !to->reached)
        breach(from->device, "the time of a stamp that was not reached");
    *ret_ns = to->ns - from->ns;
    return 0;
}

static void stamp_destroy(struct device_stamp *one)
{
    if (!one)
        return;
    one->device->n_stamps--;
    if (one->reached)
        free(one);
    else
        one->given_up = true; /* the stream still holds it */
}

/* ---- work ---- */

static void reach(struct device_stamp *one)
{
    one->reached = true;
    one->ns = one->device->clock_ns;
    if (one->given_up)
        free(one);
}

static void run(struct device_stream *stream, struct operation *operation)
{
    struct fake_device *device = stream->device;
    const char *trapped = NULL;
    device->n_queued--;
    device->clock_ns += operation->work == WORK_LAUNCH ? 1000 : 10;
    switch (operation->work) {
    case WORK_LAUNCH:
        trapped = operation->kernel(&operation->params, operation->pointers);
        device->n_launched++;
        if (trapped && stream->failed.code == STATUS_OK)
            error_set(&stream->failed, STATUS_LAUNCH_FAILED, "%s", trapped);
        break;
    case WORK_WRITE:
        check_memory(device, operation->address, operation->size);
        memcpy((void *)(uintptr_t)operation->address, operation->from, operation->size);
        break;
    case WORK_READ:
        check_memory(device, operation->address, operation->size);
        memcpy(operation->to, (void *)(uintptr_t)operation->address, operation->size);
        break;
    case WORK_FILL:
        check_memory(device, operation->address, operation->size);
        memset((void *)(uintptr_t)operation->address, operation->value, operation->size);
        device->n_fills++;
        break;
    default:
        reach(operation->stamp);
    }
}

static void free_operation(struct operation *operation)
{
    list_remove(&operation->link);
    free(operation->bytes);
    free(operation->pointers);
    free(operation);
}

/* The marks at the head of a stream. */
static void tell(struct device_stream *stream)
{
    struct fake_device *device = stream->device;
    struct list *links = &device->streams;
    while (!list_empty(&stream->operations)) {
        struct operation *operation = container_of(stream->operations.next, struct operation, link);
        if (operation->work != WORK_MARK)
            return;
        struct device_mark *which = operation->mark;
        struct error error = stream->failed;
        bool last = operation->link.next == &stream->operations;
        stream->failed = (struct error){0};
        free_operation(operation);
        which->done(which, error.code == STATUS_OK ? NULL : &error);
        if (!last)
            continue;
        /* It may be gone now. */
        struct list *link = links->next;
        while (link != links && container_of(link, struct device_stream, link) != stream)
            link = link->next;
        if (link == links)
            return;
    }
}

static struct device_stream *next_with_work(struct fake_device *device)
{
    for (struct list *link = device->streams.next; link != &device->streams; link = link->next) {
        struct device_stream *stream = container_of(link, struct device_stream, link);
        if (!list_empty(&stream->operations))
            return stream;
    }
    return NULL;
}

size_t fake_device_step(struct fake_device *device, size_t n)
{
    struct device_stream *stream;
    size_t done = 0;
    while ((stream = next_with_work(device))) {
        struct operation *operation = container_of(stream->operations.next, struct operation, link);
        if (operation->work != WORK_MARK) {
            if (done == n)
                break;
            done++;
            /* The others come first next time. */
            list_remove(&stream->link);
            list_push(&device->streams, &stream->link);
            run(stream, operation);
            free_operation(operation);
        }
        tell(stream);
    }
    return done;
}

static void drop_all(struct fake_device *device)
{
    struct device_stream *stream;
    while ((stream = next_with_work(device))) {
        struct operation *operation = container_of(stream->operations.next, struct operation, link);
        if (operation->work == WORK_MARK) {
            stream->failed = device->lost;
            tell(stream);
            continue;
        }
        device->n_queued--;
        if (operation->work == WORK_STAMP)
            reach(operation->stamp);
        free_operation(operation);
    }
}

static void on_wake(uv_async_t *wake)
{
    struct fake_device *device = container_of(wake, struct fake_device, wake);
    if (device->lost.code != STATUS_OK)
        drop_all(device);
    else if (!device->held)
        fake_device_step(device, SIZE_MAX);
}

void fake_device_hold(struct fake_device *device, bool held)
{
    device->held = held;
    if (!held)
        uv_async_send(&device->wake);
}

void fake_device_lose(struct fake_device *device, const char *text)
{
    error_set(&device->lost, STATUS_LAUNCH_FAILED, "%s", text);
    device->backend.on_lost(&device->backend, &device->lost);
    drop_all(device);
}

/* ---- life ---- */

static void on_wake_closed(uv_handle_t *handle)
{
    struct fake_device *device = container_of(handle, struct fake_device, wake);
    if (device->on_closed)
        device->on_closed(device->context);
}

static void close_device(struct backend *backend, void (*on_closed)(void *context), void *context)
{
    struct fake_device *device = fake_of(backend);
    device->on_closed = on_closed;
    device->context = context;
    fake_device_close(device);
}

void fake_device_close(struct fake_device *device)
{
    uv_close((uv_handle_t *)&device->wake, on_wake_closed);
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
    .stream_destroy = stream_destroy,
    .launch = launch,
    .write = write_memory,
    .read = read_memory,
    .fill = fill,
    .mark = mark,
    .stamp = stamp,
    .elapsed = elapsed,
    .stamp_destroy = stamp_destroy,
};

struct fake_device *fake_device_create(uv_loop_t *loop)
{
    struct fake_device *device = calloc(1, sizeof *device);
    device->loop = loop;
    device->memory_limit = 1ull << 40;
    device->backend.ops = &ops;
    device->backend.facts = (struct device_facts){
        .kind = DEVICE_KIND_CUDA, .name = TEXT_OF("fake"), .capability = 90, .multiprocessors = 1};
    list_init(&device->streams);
    list_init(&device->memory);
    uv_async_init(loop, &device->wake, on_wake);
    return device;
}

void fake_device_destroy(struct fake_device *device)
{
    free(device);
}

void fake_device_add(struct fake_device *device, const char *lowered, fake_kernel kernel)
{
    for (size_t i = 0; i < FAKE_KERNELS; i++) {
        if (device->kernels[i].name)
            continue;
        device->kernels[i].name = lowered;
        device->kernels[i].kernel = kernel;
        return;
    }
    abort();
}

void fake_device_fail(struct fake_device *device, enum fake_call call, unsigned after, enum status code)
{
    device->failures[call].after = after;
    device->failures[call].code = code;
}
