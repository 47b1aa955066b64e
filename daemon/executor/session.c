#include "daemon/executor/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/executor/process.h"
#include "daemon/executor/requests.h"
#include "proto/limits.h"

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
    process_expect_more(session->process);
    if (channel_is_held(&session->channel))
        patience_watch(&session->patience);
}

void session_reply(struct session *session, uint32_t id, enum method method, const void *result, const int *fds,
                   size_t n_fds)
{
    if (session->state != SESSION_DRAINING)
        send_scratch(session, envelope_write_reply(&session->process->scratch, id, method, result), fds, n_fds);
}

void session_reply_packed(struct session *session, uint32_t id, const msgpack_sbuffer *result)
{
    struct bytes packed = {(const uint8_t *)result->data, result->size};
    if (session->state != SESSION_DRAINING)
        send_scratch(session, envelope_write_packed(&session->process->scratch, id, packed), NULL, 0);
}

void session_fail(struct session *session, uint32_t id, const struct error *error)
{
    struct failure failure = failure_of(error);
    if (session->state != SESSION_DRAINING)
        send_scratch(session, envelope_write_failure(&session->process->scratch, id, &failure), NULL, 0);
}

void session_explain(const struct stream_mark *mark, const struct error *error, struct error *ret)
{
    struct process *process = mark->stream->session->process;
    char name[160];
    *ret = *error;
    if (process->state == PROCESS_LOST)
        process_explain_loss(process, mark->stream, ret);
    else if (mark->launch && error->code == STATUS_LAUNCH_FAILED)
        error_wrap(ret, "%s", defined_show(mark->launch, name, sizeof name));
}

/* ---- operations ---- */

int operation_create(struct session *session, uint32_t id, size_t size, struct operation **ret, struct error *error)
{
    struct operation *operation = calloc(1, size);
    if (!operation)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a request");
    operation->session = session;
    operation->id = id;
    session->requests++;
    *ret = operation;
    return 0;
}

void operation_hold(struct operation *operation, uint64_t bytes)
{
    operation->held_bytes += bytes;
    operation->session->held_bytes += bytes;
}

void operation_begin(struct stream *stream)
{
    stream_settle(stream);
}

static void on_done(struct stream_mark *mark, const struct error *error)
{
    struct operation *operation = container_of(mark, struct operation, mark);
    operation->done(operation, error);
    operation_end(operation);
}

void operation_wait(struct operation *operation, struct stream *stream)
{
    stream_mark(stream, &operation->mark, on_done);
}

void operation_end(struct operation *operation)
{
    struct session *session = operation->session;
    if (operation->finish)
        operation->finish(operation);
    session->requests--;
    session->held_bytes -= operation->held_bytes;
    free(operation);
}

/* ---- what is condemned ---- */

void session_condemn(struct session *session, struct buffer *buffer)
{
    buffer->condemned_at = session->moment;
    list_push(&session->condemned, &buffer->condemned);
}

static void release_condemned(struct session *session)
{
    uint64_t done_until = UINT64_MAX;
    for (struct list *link = session->busy.next; link != &session->busy; link = link->next) {
        struct stream *stream = container_of(link, struct stream, busy);
        done_until = stream->done_until < done_until ? stream->done_until : done_until;
    }
    while (!list_empty(&session->condemned)) {
        struct buffer *buffer = container_of(session->condemned.next, struct buffer, condemned);
        if (buffer->condemned_at > done_until)
            break;
        buffer_destroy(session->process->backend, buffer);
    }
}

/* ---- the end ---- */

