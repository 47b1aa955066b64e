/* Requests on a device's direct channel: sent, in flight, answered, collected; and the end of it. */
#include "client/device.h"

#include <stdlib.h>
#include <unistd.h>

/* Answers are taken in after so many requests that nobody waits for. */
#define LOOK_EVERY 64u

/* ---- the end of a channel ---- */

int device_check(const struct fusiond_device *device, struct error *error)
{
    if (!device)
        return error_set(error, STATUS_EXECUTOR_RESET, "the device was closed; open it again");
    if (device->pid != getpid())
        return error_set(error, STATUS_EXECUTOR_RESET,
                         "the device was opened by process %d, and this is %d, forked from it; open it here again",
                         (int)device->pid, (int)getpid());
    if (device->ended.code != STATUS_OK) {
        *error = device->ended;
        return -1;
    }
    return 0;
}

static void release(struct fusiond_device *device, struct pending *pending)
{
    if (pending->kind == PENDING_NONE)
        return;
    free(pending->frame.bytes);
    free(pending->note);
    *pending = (struct pending){0};
    device->n_taken--;
}

/* Nothing more will come: tickets find out when they are collected, others now. *error becomes what the caller says:
 * that the executor is gone, or that it talks nonsense. */
static int end(struct fusiond_device *device, struct error *error)
{
    struct error why = *error;
    error_set(&device->ended, STATUS_EXECUTOR_RESET,
              "the executor of device %s (pid %u) is gone: %.300s; open the device again", device->facts.name.at,
              device->executor_pid, why.text);
    if (why.code == STATUS_DISCONNECTED)
        *error = device->ended;
    channel_close(&device->channel);
    for (size_t i = 0; i < DEVICE_WINDOW; i++) {
        struct pending *pending = &device->pending[i];
        if (pending->kind == PENDING_TICKET)
            pending->answered = true;
        else
            release(device, pending);
    }
    device->n_unanswered = 0;
    return -1;
}

/* ---- answers ---- */

static struct pending *find_unanswered(struct fusiond_device *device, uint32_t id)
{
    struct pending *pending = &device->pending[id % DEVICE_WINDOW];
    return pending->kind != PENDING_NONE && pending->id == id && !pending->answered ? pending : NULL;
}

static void settle_silent(struct fusiond_device *device, const struct pending *pending, struct bytes failure)
{
    struct fusiond_stream *stream = pending->stream;
    if (!stream)
        return;
    stream->n_silent--;
    if (failure.at && stream->failed.code == STATUS_OK)
        channel_failure(&device->channel, failure, &stream->failed);
}

static int settle_ticket(struct fusiond_device *device, struct pending *pending, const struct envelope *envelope,
                         struct reply *reply, struct error *error)
{
    struct bytes failure = envelope->error;
    const uint8_t *frame = reply->frame;
    if (channel_keep(&device->channel, reply, &pending->frame, error) < 0)
        return -1;
    pending->body = reply->body;
    if (failure.at)
        pending->error = (struct bytes){reply->frame + (failure.at - frame), failure.size};
    pending->answered = true;
    return 0;
}

/* Put an answer where it belongs. 1: it is that of the call under way. */
static int settle(struct fusiond_device *device, const struct envelope *envelope, struct reply *reply,
                  struct error *error)
{
    if (envelope->kind == ENVELOPE_NOTIFICATION)
        return 0;
    /* Id 0: the executor could not read what it was sent, and goes. */
    if (envelope->kind == ENVELOPE_RESPONSE && envelope->id == 0 && envelope->error.at)
        return channel_failure(&device->channel, envelope->error, error);
    struct pending *pending = envelope->kind == ENVELOPE_RESPONSE ? find_unanswered(device, envelope->id) : NULL;
    if (!pending)
        return error_set(error, STATUS_MALFORMED, "the executor answered request %u, which nobody made", envelope->id);
    device->n_unanswered--;
    if (pending->kind == PENDING_TICKET)
        return settle_ticket(device, pending, envelope, reply, error);
    if (pending->kind == PENDING_SILENT)
        settle_silent(device, pending, envelope->error);
    int result = pending->kind == PENDING_CALL;
    release(device, pending);
    return result;
}

