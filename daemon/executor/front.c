#include "daemon/executor/front.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/executor/executor.h"
#include "proto/envelope.h"
#include "proto/limits.h"

/* What may wait to be sent: requests and notes, all small. */
#define OUT_LIMIT (1u << 20)

/* ---- fetching ---- */

static void send_or_break(struct front *front, int status, msgpack_sbuffer *out)
{
    struct error error;
    if (status == 0) {
        channel_send(&front->channel, out->data, out->size, NULL, 0);
    } else {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a message to the daemon");
        channel_break(&front->channel, &error);
    }
    msgpack_sbuffer_destroy(out);
}

void front_send(struct front *front, const struct message_type *type, const void *message)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    int status = envelope_write_message(&out, type, message);
    send_or_break(front, status, &out);
}

static void ask(struct front *front, struct fetch *fetch)
{
    /* The request is only read. */
    struct kernel_get_request get = {.has_key = true,
                                     .entries = (struct text *)(uintptr_t)fetch->entries,
                                     .n_entries = fetch->n_entries,
                                     .with_image = true};
    msgpack_sbuffer out;
    memcpy(get.key, fetch->key, DIGEST_SIZE);
    fetch->id = ++front->next_id;
    list_push(&front->asked, &fetch->link);
    front->n_asked++;
    msgpack_sbuffer_init(&out);
    int status = envelope_write_request(&out, fetch->id, METHOD_KERNEL_GET, &get);
    send_or_break(front, status, &out);
}

static void ask_next(struct front *front)
{
    while (front->n_asked < EXECUTOR_FETCHES && !list_empty(&front->waiting))
        ask(front, container_of(list_pop(&front->waiting), struct fetch, link));
}

int front_fetch(struct front *front, struct fetch *fetch, struct error *error)
{
    if (front->ended)
        return error_set(error, STATUS_SHUTTING_DOWN, "the executor is ending: the daemon has closed its channel");
    list_push(&front->waiting, &fetch->link);
    ask_next(front);
    return 0;
}

void front_fail_fetches(struct front *front, const struct error *error)
{
    struct list *link;
    while ((link = list_pop(&front->asked)) || (link = list_pop(&front->waiting))) {
        struct fetch *fetch = container_of(link, struct fetch, link);
        fetch->done(fetch, NULL, -1, error);
    }
    front->n_asked = 0;
}

/* A sealed memfd of the bytes. */
static int seal(struct bytes bytes, int *ret, struct error *error)
{
    int fd = memfd_create("fusiond-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set_errno(error, STATUS_OUT_OF_MEMORY, errno, "a memfd for an image");
    for (size_t at = 0; at < bytes.size;) {
        ssize_t n = write(fd, bytes.at + at, bytes.size - at);
        if (n <= 0) {
            close(fd);
            return error_set_errno(error, STATUS_OUT_OF_MEMORY, errno, "%zu bytes for an image", bytes.size);
        }
        at += (size_t)n;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
        close(fd);
        return error_set_errno(error, STATUS_SYSTEM, errno, "sealing an image");
    }
    *ret = fd;
    return 0;
}

static int take_image(struct front *front, const struct kernel_get_reply *reply, int *ret, struct error *error)
{
    int fds[LIMIT_FDS];
    size_t n = (size_t)reply->fds;
    const struct kernel *kernel = reply->kernel;
    if (!channel_take_fds(&front->channel, n, fds))
        return error_set(error, STATUS_UNEXPECTED_FDS, "the front sent fewer descriptors than it declares");
    bool by_fd = kernel->has_image_fd && kernel->image_fd < n;
    for (size_t i = 0; i < n; i++) {
        if (!by_fd || i != kernel->image_fd)
            close(fds[i]);
    }
    if (!by_fd && kernel->image.at && kernel->image.size == kernel->image_size)
        return seal(kernel->image, ret, error);
    if (!by_fd)
        return error_set(error, STATUS_INTERNAL, "the front sent %zu bytes of an image of %llu", kernel->image.size,
                         (unsigned long long)kernel->image_size);
    struct stat status;
    if (fstat(fds[kernel->image_fd], &status) < 0 || (uint64_t)status.st_size != kernel->image_size) {
        close(fds[kernel->image_fd]);
        return error_set(error, STATUS_INTERNAL, "the front sent another file than an image of %llu bytes",
                         (unsigned long long)kernel->image_size);
    }
    *ret = fds[kernel->image_fd];
    return 0;
}

static void take_failure(struct envelope *envelope, msgpack_zone *zone, struct error *ret)
{
    struct failure failure;
    if (message_parse(&failure_type, envelope->error.at, envelope->error.size, zone, &failure, ret) == 0)
        error_set(ret, status_known(failure.code) ? (enum status)failure.code : STATUS_INTERNAL, "%s", failure.text.at);
}

static void take_reply(struct front *front, struct envelope *envelope)
{
    struct fetch *fetch = NULL;
    for (struct list *link = front->asked.next; link != &front->asked && !fetch; link = link->next) {
        if (container_of(link, struct fetch, link)->id == envelope->id)
            fetch = container_of(link, struct fetch, link);
    }
    if (!fetch)
        return;
    list_remove(&fetch->link);
    front->n_asked--;
    ask_next(front);
    msgpack_zone zone;
    struct kernel_get_reply reply;
    struct error error = {0};
    int image = -1;
    if (!msgpack_zone_init(&zone, 8192)) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a kernel");
        fetch->done(fetch, NULL, -1, &error);
        return;
    }
    if (envelope->error.at)
        take_failure(envelope, &zone, &error);
    else if (message_parse(&kernel_get_reply_type, envelope->body.at, envelope->body.size, &zone, &reply, &error) == 0)
        take_image(front, &reply, &image, &error);
    if (image >= 0) {
        fetch->done(fetch, reply.kernel, image, NULL);
        close(image);
    } else {
        fetch->done(fetch, NULL, -1, &error);
    }
    msgpack_zone_destroy(&zone);
}

