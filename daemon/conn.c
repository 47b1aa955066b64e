#include "daemon/conn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "proto/limits.h"

/* What may wait to be sent to a client that reads slowly; larger results travel as memfds. */
#define OUT_LIMIT (4u << 20)

/* ---- replies ---- */

void conn_send_scratch(struct conn *conn, const int *fds, size_t n_fds)
{
    msgpack_sbuffer *buffer = &conn->server->scratch;
    channel_send(&conn->channel, buffer->data, buffer->size, fds, n_fds);
    /* One large reply must not stay allocated for ever. */
    if (buffer->alloc > LIMIT_INLINE) {
        msgpack_sbuffer_destroy(buffer);
        msgpack_sbuffer_init(buffer);
    }
    msgpack_sbuffer_clear(buffer);
    if (channel_is_held(&conn->channel))
        patience_watch(&conn->patience);
}

/* Send what was written, unless memory ran out. */
static void send_written(struct conn *conn, int status, const int *fds, size_t n_fds)
{
    struct error error;
    if (status == 0) {
        conn_send_scratch(conn, fds, n_fds);
        return;
    }
    error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a reply");
    channel_break(&conn->channel, &error);
}

void conn_reply(struct conn *conn, uint32_t id, enum method method, const void *result, const int *fds, size_t n_fds)
{
    int status = envelope_write_reply(&conn->server->scratch, id, method, result);
    send_written(conn, status, fds, n_fds);
}

void conn_notify(struct conn *conn, const char *name, const struct message_type *type, const void *message)
{
    int status = envelope_write_notification(&conn->server->scratch, name, type, message);
    send_written(conn, status, NULL, 0);
}

void conn_fail(struct conn *conn, uint32_t id, const struct failure *failure)
{
    conn->server->stats.requests_failed_total++;
    int status = envelope_write_failure(&conn->server->scratch, id, failure);
    send_written(conn, status, NULL, 0);
}

void conn_fail_with(struct conn *conn, uint32_t id, const struct error *error)
{
    struct failure failure = failure_of(error);
    conn_fail(conn, id, &failure);
}

/* ---- frames ---- */

static void on_late(struct patience *patience, enum lateness what)
{
    struct conn *conn = container_of(patience, struct conn, patience);
    bool frame = what == LATE_FRAME;
    conn->server->stats.protocol_errors_total++;
    log_event(LOG_WARNING, frame ? "conn.slow_frame" : "conn.not_reading", "uid=%u pid=%d limit_ms=%d", conn->uid,
              conn->pid, frame ? PATIENCE_FRAME_MS : PATIENCE_READ_MS);
    conn_close(conn);
}

static void on_frame(struct channel *channel, const uint8_t *frame, size_t size)
{
    struct conn *conn = channel->owner;
    patience_frame_ended(&conn->patience);
    request_receive(conn, frame, size);
}

static void on_batch(struct channel *channel)
{
    struct conn *conn = channel->owner;
    patience_watch(&conn->patience);
}

static void on_end(struct channel *channel, const struct error *reason)
{
    struct conn *conn = channel->owner;
    if (reason->code != STATUS_OK && reason->code != STATUS_DISCONNECTED) {
        conn->server->stats.protocol_errors_total++;
        log_event(LOG_WARNING, "conn.broken", "uid=%u pid=%d code=%s reason=\"%s\"", conn->uid, conn->pid,
                  status_name(reason->code), reason->text);
        /* The request that is at fault cannot be named, so the id is 0. */
        conn_fail_with(conn, 0, reason);
    }
    conn_close(conn);
}

static const struct channel_events channel_events = {on_frame, on_batch, on_end};

/* ---- life ---- */

int conn_create(struct server *server, int fd, uid_t uid, pid_t pid, struct error *error)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a connection");
    conn->server = server;
    conn->uid = uid;
    conn->pid = pid;
    list_init(&conn->requests);
    if (channel_start(&conn->channel, &server->loop, fd, LIMIT_FRAME_GREETING, OUT_LIMIT, &channel_events, conn,
                      error) < 0) {
        free(conn);
        return -1;
    }
    patience_init(&conn->patience, &server->loop, &conn->channel, on_late);
    conn->open_handles = 2;
    list_push(&server->conns, &conn->link);
    server->stats.connections++;
    conn->number = ++server->stats.connections_total;
    return 0;
}

static void finish_if_done(struct conn *conn)
{
    if (--conn->open_handles > 0)
        return;
    free(conn->cuda_visible_devices);
    free(conn->cuda_device_order);
    ordinals_finish(&conn->ordinals);
    free(conn);
}

static void on_channel_closed(struct channel *channel)
{
    finish_if_done(channel->owner);
}

static void on_patience_closed(struct patience *patience)
{
    finish_if_done(container_of(patience, struct conn, patience));
}

void conn_close(struct conn *conn)
{
    if (conn->state == CONN_CLOSING)
        return;
    conn->state = CONN_CLOSING;
    list_remove(&conn->link);
    conn->server->stats.connections--;
    requests_orphan(conn);
    channel_close(&conn->channel, on_channel_closed);
    patience_close(&conn->patience, on_patience_closed);
    server_conn_closed(conn->server);
}
