/* A daemon that follows a script, in a thread of the test, and the executor of a device that it opens: real frames over
 * real sockets. */
#ifndef TESTS_UNIT_CLIENT_PEER_H
#define TESTS_UNIT_CLIENT_PEER_H

#include <pthread.h>

#include "proto/envelope.h"
#include "proto/frame.h"
#include "proto/message.h"

struct peer {
    char directory[64];
    char path[128];
    int listener;
    int fd;     /* the connection, or the device's channel; -1: none */
    int daemon; /* the connection while fd is the channel; -1: it is not */
    struct frame_reader reader;
    msgpack_zone *zone; /* of everything that was read */
    int fds[LIMIT_FDS]; /* that came with the last request */
    size_t n_fds;
    pthread_t thread;
    void (*script)(struct peer *peer);
    void *data; /* the test's own */
};

/* Listen, and run the script in a thread. */
void peer_start(struct peer *peer, void (*script)(struct peer *peer), void *data);
/* Wait for the script's end and clean up. */
void peer_join(struct peer *peer);

/* For the script: accept a connection (closing the one before). */
void peer_accept(struct peer *peer);
/* Accept and answer hello. */
void peer_greet(struct peer *peer);
/* Read a request, which must be of this method; *ret is filled (may be NULL). Returns its id. */
uint32_t peer_expect(struct peer *peer, enum method method, void *ret);
/* The connection must end now. */
void peer_expect_end(struct peer *peer);
void peer_reply(struct peer *peer, uint32_t id, enum method method, const void *result, const int *fds, size_t n_fds);
void peer_fail(struct peer *peer, uint32_t id, const struct failure *failure);
void peer_send(struct peer *peer, const void *bytes, size_t size, const int *fds, size_t n_fds);
void peer_hang_up(struct peer *peer);
/* Greet, answer device.open with this device, and go on as its executor. */
void peer_open_device(struct peer *peer, struct device *device);

/* Go on as the other of the two, daemon or executor. Both must be at rest. */
void peer_swap(struct peer *peer);
/* The descriptor that came with the last request, which must be one; the caller closes it. */
int peer_take_fd(struct peer *peer);

/* A memfd of these bytes with these seals. */
int peer_memfd(const void *bytes, size_t size, int seals);

#endif
