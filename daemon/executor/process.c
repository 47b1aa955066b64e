#include "daemon/executor/process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/executor/executor.h"

/* When the front has gone: how long clients' work may still take. */
#define DRAIN_MS 1000
/* When the device is lost: how long clients may take to read why, and a new executor has to wait. */
#define LAST_WORDS_MS 50

/* ---- what the front is told ---- */

static void send_status(struct process *process)
{
    struct executor_status status = {
        .attached = process->attached,
        .has_attached = true,
        .channels = process->channels,
        .has_channels = true,
        .launches = process->launches,
        .has_launches = true,
    };
    if (!process->front.ended)
        front_send(&process->front, &executor_status_type, &status);
}

static void send_ready(struct process *process, enum sandbox sandbox)
{
    const struct device_facts *facts = &process->backend->facts;
    struct device device = device_describe(facts);
    struct executor_ready ready = {
        .protocol = EXECUTOR_PROTOCOL, .has_protocol = true, .devices = &device, .n_devices = 1, .sandbox = sandbox};
    front_send(&process->front, &executor_ready_type, &ready);
}

/* ---- sessions ---- */

static void on_attach(struct front *front, int fd, uint64_t client, uint64_t pid)
{
    struct process *process = front->owner;
    struct error error;
    process->attached++;
    if (session_create(process, fd, client, pid, &error) < 0) {
        /* The client finds its channel closed. */
        fprintf(stderr, "fusiond-executor: client %llu: %s\n", (unsigned long long)client, error.text);
        close(fd);
        send_status(process);
        return;
    }
    process->channels++;
    send_status(process);
}

/* The session may be gone, or others, once `act` has been called for it. */
static void for_all_sessions(struct process *process, void (*act)(struct session *session))
{
    struct list *next;
    for (struct list *link = process->sessions.next; link != &process->sessions; link = next) {
        next = link->next;
        act(container_of(link, struct session, link));
    }
}

/* ---- the end ---- */

static void on_part_closed(struct process *process)
{
    if (--process->open_handles > 0)
        return;
    msgpack_sbuffer_destroy(&process->scratch);
    msgpack_zone_destroy(&process->request);
    process->state = PROCESS_CLOSED;
    uv_stop(process->loop); /* a lost back end still has handles */
}

