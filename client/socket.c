#include "client/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Milliseconds left, rounded up, for poll(). */
static int left_ms(uint64_t deadline_ns)
{
    uint64_t now = clock_ns();
    return now >= deadline_ns ? 0 : (int)((deadline_ns - now + 999999u) / 1000000u);
}

/* A full accept queue makes a non-blocking connect fail with EAGAIN, and there is nothing to poll for. */
static int connect_before(int fd, const struct sockaddr_un *address, uint64_t deadline_ns)
{
    while (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) {
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN || left_ms(deadline_ns) == 0)
            return -1;
        poll(NULL, 0, 2);
    }
    return 0;
}

int socket_connect(const char *path, uint64_t deadline_ns, int *ret_fd, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof address.sun_path)
        return error_set(error, STATUS_INVALID_FIELD, "socket: a path of %zu bytes; 1 to %zu are possible", size,
                         sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, size + 1);

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "socket");
    if (connect_before(fd, &address, deadline_ns) < 0) {
        error_set_errno(error, STATUS_UNREACHABLE, errno, "no daemon answers at %s", path);
        close(fd);
        return -1;
    }
    /* From here on it blocks: a round trip is then one write and one read. */
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0) {
        error_set_errno(error, STATUS_SYSTEM, errno, "fcntl");
        close(fd);
        return -1;
    }
    *ret_fd = fd;
    return 0;
}

/* Wait until there is something to read. 0 when the deadline has passed. */
static int wait_readable(int fd, uint64_t deadline_ns)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    for (;;) {
        int n = poll(&poll_fd, 1, left_ms(deadline_ns));
        if (n >= 0 || errno != EINTR)
            return n;
    }
}

static ssize_t send_once(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds, int flags)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(LIMIT_FDS * sizeof(int))];
    } control;
    struct iovec iov = {(void *)(uintptr_t)bytes, size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL | flags);
    while (n < 0 && errno == EINTR);
    return n;
}

int socket_send(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds, struct error *error)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = send_once(fd, at, size, fds, n_fds, 0);
        if (n < 0)
            return error_set_errno(error, STATUS_DISCONNECTED, errno, "sending");
        at += n;
        size -= (size_t)n;
        n_fds = 0;
    }
    return 0;
}

int socket_send_some(int fd, const void *bytes, size_t size, const int *fds, size_t n_fds, size_t *ret_n,
                     struct error *error)
{
    ssize_t n = send_once(fd, bytes, size, fds, n_fds, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN)
        return error_set_errno(error, STATUS_DISCONNECTED, errno, "sending");
    *ret_n = n < 0 ? 0 : (size_t)n;
    return 0;
}

int socket_wait(int fd, bool *ret_readable, struct error *error)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN | POLLOUT};
    while (poll(&poll_fd, 1, -1) < 0) {
        if (errno != EINTR)
            return error_set_errno(error, STATUS_SYSTEM, errno, "poll");
    }
    *ret_readable = poll_fd.revents & (POLLIN | POLLHUP | POLLERR);
    return 0;
}

void socket_fds_close(struct socket_fds *fds)
{
    while (fds->n > 0)
        close(fds->fds[--fds->n]);
}

/* Keep the descriptors of one message; close those that there is no room for. */
static int keep_fds(struct msghdr *message, struct socket_fds *fds, struct error *error)
{
    size_t surplus = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            if (fds->n < LIMIT_FDS) {
                fds->fds[fds->n++] = fd;
            } else {
                close(fd);
                surplus++;
            }
        }
    }
    if (surplus > 0 || message->msg_flags & MSG_CTRUNC)
        return error_set(error, STATUS_UNEXPECTED_FDS, "more than %u file descriptors came", LIMIT_FDS);
    return 0;
}

/* Read without sleeping until something comes or the time is over. -1 with EAGAIN then. */
static ssize_t spin(int fd, struct msghdr *message, size_t control_size, uint64_t until_ns)
{
    do {
        message->msg_controllen = control_size;
        ssize_t n = recvmsg(fd, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n >= 0 || (errno != EAGAIN && errno != EINTR))
            return n;
    } while (clock_ns() < until_ns);
    errno = EAGAIN;
    return -1;
}

int socket_receive(int fd, void *room, size_t size, uint64_t spin_ns, uint64_t deadline_ns, struct socket_fds *fds,
                   size_t *ret_n, struct error *error)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(LIMIT_FDS * sizeof(int))];
    } control;
    struct iovec iov = {room, size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room};
    ssize_t n = -1;
    errno = EAGAIN;
    if (spin_ns)
        n = spin(fd, &message, sizeof control.room, clock_ns() + spin_ns);
    while (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        int ready = deadline_ns ? wait_readable(fd, deadline_ns) : 1;
        if (ready < 0)
            return error_set_errno(error, STATUS_SYSTEM, errno, "poll");
        if (ready == 0)
            return error_set(error, STATUS_UNREACHABLE, "no answer in time");
        message.msg_controllen = sizeof control.room;
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    }
    if (n < 0)
        return error_set_errno(error, STATUS_DISCONNECTED, errno, "receiving");
    if (keep_fds(&message, fds, error) < 0)
        return -1;
    *ret_n = (size_t)n;
    return n > 0;
}

int socket_receive_now(int fd, void *room, size_t size, struct socket_fds *fds, size_t *ret_n, struct error *error)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(LIMIT_FDS * sizeof(int))];
    } control;
    struct iovec iov = {room, size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room};
    ssize_t n = spin(fd, &message, sizeof control.room, 0);
    if (n < 0 && errno == EAGAIN) {
        *ret_n = 0;
        return 1;
    }
    if (n < 0)
        return error_set_errno(error, STATUS_DISCONNECTED, errno, "receiving");
    if (keep_fds(&message, fds, error) < 0)
        return -1;
    *ret_n = (size_t)n;
    return n > 0;
}
