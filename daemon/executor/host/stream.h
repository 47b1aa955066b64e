/* Streams of the host device: queues of work, done one after the other by the pool and by libuv's threads. */
#ifndef DAEMON_EXECUTOR_HOST_STREAM_H
#define DAEMON_EXECUTOR_HOST_STREAM_H

#include "daemon/executor/device.h"
#include "daemon/executor/host/grid.h"

/* Owned by the host device. Threads of the pool give finished launches back through it. */
struct host_streams {
    uv_loop_t *loop;
    struct host_pool *pool;
    uv_async_t wake;
    uv_mutex_t lock;      /* over `finished` */
    struct list finished; /* launches that are done, and whose streams do not know it yet */
    struct list ready;    /* streams to be advanced */
};

int host_streams_init(struct host_streams *streams, uv_loop_t *loop, struct host_pool *pool, struct error *error);
/* No stream is left; on_closed comes later, on the loop. */
void host_streams_close(struct host_streams *streams, uv_close_cb on_closed);

int host_stream_create(struct host_streams *streams, struct device_stream **ret, struct error *error);
/* Nothing is queued on it. */
void host_stream_destroy(struct device_stream *stream);

/* As in device_ops. */
int host_stream_launch(struct device_stream *stream, const struct host_launch *launch,
                       const struct argument_bytes *bytes, struct error *error);
int host_stream_copy(struct device_stream *stream, void *to, const void *from, uint64_t size, struct error *error);
int host_stream_fill(struct device_stream *stream, void *to, uint8_t value, uint64_t size, struct error *error);
void host_stream_mark(struct device_stream *stream, struct device_mark *mark);
int host_stream_stamp(struct device_stream *stream, struct device_stamp **ret, struct error *error);
int host_stamp_elapsed(const struct device_stamp *from, const struct device_stamp *to, uint64_t *ret_ns,
                       struct error *error);
void host_stamp_destroy(struct device_stamp *stamp);

#endif
