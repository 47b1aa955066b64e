#include "daemon/base/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/require.h"
#include "proto/limits.h"

/* Reads per readiness event, so that one busy peer does not starve the others. */
#define READS_PER_EVENT 4
/* Small frames are gathered into one output of up to this many bytes: one write for a batch of replies. */
#define GATHER (64u << 10)

/* Bytes waiting to be sent, with the descriptors that travel with their first byte. */
struct output {
    struct list link;
    size_t size;
    size_t capacity;
    size_t sent;
    int fds[LIMIT_FDS];
    size_t n_fds;
    char bytes[];
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- interest ---- */

static void watch(struct channel *channel, int interest)
{
    if (channel->closing || interest == channel->interest)
        return;
    channel->interest = interest;
    if (interest)
        uv_poll_start(&channel->poll, interest, on_poll);
    else
        uv_poll_stop(&channel->poll);
}

/* A peer that does not take its replies is not asked for more requests. */
static void update_interest(struct channel *channel)
{
    int interest = 0;
    if (!channel->ended && !channel_is_held(channel))
        interest |= channel->paused ? UV_DISCONNECT : UV_READABLE;
    if (!list_empty(&channel->out))
        interest |= UV_WRITABLE;
    watch(channel, interest);
}

/* ---- sending ---- */

static void free_output(struct channel *channel, struct output *output)
{
    list_remove(&output->link);
    channel->out_bytes -= output->size - output->sent;
    for (size_t i = 0; i < output->n_fds; i++)
        close(output->fds[i]);
    free(output);
}

/* Remember why the stream is broken, and come back to it on the loop: a sender must not find its channel ended. */
void channel_break(struct channel *channel, const struct error *error)
{
    if (channel->closing || channel->broken.code != STATUS_OK)
        return;
    channel->broken = *error;
    /* A peer that neither reads nor writes would never wake the loop. */
    shutdown(channel->fd, SHUT_RDWR);
    watch(channel, UV_READABLE | UV_WRITABLE);
}

static void break_off(struct channel *channel, enum status code, int number, const char *what)
{
    struct error error;
    if (number)
        error_set_errno(&error, code, number, "%s", what);
    else
        error_set(&error, code, "%s", what);
    channel_break(channel, &error);
}

static ssize_t send_output(struct channel *channel, struct output *output)
{
    struct iovec part = {output->bytes + output->sent, output->size - output->sent};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union {
        char bytes[CMSG_SPACE(sizeof(int) * LIMIT_FDS)];
        struct cmsghdr align;
    } control;
    if (output->n_fds) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * output->n_fds);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * output->n_fds);
        memcpy(CMSG_DATA(header), output->fds, sizeof(int) * output->n_fds);
    }
    return sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void flush(struct channel *channel)
{
    while (!list_empty(&channel->out) && channel->broken.code == STATUS_OK) {
        struct output *output = container_of(channel->out.next, struct output, link);
        ssize_t n = send_output(channel, output);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0) {
            break_off(channel, STATUS_DISCONNECTED, errno, "sending to the peer");
            return;
        }
        output->sent += (size_t)n;
        channel->out_bytes -= (size_t)n;
        channel->sent_total += (size_t)n;
        for (size_t i = 0; i < output->n_fds; i++)
            close(output->fds[i]);
        output->n_fds = 0;
        if (output->sent == output->size)
            free_output(channel, output);
    }
    if (channel->finishing && list_empty(&channel->out))
        shutdown(channel->fd, SHUT_WR);
    update_interest(channel);
}

void channel_finish_sending(struct channel *channel)
{
    if (channel->closing || channel->broken.code != STATUS_OK)
        return;
    channel->finishing = true;
    flush(channel);
}

/* An output to append to: the last one when it has room and nothing of it, fds included, would be reordered. */
static struct output *output_for(struct channel *channel, size_t size, size_t n_fds)
{
    if (!list_empty(&channel->out) && n_fds == 0) {
        struct output *last = container_of(channel->out.previous, struct output, link);
        if (last->capacity - last->size >= size)
            return last;
    }
    size_t capacity = size < GATHER && n_fds == 0 && channel->corked ? GATHER : size;
    struct output *output = malloc(sizeof *output + capacity);
    if (!output)
        return NULL;
    *output = (struct output){.capacity = capacity};
    list_push(&channel->out, &output->link);
    return output;
}

