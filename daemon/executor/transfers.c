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
        session_fail(session, envelope->id, &error);
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
        session_fail(session, envelope->id, &error);
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
        session_fail(session, envelope->id, &error);
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

static void finish_write(struct operation *operation)
{
    struct transfer *transfer = container_of(operation, struct transfer, operation);
    if (!transfer->mapped)
        operation->session->write_bytes -= transfer->size;
    finish_transfer(operation);
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

static int copy_inline(struct session *session, const struct buffer_write_request *request, struct transfer *transfer,
                       struct error *error)
{
    if (!request->bytes.at)
        return error_set(error, STATUS_INVALID_FIELD, "bytes: give either bytes, or size and one memfd (fds = 1)");
    if (session->write_bytes + request->bytes.size > SESSION_WRITE_BYTES)
        return error_set(error, STATUS_BUSY, "bytes: %llu wait to be written already, the limit is %u",
                         (unsigned long long)session->write_bytes, SESSION_WRITE_BYTES);
    transfer->bytes = malloc(request->bytes.size + 1);
    if (!transfer->bytes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu bytes", request->bytes.size);
    memcpy(transfer->bytes, request->bytes.at, request->bytes.size);
    transfer->size = request->bytes.size;
    session->write_bytes += transfer->size;
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
    struct buffer *buffer = buffers_find(&session->buffers, request->buffer, error);
    if (!stream || !buffer)
        return -1;
    if (fd >= 0 && request->bytes.at)
        return error_set(error, STATUS_INVALID_FIELD, "bytes: give either bytes, or size and one memfd (fds = 1)");
    if ((fd >= 0 ? map(fd, request->size, PROT_READ, transfer, error)
                 : copy_inline(session, request, transfer, error)) < 0)
        return -1;
    if (buffer_check(buffer, request->offset, transfer->size, error) < 0 ||
        (transfer->size > 0 && ops->write(stream->device, buffer->memory.address + request->offset, transfer->bytes,
                                          transfer->size, error) < 0))
        return -1;
    transfer->operation.done = on_written;
    operation_queue(&transfer->operation, stream);
    return 0;
}

static void write_buffer(struct session *session, const struct envelope *envelope)
{
    struct buffer_write_request request;
    struct error error;
    int fd;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (take_fd(session, request.fds, &fd, &error) < 0) {
        session_fail(session, envelope->id, &error);
        return;
    }
    struct transfer *transfer = operation_create(session, envelope->id, sizeof *transfer, &error);
    if (transfer)
        transfer->operation.finish = finish_write;
    if (!transfer || start_write(session, transfer, &request, fd, &error) < 0) {
        session_fail(session, envelope->id, &error);
        if (transfer)
            operation_destroy(&transfer->operation);
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

static int start_read(struct session *session, struct transfer *transfer, const struct buffer_read_request *request,
                      int fd, struct error *error)
{
    const struct device_ops *ops = session->process->backend->ops;
    struct stream *stream = streams_find(&session->streams, request->stream, error);
    struct buffer *buffer = buffers_find(&session->buffers, request->buffer, error);
    if (!stream || !buffer || buffer_check(buffer, request->offset, request->size, error) < 0)
        return -1;
    if (fd >= 0) {
        if (map(fd, request->size, PROT_READ | PROT_WRITE, transfer, error) < 0)
            return -1;
    } else {
        if (request->size > LIMIT_INLINE)
            return error_set(error, STATUS_INVALID_FIELD,
                             "size: %llu bytes are above the limit of %u for an inline answer; bring a memfd",
                             (unsigned long long)request->size, LIMIT_INLINE);
        transfer->bytes = malloc((size_t)request->size + 1);
        transfer->size = request->size;
        if (!transfer->bytes)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %llu bytes",
                             (unsigned long long)request->size);
    }
    if (transfer->size > 0 &&
        ops->read(stream->device, transfer->bytes, buffer->memory.address + request->offset, transfer->size, error) < 0)
        return -1;
    transfer->operation.done = on_read;
    operation_queue(&transfer->operation, stream);
    return 0;
}

static void read_buffer(struct session *session, const struct envelope *envelope)
{
    struct buffer_read_request request;
    struct error error;
    int fd;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (take_fd(session, request.fds, &fd, &error) < 0) {
        session_fail(session, envelope->id, &error);
        return;
    }
    struct transfer *transfer = operation_create(session, envelope->id, sizeof *transfer, &error);
    if (transfer)
        transfer->operation.finish = finish_transfer;
    if (!transfer || start_read(session, transfer, &request, fd, &error) < 0) {
        session_fail(session, envelope->id, &error);
        if (transfer)
            operation_destroy(&transfer->operation);
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
    if (!buffer || session_release_later(session, &buffer->memory, NULL, &error) < 0) {
        session_fail(session, envelope->id, &error);
        return;
    }
    buffers_forget(&session->buffers, buffer);
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
        session_fail(session, envelope->id, &error);
        return;
    }
    struct stream_create_reply reply = {.stream = stream->number, .has_stream = true};
    session_reply(session, envelope->id, METHOD_STREAM_CREATE, &reply, NULL, 0);
}

static void on_synchronized(struct operation *operation, const struct error *error)
{
    static const struct stream_synchronize_reply reply;
    struct stream *stream = operation->stream;
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
    struct operation *operation = NULL;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    struct stream *stream = streams_find(&session->streams, request.stream, &error);
    if (stream)
        operation = operation_create(session, envelope->id, sizeof *operation, &error);
    if (!operation) {
        session_fail(session, envelope->id, &error);
        return;
    }
    operation->done = on_synchronized;
    operation_queue(operation, stream);
}

static void on_destroyed(struct operation *operation, const struct error *error)
{
    static const struct stream_destroy_reply reply;
    (void)error; /* of work that nobody will ask about any more */
    session_reply(operation->session, operation->id, METHOD_STREAM_DESTROY, &reply, NULL, 0);
}

static void finish_destroyed(struct operation *operation)
{
    if (operation->stream)
        streams_remove(&operation->session->streams, operation->stream);
}

static void destroy_stream(struct session *session, const struct envelope *envelope)
{
    struct stream_destroy_request request;
    struct operation *operation = NULL;
    struct stream *stream = NULL;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (request.stream == 0)
        error_set(&error, STATUS_INVALID_FIELD, "stream: 0, the channel's first stream, cannot be destroyed");
    else
        stream = streams_find(&session->streams, request.stream, &error);
    if (stream)
        operation = operation_create(session, envelope->id, sizeof *operation, &error);
    if (!operation) {
        session_fail(session, envelope->id, &error);
        return;
    }
    stream->destroyed = true;
    operation->done = on_destroyed;
    operation->finish = finish_destroyed;
    operation_queue(operation, stream);
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
