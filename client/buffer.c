/* Memory of a device: made, shared, mapped, copied to and from. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/device.h"
#include "client/error.h"

/* Shared memory that large copies go through, piece by piece: large enough that a round trip is small beside the copy,
 * small enough to be kept. */
#define STAGING_SIZE (16u << 20)

_Static_assert(FUSIOND_MEMFD == (int)MEMORY_KIND_MEMFD, "enums.def");
_Static_assert(FUSIOND_VMM_FD == (int)MEMORY_KIND_VMM_FD, "enums.def");
_Static_assert(FUSIOND_IPC == (int)MEMORY_KIND_IPC, "enums.def");

/* ---- life ---- */

struct fusiond_buffer *buffer_create(struct fusiond_device *device, uint64_t number, uint64_t size)
{
    struct fusiond_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return NULL;
    *buffer = (struct fusiond_buffer){.device = device, .number = number, .size = size};
    LIST_INSERT_HEAD(&device->buffers, buffer, link);
    return buffer;
}

static void free_on_device(struct fusiond_device *device, uint64_t number)
{
    struct buffer_free_request request = {.buffer = number, .has_buffer = true};
    struct error ignored;
    device_post(device, METHOD_BUFFER_FREE, &request, PENDING_DROPPED, NULL, NULL, NULL, &ignored);
}

void fusiond_buffer_free(struct fusiond_buffer *buffer)
{
    if (!buffer)
        return;
    if (buffer->map)
        munmap(buffer->map, buffer->size);
    if (buffer->device) {
        LIST_REMOVE(buffer, link);
        free_on_device(buffer->device, buffer->number);
    }
    free(buffer);
}

uint64_t fusiond_buffer_size(const struct fusiond_buffer *buffer)
{
    return buffer->size;
}

static int keep_buffer(struct fusiond_device *device, uint64_t number, uint64_t size, struct fusiond_buffer **ret,
                       struct error *error)
{
    struct fusiond_buffer *buffer = buffer_create(device, number, size);
    if (!buffer) {
        free_on_device(device, number);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a buffer");
    }
    *ret = buffer;
    return 0;
}

int fusiond_buffer_allocate(struct fusiond_device *device, uint64_t size, bool exportable, struct fusiond_buffer **ret,
                            struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct buffer_allocate_request request = {.size = size, .has_size = true, .exportable = exportable};
    struct buffer_allocate_reply reply;
    int result = device_ask(device, METHOD_BUFFER_ALLOCATE, &request, NULL, 0, NULL, &reply, &error);
    if (result == 0)
        result = keep_buffer(device, reply.buffer, size, ret, &error);
    return error_export(result, &error, ret_error);
}

/* ---- sharing ---- */

int fusiond_buffer_import(struct fusiond_device *device, const struct fusiond_memory *memory,
                          struct fusiond_buffer **ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    bool by_handle = memory->kind == FUSIOND_IPC;
    struct buffer_import_request request = {
        .kind = (enum memory_kind)memory->kind,
        .size = memory->size,
        .has_size = true,
        .offset = memory->offset,
        .has_offset = memory->offset != 0,
        .allocation_size = memory->allocation_size,
        .has_allocation_size = memory->allocation_size != 0,
    };
    struct buffer_import_reply reply;
    int result;
    if (by_handle) {
        request.handle = (struct bytes){memory->handle, sizeof memory->handle};
    } else {
        request.fds = 1;
        request.has_fds = true;
    }
    if (!memory_kind_word((int)memory->kind))
        result = error_set(&error, STATUS_INVALID_FIELD, "memory: kind %d: there is no such one", (int)memory->kind);
    else
        result = device_ask(device, METHOD_BUFFER_IMPORT, &request, &memory->fd, !by_handle, NULL, &reply, &error);
    if (result == 0)
        result = keep_buffer(device, reply.buffer, memory->size, ret, &error);
    return error_export(result, &error, ret_error);
}

