#include "daemon/executor/host/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/require.h"

/* Copies up to this size are made on the loop: handing one to a thread takes longer. */
#define SMALL_COPY (64u << 10)

struct device_stamp {
    uint64_t ns;
    bool reached;
    bool unwanted; /* destroyed before the stream got there */
};

enum work_kind {
    WORK_LAUNCH,
    WORK_COPY, /* from another place, or of one byte again and again */
    WORK_STAMP,
    WORK_MARK,
};

/* One thing that a stream does. */
struct work {
    struct list link; /* in the stream's queue; while a launch is finished, in streams->finished */
    enum work_kind kind;
    struct device_stream *stream;
    struct host_launch launch;
    const void **arguments; /* of the launch, into the bytes behind */
    uint64_t finished_ns;
    char why[256]; /* a launch that failed; empty: it did not */
    uv_work_t copy;
    void *to;
    const void *from; /* NULL: a fill */
    uint8_t value;
    uint64_t size;
    struct device_stamp *stamp;
    struct device_mark *mark;
};

struct device_stream {
    struct host_streams *streams;
    struct list queue; /* struct work; the first one is under way if `busy` */
    struct list in_ready;
    bool busy;
    uint64_t clock_ns; /* when the last launch was done */
    struct error failed;
};

/* ---- advancing ---- */

static void wake(struct device_stream *stream)
{
    struct host_streams *streams = stream->streams;
    if (!list_empty(&stream->in_ready))
        return;
    list_push(&streams->ready, &stream->in_ready);
    uv_async_send(&streams->wake);
}

static void finish(struct work *work)
{
    struct device_stream *stream = work->stream;
    list_remove(&work->link);
    stream->busy = false;
    free(work);
}

/* On a thread of the pool. */
static void on_launched(void *context, const char *why)
{
    struct work *work = context;
    struct host_streams *streams = work->stream->streams;
    work->finished_ns = uv_hrtime();
    if (why)
        snprintf(work->why, sizeof work->why, "%s", *why ? why : "it failed");
    uv_mutex_lock(&streams->lock);
    list_push(&streams->finished, &work->link);
    uv_mutex_unlock(&streams->lock);
    uv_async_send(&streams->wake);
}

static void fail(struct device_stream *stream, const struct error *error)
{
    if (stream->failed.code == STATUS_OK)
        stream->failed = *error;
}

/* True when it is under way; its end comes by on_launched. */
static bool start_launch(struct work *work)
{
    struct error error;
    list_remove(&work->link); /* it travels through `finished` */
    work->launch.done = on_launched;
    work->launch.context = work;
    if (host_grid_run(work->stream->streams->pool, &work->launch, &error) == 0)
        return true;
    fail(work->stream, &error);
    return false;
}

static void do_copy(struct work *work)
{
    if (work->from)
        memcpy(work->to, work->from, work->size);
    else
        memset(work->to, work->value, work->size);
}

static void on_copy(uv_work_t *copy)
{
    do_copy(container_of(copy, struct work, copy));
}

static void on_copied(uv_work_t *copy, int status)
{
    struct work *work = container_of(copy, struct work, copy);
    struct device_stream *stream = work->stream;
    (void)status;
    finish(work);
    wake(stream);
}

static bool start_copy(struct work *work)
{
    if (work->size > SMALL_COPY && uv_queue_work(work->stream->streams->loop, &work->copy, on_copy, on_copied) == 0)
        return true;
    do_copy(work);
    return false;
}

static void reach_stamp(struct work *work)
{
    struct device_stamp *stamp = work->stamp;
    stamp->ns = work->stream->clock_ns ? work->stream->clock_ns : uv_hrtime();
    stamp->reached = true;
    if (stamp->unwanted)
        free(stamp);
}

/* The stream may be gone when this returns. */
static void reach_mark(struct work *work)
{
    struct device_stream *stream = work->stream;
    struct device_mark *mark = work->mark;
    struct error failed = stream->failed;
    stream->failed = (struct error){0};
    bool last = work->link.next == &stream->queue;
    finish(work);
    if (!last)
        wake(stream);
    mark->done(mark, failed.code == STATUS_OK ? NULL : &failed);
}

/* Do what can be done at once, up to something that takes time or a mark, whose owner may do anything. */
static void advance(struct device_stream *stream)
{
    while (!stream->busy && !list_empty(&stream->queue)) {
        struct work *work = container_of(stream->queue.next, struct work, link);
        stream->busy = true;
        if (work->kind == WORK_MARK) {
            reach_mark(work);
            return;
        }
        if (work->kind == WORK_LAUNCH && start_launch(work))
            return;
        if (work->kind == WORK_COPY && start_copy(work))
            return;
        if (work->kind == WORK_STAMP)
            reach_stamp(work);
        finish(work);
    }
}

static struct work *take_finished(struct host_streams *streams)
{
    uv_mutex_lock(&streams->lock);
    struct list *link = list_pop(&streams->finished);
    uv_mutex_unlock(&streams->lock);
    return link ? container_of(link, struct work, link) : NULL;
}

