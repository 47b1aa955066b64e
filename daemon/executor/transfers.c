/* buffer.* and stream.*: memory, bytes to and from it, queues of work. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/executor/process.h"
#include "daemon/executor/requests.h"

/* The descriptors that a message declares, at most one. -1: none. */
static int take_fd(struct session *session, uint64_t declared, int *ret, struct error *error)
{
    int fds[LIMIT_FDS];
    *ret = -1;
    if (declared == 0)
        return 0;
    if (!channel_take_fds(&session->channel, (size_t)declared, fds))
        return error_set(error, STATUS_UNEXPECTED_FDS, "fds: %llu declared, but %zu came", (unsigned long long)declared,
                         session->channel.n_fds);
    for (size_t i = 1; i < declared; i++)
        close(fds[i]);
    if (declared > 1) {
        close(fds[0]);
        return error_set(error, STATUS_INVALID_FIELD, "fds: %llu is above the limit of 1",
                         (unsigned long long)declared);
    }
    *ret = fds[0];
    return 0;
}

/* ---- allocate, import, export ---- */

static void allocate(struct session *session, const struct envelope *envelope)
{
    struct buffer_allocate_request request;
    struct buffer *buffer;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (buffers_allocate(&session->buffers, request.size, request.exportable, &buffer, &error) < 0) {
        request_fail(session, envelope, &error);
        return;
    }
    struct buffer_allocate_reply reply = {
        .buffer = buffer->number, .has_buffer = true, .size = buffer->memory.size, .has_size = true};
    session_reply(session, envelope->id, METHOD_BUFFER_ALLOCATE, &reply, NULL, 0);
}

static void import(struct session *session, const struct envelope *envelope)
{
    struct buffer_import_request request;
    struct buffer *buffer;
    struct error error;
    int fd;
    if (request_parse(session, envelope, &request) < 0)
        return;
    int status = take_fd(session, request.fds, &fd, &error);
    if (status == 0)
        status = buffers_import(&session->buffers, &request, fd, &buffer, &error);
    if (fd >= 0)
        close(fd);
    if (status < 0) {
        request_fail(session, envelope, &error);
        return;
    }
    struct buffer_import_reply reply = {.buffer = buffer->number, .has_buffer = true};
    session_reply(session, envelope->id, METHOD_BUFFER_IMPORT, &reply, NULL, 0);
}

static void export(struct session *session, const struct envelope *envelope)
{
    struct backend *backend = session->process->backend;
    struct buffer_export_request request;
    struct buffer_export_reply reply = {.has_size = true, .fds = 1, .has_fds = true};
    struct error error;
    int fd;
    if (request_parse(session, envelope, &request) < 0)
        return;
    struct buffer *buffer = buffers_find(&session->buffers, request.buffer, &error);
    int status = buffer ? 0 : -1;
    if (buffer && buffer->imported)
        status = error_set(&error, STATUS_INVALID_BUFFER,
                           "buffer %llu: it was imported; whoever owns the memory can share it",
                           (unsigned long long)buffer->number);
    if (status == 0)
        status = backend->ops->export(backend, &buffer->memory, &reply.kind, &reply.size, &fd, &error);
    if (status < 0) {
        request_fail(session, envelope, &error);
        return;
    }
    session_reply(session, envelope->id, METHOD_BUFFER_EXPORT, &reply, &fd, 1);
    close(fd);
}

/* ---- write, read ---- */

/* Bytes on their way to or from the device. */
struct transfer {
    struct operation operation;
    uint8_t *bytes; /* own memory, or a mapping of the client's memfd */
    uint64_t size;
    uint64_t mapped; /* bytes to unmap; 0: own memory */
};

static void finish_transfer(struct operation *operation)
{
    struct transfer *transfer = container_of(operation, struct transfer, operation);
    if (transfer->mapped)
        munmap(transfer->bytes, (size_t)transfer->mapped);
    else
        free(transfer->bytes);
}