void channel_send(struct channel *channel, const char *bytes, size_t size, const int *fds, size_t n_fds)
{
    require(n_fds <= LIMIT_FDS && size > 0);
    if (channel->closing || channel->finishing || channel->broken.code != STATUS_OK)
        return;
    if (channel->out_bytes + size > channel->out_limit) {
        break_off(channel, STATUS_BUSY, 0, "the peer does not read its replies");
        return;
    }
    struct output *output = output_for(channel, size, n_fds);
    if (!output) {
        break_off(channel, STATUS_OUT_OF_MEMORY, 0, "no memory for a reply");
        return;
    }
    for (size_t i = 0; i < n_fds; i++) {
        int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            break_off(channel, STATUS_SYSTEM, errno, "duplicating a descriptor for a reply");
            return;
        }
        output->fds[output->n_fds++] = copy;
    }
    memcpy(output->bytes + output->size, bytes, size);
    output->size += size;
    channel->out_bytes += size;
    if (!channel->corked)
        flush(channel);
}

/* ---- receiving ---- */

static void end(struct channel *channel, const struct error *reason)
{
    if (channel->ended)
        return;
    channel->ended = true;
    update_interest(channel);
    channel->events->on_end(channel, reason);
}

/* Keep received descriptors, or close them and say no. */
static int keep_fds(struct channel *channel, struct msghdr *message, struct error *error)
{
    int result = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            if (channel->n_fds < CHANNEL_FDS) {
                channel->fds[channel->n_fds++] = fd;
            } else {
                close(fd);
                result = -1;
            }
        }
    }
    if (result < 0 || message->msg_flags & MSG_CTRUNC)
        return error_set(error, STATUS_UNEXPECTED_FDS, "more than %d file descriptors wait to be claimed", CHANNEL_FDS);
    return 0;
}

/* One recvmsg. 1: the socket may hold more; 0: it is drained; -1: over, with the reason. */
static int receive(struct channel *channel, struct error *ret_reason)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * CHANNEL_FDS)];
        struct cmsghdr align;
    } control;
    size_t room;
    uint8_t *into = frame_reader_room(&channel->in, &room);
    if (!into)
        return error_set(ret_reason, STATUS_OUT_OF_MEMORY, "no memory for a frame");
    struct iovec part = {into, room};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(channel->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (n < 0)
        return error_set_errno(ret_reason, STATUS_DISCONNECTED, errno, "receiving from the peer");
    if (n == 0) {
        *ret_reason = (struct error){0};
        return -1;
    }
    frame_reader_filled(&channel->in, (size_t)n);
    if (keep_fds(channel, &message, ret_reason) < 0)
        return -1;
    return (size_t)n == room;
}

/* Whether its owner, called from here, has given it up. */
static bool is_over(const struct channel *channel)
{
    return channel->closing || channel->broken.code != STATUS_OK;
}

/* Hand out all whole frames, unless there is a reason to let them wait. -1: the stream is broken. */
static int deliver(struct channel *channel, struct error *ret_reason)
{
    const uint8_t *frame;
    size_t size;
    for (;;) {
        if (channel->paused || channel_is_held(channel))
            return 0;
        int got = frame_reader_next(&channel->in, &frame, &size, ret_reason);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        channel->events->on_frame(channel, frame, size);
        if (is_over(channel))
            return 0;
    }
    if (channel->n_fds && !frame_reader_pending(&channel->in))
        return error_set(ret_reason, STATUS_UNEXPECTED_FDS, "%zu file descriptors that no message declares",
                         channel->n_fds);
    return 0;
}

/* Frames that had to wait, then what the socket holds. 1 or 0: it may hold more or not; -1: over, with the reason. */
static int take_frames(struct channel *channel, struct error *ret_reason)
{
    int reads = 0, more = 1;
    for (;;) {
        if (deliver(channel, ret_reason) < 0)
            return -1;
        /* Replies that the socket takes at once are no reason to wait. */
        bool held = channel_is_held(channel);
        if (held && !is_over(channel))
            flush(channel);
        if (is_over(channel) || channel->paused || channel_is_held(channel))
            return 0;
        if (held)
            continue;
        if (more == 0 || reads++ == READS_PER_EVENT)
            return more;
        more = receive(channel, ret_reason);
        if (more < 0)
            return -1;
    }
}