/* 1: it is that of the call under way. */
static int receive(struct fusiond_device *device, struct envelope *envelope, struct reply *reply, struct error *error)
{
    int result = channel_receive(&device->channel, 0, envelope, reply, error);
    if (result == CHANNEL_END)
        result = error_set(error, STATUS_DISCONNECTED, "it closed the channel");
    else if (result == CHANNEL_FRAME)
        result = settle(device, envelope, reply, error);
    return result < 0 ? end(device, error) : result;
}

/* Settle everything that is there. The answer to a call cannot be among it. */
static int receive_all_now(struct fusiond_device *device, struct error *error)
{
    for (;;) {
        struct envelope envelope;
        struct reply reply;
        int result = channel_receive_now(&device->channel, &envelope, &reply, error);
        if (result == CHANNEL_NOTHING)
            return 0;
        if (result == CHANNEL_END)
            result = error_set(error, STATUS_DISCONNECTED, "it closed the channel");
        else if (result == CHANNEL_FRAME)
            result = settle(device, &envelope, &reply, error);
        if (result > 0)
            result = error_set(error, STATUS_MALFORMED, "the executor answered a request before it had all of it");
        if (result < 0)
            return end(device, error);
    }
}

/* ---- requests ---- */

/* A free slot, with the id of the next request. When all are taken, answers are waited for. */
static struct pending *take_slot(struct fusiond_device *device, struct error *error)
{
    struct envelope envelope;
    struct reply reply;
    while (device->n_taken == DEVICE_WINDOW) {
        if (device->n_unanswered == 0) {
            error_set(error, STATUS_INVALID_LAUNCH, "%u launches were not collected; that is the limit", DEVICE_WINDOW);
            return NULL;
        }
        if (receive(device, &envelope, &reply, error) < 0)
            return NULL;
    }
    for (;;) {
        uint32_t id = device->next_id++;
        struct pending *pending = &device->pending[id % DEVICE_WINDOW];
        if (id != 0 && pending->kind == PENDING_NONE) {
            pending->id = id;
            return pending;
        }
    }
}

/* Send what was written. While there is no room, answers are taken in: an executor that cannot get rid of them does not
 * read either. */
static int send_all(struct fusiond_device *device, const int *fds, size_t n_fds, struct error *error)
{
    struct channel *channel = &device->channel;
    const char *at = channel->out.data;
    size_t left = channel->out.size;
    while (left > 0) {
        size_t n;
        bool readable = false;
        if (socket_send_some(channel->fd, at, left, fds, n_fds, &n, error) < 0)
            break;
        at += n;
        left -= n;
        if (n > 0)
            n_fds = 0;
        else if (socket_wait(channel->fd, &readable, error) < 0)
            return end(device, error);
        if (readable && receive_all_now(device, error) < 0)
            return -1;
    }
    if (left == 0)
        return 0;
    /* It closed; perhaps it said why before. */
    struct error said;
    if (receive_all_now(device, &said) == 0)
        return end(device, error);
    *error = said;
    return -1;
}

/* Write and send one request of that kind. `stream`: of a silent one. */
static int start(struct fusiond_device *device, enum method method, const void *params, enum pending_kind kind,
                 struct fusiond_stream *stream, const int *fds, size_t n_fds, struct pending **ret, struct error *error)
{
    struct pending *pending = take_slot(device, error);
    if (!pending || channel_write(&device->channel, pending->id, method, params, error) < 0)
        return -1;
    pending->kind = kind;
    pending->stream = stream;
    if (stream)
        stream->n_silent++;
    device->n_taken++;
    device->n_unanswered++;
    *ret = pending;
    return send_all(device, fds, n_fds, error);
}

