#include "daemon/devices/executor.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/require.h"
#include "daemon/executor/executor.h"
#include "proto/limits.h"

/* From the start to executor_ready: opening the driver and a context, on a machine whose every core compiles. */
#define START_DEADLINE_MS 30000
/* From executor_attach to the news that it was taken: its loop may be held up by the driver, but not for ever. */
#define ATTACH_DEADLINE_MS 30000
/* An executor that told of a fault exits; the driver may hold it up. */
#define LOST_DEADLINE_MS 1000
/* It may take a second to drain its clients' work. */
#define RELEASE_GRACE_MS 2000

struct device_id device_id_of(const struct device *device)
{
    struct device_id id = {.kind = device->kind, .ordinal = (unsigned)device->ordinal};
    if (device->uuid.at)
        snprintf(id.uuid, sizeof id.uuid, "%s", device->uuid.at);
    return id;
}

bool device_id_equal(const struct device_id *a, const struct device_id *b)
{
    return a->kind == b->kind && a->ordinal == b->ordinal && strcmp(a->uuid, b->uuid) == 0;
}

void executor_refuse(struct executor *executor, const char *code, const char *why)
{
    if (executor->child.killed)
        return;
    executor->state = EXECUTOR_LOST;
    executor->code = code;
    snprintf(executor->reason, sizeof executor->reason, "%s", why);
    child_kill(&executor->child);
}

/* ---- what it says ---- */

static void on_ready(struct executor *executor, const uint8_t *frame, size_t size)
{
    struct executor_ready ready;
    struct error error;
    msgpack_zone *zone = msgpack_zone_new(4096);
    if (!zone) {
        executor_refuse(executor, "memory", "no memory for its first message");
    } else if (envelope_read_message(frame, size, &executor_ready_type, zone, &ready, &error) < 0) {
        executor_refuse(executor, "protocol", error.text);
    } else if (ready.protocol != EXECUTOR_PROTOCOL) {
        executor_refuse(executor, "protocol",
                        "its protocol version is not the daemon's: the two executables are of different builds");
    } else if (ready.error.at) {
        executor->no_device = true;
        executor_refuse(executor, "no_device", ready.error.at);
    } else {
        child_disarm(&executor->child);
        executor->state = EXECUTOR_READY;
        if (executor->events->on_ready(executor, &ready, &zone, &error) < 0)
            executor_refuse(executor, "no_device", error.text);
        else
            executor->was_ready = true;
    }
    if (zone)
        msgpack_zone_free(zone);
}

/* Channels only end, and only those that were attached. */
static bool is_plausible(const struct executor *executor, const struct executor_status *status)
{
    return status->attached <= executor->attached && status->attached >= executor->confirmed &&
           status->channels <= status->attached && status->attached - status->channels >= executor->ended;
}

static int on_status(struct executor *executor, const uint8_t *frame, size_t size, msgpack_zone *zone,
                     struct error *error)
{
    struct executor_status status;
    if (envelope_read_message(frame, size, &executor_status_type, zone, &status, error) < 0)
        return -1;
    if (!is_plausible(executor, &status))
        return error_set(error, STATUS_MALFORMED,
                         "it says that %llu of %llu channels are open; %llu were attached, and %llu ended before",
                         (unsigned long long)status.channels, (unsigned long long)status.attached,
                         (unsigned long long)executor->attached, (unsigned long long)executor->ended);
    executor->ended = status.attached - status.channels;
    executor->confirmed = status.attached;
    if (executor->confirmed == executor->attached && !executor->idle)
        child_disarm(&executor->child);
    executor->events->on_status(executor);
    return 0;
}

static int on_fault(struct executor *executor, const uint8_t *frame, size_t size, msgpack_zone *zone,
                    struct error *error)
{
    struct executor_fault fault;
    if (envelope_read_message(frame, size, &executor_fault_type, zone, &fault, error) < 0)
        return -1;
    snprintf(executor->reason, sizeof executor->reason, "%s", fault.text.at);
    executor->code = "fault";
    executor->fault = fault;
    executor->fault.text = (struct text){NULL, 0}; /* it lives in the zone */
    executor->state = EXECUTOR_LOST;
    child_release(&executor->child, LOST_DEADLINE_MS);
    return 0;
}

static int on_message(struct executor *executor, const uint8_t *frame, size_t size, struct error *error)
{
    struct envelope envelope;
    msgpack_zone zone;
    int status;
    if (envelope_read(frame, size, &envelope, error) < 0)
        return -1;
    if (envelope.kind == ENVELOPE_REQUEST && envelope.method == METHOD_KERNEL_GET) {
        executor->events->on_request(executor, &envelope);
        return 0;
    }
    if (envelope.kind != ENVELOPE_NOTIFICATION)
        return error_set(error, STATUS_MALFORMED, "an executor asks for kernels and nothing else");
    msgpack_zone_init(&zone, 1024);
    if (envelope.name.size == strlen(executor_fault_type.name) &&
        memcmp(envelope.name.at, executor_fault_type.name, envelope.name.size) == 0)
        status = on_fault(executor, frame, size, &zone, error);
    else
        status = on_status(executor, frame, size, &zone, error);
    msgpack_zone_destroy(&zone);
    return status;
}

