#include "tests/support/wire_client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/daemon_process.h"

/* ---- connecting ---- */

int wire_try_connect(struct wire *ret, const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && strlen(socket_path) < sizeof address.sun_path);
    memcpy(address.sun_path, socket_path, strlen(socket_path));
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int number = errno;
        close(fd);
        errno = number;
        return -1;
    }
    wire_adopt(ret, fd);
    return 0;
}

void wire_adopt(struct wire *ret, int fd)
{
    *ret = (struct wire){.fd = fd};
    frame_reader_init(&ret->reader, LIMIT_FRAME_WORKER);
    msgpack_zone_init(&ret->zone, 16384);
}

void wire_connect(struct wire *ret, const char *socket_path)
{
    cr_assert(wire_try_connect(ret, socket_path) == 0, "connecting to %s: %s", socket_path, strerror(errno));
}

void wire_open(struct wire *ret, const char *socket_path)
{
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    struct hello_reply reply;
    struct failure failure;
    wire_connect(ret, socket_path);
    unsigned code = wire_call(ret, METHOD_HELLO, &hello, &reply, &failure);
    cr_assert(code == 0, "hello: %s", failure.text.at);
}

void wire_close(struct wire *wire)
{
    if (wire->fd < 0)
        return;
    for (size_t i = 0; i < wire->n_fds; i++)
        close(wire->fds[i]);
    close(wire->fd);
    wire->fd = -1;
    frame_reader_finish(&wire->reader);
    msgpack_zone_destroy(&wire->zone);
}

/* ---- sending ---- */

bool wire_send(struct wire *wire, const void *bytes, size_t size, long patience_ms)
{
    const char *at = bytes;
    long deadline = clock_ms() + patience_ms;
    while (size > 0) {
        ssize_t n = send(wire->fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wanted = {.fd = wire->fd, .events = POLLOUT};
            long left = deadline - clock_ms();
            if (left <= 0 || poll(&wanted, 1, (int)left) == 0)
                return false;
            continue;
        }
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool wire_send_with_fds(struct wire *wire, const void *bytes, size_t size, const int *fds, size_t n_fds)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * WIRE_FDS)];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * n_fds)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
    memcpy(CMSG_DATA(header), fds, sizeof(int) * n_fds);
    ssize_t n = sendmsg(wire->fd, &message, MSG_NOSIGNAL);
    return n > 0 && wire_send(wire, (const char *)bytes + n, size - (size_t)n, WIRE_PATIENCE_MS);
}

bool wire_send_payload(struct wire *wire, const void *payload, size_t size)
{
    uint8_t header[LIMIT_FRAME_HEADER];
    frame_header(header, size);
    return wire_send(wire, header, sizeof header, WIRE_PATIENCE_MS) && wire_send(wire, payload, size, WIRE_PATIENCE_MS);
}

void wire_write(msgpack_sbuffer *out, uint32_t id, enum method method, const void *params)
{
    cr_assert(envelope_write_request(out, id, method, params) == 0);
}

uint32_t wire_ask(struct wire *wire, enum method method, const void *params)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    wire_write(&out, ++wire->last_id, method, params);
    bool sent = wire_send(wire, out.data, out.size, WIRE_PATIENCE_MS);
    msgpack_sbuffer_destroy(&out);
    cr_assert(sent, "%s could not be sent: %s", methods[method].name, strerror(errno));
    return wire->last_id;
}

/* ---- receiving ---- */

/* Bytes and descriptors. 1 got some, 0 the end, -1 nothing in time. */
static int receive(struct wire *wire, long deadline)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 16)];
        struct cmsghdr align;
    } control;
    size_t room;
    uint8_t *at = frame_reader_room(&wire->reader, &room);
    struct iovec part = {at, room};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct pollfd wanted = {.fd = wire->fd, .events = POLLIN};
    long left = deadline - clock_ms();
    if (poll(&wanted, 1, left > 0 ? (int)left : 0) <= 0)
        return -1;
    ssize_t n = recvmsg(wire->fd, &message, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        cr_assert(header->cmsg_type == SCM_RIGHTS && wire->n_fds + count <= sizeof wire->fds / sizeof wire->fds[0]);
        memcpy(wire->fds + wire->n_fds, CMSG_DATA(header), count * sizeof(int));
        wire->n_fds += count;
    }
    frame_reader_filled(&wire->reader, (size_t)n);
    return 1;
}

enum wire_read wire_read(struct wire *wire, long patience_ms, struct envelope *ret)
{
    long deadline = clock_ms() + patience_ms;
    const uint8_t *payload;
    size_t size;
    struct error error = {0};
    for (;;) {
        int got = frame_reader_next(&wire->reader, &payload, &size, &error);
        cr_assert(got >= 0, "the daemon sent: %s", error.text);
        if (got > 0) {
            cr_assert(envelope_read(payload, size, ret, &error) == 0, "the daemon sent: %s", error.text);
            return WIRE_FRAME;
        }
        got = receive(wire, deadline);
        if (got <= 0)
            return got == 0 ? WIRE_END : WIRE_SILENCE;
    }
}

bool wire_ends(struct wire *wire, long patience_ms)
{
    long deadline = clock_ms() + patience_ms;
    struct envelope envelope;
    enum wire_read got;
    do {
        got = wire_read(wire, deadline - clock_ms(), &envelope);
    } while (got == WIRE_FRAME);
    return got == WIRE_END;
}

/* Decode what lives in the frame from a copy, so that it stays. */
static void parse(struct wire *wire, const struct message_type *type, struct bytes body, void *ret)
{
    struct error error = {0};
    uint8_t *copy = msgpack_zone_malloc(&wire->zone, body.size);
    memcpy(copy, body.at, body.size);
    cr_assert(message_parse(type, copy, body.size, &wire->zone, ret, &error) == 0, "%s: %s", type->name, error.text);
}

unsigned wire_answer(struct wire *wire, uint32_t id, enum method method, void *ret, struct failure *ret_failure)
{
    struct envelope envelope;
    struct failure failure;
    enum wire_read got = wire_read(wire, WIRE_PATIENCE_MS, &envelope);
    cr_assert(got == WIRE_FRAME, "%s: %s", methods[method].name,
              got == WIRE_END ? "the daemon closed the connection" : "no answer");
    cr_assert(envelope.kind == ENVELOPE_RESPONSE && envelope.id == id, "an answer to request %u, not %u", envelope.id,
              id);
    if (!envelope.error.at) {
        if (ret)
            parse(wire, methods[method].reply, envelope.body, ret);
        return 0;
    }
    parse(wire, &failure_type, envelope.error, &failure);
    if (ret_failure)
        *ret_failure = failure;
    cr_assert(failure.code != 0 && status_known(failure.code) && failure.text.size > 0);
    cr_assert_str_eq(failure.name.at, status_name((enum status)failure.code));
    return (unsigned)failure.code;
}

unsigned wire_call(struct wire *wire, enum method method, const void *params, void *ret, struct failure *ret_failure)
{
    return wire_answer(wire, wire_ask(wire, method, params), method, ret, ret_failure);
}

struct stats_reply wire_stats(const char *socket_path)
{
    static const struct stats_request request;
    struct stats_reply stats;
    struct wire wire;
    wire_open(&wire, socket_path);
    cr_assert(wire_call(&wire, METHOD_STATS, &request, &stats, NULL) == 0);
    wire_close(&wire);
    /* Its texts have gone with the connection. */
    stats.database_path = (struct text){NULL, 0};
    stats.degraded = NULL;
    return stats;
}