int device_call(struct fusiond_device *device, enum method method, const void *params, const int *fds, size_t n_fds,
                struct reply *ret, struct error *error)
{
    struct envelope envelope;
    struct pending *pending;
    if (device_check(device, error) < 0)
        return -1;
    socket_fds_close(&device->channel.fds);
    if (start(device, method, params, PENDING_CALL, NULL, fds, n_fds, &pending, error) < 0)
        return -1;
    int result;
    do
        result = receive(device, &envelope, ret, error);
    while (result == 0);
    if (result < 0)
        return -1;
    device->n_posted = 0;
    if (!envelope.error.at)
        return 0;
    socket_fds_close(&device->channel.fds);
    return channel_failure(&device->channel, envelope.error, error);
}

int device_parse(struct fusiond_device *device, enum method method, struct bytes body, msgpack_zone *zone, void *ret,
                 struct error *error)
{
    if (!zone)
        msgpack_zone_clear(device->scratch);
    if (message_parse(methods[method].reply, body.at, body.size, zone ? zone : device->scratch, ret, error) < 0)
        return error_wrap(error, "the executor's answer to %s", methods[method].name);
    return 0;
}

int device_ask(struct fusiond_device *device, enum method method, const void *params, const int *fds, size_t n_fds,
               msgpack_zone *zone, void *ret, struct error *error)
{
    struct reply reply;
    if (device_call(device, method, params, fds, n_fds, &reply, error) < 0)
        return -1;
    if (channel_expect_fds(&device->channel, 0, error) < 0)
        return -1;
    return ret ? device_parse(device, method, reply.body, zone, ret, error) : 0;
}

int device_post(struct fusiond_device *device, enum method method, const void *params, enum pending_kind kind,
                struct fusiond_stream *stream, void *note, uint32_t *ret_id, struct error *error)
{
    struct pending *pending;
    if (device_check(device, error) < 0)
        return -1;
    if (++device->n_posted >= LOOK_EVERY) {
        device->n_posted = 0;
        if (receive_all_now(device, error) < 0)
            return -1;
    }
    if (start(device, method, params, kind, stream, NULL, 0, &pending, error) < 0)
        return -1;
    pending->note = note;
    if (ret_id)
        *ret_id = pending->id;
    return 0;
}

int device_receive(struct fusiond_device *device, struct error *error)
{
    struct envelope envelope;
    struct reply reply;
    return receive(device, &envelope, &reply, error) < 0 ? -1 : 0;
}

int device_collect(struct fusiond_device *device, uint64_t ticket, struct frame_copy *ret_frame, struct bytes *ret_body,
                   void **ret_note, struct error *error)
{
    struct pending *pending = &device->pending[ticket % DEVICE_WINDOW];
    if (device->pid != getpid())
        return device_check(device, error);
    if (pending->kind != PENDING_TICKET || pending->id != ticket)
        return error_set(error, STATUS_UNKNOWN_HANDLE, "ticket %llu: there is no such one, or it was collected",
                         (unsigned long long)ticket);
    while (!pending->answered) {
        struct error ignored;
        /* An end marks it as answered, with nothing. */
        device_receive(device, &ignored);
    }
    int result = 0;
    if (pending->error.at)
        result = channel_failure(&device->channel, pending->error, error);
    else if (!pending->body.at)
        result = device_check(device, error);
    *ret_note = pending->note;
    pending->note = NULL;
    if (result == 0) {
        *ret_frame = pending->frame;
        *ret_body = pending->body;
        pending->frame.bytes = NULL;
    }
    release(device, pending);
    return result;
}

void device_forget(struct fusiond_device *device)
{
    for (size_t i = 0; device->pending && i < DEVICE_WINDOW; i++)
        release(device, &device->pending[i]);
}
