#include "daemon/devices/devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/devices/fetch.h"
#include "daemon/devices/probe.h"
#include "daemon/devices/restarts.h"
#include "kernels_db/kernel_key.h"

/* Executors of one daemon: a client that asks for sessions of its own cannot fill the node with processes. */
#define MAX_EXECUTORS 256
/* Executors that die over a client's channel before the client is told. */
#define MAX_HANDED 3
/* A device that is asked for and not there may have come since the last look, if that is so old. */
#define OLD_FACTS_MS 10000
#define MAX_ARGS 16

struct devices {
    uv_loop_t *loop;
    struct devices_options options;
    struct probe probe;
    bool probe_closed;
    struct list executors;
    size_t n_executors;
    struct list opens; /* those that wait */
    struct list looks;
    struct restarts restarts;
    uv_timer_t wake; /* something may be decided: at once, or when a pause is over */
    uint64_t last_client;
    enum sandbox sandbox;
    bool closing;
    void (*on_closed)(void *owner);
    void *owner;
};

static void advance(struct devices *devices);

/* ---- what is known ---- */

const struct executor_ready *devices_facts(const struct devices *devices)
{
    return devices ? probe_facts(&devices->probe) : NULL;
}

const char *devices_problem(const struct devices *devices)
{
    return devices && devices->probe.problem[0] ? devices->probe.problem : NULL;
}

enum sandbox devices_sandbox(const struct devices *devices)
{
    return devices ? devices->sandbox : sandbox_absent;
}

static const struct device *find_device(const struct devices *devices, const struct device_id *id)
{
    const struct executor_ready *facts = probe_facts(&devices->probe);
    for (size_t i = 0; facts && i < facts->n_devices; i++) {
        struct device_id other = device_id_of(&facts->devices[i]);
        if (device_id_equal(id, &other))
            return &facts->devices[i];
    }
    return NULL;
}

static void update_gauges(struct devices *devices)
{
    uint64_t channels = 0;
    for (struct list *link = devices->executors.next; link != &devices->executors; link = link->next)
        channels += executor_channels(container_of(link, struct executor, link));
    devices->options.stats->executors = devices->n_executors;
    devices->options.stats->channels = channels;
}

static void on_wake(uv_timer_t *timer)
{
    advance(timer->data);
}

static void wake_after(struct devices *devices, uint64_t ms)
{
    uv_timer_start(&devices->wake, on_wake, ms, 0);
}

/* ---- executors ---- */

static int on_ready(struct executor *executor, const struct executor_ready *ready, msgpack_zone **zone,
                    struct error *ret_error)
{
    struct devices *devices = executor->owner;
    (void)zone;
    if (ready->n_devices != 1)
        return error_set(ret_error, STATUS_NO_DEVICE, "it has %zu devices, not 1", ready->n_devices);
    struct device_id id = device_id_of(&ready->devices[0]);
    if (!device_id_equal(&id, &executor->device))
        return error_set(ret_error, STATUS_NO_DEVICE, "it has another device (%s) than it was started for (%s)",
                         id.uuid[0] ? id.uuid : "without UUID",
                         executor->device.uuid[0] ? executor->device.uuid : "without UUID");
    char label[DEVICE_LABEL];
    device_label(id.kind, id.ordinal, label);
    log_event(LOG_INFO, "executor.ready", "device=%s uid=%u pid=%d session=%d sandbox=%s", label, executor->uid,
              executor->child.process.pid, executor->session,
              ready->sandbox ? sandbox_word((int)ready->sandbox) : "none");
    if (id.kind == DEVICE_KIND_HOST)
        devices->sandbox = ready->sandbox;
    restarts_note_success(&devices->restarts, &executor->device);
    wake_after(devices, 0);
    return 0;
}

