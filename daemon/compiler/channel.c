#include "daemon/compiler/channel.h"

#include <errno.h>
#include <unistd.h>

#include "proto/envelope.h"
#include "proto/limits.h"

void channel_init(struct channel *channel, int fd)
{
    channel->fd = fd;
    frame_reader_init(&channel->reader, LIMIT_FRAME_WORKER);
}

void channel_finish(struct channel *channel)
{
    frame_reader_finish(&channel->reader);
}

int channel_read(struct channel *channel, const uint8_t **ret_payload, size_t *ret_size, struct error *error)
{
    for (;;) {
        int got = frame_reader_next(&channel->reader, ret_payload, ret_size, error);
        if (got != 0)
            return got;
        size_t room;
        uint8_t *at = frame_reader_room(&channel->reader, &room);
        if (at == NULL)
            return error_set(error, STATUS_OUT_OF_MEMORY, "channel: no memory for a frame");
        ssize_t n = read(channel->fd, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(error, STATUS_SYSTEM, errno, "channel: read");
        if (n == 0 && frame_reader_pending(&channel->reader))
            return error_set(error, STATUS_MALFORMED, "channel: closed in the middle of a frame");
        if (n == 0)
            return 0;
        frame_reader_filled(&channel->reader, (size_t)n);
    }
}

int channel_write(struct channel *channel, const void *bytes, size_t size, struct error *error)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t n = write(channel->fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(error, STATUS_SYSTEM, errno, "channel: write");
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

int channel_write_message(struct channel *channel, const struct message_type *type, const void *message,
                          struct error *error)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    int result = envelope_write_message(&out, type, message);
    if (result == 0)
        result = channel_write(channel, out.data, out.size, error);
    else
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a %s", type->name);
    msgpack_sbuffer_destroy(&out);
    return result;
}
