#include "daemon/executor/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/require.h"
#include "daemon/executor/process.h"
#include "daemon/executor/requests.h"
#include "proto/limits.h"

/* What may wait to be sent to a client that reads slowly; larger results travel as memfds. */
#define OUT_LIMIT (4u << 20)

/* ---- replies ---- */

static void send_scratch(struct session *session, int status, const int *fds, size_t n_fds)
{
    msgpack_sbuffer *buffer = &session->process->scratch;
    if (status < 0) {
        struct error error;
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a reply");
        channel_break(&session->channel, &error);
    } else {
        channel_send(&session->channel, buffer->data, buffer->size, fds, n_fds);
    }
    /* One large reply must not stay allocated for ever. */
    if (buffer->alloc > LIMIT_INLINE) {
        msgpack_sbuffer_destroy(buffer);
        msgpack_sbuffer_init(buffer);
    }
    msgpack_sbuffer_clear(buffer);
}

void session_reply(struct session *session, uint32_t id, enum method method, const void *result, const int *fds,
                   size_t n_fds)
{
    if (session->state == SESSION_OPEN)
        send_scratch(session, envelope_write_reply(&session->process->scratch, id, method, result), fds, n_fds);
}

void session_reply_packed(struct session *session, uint32_t id, const msgpack_sbuffer *result)
{
    struct bytes packed = {(const uint8_t *)result->data, result->size};
    if (session->state == SESSION_OPEN)
        send_scratch(session, envelope_write_packed(&session->process->scratch, id, packed), NULL, 0);
}

void session_fail(struct session *session, uint32_t id, const struct error *error)
{
    struct failure failure = failure_of(error);
    if (session->state == SESSION_OPEN)
        send_scratch(session, envelope_write_failure(&session->process->scratch, id, &failure), NULL, 0);
}

/* ---- the end ---- */

static void free_if_done(struct session *session)
{
    struct process *process = session->process;
    struct defined *defined, *next;
    if (session->state != SESSION_DRAINING || !session->channel_closed || session->n_operations > 0)
        return;
    HASH_ITER(hh, session->fusions, defined, next)
    {
        HASH_DEL(session->fusions, defined);
        defined_destroy(defined);
    }
    buffers_finish(&session->buffers);
    streams_finish(&session->streams);
    list_remove(&session->link);
    free(session);
    process_session_gone(process);
}

/* ---- operations ---- */

void *operation_create(struct session *session, uint32_t id, size_t size, struct error *error)
{
    struct operation *operation = NULL;
    if (session->n_operations >= SESSION_OPERATIONS) {
        error_set(error, STATUS_BUSY, "%zu requests of this channel wait already, the limit is %u",
                  session->n_operations, SESSION_OPERATIONS);
        return NULL;
    }
    operation = calloc(1, size);
    if (!operation) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a request");
        return NULL;
    }
    operation->session = session;
    operation->id = id;
    session->n_operations++;
    return operation;
}

void operation_destroy(struct operation *operation)
{
    struct session *session = operation->session;
    if (operation->finish)
        operation->finish(operation);
    free(operation);
    session->n_operations--;
    free_if_done(session);
}

static void on_mark(struct device_mark *mark, const struct error *error)
{
    struct operation *operation = container_of(mark, struct operation, mark);
    struct process *process = operation->session->process;
    struct error told;
    operation->stream->completed = operation->launched;
    if (error && process->state == PROCESS_LOST) {
        process_explain_loss(process, operation->stream, &told);
        error = &told;
    }
    operation->done(operation, error);
    operation_destroy(operation);
}

void operation_queue(struct operation *operation, struct stream *stream)
{
    operation->stream = stream;
    operation->launched = stream->launched;
    operation->mark.done = on_mark;
    list_init(&operation->mark.link);
    operation->session->process->backend->ops->mark(stream->device, &operation->mark);
}

/* ---- memory that goes when its work is done ---- */

/* It visits one stream after the other; each has then done what was queued before. */
struct farewell {
    struct session *session;
    struct device_memory memory;
    struct device_mark mark;
    uint64_t stream; /* the number of the one that is waited for */
    bool only;
};

static void visit_next(struct farewell *farewell, struct stream *stream);

/* The stream with the least number from `least` on; NULL when there is none. */
static struct stream *stream_from(const struct session *session, uint64_t least)
{
    struct stream *stream, *next, *found = NULL;
    HASH_ITER(hh, session->streams.by_number, stream, next)
    {
        if (stream->number >= least && (!found || stream->number < found->number))
            found = stream;
    }
    return found;
}

static void on_visited(struct device_mark *mark, const struct error *error)
{
    struct farewell *farewell = container_of(mark, struct farewell, mark);
    struct session *session = farewell->session;
    struct stream *stream;
    HASH_FIND(hh, session->streams.by_number, &farewell->stream, sizeof farewell->stream, stream);
    /* Nobody waits for this answer, so the error is the next synchronize's. */
    if (stream && error && stream->failed.code == STATUS_OK)
        stream->failed = *error;
    visit_next(farewell, farewell->only ? NULL : stream_from(session, farewell->stream + 1));
}

