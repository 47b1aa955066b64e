#include "daemon/executor/buffers.h"

#include <stdlib.h>

#include "daemon/executor/process.h"

/* ---- one ---- */

int buffer_create(struct process *process, uint64_t size, bool exportable, struct buffer **ret, struct error *error)
{
    struct backend *backend = process->backend;
    struct buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a buffer");
    int status = backend->ops->allocate(backend, size, exportable, &buffer->memory, error);
    if (status < 0 && error->code == STATUS_OUT_OF_MEMORY && modules_unload_idle(&process->modules))
        status = backend->ops->allocate(backend, size, exportable, &buffer->memory, error);
    if (status < 0) {
        free(buffer);
        return -1;
    }
    list_init(&buffer->condemned);
    *ret = buffer;
    return 0;
}

void buffer_destroy(struct backend *backend, struct buffer *buffer)
{
    list_remove(&buffer->condemned);
    backend->ops->release(backend, &buffer->memory);
    free(buffer);
}

/* ---- those with a number ---- */

void buffers_init(struct buffers *buffers, struct process *process)
{
    *buffers = (struct buffers){.next = 1, .process = process};
}

void buffers_finish(struct buffers *buffers)
{
    while (buffers->by_number) {
        struct buffer *buffer = buffers->by_number;
        buffers_forget(buffers, buffer);
        buffer_destroy(buffers->process->backend, buffer);
    }
}

/* Before anything is made. */
static int check_room(const struct buffers *buffers, uint64_t size, struct error *error)
{
    if (size == 0)
        return error_set(error, STATUS_INVALID_FIELD, "size: 0; the least is 1 byte");
    if (HASH_COUNT(buffers->by_number) >= LIMIT_HANDLES)
        return error_set(error, STATUS_BUSY, "the channel has %u buffers, the limit", LIMIT_HANDLES);
    return 0;
}

/* The buffer is destroyed when that fails. */
static int add(struct buffers *buffers, struct buffer *buffer, struct error *error)
{
    buffer->number = buffers->next++;
    HASH_ADD(hh, buffers->by_number, number, sizeof buffer->number, buffer);
    if (table_has(buffer))
        return 0;
    buffer_destroy(buffers->process->backend, buffer);
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a buffer");
}

int buffers_allocate(struct buffers *buffers, uint64_t size, bool exportable, struct buffer **ret, struct error *error)
{
    struct buffer *buffer;
    if (check_room(buffers, size, error) < 0 || buffer_create(buffers->process, size, exportable, &buffer, error) < 0 ||
        add(buffers, buffer, error) < 0)
        return -1;
    *ret = buffer;
    return 0;
}

int buffers_import(struct buffers *buffers, const struct buffer_import_request *request, int fd, struct buffer **ret,
                   struct error *error)
{
    struct backend *backend = buffers->process->backend;
    bool by_handle = request->kind == MEMORY_KIND_IPC;
    if (check_room(buffers, request->size, error) < 0)
        return -1;
    if (by_handle ? fd >= 0 || request->handle.size != 64 : fd < 0 || request->handle.at)
        return error_set(error, STATUS_INVALID_FIELD, "%s: %s", memory_kind_word((int)request->kind),
                         by_handle ? "needs a handle of 64 bytes and no descriptor"
                                   : "needs one descriptor (fds = 1) and no handle");
    struct buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a buffer");
    struct device_import from = {
        .kind = request->kind,
        .fd = fd,
        .handle = request->handle,
        .allocation_size = request->allocation_size,
        .offset = request->offset,
        .size = request->size,
    };
    if (backend->ops->import(backend, &from, &buffer->memory, error) < 0) {
        free(buffer);
        return -1;
    }
    buffer->imported = true;
    list_init(&buffer->condemned);
    if (add(buffers, buffer, error) < 0)
        return -1;
    *ret = buffer;
    return 0;
}

struct buffer *buffers_find(const struct buffers *buffers, uint64_t number, struct error *error)
{
    struct buffer *buffer;
    HASH_FIND(hh, buffers->by_number, &number, sizeof number, buffer);
    if (!buffer)
        error_set(error, STATUS_UNKNOWN_HANDLE, "buffer: the channel has none with number %llu",
                  (unsigned long long)number);
    return buffer;
}

void buffers_forget(struct buffers *buffers, struct buffer *buffer)
{
    HASH_DEL(buffers->by_number, buffer);
}

int buffer_check(const struct buffer *buffer, uint64_t offset, uint64_t size, struct error *error)
{
    if (offset <= buffer->memory.size && size <= buffer->memory.size - offset)
        return 0;
    return error_set(error, STATUS_INVALID_BUFFER, "buffer %llu: %llu bytes from byte %llu on, but it has %llu",
                     (unsigned long long)buffer->number, (unsigned long long)size, (unsigned long long)offset,
                     (unsigned long long)buffer->memory.size);
}
