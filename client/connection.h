/* A connection to the daemon: greeting, one request at a time, reconnecting, cancelling. */
#ifndef CLIENT_CONNECTION_H
#define CLIENT_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "client/fusiond.h"
#include "client/socket.h"
#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/message.h"

/* Bytes of a frame that outlive the connection's buffer. */
struct frame_copy {
    uint8_t *bytes;
    size_t size;
};

/* Owner: the caller of fusiond_connect. Everything but `lock` and what it guards belongs to the thread that calls. */
struct fusiond_connection {
    char *path;
    char *client;
    uint32_t timeout_ms;
    uint64_t spin_ns;
    pid_t pid; /* that connected; another one is a forked child */
    struct frame_reader reader;
    msgpack_sbuffer out;
    struct socket_fds fds; /* arrived with the last reply */
    uint32_t next_id;
    char version[64];

    pthread_mutex_t lock; /* sending, and: */
    int fd;               /* -1: not connected */
    uint32_t active;      /* the request that is being waited for; 0: none */
    uint32_t next_cancel;
    bool cancelled; /* the active request */

    /* The last failure with its texts. */
    struct frame_copy failure_frame;
    msgpack_zone *failure_zone;
    struct failure failure;
};

/* A successful reply, not decoded: `body` lies in the connection's buffer until the next call. */
struct reply {
    const uint8_t *frame;
    size_t size;
    struct bytes body;
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

/* Own the frame of the last reply; `body` of the reply then points into the copy. -1 with OUT_OF_MEMORY. */
int connection_keep(struct fusiond_connection *connection, struct reply *reply, struct frame_copy *ret,
                    struct error *error);

/* Close the descriptors of the last reply unless there are exactly `declared`: then they stay for the caller, in
 * connection->fds. -1 with UNEXPECTED_FDS. */
int connection_expect_fds(struct fusiond_connection *connection, uint64_t declared, struct error *error);

#endif
