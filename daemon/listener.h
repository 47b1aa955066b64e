/* The listening socket: where it is, who holds it, who may connect. */
#ifndef DAEMON_LISTENER_H
#define DAEMON_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "proto/error.h"

struct listener {
    uv_poll_t poll;
    uv_timer_t retry; /* while paused: descriptors may come back without a connection closing */
    int fd;
    int reserve_fd; /* given up for a moment when descriptors run out, so that a client can be turned away */
    int socket_lock_fd;
    int cache_lock_fd;
    bool activated; /* the socket is the service manager's */
    bool paused;
    bool closing;
    char path[108];
    void (*on_accept)(struct listener *listener, int fd, uid_t uid, pid_t pid);
    void (*on_refuse)(struct listener *listener, uid_t uid, pid_t pid);
};

/*
 * Listen on `path` (or on the socket that the service manager passed), and hold the cache directory (NULL: none).
 * Missing folders are made with mode 0700; the socket's folder must be the daemon's own and writable by nobody else.
 * Another daemon that holds the socket or the cache is named with its pid. on_accept gets the descriptor of a peer that
 * may connect (today: of the daemon's own uid); others are told so and closed. On failure nothing is held.
 */
int listener_open(struct listener *listener, uv_loop_t *loop, const char *path, const char *cache_dir,
                  void (*on_accept)(struct listener *, int, uid_t, pid_t),
                  void (*on_refuse)(struct listener *, uid_t, pid_t), struct error *error);

/* Descriptors may be free again: accept what waits. */
void listener_resume(struct listener *listener);

/* Stop accepting and remove the socket. */
void listener_close(struct listener *listener);
/* Let go of the locks, when the loop has ended. */
void listener_finish(struct listener *listener);

#endif