/* Whether a READY one has nobody; then it is let go, the sooner the less likely it is that somebody comes. */
static void retire_if_idle(struct devices *devices, struct executor *executor)
{
    if (executor->state != EXECUTOR_READY || executor->idle || executor_channels(executor) > 0)
        return;
    if (executor->session)
        executor_release(executor);
    else
        executor_release_after(executor, devices->options.idle_ms);
}

static void deliver(struct devices *devices, struct executor *executor);

static void on_status(struct executor *executor)
{
    struct devices *devices = executor->owner;
    deliver(devices, executor);
    update_gauges(devices);
    retire_if_idle(devices, executor);
}

static void on_request(struct executor *executor, const struct envelope *envelope)
{
    struct devices *devices = executor->owner;
    fetch_start(executor, envelope, devices->options.store, devices->options.stats);
}

static void finish_if_closed(struct devices *devices);

/* The one line of an executor that died. */
static void log_loss(const struct executor *executor, const struct executor_end *end)
{
    char label[DEVICE_LABEL], key[KEY_HEX] = "unknown", client[64] = "unknown";
    device_label(executor->device.kind, executor->device.ordinal, label);
    if (end->key)
        key_to_hex(end->key, key);
    if (end->client)
        snprintf(client, sizeof client, "%llu/pid:%llu", (unsigned long long)end->client, (unsigned long long)end->pid);
    log_event(LOG_WARNING, end->was_starting ? "executor.not_started" : "executor.lost",
              "code=%s device=%s uid=%u pid=%d channels=%llu client=%s kernel=%s reason=\"%s\"", end->code, label,
              executor->uid, executor->child.process.pid, (unsigned long long)executor_channels(executor), client, key,
              end->text);
}

static void take_back(struct devices *devices, struct executor *executor, const struct executor_end *end);

static void on_gone(struct executor *executor, const struct executor_end *end)
{
    struct devices *devices = executor->owner;
    list_remove(&executor->link);
    devices->n_executors--;
    fetches_orphan(executor);
    take_back(devices, executor, end);
    if (end->on_purpose) {
        log_event(LOG_INFO, "executor.ended", "uid=%u pid=%d code=%s", executor->uid, executor->child.process.pid,
                  end->code);
    } else {
        log_loss(executor, end);
        if (end->was_starting)
            restarts_note_failure(&devices->restarts, &executor->device, uv_now(devices->loop), end->text);
        else
            devices->options.stats->executor_faults_total++;
        /* A GPU may be gone, or another one; the CPU stays what it is. */
        if (executor->device.kind == DEVICE_KIND_CUDA && !devices->closing)
            probe_again(&devices->probe);
    }
    free(executor);
    update_gauges(devices);
    if (devices->closing)
        finish_if_closed(devices);
    else
        wake_after(devices, 0);
}

static const struct executor_events executor_events = {on_ready, on_status, on_request, on_gone};

static int start_executor(struct devices *devices, struct device_open *open, struct error *error)
{
    char label[DEVICE_LABEL], threads[16], spin[32];
    char *argv[MAX_ARGS] = {(char *)devices->options.executor, (char *)"--fd", (char *)"3", (char *)"--device", label};
    size_t n = 5;
    device_label(open->device.kind, open->device.ordinal, label);
    if (open->device.kind == DEVICE_KIND_HOST && devices->options.host_threads) {
        snprintf(threads, sizeof threads, "%u", devices->options.host_threads);
        argv[n++] = (char *)"--threads";
        argv[n++] = threads;
    }
    if (devices->options.spin_us) {
        snprintf(spin, sizeof spin, "%llu", (unsigned long long)devices->options.spin_us);
        argv[n++] = (char *)"--spin-us";
        argv[n++] = spin;
    }
    argv[n] = NULL;
    struct executor *executor = malloc(sizeof *executor);
    if (!executor)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an executor");
    if (executor_start(executor, devices->loop, argv, &executor_events, devices, error) < 0) {
        free(executor);
        return -1;
    }
    executor->device = open->device;
    executor->uid = open->uid;
    executor->session = open->session;
    if (open->session)
        open->executor = executor;
    list_push(&devices->executors, &executor->link);
    devices->n_executors++;
    devices->options.stats->executor_starts_total++;
    update_gauges(devices);
    return 0;
}

