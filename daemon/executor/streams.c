#include "daemon/executor/streams.h"

#include <stdlib.h>

#include "daemon/executor/buffers.h"
#include "daemon/executor/process.h"
#include "daemon/executor/session.h"

/* ---- life ---- */

static const struct device_ops *ops_of(const struct stream *stream)
{
    return stream->session->process->backend->ops;
}

int streams_init(struct streams *streams, struct session *session, struct error *error)
{
    struct stream *first;
    *streams = (struct streams){.session = session};
    return streams_create(streams, 0, &first, error);
}

static void remove_stream(struct stream *stream)
{
    const struct device_ops *ops = ops_of(stream);
    HASH_DEL(stream->session->streams.by_number, stream);
    if (stream->scratch)
        buffer_destroy(stream->session->process->backend, stream->scratch);
    ops->stream_destroy(stream->device);
    free(stream);
}

void streams_finish(struct streams *streams)
{
    while (streams->by_number)
        remove_stream(streams->by_number);
}

int streams_create(struct streams *streams, int64_t priority, struct stream **ret, struct error *error)
{
    struct backend *backend = streams->session->process->backend;
    if (HASH_COUNT(streams->by_number) >= LIMIT_HANDLES)
        return error_set(error, STATUS_BUSY, "the channel has %u streams, the limit", LIMIT_HANDLES);
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a stream");
    if (backend->ops->stream_create(backend, priority, &stream->device, error) < 0) {
        free(stream);
        return -1;
    }
    list_init(&stream->busy);
    stream->session = streams->session;
    stream->number = streams->next++;
    HASH_ADD(hh, streams->by_number, number, sizeof stream->number, stream);
    if (!table_has(stream)) {
        backend->ops->stream_destroy(stream->device);
        free(stream);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a stream");
    }
    *ret = stream;
    return 0;
}

struct stream *streams_find(const struct streams *streams, uint64_t number, struct error *error)
{
    struct stream *stream;
    HASH_FIND(hh, streams->by_number, &number, sizeof number, stream);
    if (stream && !stream->destroyed)
        return stream;
    error_set(error, STATUS_UNKNOWN_HANDLE, "stream: the channel has none with number %llu",
              (unsigned long long)number);
    return NULL;
}

void stream_destroy(struct stream *stream)
{
    stream->destroyed = true;
    if (list_empty(&stream->busy))
        remove_stream(stream);
}

/* ---- work ---- */

static void become_busy(struct stream *stream)
{
    if (!list_empty(&stream->busy))
        return;
    stream->done_until = stream->session->moment;
    list_push(&stream->session->busy, &stream->busy);
}

/* What the session condemns until now has no use behind the latest mark. */
static void go_on(struct stream *stream)
{
    if (stream->latest)
        stream->latest->moment = stream->session->moment;
    stream->latest = NULL;
}

void stream_queued(struct stream *stream, const struct defined *launch)
{
    become_busy(stream);
    go_on(stream);
    stream->session->moment++;
    stream->session->queued++;
    stream->queued++;
    stream->unmarked++;
    if (launch) {
        stream->launches++;
        stream->launches_unmarked++;
        stream->last = launch;
    }
}

static void on_mark(struct device_mark *device, const struct error *error)
{
    struct stream_mark *mark = container_of(device, struct stream_mark, device);
    struct stream *stream = mark->stream;
    struct session *session = stream->session;
    struct error told;
    if (error) {
        session_explain(mark, error, &told);
        error = &told;
    }
    stream->marks--;
    stream->queued -= mark->queued;
    session->queued -= mark->queued;
    stream->launches -= mark->launches;
    if (stream->latest == mark)
        go_on(stream); /* `done` may queue more */
    stream->done_until = mark->moment;
    mark->done(mark, error);
    if (stream->marks == 0 && stream->queued == 0) {
        list_remove(&stream->busy);
        if (stream->destroyed)
            remove_stream(stream);
    }
    session_advance(session);
}

void stream_mark(struct stream *stream, struct stream_mark *mark,
                 void (*done)(struct stream_mark *mark, const struct error *error))
{
    become_busy(stream);
    go_on(stream);
    *mark = (struct stream_mark){
        .device.done = on_mark,
        .stream = stream,
        .queued = stream->unmarked,
        .launches = stream->launches_unmarked,
        .launch = stream->launches_unmarked == 1 ? stream->last : NULL,
        .done = done,
    };
    stream->latest = mark;
    list_init(&mark->device.link);
    stream->unmarked = stream->launches_unmarked = 0;
    stream->marks++;
    ops_of(stream)->mark(stream->device, &mark->device);
}

static void keep_failure(struct stream *stream, const struct error *error)
{
    if (error && stream->failed.code == STATUS_OK)
        stream->failed = *error;
}

static void on_settled(struct stream_mark *mark, const struct error *error)
{
    keep_failure(mark->stream, error);
    free(mark);
}

void stream_settle(struct stream *stream)
{
    if (stream->unmarked == 0)
        return;
    struct stream_mark *mark = malloc(sizeof *mark);
    if (mark) {
        stream_mark(stream, mark, on_settled);
    } else {
        /* The end of the session says farewell instead. */
        struct error error;
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory to follow what is queued");
        channel_break(&stream->session->channel, &error);
    }
}

static void on_farewell(struct stream_mark *mark, const struct error *error)
{
    (void)mark, (void)error; /* there is nobody to tell */
}

void stream_say_farewell(struct stream *stream)
{
    if (stream->unmarked > 0)
        stream_mark(stream, &stream->farewell, on_farewell);
}
