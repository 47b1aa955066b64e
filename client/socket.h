/* The client's end of the Unix socket: connecting, sending everything, receiving with descriptors. */
#ifndef CLIENT_SOCKET_H
#define CLIENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/limits.h"

/* Nanoseconds of the monotonic clock. */
uint64_t clock_ns(void);

/* Connect to a path within the deadline (of clock_ns). -1 with UNREACHABLE, or INVALID_FIELD for an impossible path. */
int socket_connect(const char *path, uint64_t deadline_ns, int *ret_fd, struct error *error);

/* Send all bytes; descriptors travel with the first one. Never raises SIGPIPE. -1 with DISCONNECTED. */
int socket_send(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds, struct error *error);

/* Send what the socket has room for, without waiting; *ret_n may be 0, and then the descriptors have not left. */
int socket_send_some(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds, size_t *ret_n,
                     struct error *error);

/* Wait until there is room to send or something to receive. *ret_readable: there is, or the stream has ended. */
int socket_wait(int fd, bool *ret_readable, struct error *error);

/* Descriptors that arrived and belong to nobody yet; close-on-exec. */
struct socket_fds {
    int fds[LIMIT_FDS];
    size_t n;
};

void socket_fds_close(struct socket_fds *fds);

/* Receive some bytes, appending descriptors to *fds. Spins for spin_ns first, then sleeps until deadline_ns (0: for
 * ever). 1 with *ret_n > 0, 0 at the end of the stream, -1 with DISCONNECTED, UNREACHABLE (deadline) or
 * UNEXPECTED_FDS. */
int socket_receive(int fd, void *room, size_t size, uint64_t spin_ns, uint64_t deadline_ns, struct socket_fds *fds,
                   size_t *ret_n, struct error *error);

/* The same without waiting: also 1 with *ret_n == 0, when nothing is there. */
int socket_receive_now(int fd, void *room, size_t size, struct socket_fds *fds, size_t *ret_n, struct error *error);

#endif