static void visit_next(struct farewell *farewell, struct stream *stream)
{
    struct session *session = farewell->session;
    struct backend *backend = session->process->backend;
    if (stream) {
        farewell->stream = stream->number;
        farewell->mark.done = on_visited;
        list_init(&farewell->mark.link);
        backend->ops->mark(stream->device, &farewell->mark);
        return;
    }
    backend->ops->release(backend, &farewell->memory);
    free(farewell);
    session->n_operations--;
    free_if_done(session);
}

int session_release_later(struct session *session, const struct device_memory *memory, struct stream *only,
                          struct error *error)
{
    struct farewell *farewell = calloc(1, sizeof *farewell);
    if (!farewell)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to free a buffer");
    farewell->session = session;
    farewell->memory = *memory;
    farewell->only = only != NULL;
    session->n_operations++;
    visit_next(farewell, only ? only : stream_from(session, 0));
    return 0;
}

/* ---- requests ---- */

int request_parse(struct session *session, const struct envelope *envelope, void *ret)
{
    struct process *process = session->process;
    struct error error;
    msgpack_zone_clear(&process->request);
    if (message_parse(methods[envelope->method].request, envelope->body.at, envelope->body.size, &process->request, ret,
                      &error) == 0)
        return 0;
    session_fail(session, envelope->id, &error);
    return -1;
}

static void dispatch(struct session *session, const struct envelope *envelope)
{
    switch (envelope->method) {
    case METHOD_FUSION_DEFINE:
        request_define(session, envelope);
        break;
    case METHOD_LAUNCH:
        request_launch(session, envelope);
        break;
    case METHOD_RUN:
        request_run(session, envelope);
        break;
    case METHOD_BUFFER_ALLOCATE:
    case METHOD_BUFFER_IMPORT:
    case METHOD_BUFFER_EXPORT:
    case METHOD_BUFFER_WRITE:
    case METHOD_BUFFER_READ:
    case METHOD_BUFFER_FREE:
        request_buffer(session, envelope);
        break;
    case METHOD_STREAM_CREATE:
    case METHOD_STREAM_SYNCHRONIZE:
    case METHOD_STREAM_DESTROY:
        request_stream(session, envelope);
        break;
    default: {
        struct error error;
        char name[LIMIT_METHOD + 1];
        bool elsewhere = methods[envelope->method].where == METHOD_DAEMON;
        error_set(&error, STATUS_UNKNOWN_METHOD, "there is no method \"%s\"%s",
                  text_show(envelope->name, name, sizeof name), elsewhere ? " here: it is one of the daemon" : "");
        session_fail(session, envelope->id, &error);
    }
    }
}

static void on_frame(struct channel *channel, const uint8_t *frame, size_t size)
{
    struct session *session = channel->owner;
    struct envelope envelope;
    struct error error = {0};
    if (envelope_read(frame, size, &envelope, &error) == 0 && envelope.kind != ENVELOPE_REQUEST)
        error_set(&error, STATUS_MALFORMED, "a client sends requests only");
    if (error.code == STATUS_OK && session->process->state == PROCESS_LOST) {
        process_explain_loss(session->process, NULL, &error);
        session_fail(session, envelope.id, &error);
        return;
    }
    if (error.code != STATUS_OK) {
        session_fail(session, envelope.id, &error);
        session_close(session);
        return;
    }
    process_expect_more(session->process);
    dispatch(session, &envelope);
}

/* ---- life ---- */

static void on_drained(struct operation *operation, const struct error *error)
{
    (void)operation, (void)error;
}

static void on_channel_closed(struct channel *channel)
{
    struct session *session = channel->owner;
    session->channel_closed = true;
    free_if_done(session);
}

/* One mark on every stream: when all are done the device has no work of the session any more. */
static void drain(struct session *session)
{
    struct stream *stream, *next;
    HASH_ITER(hh, session->streams.by_number, stream, next)
    {
        struct operation *operation = calloc(1, sizeof *operation);
        require(operation); /* memory must not be released under a kernel that runs */
        operation->session = session;
        operation->done = on_drained;
        session->n_operations++;
        operation_queue(operation, stream);
    }
}

void session_close(struct session *session)
{
    if (session->state == SESSION_DRAINING)
        return;
    session->state = SESSION_DRAINING;
    drain(session);
    channel_close(&session->channel, on_channel_closed);
    process_session_ended(session->process);
}

static void on_end(struct channel *channel, const struct error *reason)
{
    struct session *session = channel->owner;
    if (reason->code != STATUS_OK && reason->code != STATUS_DISCONNECTED)
        session_fail(session, 0, reason); /* the request that is at fault cannot be named */
    session_close(session);
}

static const struct channel_events channel_events = {on_frame, NULL, on_end};

int session_create(struct process *process, int fd, uint64_t client, uint64_t pid, struct error *error)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a client");
    session->process = process;
    session->client = client;
    session->pid = pid;
    session->next_fusion = 1;
    buffers_init(&session->buffers, process->backend);
    if (streams_init(&session->streams, process->backend, error) < 0) {
        free(session);
        return -1;
    }
    if (channel_start(&session->channel, process->loop, fd, LIMIT_FRAME, OUT_LIMIT, &channel_events, session, error) <
        0) {
        streams_finish(&session->streams);
        free(session);
        return -1;
    }
    list_push(&process->sessions, &session->link);
    return 0;
}
