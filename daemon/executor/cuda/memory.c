/*
 * Three kinds of memory: of the device's pool, for what stays here; virtual memory, whose physical allocation has a
 * descriptor that others can map; and what others have allocated, imported by such a descriptor or by an IPC handle.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/executor/cuda/device.h"

#define HANDLE_POSIX_FD 1
#define IPC_LAZY_PEER_ACCESS 1u

/* What the pool keeps instead of giving it back to the device: CU_MEMPOOL_ATTR_RELEASE_THRESHOLD. */
#define POOL_ATTRIBUTE_THRESHOLD 4
#define POOL_KEEPS (1ull << 30)
#define STREAM_NON_BLOCKING 1u

enum origin {
    ORIGIN_PLAIN,
    ORIGIN_VIRTUAL, /* allocated here, or imported by descriptor */
    ORIGIN_IPC,
};

/* An allocation that another process has opened for us. One handle can be opened once, however many buffers lie in it.
 */
struct opened {
    struct list link; /* device->ipc */
    struct driver_ipc_handle handle;
    uint64_t address;
    size_t users;
};

/* What stands behind a device_memory. */
struct memory {
    enum origin origin;
    uint64_t base; /* of the mapping */
    uint64_t size; /* of the mapping */
    uint64_t handle;
    struct opened *opened;
};

/* NULL with OUT_OF_MEMORY. */
static struct memory *make(enum origin origin, struct error *error)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (memory)
        memory->origin = origin;
    else
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a buffer");
    return memory;
}

/* ---- plain ---- */

int cuda_memory_open(struct cuda_device *device, struct error *error)
{
    const struct driver *driver = device->driver;
    uint64_t keeps = POOL_KEEPS;
    void *pool;
    if (!driver->pool_of_device || !driver->pool_set || !driver->pool_allocate || !driver->pool_free ||
        driver->pool_of_device(&pool, device->device) != 0)
        return 0; /* then by cuMemAlloc */
    /* Nobody can be told of a loss yet: whatever fails here fails the open. */
    int result = driver->pool_set(pool, POOL_ATTRIBUTE_THRESHOLD, &keeps);
    if (result != 0)
        return driver_failed(driver, "cuMemPoolSetAttribute", result, error);
    result = driver->stream_create(&device->memory_stream, STREAM_NON_BLOCKING, 0);
    return result == 0 ? 0 : driver_failed(driver, "cuStreamCreateWithPriority", result, error);
}

void cuda_memory_close(struct cuda_device *device)
{
    if (device->memory_stream)
        device->driver->stream_destroy(device->memory_stream);
}

/* From the pool it is there when the memory stream, which does nothing else, has got to it: at once. */
static int take_plain(struct cuda_device *device, uint64_t size, uint64_t *ret, struct error *error)
{
    const struct driver *driver = device->driver;
    if (!device->memory_stream)
        return cuda_check(device, "cuMemAlloc", driver->memory_allocate(ret, size), error);
    if (cuda_check(device, "cuMemAllocAsync", driver->pool_allocate(ret, size, device->memory_stream), error) < 0)
        return -1;
    if (cuda_check(device, "cuStreamSynchronize", driver->stream_synchronize(device->memory_stream), error) == 0)
        return 0;
    driver->pool_free(*ret, device->memory_stream);
    return -1;
}

static int allocate_plain(struct cuda_device *device, uint64_t size, struct device_memory *ret, struct error *error)
{
    struct memory *memory = make(ORIGIN_PLAIN, error);
    if (!memory)
        return -1;
    if (take_plain(device, size, &memory->base, error) < 0) {
        free(memory);
        return error_wrap(error, "%llu bytes", (unsigned long long)size);
    }
    memory->size = size;
    *ret = (struct device_memory){.address = memory->base, .size = size, .own = memory};
    return 0;
}

/* ---- virtual ---- */

static struct driver_allocation shareable(const struct cuda_device *device)
{
    return (struct driver_allocation){
        .type = 1, .handle_types = HANDLE_POSIX_FD, .location = {.type = 1, .id = device->device}};
}

static int has_virtual(const struct driver *driver, struct error *error)
{
    if (driver->virtual_granularity && driver->virtual_create && driver->virtual_release && driver->virtual_reserve &&
        driver->virtual_free && driver->virtual_map && driver->virtual_unmap && driver->virtual_access &&
        driver->virtual_export && driver->virtual_import)
        return 0;
    return error_set(error, STATUS_INVALID_BUFFER, "the CUDA driver (%d.%d) has no virtual memory to share",
                     driver->version / 1000, driver->version % 1000 / 10);
}