/* One that is starting or ready, and not just dying. */
static struct executor *find_executor(struct devices *devices, const struct device_open *open)
{
    if (open->session)
        return open->executor && executor_is_usable(open->executor) ? open->executor : NULL;
    for (struct list *link = devices->executors.next; link != &devices->executors; link = link->next) {
        struct executor *executor = container_of(link, struct executor, link);
        if (executor_is_usable(executor) && !executor->session && executor->uid == open->uid &&
            device_id_equal(&executor->device, &open->device))
            return executor;
    }
    return NULL;
}

/* ---- those who wait ---- */

static void drop_channel(struct device_open *open)
{
    if (open->is_handed)
        close(open->fd);
    open->is_handed = false;
    open->executor = NULL;
}

static void fail(struct device_open *open, const struct error *error)
{
    list_remove(&open->link);
    drop_channel(open);
    open->done(open, NULL, error);
}

static void fail_gone(struct device_open *open)
{
    struct error error;
    error_set(&error, STATUS_NO_DEVICE, "device: %s is gone", open->device.uuid[0] ? open->device.uuid : "it");
    fail(open, &error);
}

/* The executor gets one end, and once it has it the client gets the other; the front keeps neither. Sooner, and the
 * client might get the end of a channel to an executor that is dying. */
static void hand_over(struct devices *devices, struct device_open *open, struct executor *executor)
{
    int pair[2];
    struct error error;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        error_set_errno(&error, STATUS_SYSTEM, errno, "making a channel to a device");
        fail(open, &error);
        return;
    }
    log_event(LOG_DEBUG, "channel.open", "client=%llu uid=%u pid=%d executor=%d",
              (unsigned long long)devices->last_client + 1, open->uid, open->pid, executor->child.process.pid);
    executor_attach(executor, ++devices->last_client, open->pid, pair[0]);
    close(pair[0]);
    open->executor = executor;
    open->is_handed = true;
    open->number = executor->attached;
    open->fd = pair[1];
    open->n_handed++;
    list_remove(&open->link);
    list_push(&executor->attaching, &open->link);
    update_gauges(devices);
}

/* Give their ends to those whose channels have reached the executor. */
static void deliver(struct devices *devices, struct executor *executor)
{
    while (!list_empty(&executor->attaching)) {
        struct device_open *open = container_of(executor->attaching.next, struct device_open, link);
        if (open->number > executor->confirmed)
            break;
        const struct device *device = find_device(devices, &open->device);
        if (device) {
            struct device_opened opened = {device, executor->child.process.pid, open->fd};
            int fd = open->fd;
            list_remove(&open->link);
            open->is_handed = false;
            devices->options.stats->channels_total++;
            open->done(open, &opened, NULL);
            close(fd);
        } else {
            fail_gone(open);
        }
    }
}

/* The executor is gone: those whom it has not answered for try another one, or give up. */
static void take_back(struct devices *devices, struct executor *executor, const struct executor_end *end)
{
    struct list *link;
    for (link = devices->opens.next; link != &devices->opens; link = link->next) {
        struct device_open *open = container_of(link, struct device_open, link);
        if (open->executor == executor)
            open->executor = NULL;
    }
    while ((link = list_pop(&executor->attaching))) {
        struct device_open *open = container_of(link, struct device_open, link);
        struct error error;
        drop_channel(open);
        if (open->n_handed < MAX_HANDED) {
            list_push(&devices->opens, &open->link);
            continue;
        }
        error_set(&error, STATUS_EXECUTOR_UNAVAILABLE, "device: %u executors died over the channel: %.400s",
                  open->n_handed, end->text);
        fail(open, &error);
    }
}

