/* Devices of the daemon: opened, closed, and their streams. */
#include "client/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/connection.h"
#include "client/error.h"

/* ---- streams ---- */

int fusiond_stream_create(struct fusiond_device *device, int priority, struct fusiond_stream **ret,
                          struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct stream_create_request request = {.priority = priority, .has_priority = priority != 0};
    struct stream_create_reply reply;
    struct fusiond_stream *stream = calloc(1, sizeof *stream);
    int result = -1;
    if (!stream)
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a stream");
    else
        result = device_ask(device, METHOD_STREAM_CREATE, &request, NULL, 0, NULL, &reply, &error);
    if (result < 0) {
        free(stream);
        return error_export(-1, &error, ret_error);
    }
    stream->device = device;
    stream->number = reply.stream;
    LIST_INSERT_HEAD(&device->streams, stream, link);
    *ret = stream;
    return 0;
}

void fusiond_stream_destroy(struct fusiond_stream *stream)
{
    struct error ignored;
    if (!stream)
        return;
    if (stream->device) {
        struct stream_destroy_request request = {.stream = stream->number, .has_stream = true};
        for (size_t i = 0; stream->n_silent > 0 && i < DEVICE_WINDOW; i++) {
            if (stream->device->pending[i].stream == stream)
                stream->device->pending[i].stream = NULL;
        }
        device_post(stream->device, METHOD_STREAM_DESTROY, &request, PENDING_DROPPED, NULL, NULL, NULL, &ignored);
        LIST_REMOVE(stream, link);
    }
    free(stream);
}

/* Wait until the launches without a ticket are answered, too, and take the first that was refused. */
static int synchronize(struct fusiond_device *device, struct fusiond_stream *stream, struct error *error)
{
    struct stream_synchronize_request request = {.stream = stream->number, .has_stream = stream->number != 0};
    int result = device_ask(device, METHOD_STREAM_SYNCHRONIZE, &request, NULL, 0, NULL, NULL, error);
    while (device->ended.code == STATUS_OK && stream->n_silent > 0) {
        struct error later;
        if (device_receive(device, &later) < 0 && result == 0) {
            *error = later;
            result = -1;
        }
    }
    if (result == 0 && stream->failed.code != STATUS_OK) {
        *error = stream->failed;
        result = -1;
    }
    stream->failed = (struct error){0};
    return result;
}

int fusiond_device_synchronize(struct fusiond_device *device, struct fusiond_stream *stream,
                               struct fusiond_error *ret_error)
{
    struct error error = {0};
    int result = device_check(device, &error);
    if (result == 0 && stream && stream->device != device)
        result = error_set(&error, STATUS_UNKNOWN_HANDLE, "stream: it is another device's, or its device was closed");
    if (result == 0)
        result = synchronize(device, stream ? stream : &device->first, &error);
    return error_export(result, &error, ret_error);
}

/* ---- opening and closing ---- */

/* The executor's socket came without a frame of its own; it must be as our own are. */
static int take_channel(struct fusiond_connection *connection, struct fusiond_device *device, uint64_t declared,
                        struct error *error)
{
    if (channel_expect_fds(&connection->channel, declared, error) < 0)
        return -1;
    if (declared != 1) {
        socket_fds_close(&connection->channel.fds);
        return error_set(error, STATUS_MALFORMED, "the daemon's answer to device.open has %llu file descriptors, not 1",
                         (unsigned long long)declared);
    }
    int fd = connection->channel.fds.fds[0];
    connection->channel.fds.n = 0;
    device->channel.fd = fd;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "fcntl");
    return 0;
}

static int open_device(struct fusiond_connection *connection, const char *name,
                       const struct fusiond_device_options *options, struct fusiond_device *device, struct error *error)
{
    struct device_open_request request = {.device = text_of(name)};
    struct device_open_reply opened;
    struct reply reply;
    if (options && options->isolation_session)
        request.isolation = ISOLATION_SESSION;
    if (connection_call(connection, METHOD_DEVICE_OPEN, &request, NULL, 0, &reply, error) < 0)
        return -1;
    if (message_parse(&device_open_reply_type, reply.body.at, reply.body.size, device->zone, &opened, error) < 0) {
        socket_fds_close(&connection->channel.fds);
        return error_wrap(error, "the daemon's answer to device.open");
    }
    if (take_channel(connection, device, opened.fds, error) < 0)
        return -1;
    device->facts = *opened.device;
    device->executor_pid = (uint32_t)opened.executor_pid;
    device->channel.spin_ns = connection->channel.spin_ns;
    unsigned capability = (unsigned)device->facts.capability;
    if (device->facts.kind == DEVICE_KIND_HOST)
        snprintf(device->target, sizeof device->target, "host");
    else
        snprintf(device->target, sizeof device->target, "cc_%u.%u", capability / 10, capability % 10);
    return 0;
}

static struct fusiond_device *new_device(void)
{
    struct fusiond_device *device = calloc(1, sizeof *device);
    if (!device)
        return NULL;
    channel_init(&device->channel, "the executor");
    device->pid = getpid();
    device->next_id = 1;
    device->staging_fd = -1;
    device->first.device = device;
    device->pending = calloc(DEVICE_WINDOW, sizeof *device->pending);
    device->zone = msgpack_zone_new(1024);
    device->scratch = msgpack_zone_new(1024);
    if (!device->pending || !device->zone || !device->scratch) {
        fusiond_device_close(device);
        return NULL;
    }
    return device;
}

int fusiond_device_open(struct fusiond_connection *connection, const char *name,
                        const struct fusiond_device_options *options, struct fusiond_device **ret,
                        struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct fusiond_device *device = new_device();
    int result = -1;
    if (!device)
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a device");
    else
        result = open_device(connection, name, options, device, &error);
    if (result < 0)
        fusiond_device_close(device);
    else
        *ret = device;
    return error_export(result, &error, ret_error);
}

void fusiond_device_close(struct fusiond_device *device)
{
    struct fusiond_stream *stream;
    struct fusiond_buffer *buffer;
    if (!device)
        return;
    LIST_FOREACH(stream, &device->streams, link)
    stream->device = NULL;
    LIST_FOREACH(buffer, &device->buffers, link)
    buffer->device = NULL;
    defined_abandon(device);
    device_forget(device);
    free(device->pending);
    channel_finish(&device->channel);
    staging_finish(device);
    if (device->zone)
        msgpack_zone_free(device->zone);
    if (device->scratch)
        msgpack_zone_free(device->scratch);
    free(device);
}