static void free_if_over(struct session *session)
{
    struct process *process = session->process;
    struct defined *defined, *next;
    if (session->state != SESSION_DRAINING || session->open_handles > 0 || session->requests > 0 ||
        !list_empty(&session->busy))
        return;
    release_condemned(session);
    entry_cache_finish(&session->entries);
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

static void on_channel_closed(struct channel *channel)
{
    struct session *session = channel->owner;
    session->open_handles--;
    free_if_over(session);
}

static void on_patience_closed(struct patience *patience)
{
    struct session *session = container_of(patience, struct session, patience);
    session->open_handles--;
    free_if_over(session);
}

void session_close(struct session *session)
{
    struct list *link;
    if (session->state == SESSION_DRAINING)
        return;
    session->state = SESSION_DRAINING;
    for (link = session->busy.next; link != &session->busy; link = link->next)
        stream_say_farewell(container_of(link, struct stream, busy));
    patience_close(&session->patience, on_patience_closed);
    channel_close(&session->channel, on_channel_closed);
}

void session_finish(struct session *session)
{
    if (session->state != SESSION_OPEN)
        return;
    session->state = SESSION_FINISHING;
    channel_pause(&session->channel);
    session_advance(session);
}

/* ---- how much it may have under way ---- */

static bool has_enough(const struct session *session)
{
    return session->queued >= SESSION_QUEUED || session->requests >= SESSION_REQUESTS ||
           session->held_bytes >= SESSION_HELD_BYTES || session->exclusive > 0;
}

/* Not at the very limit, or it would go on and stop with each operation. */
static bool may_go_on(const struct session *session)
{
    return session->queued <= SESSION_QUEUED / 2 && session->requests <= SESSION_REQUESTS / 2 &&
           session->held_bytes < SESSION_HELD_BYTES && session->exclusive == 0;
}

static void settle_all(struct session *session)
{
    for (struct list *link = session->busy.next; link != &session->busy; link = link->next)
        stream_settle(container_of(link, struct stream, busy));
}

void session_advance(struct session *session)
{
    release_condemned(session);
    if (session->state == SESSION_OPEN && session->channel.paused && may_go_on(session))
        channel_resume(&session->channel);
    if (session->state == SESSION_FINISHING && session->requests == 0)
        session_close(session);
    free_if_over(session);
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

void request_fail(struct session *session, const struct envelope *envelope, const struct error *error)
{
    struct error loss;
    if (session->process->state == PROCESS_LOST) {
        process_explain_loss(session->process, NULL, &loss);
        error = &loss;
    }
    session_fail(session, envelope->id, error);
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
    patience_frame_ended(&session->patience);
    if (envelope_read(frame, size, &envelope, &error) == 0 && envelope.kind != ENVELOPE_REQUEST)
        error_set(&error, STATUS_MALFORMED, "a client sends requests only");
    if (error.code != STATUS_OK) {
        session_fail(session, envelope.id, &error);
        session_close(session);
        return;
    }
    if (session->process->state == PROCESS_LOST) {
        process_explain_loss(session->process, NULL, &error);
        session_fail(session, envelope.id, &error);
        return;
    }
    process_expect_more(session->process);
    dispatch(session, &envelope);
    if (has_enough(session))
        channel_pause(channel);
}

/* What came together is followed by one mark per stream. */
static void on_batch(struct channel *channel)
{
    struct session *session = channel->owner;
    settle_all(session);
    patience_watch(&session->patience);
    release_condemned(session);
}

static void on_end(struct channel *channel, const struct error *reason)
{
    struct session *session = channel->owner;
    if (reason->code != STATUS_OK && reason->code != STATUS_DISCONNECTED)
        session_fail(session, 0, reason); /* the request that is at fault cannot be named */
    session_close(session);
}

static void on_late(struct patience *patience, enum lateness what)
{
    struct session *session = container_of(patience, struct session, patience);
    fprintf(stderr, "fusiond-executor: client %llu: %s\n", (unsigned long long)session->client,
            what == LATE_FRAME ? "a frame did not end in time" : "it does not read its replies");
    session_close(session);
}

/* ---- the beginning ---- */

static const struct channel_events channel_events = {on_frame, on_batch, on_end};

int session_create(struct process *process, int fd, uint64_t client, uint64_t pid, struct error *error)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a client");
    session->process = process;
    session->client = client;
    session->pid = pid;
    session->next_fusion = 1;
    list_init(&session->busy);
    list_init(&session->condemned);
    entry_cache_init(&session->entries);
    buffers_init(&session->buffers, process);
    if (streams_init(&session->streams, session, error) < 0) {
        free(session);
        return -1;
    }
    if (channel_start(&session->channel, process->loop, fd, LIMIT_FRAME, SESSION_OUT, &channel_events, session, error) <
        0) {
        streams_finish(&session->streams);
        free(session);
        return -1;
    }
    patience_init(&session->patience, process->loop, &session->channel, on_late);
    session->open_handles = 2;
    list_push(&process->sessions, &session->link);
    return 0;
}
