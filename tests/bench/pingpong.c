/* The base line: two processes, one Unix stream socket, no work in between. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"

/* Read exactly n bytes; poll for spin_us before sleeping in the kernel. false at the end of the stream. */
static int read_exactly(int fd, uint8_t *to, size_t n, unsigned spin_us)
{
    uint64_t until = spin_us ? now_ns() + (uint64_t)spin_us * 1000 : 0;
    while (n) {
        int flags = until && now_ns() < until ? MSG_DONTWAIT : 0;
        ssize_t got = recv(fd, to, n, flags);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got <= 0)
            return 0;
        to += got;
        n -= (size_t)got;
    }
    return 1;
}

static void write_exactly(int fd, const uint8_t *from, size_t n)
{
    while (n) {
        ssize_t put = send(fd, from, n, MSG_NOSIGNAL);
        if (put <= 0)
            return;
        from += put;
        n -= (size_t)put;
    }
}

void pingpong_start(struct pingpong *pingpong, size_t request, size_t reply, unsigned spin_us)
{
    int pair[2];
    size_t most = request > reply ? request : reply;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        die("no socket pair");
    *pingpong = (struct pingpong){pair[0], 0, request, reply, spin_us, calloc(1, most)};
    pingpong->child = fork();
    if (pingpong->child < 0)
        die("fork failed");
    if (pingpong->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        while (read_exactly(pair[1], pingpong->bytes, request, spin_us))
            write_exactly(pair[1], pingpong->bytes, reply);
        _exit(0);
    }
    close(pair[1]);
}

void pingpong_once(struct pingpong *pingpong)
{
    write_exactly(pingpong->fd, pingpong->bytes, pingpong->request);
    if (!read_exactly(pingpong->fd, pingpong->bytes, pingpong->reply, pingpong->spin_us))
        die("the base line's process is gone");
}

void pingpong_stop(struct pingpong *pingpong)
{
    close(pingpong->fd);
    waitpid(pingpong->child, NULL, 0);
    free(pingpong->bytes);
}
