/* A connection to the daemon: greeting, one request at a time, reconnecting, cancelling. */
#ifndef CLIENT_CONNECTION_H
#define CLIENT_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "client/channel.h"
#include "client/fusiond.h"

/* Owner: the caller of fusiond_connect. Everything but `lock` and what it guards belongs to the thread that calls. */
struct fusiond_connection {
    char *path;
    char *client;
    uint32_t timeout_ms;
    pid_t pid;              /* that connected; another one is a forked child */
    struct channel channel; /* its fds: arrived with the last reply */
    uint32_t next_id;
    char version[64];

    pthread_mutex_t lock; /* sending, channel.fd, and: */
    uint32_t active;      /* the request that is being waited for; 0: none */
    uint32_t next_cancel;
    bool cancelled; /* the active request */

    /* What the daemon says while the answer to request `id` is waited for; NULL: it is passed over. */
    void (*on_notification)(struct fusiond_connection *connection, uint32_t id, const struct envelope *envelope);
    const void *notified; /* whom on_notification tells */

    /* The last failure with its texts. */
    struct frame_copy failure_frame;
    msgpack_zone *failure_zone;
    struct failure failure;
};

/* Make one request, after (re)connecting if need be, and wait for its answer. A connection that breaks meanwhile is
 * replaced and the request made again, once: all methods can be repeated. The daemon's own errors are passed on, with
 * connection->failure beside them. */
int connection_call(struct fusiond_connection *connection, enum method method, const void *params, const int *fds,
                    size_t n_fds, struct reply *ret, struct error *error);

/* connection_call and message_parse into *ret, whose texts live in `zone` and whose bytes stay in the buffer. For
 * replies without descriptors. */
int connection_ask(struct fusiond_connection *connection, enum method method, const void *params, msgpack_zone *zone,
                   void *ret, struct error *error);

#endif