static int export(struct fusiond_buffer *buffer, struct fusiond_memory *ret, struct error *error)
{
    struct buffer_export_request request = {.buffer = buffer->number, .has_buffer = true};
    struct buffer_export_reply exported;
    struct reply reply;
    struct channel *channel = &buffer->device->channel;
    if (device_call(buffer->device, METHOD_BUFFER_EXPORT, &request, NULL, 0, &reply, error) < 0)
        return -1;
    if (device_parse(buffer->device, METHOD_BUFFER_EXPORT, reply.body, NULL, &exported, error) < 0) {
        socket_fds_close(&channel->fds);
        return -1;
    }
    if (channel_expect_fds(channel, exported.fds, error) < 0)
        return -1;
    if (exported.fds != 1) {
        socket_fds_close(&channel->fds);
        return error_set(error, STATUS_MALFORMED, "the executor's answer to buffer.export has %llu descriptors, not 1",
                         (unsigned long long)exported.fds);
    }
    *ret = (struct fusiond_memory){
        .kind = (enum fusiond_memory_kind)exported.kind, .fd = channel->fds.fds[0], .size = exported.size};
    channel->fds.n = 0;
    return 0;
}

int fusiond_buffer_export(struct fusiond_buffer *buffer, struct fusiond_memory *ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    int result = device_check(buffer->device, &error);
    if (result == 0)
        result = export(buffer, ret, &error);
    return error_export(result, &error, ret_error);
}