static int round_up(struct cuda_device *device, uint64_t size, uint64_t *ret, struct error *error)
{
    struct driver_allocation allocation = shareable(device);
    size_t granularity = 0;
    int result = device->driver->virtual_granularity(&granularity, &allocation, 0);
    if (cuda_check(device, "cuMemGetAllocationGranularity", result, error) < 0)
        return -1;
    if (granularity == 0)
        granularity = 2u << 20;
    if (size > UINT64_MAX - granularity)
        return error_set(error, STATUS_OUT_OF_MEMORY, "%llu bytes", (unsigned long long)size);
    *ret = (size + granularity - 1) / granularity * granularity;
    return 0;
}

/* Give addresses to an allocation. On failure the handle stays the caller's. */
static int map(struct cuda_device *device, struct memory *memory, struct error *error)
{
    const struct driver *driver = device->driver;
    struct driver_access access = {.location = {.type = 1, .id = device->device}, .flags = 3};
    if (cuda_check(device, "cuMemAddressReserve", driver->virtual_reserve(&memory->base, memory->size, 0, 0, 0),
                   error) < 0)
        return -1;
    int result = driver->virtual_map(memory->base, memory->size, 0, memory->handle, 0);
    if (cuda_check(device, "cuMemMap", result, error) < 0) {
        driver->virtual_free(memory->base, memory->size);
        return -1;
    }
    result = driver->virtual_access(memory->base, memory->size, &access, 1);
    if (cuda_check(device, "cuMemSetAccess", result, error) < 0) {
        driver->virtual_unmap(memory->base, memory->size);
        driver->virtual_free(memory->base, memory->size);
        return -1;
    }
    return 0;
}

static int allocate_virtual(struct cuda_device *device, uint64_t size, struct device_memory *ret, struct error *error)
{
    struct driver_allocation allocation = shareable(device);
    struct memory *memory = NULL;
    uint64_t whole;
    if (has_virtual(device->driver, error) < 0 || round_up(device, size, &whole, error) < 0 ||
        !(memory = make(ORIGIN_VIRTUAL, error)))
        return -1;
    memory->size = whole;
    int result = device->driver->virtual_create(&memory->handle, whole, &allocation, 0);
    if (cuda_check(device, "cuMemCreate", result, error) < 0) {
        free(memory);
        return error_wrap(error, "%llu bytes", (unsigned long long)whole);
    }
    if (map(device, memory, error) < 0) {
        device->driver->virtual_release(memory->handle);
        free(memory);
        return -1;
    }
    *ret = (struct device_memory){.address = memory->base, .size = size, .exportable = true, .own = memory};
    return 0;
}

static int import_virtual(struct cuda_device *device, const struct device_import *from, struct device_memory *ret,
                          struct error *error)
{
    uint64_t end = from->offset + from->size, told = from->allocation_size ? from->allocation_size : end;
    struct memory *memory = NULL;
    uint64_t whole;
    if (end > told)
        return error_set(error, STATUS_INVALID_BUFFER, "size: the part ends at byte %llu, but the allocation has %llu",
                         (unsigned long long)end, (unsigned long long)told);
    if (has_virtual(device->driver, error) < 0 || round_up(device, told, &whole, error) < 0 ||
        !(memory = make(ORIGIN_VIRTUAL, error)))
        return -1;
    memory->size = whole;
    int result = device->driver->virtual_import(&memory->handle, (void *)(intptr_t)from->fd, HANDLE_POSIX_FD);
    bool imported = result == 0;
    if (!imported || map(device, memory, error) < 0) {
        if (imported)
            device->driver->virtual_release(memory->handle);
        else
            cuda_check(device, "cuMemImportFromShareableHandle", result, error);
        free(memory);
        if (error && error->code == STATUS_DRIVER)
            error->code = STATUS_INVALID_BUFFER;
        return error_wrap(error, "an allocation of %llu bytes (allocation_size must be its own)",
                          (unsigned long long)whole);
    }
    *ret = (struct device_memory){.address = memory->base + from->offset, .size = from->size, .own = memory};
    return 0;
}

/* ---- IPC ---- */

static struct opened *find_opened(struct cuda_device *device, const struct driver_ipc_handle *handle)
{
    for (struct list *link = device->ipc.next; link != &device->ipc; link = link->next) {
        struct opened *opened = container_of(link, struct opened, link);
        if (memcmp(&opened->handle, handle, sizeof *handle) == 0)
            return opened;
    }
    return NULL;
}