static void on_frame(struct child *child, const uint8_t *frame, size_t size)
{
    struct executor *executor = child->owner;
    struct error error;
    if (executor->state == EXECUTOR_LOST)
        return;
    if (executor->state == EXECUTOR_STARTING)
        on_ready(executor, frame, size);
    else if (executor->probe)
        executor_refuse(executor, "protocol", "a probe says one thing only");
    else if (on_message(executor, frame, size, &error) < 0)
        executor_refuse(executor, "protocol", error.text);
}

/* ---- the end ---- */

static void on_child_exit(struct child *child, const struct child_exit *exit)
{
    struct executor *executor = child->owner;
    struct executor_end end = {
        .code = executor->code ? executor->code : "died",
        .on_purpose = executor->on_purpose,
        .was_starting = !executor->was_ready,
        .no_device = executor->no_device,
        .client = executor->fault.client,
        .pid = executor->fault.pid,
        .key = executor->fault.has_key ? executor->fault.key : NULL,
    };
    if (executor->reason[0])
        snprintf(end.text, sizeof end.text, "%s", executor->reason);
    else
        child_describe_exit(exit, end.text, sizeof end.text);
    executor->state = EXECUTOR_GONE;
    executor->events->on_gone(executor, &end);
}

static const struct child_events child_events = {on_frame, on_child_exit};

/* ---- the start ---- */

static void on_start_deadline(struct child *child)
{
    executor_refuse(child->owner, "timeout", "it was not ready within 30 s");
}

int executor_start(struct executor *executor, uv_loop_t *loop, char **argv, const struct executor_events *events,
                   void *owner, struct error *error)
{
    *executor = (struct executor){.state = EXECUTOR_STARTING, .events = events, .owner = owner};
    list_init(&executor->link);
    list_init(&executor->fetches);
    list_init(&executor->attaching);
    if (child_start(&executor->child, loop, argv[0], argv, LIMIT_FRAME, &child_events, executor, error) < 0)
        return -1;
    child_arm(&executor->child, START_DEADLINE_MS, on_start_deadline);
    return 0;
}

/* ---- what it is told ---- */

void executor_send(struct executor *executor, const msgpack_sbuffer *frame, const int *fds, size_t n_fds)
{
    child_send(&executor->child, frame->data, frame->size, fds, n_fds);
}

bool executor_is_usable(const struct executor *executor)
{
    /* One that dies at its start is waited for, to learn why. */
    return executor->state == EXECUTOR_STARTING || (executor->state == EXECUTOR_READY && child_hears(&executor->child));
}

static void on_attach_deadline(struct child *child)
{
    executor_refuse(child->owner, "timeout", "it did not take a channel within 30 s");
}

void executor_attach(struct executor *executor, uint64_t client, pid_t pid, int fd)
{
    struct executor_attach attach = {.client = client, .has_client = true, .pid = (uint64_t)pid, .has_pid = pid > 0};
    msgpack_sbuffer frame;
    require(executor->state == EXECUTOR_READY);
    msgpack_sbuffer_init(&frame);
    if (executor->confirmed == executor->attached)
        child_arm(&executor->child, ATTACH_DEADLINE_MS, on_attach_deadline);
    executor->idle = false;
    executor->attached++;
    if (envelope_write_message(&frame, &executor_attach_type, &attach) < 0)
        executor_refuse(executor, "memory", "no memory to hand it a channel");
    else
        executor_send(executor, &frame, &fd, 1);
    msgpack_sbuffer_destroy(&frame);
}

uint64_t executor_channels(const struct executor *executor)
{
    return executor->attached - executor->ended;
}

static void on_idle(struct child *child)
{
    executor_release(child->owner);
}

void executor_release_after(struct executor *executor, uint64_t ms)
{
    require(executor->state == EXECUTOR_READY);
    executor->idle = true;
    child_arm(&executor->child, ms, on_idle);
}

void executor_release(struct executor *executor)
{
    if (executor->state == EXECUTOR_STARTING) {
        executor->on_purpose = true;
        executor_refuse(executor, "killed", "it was not needed any more");
    } else if (executor->state == EXECUTOR_READY) {
        executor->on_purpose = true;
        executor->state = EXECUTOR_LEAVING;
        executor->code = "released";
        child_release(&executor->child, RELEASE_GRACE_MS);
    }
}
