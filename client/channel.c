#include "client/channel.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void channel_init(struct channel *channel, const char *peer)
{
    *channel = (struct channel){.peer = peer, .fd = -1};
    frame_reader_init(&channel->reader, LIMIT_FRAME);
    msgpack_sbuffer_init(&channel->out);
}

void channel_close(struct channel *channel)
{
    if (channel->fd >= 0)
        close(channel->fd);
    channel->fd = -1;
    frame_reader_finish(&channel->reader);
    socket_fds_close(&channel->fds);
}

void channel_finish(struct channel *channel)
{
    channel_close(channel);
    msgpack_sbuffer_destroy(&channel->out);
}

/* ---- sending ---- */

int channel_write(struct channel *channel, uint32_t id, enum method method, const void *params, struct error *error)
{
    msgpack_sbuffer_clear(&channel->out);
    if (envelope_write_request(&channel->out, id, method, params) < 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a request");
    if (channel->out.size > LIMIT_FRAME + LIMIT_FRAME_HEADER)
        return error_set(error, STATUS_FRAME_TOO_LARGE, "a request of %zu bytes is above the limit of %u",
                         channel->out.size - LIMIT_FRAME_HEADER, LIMIT_FRAME);
    return 0;
}

/* ---- receiving ---- */

/* A frame that is there already. */
static int next_frame(struct channel *channel, struct envelope *ret, struct reply *ret_reply, struct error *error)
{
    const uint8_t *frame;
    size_t size;
    int result = frame_reader_next(&channel->reader, &frame, &size, error);
    if (result == 0)
        return CHANNEL_NOTHING;
    if (result < 0 || envelope_read(frame, size, ret, error) < 0)
        return error_wrap(error, "what %s sent", channel->peer);
    *ret_reply = (struct reply){frame, size, ret->body};
    return CHANNEL_FRAME;
}

static int receive(struct channel *channel, bool wait, uint64_t deadline_ns, struct envelope *ret,
                   struct reply *ret_reply, struct error *error)
{
    for (;;) {
        size_t room, n = 0;
        int result = next_frame(channel, ret, ret_reply, error);
        if (result != CHANNEL_NOTHING)
            return result;
        uint8_t *at = frame_reader_room(&channel->reader, &room);
        if (!at)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for what %s sends", channel->peer);
        if (wait)
            result = socket_receive(channel->fd, at, room, channel->spin_ns, deadline_ns, &channel->fds, &n, error);
        else
            result = socket_receive_now(channel->fd, at, room, &channel->fds, &n, error);
        if (result < 0)
            return error_wrap(error, "%s", channel->peer);
        if (result == 0)
            return CHANNEL_END;
        if (n == 0)
            return CHANNEL_NOTHING;
        frame_reader_filled(&channel->reader, n);
    }
}

int channel_receive(struct channel *channel, uint64_t deadline_ns, struct envelope *ret, struct reply *ret_reply,
                    struct error *error)
{
    return receive(channel, true, deadline_ns, ret, ret_reply, error);
}

int channel_receive_now(struct channel *channel, struct envelope *ret, struct reply *ret_reply, struct error *error)
{
    return receive(channel, false, 0, ret, ret_reply, error);
}

/* ---- what was received ---- */

int channel_failure(const struct channel *channel, struct bytes body, struct error *error)
{
    struct failure failure;
    msgpack_zone *zone = msgpack_zone_new(1024);
    if (!zone)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a failure of %zu bytes", body.size);
    int result = message_parse(&failure_type, body.at, body.size, zone, &failure, error);
    if (result < 0)
        error_wrap(error, "the error that %s answered", channel->peer);
    else
        error_set(error, (enum status)failure.code, "%s", failure.text.at);
    msgpack_zone_free(zone);
    return -1;
}

int channel_keep(struct channel *channel, struct reply *reply, struct frame_copy *ret, struct error *error)
{
    struct frame_reader *reader = &channel->reader;
    size_t offset = (size_t)(reply->body.at - reply->frame);
    /* A large frame that is alone in the buffer leaves with it; a small one is cheaper to copy. */
    if (reply->size > (16u << 10) && reader->start == reader->end) {
        size_t at = (size_t)(reply->frame - reader->buffer);
        ret->bytes = reader->buffer;
        ret->size = at + reply->size;
        reader->buffer = NULL;
        reader->start = reader->end = reader->capacity = 0;
        return 0;
    }
    uint8_t *copy = malloc(reply->size);
    if (!copy)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an answer of %zu bytes", reply->size);
    memcpy(copy, reply->frame, reply->size);
    *ret = (struct frame_copy){copy, reply->size};
    reply->frame = copy;
    reply->body.at = copy + offset;
    return 0;
}

int channel_expect_fds(struct channel *channel, uint64_t declared, struct error *error)
{
    size_t n = channel->fds.n;
    if (n == declared)
        return 0;
    socket_fds_close(&channel->fds);
    return error_set(error, STATUS_UNEXPECTED_FDS, "%s sent %zu file descriptors and declared %llu", channel->peer, n,
                     (unsigned long long)declared);
}