/* ---- attaching ---- */

static void take_client(struct front *front, const uint8_t *frame, size_t size)
{
    msgpack_zone zone;
    struct executor_attach attach;
    struct error error = {0};
    int fd;
    if (!msgpack_zone_init(&zone, 1024)) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a client");
        channel_break(&front->channel, &error);
        return;
    }
    if (envelope_read_message(frame, size, &executor_attach_type, &zone, &attach, &error) < 0)
        channel_break(&front->channel, &error);
    else if (!channel_take_fds(&front->channel, 1, &fd)) {
        error_set(&error, STATUS_UNEXPECTED_FDS, "a client came without its descriptor");
        channel_break(&front->channel, &error);
    } else {
        front->events->on_attach(front, fd, attach.client, attach.pid);
    }
    msgpack_zone_destroy(&zone);
}

static void on_frame(struct channel *channel, const uint8_t *frame, size_t size)
{
    struct front *front = channel->owner;
    struct envelope envelope;
    struct error error = {0};
    if (envelope_read(frame, size, &envelope, &error) < 0)
        channel_break(channel, &error);
    else if (envelope.kind == ENVELOPE_RESPONSE)
        take_reply(front, &envelope);
    else
        take_client(front, frame, size);
}

/* ---- the end ---- */

static void on_end(struct channel *channel, const struct error *reason)
{
    struct front *front = channel->owner;
    struct error error;
    front->ended = true;
    error_set(&error, STATUS_SHUTTING_DOWN, "the executor is ending: the daemon has closed its channel");
    front_fail_fetches(front, &error);
    front->events->on_end(front, reason);
}

static void on_channel_closed(struct channel *channel)
{
    struct front *front = channel->owner;
    front->on_closed(front);
}

static const struct channel_events channel_events = {on_frame, NULL, on_end};

int front_start(struct front *front, uv_loop_t *loop, int fd, const struct front_events *events, void *owner,
                struct error *error)
{
    *front = (struct front){.events = events, .owner = owner};
    list_init(&front->asked);
    list_init(&front->waiting);
    return channel_start(&front->channel, loop, fd, LIMIT_FRAME_WORKER, OUT_LIMIT, &channel_events, front, error);
}

void front_close(struct front *front, void (*on_closed)(struct front *front))
{
    front->on_closed = on_closed;
    channel_close(&front->channel, on_channel_closed);
}