static void on_wake(uv_async_t *async)
{
    struct host_streams *streams = async->data;
    struct work *work;
    struct list *link;
    while ((work = take_finished(streams))) {
        struct device_stream *stream = work->stream;
        stream->clock_ns = work->finished_ns;
        if (work->why[0]) {
            struct error error;
            error_set(&error, STATUS_LAUNCH_FAILED, "kernel %s: %s", work->launch.entry->name, work->why);
            fail(stream, &error);
        }
        finish(work);
        wake(stream);
    }
    while ((link = list_pop(&streams->ready)))
        advance(container_of(link, struct device_stream, in_ready));
}

/* ---- queueing ---- */

static struct work *queue_work(struct device_stream *stream, enum work_kind kind, size_t more)
{
    struct work *work = calloc(1, sizeof *work + more);
    if (!work)
        return NULL;
    work->kind = kind;
    work->stream = stream;
    list_init(&work->link);
    return work;
}

static void enqueue(struct work *work)
{
    list_push(&work->stream->queue, &work->link);
    if (!work->stream->busy)
        wake(work->stream);
}

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to queue work");
}

int host_stream_launch(struct device_stream *stream, const struct host_launch *launch,
                       const struct argument_bytes *bytes, struct error *error)
{
    size_t size = 0;
    for (size_t i = 0; i < bytes->n; i++)
        size += (bytes->sizes[i] + 15) & ~(size_t)15;
    struct work *work = queue_work(stream, WORK_LAUNCH, (bytes->n + 1) * sizeof(void *) + size);
    if (!work)
        return no_memory(error);
    work->launch = *launch;
    work->arguments = (const void **)(work + 1);
    uint8_t *at = (uint8_t *)(work->arguments + bytes->n + 1);
    for (size_t i = 0; i < bytes->n; i++) {
        memcpy(at, bytes->pointers[i], bytes->sizes[i]);
        work->arguments[i] = at;
        at += (bytes->sizes[i] + 15) & ~(size_t)15;
    }
    work->launch.arguments = work->arguments;
    enqueue(work);
    return 0;
}

int host_stream_copy(struct device_stream *stream, void *to, const void *from, uint64_t size, struct error *error)
{
    struct work *work = queue_work(stream, WORK_COPY, 0);
    if (!work)
        return no_memory(error);
    work->to = to;
    work->from = from;
    work->size = size;
    enqueue(work);
    return 0;
}

int host_stream_fill(struct device_stream *stream, void *to, uint8_t value, uint64_t size, struct error *error)
{
    struct work *work = queue_work(stream, WORK_COPY, 0);
    if (!work)
        return no_memory(error);
    work->to = to;
    work->value = value;
    work->size = size;
    enqueue(work);
    return 0;
}

void host_stream_mark(struct device_stream *stream, struct device_mark *mark)
{
    struct work *work = queue_work(stream, WORK_MARK, 0);
    require(work); /* its owner would wait for ever */
    work->mark = mark;
    enqueue(work);
}

int host_stream_stamp(struct device_stream *stream, struct device_stamp **ret, struct error *error)
{
    struct work *work = queue_work(stream, WORK_STAMP, 0);
    struct device_stamp *stamp = work ? calloc(1, sizeof *stamp) : NULL;
    if (!stamp) {
        free(work);
        return no_memory(error);
    }
    work->stamp = stamp;
    enqueue(work);
    *ret = stamp;
    return 0;
}

int host_stamp_elapsed(const struct device_stamp *from, const struct device_stamp *to, uint64_t *ret_ns,
                       struct error *error)
{
    if (!from->reached || !to->reached || to->ns < from->ns)
        return error_set(error, STATUS_INTERNAL, "a stamp was read before the stream had got there");
    *ret_ns = to->ns - from->ns;
    return 0;
}

void host_stamp_destroy(struct device_stamp *stamp)
{
    if (!stamp)
        return;
    stamp->unwanted = true;
    if (stamp->reached)
        free(stamp);
}

/* ---- life ---- */

int host_stream_create(struct host_streams *streams, struct device_stream **ret, struct error *error)
{
    struct device_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a stream");
    stream->streams = streams;
    list_init(&stream->queue);
    list_init(&stream->in_ready);
    *ret = stream;
    return 0;
}

void host_stream_destroy(struct device_stream *stream)
{
    list_remove(&stream->in_ready);
    free(stream);
}

int host_streams_init(struct host_streams *streams, uv_loop_t *loop, struct host_pool *pool, struct error *error)
{
    *streams = (struct host_streams){.loop = loop, .pool = pool};
    list_init(&streams->finished);
    list_init(&streams->ready);
    if (uv_async_init(loop, &streams->wake, on_wake) < 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no event for the host device");
    streams->wake.data = streams;
    if (uv_mutex_init(&streams->lock) == 0)
        return 0;
    uv_close((uv_handle_t *)&streams->wake, NULL);
    return error_set(error, STATUS_OUT_OF_MEMORY, "no lock for the host device");
}

void host_streams_close(struct host_streams *streams, uv_close_cb on_closed)
{
    uv_mutex_destroy(&streams->lock);
    uv_close((uv_handle_t *)&streams->wake, on_closed);
}
