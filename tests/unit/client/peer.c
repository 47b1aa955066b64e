#include "tests/unit/client/peer.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/socket.h"

static void *run(void *argument)
{
    struct peer *peer = argument;
    peer->script(peer);
    return NULL;
}

void peer_start(struct peer *peer, void (*script)(struct peer *peer), void *data)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *peer = (struct peer){.fd = -1, .daemon = -1, .script = script, .data = data};
    strcpy(peer->directory, "/tmp/fusiond-peer-XXXXXX");
    assert(mkdtemp(peer->directory));
    snprintf(peer->path, sizeof peer->path, "%s/sock", peer->directory);
    strcpy(address.sun_path, peer->path);
    peer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(bind(peer->listener, (struct sockaddr *)&address, sizeof address) == 0);
    assert(listen(peer->listener, 4) == 0);
    frame_reader_init(&peer->reader, LIMIT_FRAME);
    peer->zone = msgpack_zone_new(4096);
    assert(pthread_create(&peer->thread, NULL, run, peer) == 0);
}

void peer_join(struct peer *peer)
{
    pthread_join(peer->thread, NULL);
    peer_hang_up(peer);
    close(peer->listener);
    frame_reader_finish(&peer->reader);
    msgpack_zone_free(peer->zone);
    unlink(peer->path);
    rmdir(peer->directory);
}

void peer_hang_up(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    if (peer->daemon >= 0)
        close(peer->daemon);
    peer->fd = peer->daemon = -1;
    while (peer->n_fds > 0)
        close(peer->fds[--peer->n_fds]);
}

void peer_accept(struct peer *peer)
{
    peer_hang_up(peer);
    frame_reader_finish(&peer->reader);
    peer->fd = accept4(peer->listener, NULL, NULL, SOCK_CLOEXEC);
    assert(peer->fd >= 0);
}

void peer_greet(struct peer *peer)
{
    struct hello_request hello;
    struct limits limits = {.has_frame_bytes = true,
                            .has_inline_bytes = true,
                            .has_blob_bytes = true,
                            .has_values = true,
                            .has_depth = true,
                            .has_deadline_ms = true};
    struct hello_reply reply = {.protocol = 1, .has_protocol = true, .version = TEXT_OF("9.9.9"), .limits = &limits};
    peer_accept(peer);
    uint32_t id = peer_expect(peer, METHOD_HELLO, &hello);
    assert(hello.protocol_min <= 1 && hello.protocol_max >= 1);
    peer_reply(peer, id, METHOD_HELLO, &reply, NULL, 0);
}

void peer_open_device(struct peer *peer, struct device *device)
{
    int fds[2];
    struct device_open_reply reply = {
        .device = device, .executor_pid = 4711, .has_executor_pid = true, .fds = 1, .has_fds = true};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_DEVICE_OPEN, NULL);
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    peer_reply(peer, id, METHOD_DEVICE_OPEN, &reply, &fds[1], 1);
    close(fds[1]);
    /* The client's end stays as it was made; this one waits. */
    assert(fcntl(fds[0], F_SETFL, 0) == 0);
    peer->daemon = peer->fd;
    peer->fd = fds[0];
}

/* The next frame; NULL at the end of the stream. */
static const uint8_t *read_frame(struct peer *peer, size_t *ret_size)
{
    const uint8_t *frame;
    size_t room, n;
    struct error error;
    struct socket_fds fds = {.n = 0};
    for (;;) {
        int result = frame_reader_next(&peer->reader, &frame, ret_size, &error);
        assert(result >= 0);
        if (result > 0)
            return frame;
        uint8_t *at = frame_reader_room(&peer->reader, &room);
        result = socket_receive(peer->fd, at, room, 0, clock_ns() + 10000000000u, &fds, &n, &error);
        /* A client that closes with an answer unread resets the stream. */
        assert(result >= 0 || error.code == STATUS_DISCONNECTED);
        if (result <= 0)
            return NULL;
        for (size_t i = 0; i < fds.n; i++)
            peer->fds[peer->n_fds++] = fds.fds[i];
        fds.n = 0;
        frame_reader_filled(&peer->reader, n);
    }
}

uint32_t peer_expect(struct peer *peer, enum method method, void *ret)
{
    struct envelope envelope;
    struct error error = {0};
    size_t size;
    const uint8_t *frame = read_frame(peer, &size);
    assert(frame);
    assert(envelope_read(frame, size, &envelope, &error) == 0);
    assert(envelope.kind == ENVELOPE_REQUEST);
    assert(envelope.method == method);
    if (ret) {
        /* Bytes of the message must outlive the reader's buffer. */
        uint8_t *body = msgpack_zone_malloc(peer->zone, envelope.body.size);
        memcpy(body, envelope.body.at, envelope.body.size);
        assert(message_parse(methods[method].request, body, envelope.body.size, peer->zone, ret, &error) == 0);
    }
    return envelope.id;
}

void peer_expect_end(struct peer *peer)
{
    size_t size;
    assert(!read_frame(peer, &size));
}

void peer_send(struct peer *peer, const void *bytes, size_t size, const int *fds, size_t n_fds)
{
    struct error error;
    /* It may be gone; whoever reads next finds out. */
    int result = socket_send(peer->fd, bytes, size, fds, n_fds, &error);
    assert(result == 0 || error.code == STATUS_DISCONNECTED);
}

void peer_reply(struct peer *peer, uint32_t id, enum method method, const void *result, const int *fds, size_t n_fds)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    envelope_write_reply(&out, id, method, result);
    peer_send(peer, out.data, out.size, fds, n_fds);
    msgpack_sbuffer_destroy(&out);
}

void peer_fail(struct peer *peer, uint32_t id, const struct failure *failure)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    envelope_write_failure(&out, id, failure);
    peer_send(peer, out.data, out.size, NULL, 0);
    msgpack_sbuffer_destroy(&out);
}

void peer_swap(struct peer *peer)
{
    int fd = peer->fd;
    peer->fd = peer->daemon;
    peer->daemon = fd;
}

int peer_take_fd(struct peer *peer)
{
    assert(peer->n_fds == 1);
    return peer->fds[--peer->n_fds];
}

int peer_memfd(const void *bytes, size_t size, int seals)
{
    int fd = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert(write(fd, bytes, size) == (ssize_t)size);
    assert(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}
