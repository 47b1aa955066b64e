/*
 * One client's connection. Requests come in, replies go out in any order; this is the one place that writes replies.
 *
 *   GREETING ──hello──► OPEN ──end of stream, broken protocol, shutdown──► CLOSING ──► freed
 *       └──────────────────────────────────────────────────────────────────────▲
 *
 * When it closes, its requests become inert: what they wait for goes on, nothing touches the connection again.
 */
#ifndef DAEMON_CONN_H
#define DAEMON_CONN_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/base/channel.h"
#include "daemon/base/list.h"
#include "daemon/base/patience.h"
#include "daemon/overrides.h"
#include "proto/envelope.h"

struct server;

enum conn_state {
    CONN_GREETING,
    CONN_OPEN,
    CONN_CLOSING,
};

struct conn {
    struct list link; /* server->conns */
    struct server *server;
    struct channel channel;
    enum conn_state state;
    uint64_t number; /* no other connection ever has it */
    uid_t uid;
    char *cuda_visible_devices; /* as the greeting told; NULL: not set */
    char *cuda_device_order;
    pid_t pid;                /* a label; of no meaning in another pid namespace */
    struct ordinals ordinals; /* of what it asked for, where there are overrides */
    struct list requests;     /* struct request, those that are not answered yet */
    size_t n_requests;
    struct patience patience; /* for what the client owes */
    int open_handles;
};

/* Take over an accepted socket of a peer that may connect. */
int conn_create(struct server *server, int fd, uid_t uid, pid_t pid, struct error *error);

/* Answer a request. `fds` are duplicated. */
void conn_reply(struct conn *conn, uint32_t id, enum method method, const void *result, const int *fds, size_t n_fds);
/* Send the frame of a reply that was written into the server's scratch buffer, which is empty again afterwards. */
void conn_send_scratch(struct conn *conn, const int *fds, size_t n_fds);
/* Tell the client something. */
void conn_notify(struct conn *conn, const char *name, const struct message_type *type, const void *message);
void conn_fail(struct conn *conn, uint32_t id, const struct failure *failure);
void conn_fail_with(struct conn *conn, uint32_t id, const struct error *error);

/* Close; harmless when it is closing. The conn is freed later, on the loop. */
void conn_close(struct conn *conn);

#endif