/* Settle which device is meant. */
static int name_device(struct devices *devices, struct device_open *open, const struct executor_ready *facts,
                       struct error *error)
{
    struct text name = text_of(open->has_name ? open->name : NULL);
    size_t index;
    if (naming_choose(facts->devices, facts->n_devices, &open->view, name, &index, error) < 0) {
        size_t used = strlen(error->text);
        for (size_t i = 0; i < facts->n_problems && used + 2 < sizeof error->text; i++)
            used += (size_t)snprintf(error->text + used, sizeof error->text - used, "; %s", facts->problems[i].at);
        if (uv_now(devices->loop) - devices->probe.known_ms > OLD_FACTS_MS)
            probe_again(&devices->probe);
        return -1;
    }
    open->device = device_id_of(&facts->devices[index]);
    open->is_named = true;
    return 0;
}

/* No executor runs for it: start one, or say in *ret_ms when to try again. -1, with the error for the client, when that
 * has failed too often. */
static int seek_executor(struct devices *devices, struct device_open *open, uint64_t *ret_ms, struct error *error)
{
    char label[DEVICE_LABEL];
    struct error reason;
    device_label(open->device.kind, open->device.ordinal, label);
    if (devices->n_executors >= MAX_EXECUTORS)
        return error_set(error, STATUS_BUSY, "%zu executors run already, the limit is %d", devices->n_executors,
                         MAX_EXECUTORS);
    uint64_t now = uv_now(devices->loop);
    const struct trouble *trouble = restarts_paused(&devices->restarts, &open->device, now);
    if (!trouble && start_executor(devices, open, &reason) == 0)
        return 0;
    if (!trouble) {
        log_event(LOG_WARNING, "executor.not_started", "code=system device=%s uid=%u reason=\"%s\"", label, open->uid,
                  reason.text);
        restarts_note_failure(&devices->restarts, &open->device, now, reason.text);
        trouble = restarts_paused(&devices->restarts, &open->device, now);
    }
    if (!trouble)
        return error_set(error, STATUS_EXECUTOR_UNAVAILABLE, "device: no executor for %s: %.400s", label, reason.text);
    if (trouble->failed >= RESTARTS_TRIED)
        return error_set(error, STATUS_EXECUTOR_UNAVAILABLE,
                         "device: the executor of %s does not start (%u times in a row): %.400s", label,
                         trouble->failed, trouble->reason);
    *ret_ms = trouble->until_ms - now;
    return 0;
}

/* One step for one who waits. *ret_ms is lowered to when the next one is worth it. */
static void advance_open(struct devices *devices, struct device_open *open, uint64_t *ret_ms)
{
    const struct executor_ready *facts = probe_facts(&devices->probe);
    struct error error;
    uint64_t ms = UINT64_MAX;
    if (!facts) {
        if (!devices_problem(devices))
            return;
        error_set(&error, STATUS_EXECUTOR_UNAVAILABLE, "device: %.480s", devices_problem(devices));
        fail(open, &error);
        return;
    }
    if (!open->is_named && name_device(devices, open, facts, &error) < 0) {
        fail(open, &error);
        return;
    }
    if (!find_device(devices, &open->device)) {
        fail_gone(open);
        return;
    }
    struct executor *executor = find_executor(devices, open);
    if (executor && executor->state == EXECUTOR_READY)
        hand_over(devices, open, executor);
    else if (!executor && seek_executor(devices, open, &ms, &error) < 0)
        fail(open, &error);
    if (ms < *ret_ms)
        *ret_ms = ms;
}