/* A file that could shrink would end this process with SIGBUS. */
static int map_memfd(const struct fusiond_memory *memory, uint64_t size, void **ret, struct error *error)
{
    struct stat status;
    int seals = fcntl(memory->fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return error_set(error, STATUS_MALFORMED, "the executor exported memory that it could shrink");
    if (fstat(memory->fd, &status) < 0 || status.st_size < 0 || (uint64_t)status.st_size < size)
        return error_set(error, STATUS_MALFORMED, "the executor exported %lld bytes of a buffer of %llu",
                         (long long)status.st_size, (unsigned long long)size);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    if (map == MAP_FAILED)
        return error_set_errno(error, STATUS_SYSTEM, errno, "mapping a buffer of %llu bytes", (unsigned long long)size);
    *ret = map;
    return 0;
}

static int map(struct fusiond_buffer *buffer, struct error *error)
{
    struct fusiond_memory memory;
    if (buffer->device->facts.kind != DEVICE_KIND_HOST)
        return error_set(error, STATUS_UNSUPPORTED,
                         "buffer: only the host device's memory can be mapped, not that of %s",
                         buffer->device->facts.name.at);
    if (export(buffer, &memory, error) < 0)
        return -1;
    int result;
    if (memory.kind == FUSIOND_MEMFD)
        result = map_memfd(&memory, buffer->size, &buffer->map, error);
    else
        result = error_set(error, STATUS_MALFORMED, "the host device exported memory of kind %d", (int)memory.kind);
    close(memory.fd);
    return result;
}

int fusiond_buffer_map(struct fusiond_buffer *buffer, void **ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    int result = device_check(buffer->device, &error);
    if (result == 0 && !buffer->map)
        result = map(buffer, &error);
    if (result == 0)
        *ret = buffer->map;
    return error_export(result, &error, ret_error);
}

/* ---- copying ---- */

static int staging_init(struct fusiond_device *device, struct error *error)
{
    if (device->staging)
        return 0;
    int fd = memfd_create("fusiond-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "memfd_create");
    void *bytes = MAP_FAILED;
    if (ftruncate(fd, STAGING_SIZE) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        bytes = mmap(NULL, STAGING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        error_set_errno(error, STATUS_SYSTEM, errno, "a memfd of %u bytes", STAGING_SIZE);
        close(fd);
        return -1;
    }
    device->staging_fd = fd;
    device->staging = bytes;
    return 0;
}

void staging_finish(struct fusiond_device *device)
{
    if (device->staging)
        munmap(device->staging, STAGING_SIZE);
    if (device->staging_fd >= 0)
        close(device->staging_fd);
    device->staging = NULL;
    device->staging_fd = -1;
}

/* The device and the range must be right before the first piece moves. */
static int check_copy(const struct fusiond_buffer *buffer, uint64_t offset, uint64_t size,
                      const struct fusiond_stream *stream, struct error *error)
{
    if (device_check(buffer->device, error) < 0)
        return -1;
    if (stream && stream->device != buffer->device)
        return error_set(error, STATUS_UNKNOWN_HANDLE, "stream: it is another device's, or its device was closed");
    if (size > buffer->size || offset > buffer->size - size)
        return error_set(error, STATUS_INVALID_BUFFER, "buffer: %llu bytes at offset %llu; it has %llu",
                         (unsigned long long)size, (unsigned long long)offset, (unsigned long long)buffer->size);
    return 0;
}

static int write_piece(const struct fusiond_buffer *buffer, uint64_t offset, const void *bytes, size_t size,
                       const struct fusiond_stream *stream, struct error *error)
{
    struct fusiond_device *device = buffer->device;
    struct buffer_write_request request = {
        .buffer = buffer->number,
        .has_buffer = true,
        .offset = offset,
        .has_offset = offset != 0,
        .stream = stream ? stream->number : 0,
        .has_stream = stream != NULL,
    };
    if (size <= LIMIT_INLINE) {
        request.bytes = (struct bytes){bytes, size};
        return device_ask(device, METHOD_BUFFER_WRITE, &request, NULL, 0, NULL, NULL, error);
    }
    if (staging_init(device, error) < 0)
        return -1;
    memcpy(device->staging, bytes, size);
    request.size = size;
    request.fds = 1;
    request.has_size = request.has_fds = true;
    return device_ask(device, METHOD_BUFFER_WRITE, &request, &device->staging_fd, 1, NULL, NULL, error);
}

static int read_inline(struct fusiond_device *device, const struct buffer_read_request *request, void *bytes,
                       struct error *error)
{
    struct buffer_read_reply reply;
    if (device_ask(device, METHOD_BUFFER_READ, request, NULL, 0, NULL, &reply, error) < 0)
        return -1;
    if (reply.bytes.size != request->size)
        return error_set(error, STATUS_MALFORMED, "the executor's answer to buffer.read has %zu bytes, not %llu",
                         reply.bytes.size, (unsigned long long)request->size);
    memcpy(bytes, reply.bytes.at, reply.bytes.size);
    return 0;
}

static int read_piece(const struct fusiond_buffer *buffer, uint64_t offset, void *bytes, size_t size,
                      const struct fusiond_stream *stream, struct error *error)
{
    struct fusiond_device *device = buffer->device;
    struct buffer_read_request request = {
        .buffer = buffer->number,
        .has_buffer = true,
        .offset = offset,
        .has_offset = offset != 0,
        .stream = stream ? stream->number : 0,
        .has_stream = stream != NULL,
        .size = size,
        .has_size = true,
    };
    if (size <= LIMIT_INLINE)
        return read_inline(device, &request, bytes, error);
    if (staging_init(device, error) < 0)
        return -1;
    request.fds = 1;
    request.has_fds = true;
    if (device_ask(device, METHOD_BUFFER_READ, &request, &device->staging_fd, 1, NULL, NULL, error) < 0)
        return -1;
    memcpy(bytes, device->staging, size);
    return 0;
}

int fusiond_buffer_write(struct fusiond_buffer *buffer, uint64_t offset, const void *bytes, uint64_t size,
                         struct fusiond_stream *stream, struct fusiond_error *ret_error)
{
    struct error error = {0};
    const char *at = bytes;
    int result = check_copy(buffer, offset, size, stream, &error);
    while (result == 0 && size > 0) {
        size_t piece = size < STAGING_SIZE ? (size_t)size : STAGING_SIZE;
        result = write_piece(buffer, offset, at, piece, stream, &error);
        at += piece;
        offset += piece;
        size -= piece;
    }
    return error_export(result, &error, ret_error);
}

int fusiond_buffer_read(struct fusiond_buffer *buffer, uint64_t offset, void *bytes, uint64_t size,
                        struct fusiond_stream *stream, struct fusiond_error *ret_error)
{
    struct error error = {0};
    char *at = bytes;
    int result = check_copy(buffer, offset, size, stream, &error);
    while (result == 0 && size > 0) {
        size_t piece = size < STAGING_SIZE ? (size_t)size : STAGING_SIZE;
        result = read_piece(buffer, offset, at, piece, stream, &error);
        at += piece;
        offset += piece;
        size -= piece;
    }
    return error_export(result, &error, ret_error);
}