/* A client's memfd that cannot become shorter, or touching it could end the process. */
static int map(int fd, uint64_t size, int protection, struct transfer *transfer, struct error *error)
{
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return error_set(error, STATUS_INVALID_FIELD,
                         "fds: the descriptor must be a memfd sealed against shrinking (F_SEAL_SHRINK)");
    if (fstat(fd, &status) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "fds: the size of the memfd");
    if (size == 0 || (uint64_t)status.st_size < size)
        return error_set(error, STATUS_INVALID_FIELD, "size: %llu, but the memfd has %lld bytes",
                         (unsigned long long)size, (long long)status.st_size);
    void *at = mmap(NULL, (size_t)size, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return error_set_errno(error, STATUS_SYSTEM, errno, "fds: mapping %llu bytes", (unsigned long long)size);
    transfer->bytes = at;
    transfer->mapped = transfer->size = size;
    return 0;
}

static int copy_inline(struct transfer *transfer, struct bytes bytes, struct error *error)
{
    if (!bytes.at)
        return error_set(error, STATUS_INVALID_FIELD, "bytes: give either bytes, or size and one memfd (fds = 1)");
    transfer->bytes = malloc(bytes.size + 1);
    if (!transfer->bytes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu bytes", bytes.size);
    memcpy(transfer->bytes, bytes.at, bytes.size);
    transfer->size = bytes.size;
    operation_hold(&transfer->operation, bytes.size);
    return 0;
}

static void on_written(struct operation *operation, const struct error *error)
{
    static const struct buffer_write_reply reply;
    if (error)
        session_fail(operation->session, operation->id, error);
    else
        session_reply(operation->session, operation->id, METHOD_BUFFER_WRITE, &reply, NULL, 0);
}

static int start_write(struct session *session, struct transfer *transfer, const struct buffer_write_request *request,
                       int fd, struct error *error)
{
    const struct device_ops *ops = session->process->backend->ops;
    struct stream *stream = streams_find(&session->streams, request->stream, error);
    struct buffer *buffer = stream ? buffers_find(&session->buffers, request->buffer, error) : NULL;
    if (!buffer)
        return -1;
    if (fd >= 0 && request->bytes.at)
        return error_set(error, STATUS_INVALID_FIELD, "bytes: give either bytes, or size and one memfd (fds = 1)");
    if (buffer_check(buffer, request->offset, fd >= 0 ? request->size : request->bytes.size, error) < 0 ||
        (fd >= 0 ? map(fd, request->size, PROT_READ, transfer, error) : copy_inline(transfer, request->bytes, error)) <
            0)
        return -1;
    operation_begin(stream);
    if (transfer->size > 0) {
        if (ops->write(stream->device, buffer->memory.address + request->offset, transfer->bytes, transfer->size,
                       error) < 0)
            return -1;
        stream_queued(stream, NULL);
    }
    transfer->operation.done = on_written;
    operation_wait(&transfer->operation, stream);
    return 0;
}

/* Begin a transfer; the descriptor stays the caller's. */
static int create_transfer(struct session *session, uint32_t id, struct transfer **ret, struct error *error)
{
    struct operation *operation;
    if (operation_create(session, id, sizeof **ret, &operation, error) < 0)
        return -1;
    operation->finish = finish_transfer;
    *ret = container_of(operation, struct transfer, operation);
    return 0;
}

static void write_buffer(struct session *session, const struct envelope *envelope)
{
    struct buffer_write_request request;
    struct transfer *transfer = NULL;
    struct error error;
    int fd = -1;
    if (request_parse(session, envelope, &request) < 0)
        return;
    int status = take_fd(session, request.fds, &fd, &error);
    if (status == 0)
        status = create_transfer(session, envelope->id, &transfer, &error);
    if (status == 0)
        status = start_write(session, transfer, &request, fd, &error);
    if (status < 0) {
        request_fail(session, envelope, &error);
        if (transfer)
            operation_end(&transfer->operation);
    }
    if (fd >= 0)
        close(fd);
}

static void on_read(struct operation *operation, const struct error *error)
{
    struct transfer *transfer = container_of(operation, struct transfer, operation);
    struct buffer_read_reply reply = {0};
    if (error) {
        session_fail(operation->session, operation->id, error);
        return;
    }
    if (!transfer->mapped)
        reply.bytes = (struct bytes){transfer->bytes, (size_t)transfer->size};
    session_reply(operation->session, operation->id, METHOD_BUFFER_READ, &reply, NULL, 0);
}

static int prepare_read(struct transfer *transfer, uint64_t size, int fd, struct error *error)
{
    if (fd >= 0)
        return map(fd, size, PROT_READ | PROT_WRITE, transfer, error);
    if (size > LIMIT_INLINE)
        return error_set(error, STATUS_INVALID_FIELD,
                         "size: %llu bytes are above the limit of %u for an inline answer; bring a memfd",
                         (unsigned long long)size, LIMIT_INLINE);
    transfer->bytes = malloc((size_t)size + 1);
    if (!transfer->bytes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %llu bytes", (unsigned long long)size);
    transfer->size = size;
    operation_hold(&transfer->operation, size);
    return 0;
}

static int start_read(struct session *session, struct transfer *transfer, const struct buffer_read_request *request,
                      int fd, struct error *error)
{
    const struct device_ops *ops = session->process->backend->ops;
    struct stream *stream = streams_find(&session->streams, request->stream, error);
    struct buffer *buffer = stream ? buffers_find(&session->buffers, request->buffer, error) : NULL;
    if (!buffer || buffer_check(buffer, request->offset, request->size, error) < 0 ||
        prepare_read(transfer, request->size, fd, error) < 0)
        return -1;
    operation_begin(stream);
    if (transfer->size > 0) {
        if (ops->read(stream->device, transfer->bytes, buffer->memory.address + request->offset, transfer->size,
                      error) < 0)
            return -1;
        stream_queued(stream, NULL);
    }
    transfer->operation.done = on_read;
    operation_wait(&transfer->operation, stream);
    return 0;
}

static void read_buffer(struct session *session, const struct envelope *envelope)
{
    struct buffer_read_request request;
    struct transfer *transfer = NULL;
    struct error error;
    int fd = -1;
    if (request_parse(session, envelope, &request) < 0)
        return;
    int status = take_fd(session, request.fds, &fd, &error);
    if (status == 0)
        status = create_transfer(session, envelope->id, &transfer, &error);
    if (status == 0)
        status = start_read(session, transfer, &request, fd, &error);
    if (status < 0) {
        request_fail(session, envelope, &error);
        if (transfer)
            operation_end(&transfer->operation);
    }
    if (fd >= 0)
        close(fd);
}

/* ---- free ---- */

static void free_buffer(struct session *session, const struct envelope *envelope)
{
    static const struct buffer_free_reply reply;
    struct buffer_free_request request;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    struct buffer *buffer = buffers_find(&session->buffers, request.buffer, &error);
    if (!buffer) {
        request_fail(session, envelope, &error);
        return;
    }
    buffers_forget(&session->buffers, buffer);
    session_condemn(session, buffer);
    session_reply(session, envelope->id, METHOD_BUFFER_FREE, &reply, NULL, 0);
}

void request_buffer(struct session *session, const struct envelope *envelope)
{
    switch ((int)envelope->method) {
    case METHOD_BUFFER_ALLOCATE:
        allocate(session, envelope);
        break;
    case METHOD_BUFFER_IMPORT:
        import(session, envelope);
        break;
    case METHOD_BUFFER_EXPORT:
        export(session, envelope);
        break;
    case METHOD_BUFFER_WRITE:
        write_buffer(session, envelope);
        break;
    case METHOD_BUFFER_READ:
        read_buffer(session, envelope);
        break;
    default:
        free_buffer(session, envelope);
    }
}

/* ---- streams ---- */

static void create_stream(struct session *session, const struct envelope *envelope)
{
    struct stream_create_request request;
    struct stream *stream;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (streams_create(&session->streams, request.priority, &stream, &error) < 0) {
        request_fail(session, envelope, &error);
        return;
    }
    struct stream_create_reply reply = {.stream = stream->number, .has_stream = true};
    session_reply(session, envelope->id, METHOD_STREAM_CREATE, &reply, NULL, 0);
}

static void on_synchronized(struct operation *operation, const struct error *error)
{
    static const struct stream_synchronize_reply reply;
    struct stream *stream = operation->mark.stream;
    struct error earlier = stream->failed;
    stream->failed = (struct error){0};
    if (earlier.code != STATUS_OK)
        session_fail(operation->session, operation->id, &earlier);
    else if (error)
        session_fail(operation->session, operation->id, error);
    else
        session_reply(operation->session, operation->id, METHOD_STREAM_SYNCHRONIZE, &reply, NULL, 0);
}

static void synchronize_stream(struct session *session, const struct envelope *envelope)
{
    struct stream_synchronize_request request;
    struct operation *operation;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    struct stream *stream = streams_find(&session->streams, request.stream, &error);
    if (!stream || operation_create(session, envelope->id, sizeof *operation, &operation, &error) < 0) {
        request_fail(session, envelope, &error);
        return;
    }
    operation->done = on_synchronized;
    operation_begin(stream);
    operation_wait(operation, stream);
}

static void destroy_stream(struct session *session, const struct envelope *envelope)
{
    static const struct stream_destroy_reply reply;
    struct stream_destroy_request request;
    struct stream *stream = NULL;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (request.stream == 0)
        error_set(&error, STATUS_INVALID_FIELD, "stream: 0, the channel's first stream, cannot be destroyed");
    else
        stream = streams_find(&session->streams, request.stream, &error);
    if (!stream) {
        request_fail(session, envelope, &error);
        return;
    }
    stream_destroy(stream);
    session_reply(session, envelope->id, METHOD_STREAM_DESTROY, &reply, NULL, 0);
}

void request_stream(struct session *session, const struct envelope *envelope)
{
    switch ((int)envelope->method) {
    case METHOD_STREAM_CREATE:
        create_stream(session, envelope);
        break;
    case METHOD_STREAM_SYNCHRONIZE:
        synchronize_stream(session, envelope);
        break;
    default:
        destroy_stream(session, envelope);
    }
}