static void take_in(struct channel *channel)
{
    struct error reason = {0};
    channel->corked = true;
    int more = take_frames(channel, &reason);
    channel->corked = false;
    if (channel->closing)
        return;
    flush(channel);
    if (channel->broken.code != STATUS_OK)
        end(channel, &channel->broken);
    else if (more < 0)
        end(channel, &reason);
    else if (channel->events->on_batch)
        channel->events->on_batch(channel);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct channel *channel = container_of(poll, struct channel, poll);
    if (channel->broken.code != STATUS_OK) {
        end(channel, &channel->broken);
        return;
    }
    if (status < 0) {
        /* The socket has an error, and libuv has stopped watching it. What the peer sent before is still there, and
         * behind it the error's name. */
        channel->interest = 0;
        events = UV_READABLE;
    }
    bool held = channel_is_held(channel);
    if (events & UV_WRITABLE)
        flush(channel);
    held = held && !channel_is_held(channel); /* until now: frames may wait */
    if (channel->ended || is_over(channel))
        return;
    if (channel->paused && (events & UV_DISCONNECT || status < 0)) {
        /* Frames that wait are of no use to a peer that is gone. */
        struct error gone = {0};
        end(channel, &gone);
    } else if ((events & UV_READABLE || held) && !channel->paused) {
        take_in(channel);
    }
}

void channel_pause(struct channel *channel)
{
    if (channel->paused || channel->closing)
        return;
    channel->paused = true;
    if (channel->broken.code == STATUS_OK)
        update_interest(channel);
}

void channel_resume(struct channel *channel)
{
    if (!channel->paused || channel->closing)
        return;
    channel->paused = false;
    if (channel->broken.code != STATUS_OK || channel->ended)
        return;
    update_interest(channel);
    take_in(channel);
}

/* ---- life ---- */

int channel_start(struct channel *channel, uv_loop_t *loop, int fd, size_t in_limit, size_t out_limit,
                  const struct channel_events *events, void *owner, struct error *error)
{
    *channel = (struct channel){.fd = fd, .out_limit = out_limit, .events = events, .owner = owner};
    int status = uv_poll_init(loop, &channel->poll, fd);
    if (status < 0)
        return error_set(error, STATUS_SYSTEM, "watching a socket: %s", uv_strerror(status));
    list_init(&channel->out);
    frame_reader_init(&channel->in, in_limit);
    update_interest(channel);
    return 0;
}

bool channel_take_fds(struct channel *channel, size_t n, int *ret)
{
    if (channel->n_fds < n)
        return false;
    memcpy(ret, channel->fds, n * sizeof *ret);
    memmove(channel->fds, channel->fds + n, (channel->n_fds - n) * sizeof *ret);
    channel->n_fds -= n;
    return true;
}

bool channel_has_partial_frame(const struct channel *channel)
{
    return frame_reader_pending(&channel->in);
}

bool channel_is_held(const struct channel *channel)
{
    return channel->out_bytes > channel->out_limit / 4;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct channel *channel = container_of(handle, struct channel, poll);
    /* Only now: the channel may have been closed by the owner of a frame that lies in it. */
    frame_reader_finish(&channel->in);
    if (channel->on_closed)
        channel->on_closed(channel);
}

void channel_close(struct channel *channel, void (*on_closed)(struct channel *channel))
{
    if (channel->closing)
        return;
    if (channel->broken.code == STATUS_OK)
        flush(channel);
    channel->closing = true;
    channel->on_closed = on_closed;
    while (!list_empty(&channel->out))
        free_output(channel, container_of(channel->out.next, struct output, link));
    for (size_t i = 0; i < channel->n_fds; i++)
        close(channel->fds[i]);
    channel->n_fds = 0;
    uv_poll_stop(&channel->poll);
    close(channel->fd);
    channel->fd = -1;
    uv_close((uv_handle_t *)&channel->poll, on_poll_closed);
}