static int open_handle(struct cuda_device *device, const struct driver_ipc_handle *handle, struct opened **ret,
                       struct error *error)
{
    struct opened *opened = find_opened(device, handle);
    if (!opened) {
        if (!device->driver->ipc_open || !device->driver->ipc_close)
            return error_set(error, STATUS_INVALID_BUFFER, "the CUDA driver has no memory handles");
        opened = calloc(1, sizeof *opened);
        if (!opened)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a handle");
        int result = device->driver->ipc_open(&opened->address, *handle, IPC_LAZY_PEER_ACCESS);
        if (cuda_check(device, "cuIpcOpenMemHandle", result, error) < 0) {
            free(opened);
            if (error && error->code == STATUS_DRIVER)
                error->code = STATUS_INVALID_BUFFER;
            return -1;
        }
        opened->handle = *handle;
        list_push(&device->ipc, &opened->link);
    }
    opened->users++;
    *ret = opened;
    return 0;
}

static void close_handle(struct cuda_device *device, struct opened *opened)
{
    if (--opened->users > 0)
        return;
    list_remove(&opened->link);
    device->driver->ipc_close(opened->address);
    free(opened);
}

static int import_ipc(struct cuda_device *device, const struct device_import *from, struct device_memory *ret,
                      struct error *error)
{
    struct driver_ipc_handle copy;
    struct memory *memory = NULL;
    if (from->handle.size != sizeof copy)
        return error_set(error, STATUS_INVALID_BUFFER, "handle: %zu bytes; a CUipcMemHandle has %zu", from->handle.size,
                         sizeof copy);
    memcpy(&copy, from->handle.at, sizeof copy);
    memory = make(ORIGIN_IPC, error);
    if (!memory)
        return -1;
    if (open_handle(device, &copy, &memory->opened, error) < 0) {
        free(memory);
        return -1;
    }
    *ret = (struct device_memory){.address = memory->opened->address + from->offset, .size = from->size, .own = memory};
    return 0;
}

/* ---- all ---- */

int cuda_allocate(struct backend *backend, uint64_t size, bool exportable, struct device_memory *ret,
                  struct error *error)
{
    struct cuda_device *device = cuda_device_of(backend);
    return exportable ? allocate_virtual(device, size, ret, error) : allocate_plain(device, size, ret, error);
}

int cuda_import(struct backend *backend, const struct device_import *from, struct device_memory *ret,
                struct error *error)
{
    struct cuda_device *device = cuda_device_of(backend);
    if (from->size > UINT64_MAX - from->offset)
        return error_set(error, STATUS_INVALID_BUFFER, "offset: %llu and %llu bytes behind it are beyond any memory",
                         (unsigned long long)from->offset, (unsigned long long)from->size);
    if (from->kind == MEMORY_KIND_VMM_FD)
        return import_virtual(device, from, ret, error);
    if (from->kind == MEMORY_KIND_IPC)
        return import_ipc(device, from, ret, error);
    return error_set(error, STATUS_INVALID_BUFFER,
                     "kind: a CUDA device imports vmm_fd and ipc; the bytes of a memfd are copied by buffer.write");
}

int cuda_export(struct backend *backend, const struct device_memory *memory, enum memory_kind *ret_kind,
                uint64_t *ret_size, int *ret_fd, struct error *error)
{
    struct cuda_device *device = cuda_device_of(backend);
    const struct memory *own = memory->own;
    int fd = -1;
    if (!memory->exportable)
        return error_set(error, STATUS_INVALID_BUFFER, "the buffer was not allocated as exportable");
    int result = device->driver->virtual_export(&fd, own->handle, HANDLE_POSIX_FD, 0);
    if (cuda_check(device, "cuMemExportToShareableHandle", result, error) < 0)
        return -1;
    *ret_kind = MEMORY_KIND_VMM_FD;
    *ret_size = own->size;
    *ret_fd = fd;
    return 0;
}

void cuda_release(struct backend *backend, struct device_memory *memory)
{
    struct cuda_device *device = cuda_device_of(backend);
    const struct driver *driver = device->driver;
    struct memory *own = memory->own;
    /* What fails here belongs to a device that is lost, and goes with the process. */
    if (own->origin == ORIGIN_PLAIN && device->memory_stream) {
        driver->pool_free(own->base, device->memory_stream);
    } else if (own->origin == ORIGIN_PLAIN) {
        driver->memory_free(own->base);
    } else if (own->origin == ORIGIN_VIRTUAL) {
        driver->virtual_unmap(own->base, own->size);
        driver->virtual_free(own->base, own->size);
        driver->virtual_release(own->handle);
    } else {
        close_handle(device, own->opened);
    }
    free(own);
    *memory = (struct device_memory){0};
}
