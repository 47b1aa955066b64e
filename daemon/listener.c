#include "daemon/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/list.h"
#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "proto/envelope.h"

#define BACKLOG 1024
/* How long accepting pauses at most when descriptors have run out. */
#define RETRY_MS 1000

/* ---- folders and locks ---- */

/* mkdir -p with mode 0700. */
static int make_folders(const char *path, struct error *error)
{
    char partial[4096];
    size_t size = strlen(path);
    if (size >= sizeof partial)
        return error_set(error, STATUS_SYSTEM, "a path of %zu bytes is above the limit of %zu", size,
                         sizeof partial - 1);
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(partial, path, i);
        partial[i] = '\0';
        if (mkdir(partial, 0700) < 0 && errno != EEXIST && (errno != EROFS || access(partial, F_OK) < 0))
            return error_set_errno(error, STATUS_SYSTEM, errno, "making the folder %s", partial);
    }
    return 0;
}

/* Nobody else may put a socket of theirs in place of ours. */
static int check_folder(const char *folder, struct error *error)
{
    struct stat status;
    if (stat(folder, &status) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "the socket's folder %s", folder);
    if (!S_ISDIR(status.st_mode))
        return error_set(error, STATUS_SYSTEM, "%s, the socket's folder, is not a folder", folder);
    if (status.st_uid != geteuid())
        return error_set(error, STATUS_FORBIDDEN,
                         "the socket's folder %s belongs to uid %u, not to the daemon's uid %u", folder, status.st_uid,
                         geteuid());
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(error, STATUS_FORBIDDEN, "the socket's folder %s has mode %04o: others can write to it",
                         folder, status.st_mode & 07777);
    return 0;
}

/* Hold `path` exclusively, with our pid in it. `what` is what is being held, for the error. */
static int hold(const char *path, const char *what, struct error *error)
{
    char pid[32] = "";
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "opening %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        ssize_t n = read(fd, pid, sizeof pid - 1);
        pid[n > 0 ? strcspn(pid, "\n") : 0] = '\0';
        close(fd);
        return error_set(error, STATUS_BUSY, "another fusiond, pid %s, holds %s", pid[0] ? pid : "unknown", what);
    }
    int size = snprintf(pid, sizeof pid, "%d\n", getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)size, 0) != size)
        log_event(LOG_WARNING, "lock.unsigned", "path=%s", path); /* it holds all the same */
    return fd;
}

static int hold_in(const char *folder, const char *name, const char *what, struct error *error)
{
    char path[4096 + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return hold(path, what, error);
}

/* ---- the socket ---- */

static int bind_socket(struct listener *listener, const char *path, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char folder[sizeof address.sun_path], lock[sizeof address.sun_path + 8];
    size_t size = strlen(path);
    if (size >= sizeof address.sun_path)
        return error_set(error, STATUS_SYSTEM, "socket: a path of %zu bytes is above the limit of %zu: %s", size,
                         sizeof address.sun_path - 1, path);
    memcpy(address.sun_path, path, size + 1);
    memcpy(listener->path, path, size + 1);
    memcpy(folder, path, size + 1);
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return error_set(error, STATUS_SYSTEM, "socket: %s must be an absolute path in a folder of its own", path);
    *slash = '\0';
    if (make_folders(folder, error) < 0 || check_folder(folder, error) < 0)
        return -1;
    snprintf(lock, sizeof lock, "%s.lock", path);
    listener->socket_lock_fd = hold(lock, path, error);
    if (listener->socket_lock_fd < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "making a socket");
    /* We hold the lock, so what lies there is left over from a daemon that is gone. */
    unlink(path);
    mode_t mask = umask(0177);
    int status = bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (status < 0 || listen(fd, BACKLOG) < 0) {
        error_set_errno(error, STATUS_SYSTEM, errno, "listening on %s", path);
        close(fd);
        return -1;
    }
    return fd;
}

static int adopt_socket(struct listener *listener, int fd)
{
    struct sockaddr_un address = {0};
    socklen_t size = sizeof address - 1;
    listener->activated = true;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 && address.sun_family == AF_UNIX)
        snprintf(listener->path, sizeof listener->path, "%s", address.sun_path);
    return fd;
}

/* ---- accepting ---- */