static void on_front_closed(struct front *front)
{
    on_part_closed(front->owner);
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

static void on_backend_closed(void *context)
{
    on_part_closed(context);
}

static void close_parts(struct process *process)
{
    bool lost = process->state == PROCESS_LOST;
    process->state = PROCESS_CLOSING;
    modules_finish(&process->modules);
    front_close(&process->front, on_front_closed);
    uv_close((uv_handle_t *)&process->spin, on_handle_closed);
    uv_close((uv_handle_t *)&process->grace, on_handle_closed);
    process->open_handles = 3;
    if (lost)
        return; /* what a driver does with a lost device nobody knows */
    process->open_handles++;
    process->backend->ops->close(process->backend, on_backend_closed, process);
}

static void close_if_done(struct process *process)
{
    bool told = process->state == PROCESS_LOST && !uv_is_active((uv_handle_t *)&process->grace);
    if ((told || process->state == PROCESS_FINISHING) && list_empty(&process->sessions))
        close_parts(process);
}

void process_session_gone(struct process *process)
{
    process->channels--;
    send_status(process);
    close_if_done(process);
}

static void on_grace_over(uv_timer_t *timer)
{
    struct process *process = timer->data;
    if (process->state == PROCESS_LOST) {
        for_all_sessions(process, session_close);
        close_if_done(process);
        return;
    }
    fprintf(stderr, "fusiond-executor: %zu clients' work does not end\n", process->channels);
    process->state = PROCESS_ABANDONED;
    uv_stop(process->loop);
}

static void on_front_end(struct front *front, const struct error *reason)
{
    struct process *process = front->owner;
    if (reason->code != STATUS_OK && reason->code != STATUS_DISCONNECTED) {
        fprintf(stderr, "fusiond-executor: the front's channel: %s\n", reason->text);
        process->exit_code = EXECUTOR_EXIT_CHANNEL;
    }
    if (process->state != PROCESS_RUNNING)
        return;
    process->state = PROCESS_FINISHING;
    uv_timer_start(&process->grace, on_grace_over, DRAIN_MS, 0);
    for_all_sessions(process, session_finish);
    close_if_done(process);
}

/* ---- a lost device ---- */

/* Who has work under way: the only launch's stream, or NULL; and all of it in words. */
static const struct stream *find_culprit(const struct process *process, const struct session **ret_client, char *text,
                                         size_t room)
{
    const struct stream *only = NULL;
    size_t launches = 0, used = 0;
    *text = '\0';
    for (struct list *link = process->sessions.next; link != &process->sessions; link = link->next) {
        struct session *session = container_of(link, struct session, link);
        struct stream *stream, *next;
        HASH_ITER(hh, session->streams.by_number, stream, next)
        {
            char name[160];
            if (stream->launches == 0)
                continue;
            launches += stream->launches;
            only = stream;
            *ret_client = session;
            int n = snprintf(text + used, room - used, "%s%s of client %llu", used ? ", " : "",
                             defined_show(stream->last, name, sizeof name), (unsigned long long)session->client);
            used = n > 0 && used + (size_t)n < room ? used + (size_t)n : room - 1;
        }
    }
    return launches == 1 ? only : NULL;
}

static void on_lost(struct backend *backend, const struct error *error)
{
    struct process *process = backend->owner;
    char under_way[200];
    const struct session *client = NULL;
    struct error told;
    process->state = PROCESS_LOST;
    process->exit_code = EXECUTOR_EXIT_LOST;
    process->culprit = find_culprit(process, &client, under_way, sizeof under_way);
    error_set(&process->loss, error->code, "%.250s%s%s", error->text, under_way[0] ? "; under way: " : "", under_way);
    struct executor_fault fault = {.text = text_of(process->loss.text)};
    if (process->culprit) {
        fault.client = client->client;
        fault.has_client = true;
        fault.pid = client->pid;
        fault.has_pid = true;
        memcpy(fault.key, process->culprit->last->module->key, sizeof fault.key);
        fault.has_key = true;
    }
    if (!process->front.ended)
        front_send(&process->front, &executor_fault_type, &fault);
    process_explain_loss(process, NULL, &told);
    front_fail_fetches(&process->front, &told);
    uv_timer_start(&process->grace, on_grace_over, LAST_WORDS_MS, 0);
}

void process_explain_loss(const struct process *process, const struct stream *stream, struct error *ret)
{
    bool guilty = stream && stream == process->culprit;
    error_set(ret, guilty ? STATUS_LAUNCH_FAILED : STATUS_EXECUTOR_RESET, "the device is lost to the executor: %s",
              process->loss.text);
}

/* ---- spinning ---- */

static void on_spin(uv_idle_t *idle)
{
    struct process *process = idle->data;
    if (uv_hrtime() >= process->spin_until_ns)
        uv_idle_stop(idle);
}

void process_expect_more(struct process *process)
{
    if (process->spin_ns == 0 || process->state != PROCESS_RUNNING)
        return;
    process->spin_until_ns = uv_hrtime() + process->spin_ns;
    if (!uv_is_active((uv_handle_t *)&process->spin))
        uv_idle_start(&process->spin, on_spin);
}

/* ---- life ---- */

static const struct front_events front_events = {on_attach, on_front_end};

int process_init(struct process *process, uv_loop_t *loop, struct backend *backend,
                 const struct process_options *options, struct error *error)
{
    *process = (struct process){.loop = loop, .backend = backend, .spin_ns = options->spin_us * 1000};
    list_init(&process->sessions);
    msgpack_sbuffer_init(&process->scratch);
    if (!msgpack_zone_init(&process->request, 16384))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to start");
    backend->owner = process;
    backend->on_lost = on_lost;
    uv_idle_init(loop, &process->spin);
    uv_timer_init(loop, &process->grace);
    process->spin.data = process->grace.data = process;
    if (front_start(&process->front, loop, options->fd, &front_events, process, error) < 0)
        return -1;
    modules_init(&process->modules, backend, &process->front);
    send_ready(process, options->sandbox);
    return 0;
}

int process_run(struct process *process)
{
    uv_run(process->loop, UV_RUN_DEFAULT);
    return process->exit_code;
}