/* The one place that decides. Callbacks may leave, but add nothing before they return to the loop. */
static void advance(struct devices *devices)
{
    struct list waiting, *link;
    uint64_t ms = UINT64_MAX;
    list_init(&waiting);
    if (devices->closing)
        return;
    if (probe_facts(&devices->probe) || devices_problem(devices)) {
        while ((link = list_pop(&devices->looks))) {
            struct device_look *look = container_of(link, struct device_look, link);
            look->done(look, probe_facts(&devices->probe));
        }
    }
    while ((link = list_pop(&devices->opens)))
        list_push(&waiting, link);
    while ((link = list_pop(&waiting))) {
        list_push(&devices->opens, link);
        advance_open(devices, container_of(link, struct device_open, link), &ms);
    }
    /* Whoever was waited for by nobody in the end. */
    for (link = devices->executors.next; link != &devices->executors; link = link->next)
        retire_if_idle(devices, container_of(link, struct executor, link));
    if (ms != UINT64_MAX)
        wake_after(devices, ms);
}

int devices_open(struct devices *devices, struct device_open *open, struct error *error)
{
    if (!devices || devices->closing)
        return error_set(error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    list_push(&devices->opens, &open->link);
    wake_after(devices, 0);
    return 0;
}

void device_open_leave(struct device_open *open)
{
    if (open->link.next)
        list_remove(&open->link);
    drop_channel(open);
}

int devices_look(struct devices *devices, struct device_look *look, struct error *error)
{
    if (!devices || devices->closing)
        return error_set(error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    list_push(&devices->looks, &look->link);
    wake_after(devices, 0);
    return 0;
}

void device_look_leave(struct device_look *look)
{
    if (look->link.next)
        list_remove(&look->link);
}

/* ---- life ---- */

static void on_probe_change(struct probe *probe)
{
    wake_after(container_of(probe, struct devices, probe), 0);
}

int devices_create(uv_loop_t *loop, const struct devices_options *options, struct devices **ret, struct error *error)
{
    struct devices *devices = calloc(1, sizeof *devices);
    if (!devices)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the devices");
    devices->loop = loop;
    devices->options = *options;
    list_init(&devices->executors);
    list_init(&devices->opens);
    list_init(&devices->looks);
    restarts_init(&devices->restarts);
    uv_timer_init(loop, &devices->wake);
    devices->wake.data = devices;
    probe_start(&devices->probe, loop, options->executor, on_probe_change);
    *ret = devices;
    return 0;
}

static void on_wake_closed(uv_handle_t *handle)
{
    struct devices *devices = handle->data;
    void (*on_closed)(void *) = devices->on_closed;
    void *owner = devices->owner;
    free(devices);
    on_closed(owner);
}

static void finish_if_closed(struct devices *devices)
{
    if (!devices->closing || devices->n_executors > 0 || !devices->probe_closed ||
        uv_is_closing((uv_handle_t *)&devices->wake))
        return;
    restarts_finish(&devices->restarts);
    uv_close((uv_handle_t *)&devices->wake, on_wake_closed);
}

static void on_probe_closed(struct probe *probe)
{
    struct devices *devices = container_of(probe, struct devices, probe);
    devices->probe_closed = true;
    finish_if_closed(devices);
}

void devices_close(struct devices *devices, void (*on_closed)(void *owner), void *owner)
{
    struct error error;
    struct list *link;
    devices->closing = true;
    devices->on_closed = on_closed;
    devices->owner = owner;
    uv_timer_stop(&devices->wake);
    error_set(&error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    for (link = devices->executors.next; link != &devices->executors; link = link->next) {
        struct executor *executor = container_of(link, struct executor, link);
        while (!list_empty(&executor->attaching))
            fail(container_of(executor->attaching.next, struct device_open, link), &error);
    }
    while (!list_empty(&devices->opens))
        fail(container_of(devices->opens.next, struct device_open, link), &error);
    while ((link = list_pop(&devices->looks))) {
        struct device_look *look = container_of(link, struct device_look, link);
        look->done(look, NULL);
    }
    for (link = devices->executors.next; link != &devices->executors; link = link->next)
        executor_release(container_of(link, struct executor, link));
    probe_close(&devices->probe, on_probe_closed);
}