static void refuse(struct listener *listener, int fd, const struct ucred *peer)
{
    struct error error;
    msgpack_sbuffer frame;
    error_set(&error, STATUS_FORBIDDEN, "uid %u may not connect: this daemon serves uid %u only", peer->uid, geteuid());
    struct failure failure = failure_of(&error);
    msgpack_sbuffer_init(&frame);
    if (envelope_write_failure(&frame, 0, &failure) == 0 &&
        send(fd, frame.data, frame.size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_event(LOG_DEBUG, "conn.refused", "uid=%u errno=%d", peer->uid, errno);
    msgpack_sbuffer_destroy(&frame);
    close(fd);
    listener->on_refuse(listener, peer->uid, peer->pid);
}

static void welcome(struct listener *listener, int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        close(fd);
        return;
    }
    if (peer.uid != geteuid())
        refuse(listener, fd, &peer);
    else
        listener->on_accept(listener, fd, peer.uid, peer.pid);
}

static void on_retry(uv_timer_t *timer)
{
    listener_resume(container_of(timer, struct listener, retry));
}

/* No descriptor is left: turn one client away with the reserve, and wait until a connection closes, or a moment. */
static void turn_away(struct listener *listener)
{
    close(listener->reserve_fd);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    listener->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    listener->paused = true;
    uv_poll_stop(&listener->poll);
    uv_timer_start(&listener->retry, on_retry, RETRY_MS, 0);
    log_event(LOG_WARNING, "conn.no_descriptors", "paused=1");
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = container_of(poll, struct listener, poll);
    (void)events;
    if (status < 0)
        return;
    /* One batch, so that a flood of connections does not starve those that are there. */
    for (int i = 0; i < 64 && !listener->closing; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            welcome(listener, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            turn_away(listener);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

void listener_resume(struct listener *listener)
{
    if (!listener->paused || listener->closing)
        return;
    listener->paused = false;
    uv_timer_stop(&listener->retry);
    uv_poll_start(&listener->poll, UV_READABLE, on_readable);
}

/* ---- life ---- */

int listener_open(struct listener *listener, uv_loop_t *loop, const char *path, const char *cache_dir,
                  void (*on_accept)(struct listener *, int, uid_t, pid_t),
                  void (*on_refuse)(struct listener *, uid_t, pid_t), struct error *error)
{
    int passed = notify_listen_fd();
    *listener = (struct listener){.fd = -1,
                                  .reserve_fd = -1,
                                  .socket_lock_fd = -1,
                                  .cache_lock_fd = -1,
                                  .on_accept = on_accept,
                                  .on_refuse = on_refuse};
    if (cache_dir) {
        struct error why;
        /* A cache that cannot be written is no reason not to serve; one that another daemon holds is. */
        if (make_folders(cache_dir, &why) == 0)
            listener->cache_lock_fd = hold_in(cache_dir, "lock", cache_dir, &why);
        if (listener->cache_lock_fd < 0 && why.code == STATUS_BUSY) {
            *error = why;
            return -1;
        }
    }
    listener->fd = passed >= 0 ? adopt_socket(listener, passed) : bind_socket(listener, path, error);
    if (listener->fd < 0) {
        listener_finish(listener);
        return -1;
    }
    listener->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    uv_timer_init(loop, &listener->retry);
    int status = uv_poll_init(loop, &listener->poll, listener->fd);
    if (status == 0)
        status = uv_poll_start(&listener->poll, UV_READABLE, on_readable);
    if (status < 0) {
        close(listener->fd);
        close(listener->reserve_fd);
        listener_finish(listener);
        return error_set(error, STATUS_SYSTEM, "watching the listening socket: %s", uv_strerror(status));
    }
    return 0;
}

void listener_close(struct listener *listener)
{
    if (listener->closing)
        return;
    listener->closing = true;
    uv_poll_stop(&listener->poll);
    uv_close((uv_handle_t *)&listener->poll, NULL);
    uv_close((uv_handle_t *)&listener->retry, NULL);
    if (!listener->activated)
        unlink(listener->path);
    close(listener->fd);
    close(listener->reserve_fd);
}

void listener_finish(struct listener *listener)
{
    if (listener->socket_lock_fd >= 0)
        close(listener->socket_lock_fd);
    if (listener->cache_lock_fd >= 0)
        close(listener->cache_lock_fd);
    listener->socket_lock_fd = listener->cache_lock_fd = -1;
}
