#include "daemon/compile/worker.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/require.h"
#include "daemon/compiler/worker.h"
#include "proto/envelope.h"

/* From the start to worker_ready: loading NVRTC, its first compile, on a machine whose every core compiles. */
#define START_DEADLINE_MS 60000
/* A forked worker has nothing to do after its result. */
#define END_MS 5000

/* Kill a worker that did what it must not. */
static void refuse(struct worker *worker, const char *why)
{
    snprintf(worker->reason, sizeof worker->reason, "%s", why);
    child_kill(&worker->child);
}

static void on_ready(struct worker *worker, const uint8_t *frame, size_t size)
{
    msgpack_zone zone;
    struct worker_ready ready;
    struct error error;
    msgpack_zone_init(&zone, 4096);
    if (envelope_read_message(frame, size, &worker_ready_type, &zone, &ready, &error) < 0) {
        refuse(worker, error.text);
    } else if (ready.protocol != WORKER_PROTOCOL) {
        refuse(worker, "its protocol version is not the daemon's: the two executables are of different builds");
    } else {
        worker->state = WORKER_IDLE;
        child_disarm(&worker->child);
        worker->never_ready = worker->events->on_ready(worker, &ready) < 0;
        if (worker->never_ready)
            refuse(worker, ready.error.at ? ready.error.at : "it loaded another compiler library than the probe");
    }
    msgpack_zone_destroy(&zone);
}

static void on_result(struct worker *worker, const uint8_t *frame, size_t size)
{
    msgpack_zone zone;
    struct worker_result result;
    struct error error;
    uint64_t compile_ns = uv_hrtime() - worker->started_ns;
    msgpack_zone_init(&zone, 16384);
    if (envelope_read_message(frame, size, &worker_result_type, &zone, &result, &error) < 0) {
        refuse(worker, error.text);
    } else {
        child_disarm(&worker->child);
        worker->state = worker->forked ? WORKER_ENDING : WORKER_IDLE;
        worker->jobs_done++;
        if (worker->forked) {
            worker->stopping = true;
            child_release(&worker->child, END_MS);
        }
        worker->events->on_result(worker, &result, compile_ns);
    }
    msgpack_zone_destroy(&zone);
}

static void on_frame(struct child *child, const uint8_t *frame, size_t size)
{
    struct worker *worker = child->owner;
    if (child->killed)
        return;
    if (worker->state == WORKER_STARTING)
        on_ready(worker, frame, size);
    else if (worker->state == WORKER_BUSY)
        on_result(worker, frame, size);
    else
        refuse(worker, "a message that nobody asked for");
}

static void on_child_exit(struct child *child, const struct child_exit *exit)
{
    struct worker *worker = child->owner;
    struct worker_end end = {.timed_out = worker->timed_out,
                             .on_purpose = worker->stopping,
                             .was_starting = worker->never_ready,
                             .exit = exit};
    if (worker->reason[0])
        snprintf(end.text, sizeof end.text, "%s", worker->reason);
    else
        child_describe_exit(exit, end.text, sizeof end.text);
    worker->state = WORKER_GONE;
    worker->events->on_gone(worker, &end);
}

static const struct child_events child_events = {on_frame, on_child_exit};

static void on_start_deadline(struct child *child)
{
    refuse(child->owner, "it was not ready within 60 s");
}

static void on_job_deadline(struct child *child)
{
    struct worker *worker = child->owner;
    worker->timed_out = true;
    refuse(worker, "its deadline passed");
}

static void on_idle_deadline(struct child *child)
{
    worker_stop(child->owner);
}

int worker_start(struct worker *worker, uv_loop_t *loop, char **argv, const struct worker_events *events, void *pool,
                 struct error *error)
{
    *worker = (struct worker){.state = WORKER_STARTING, .never_ready = true, .events = events, .pool = pool};
    list_init(&worker->link);
    if (child_start(&worker->child, loop, argv[0], argv, LIMIT_FRAME_WORKER, &child_events, worker, error) < 0)
        return -1;
    child_arm(&worker->child, START_DEADLINE_MS, on_start_deadline);
    return 0;
}

int worker_expect(struct worker *worker, uv_loop_t *loop, const struct worker_events *events, void *pool,
                  int ret_remote[2], struct error *error)
{
    *worker = (struct worker){.state = WORKER_IDLE, .forked = true, .events = events, .pool = pool};
    list_init(&worker->link);
    return child_expect(&worker->child, loop, LIMIT_FRAME_WORKER, &child_events, worker, ret_remote, error);
}

void worker_give(struct worker *worker, const char *frame, size_t size, uint64_t deadline_ms, void *job)
{
    require(worker->state == WORKER_IDLE);
    worker->state = WORKER_BUSY;
    worker->job = job;
    worker->started_ns = uv_hrtime();
    /* What it said during an earlier job must not explain the end of this one. */
    child_forget_complaint(&worker->child);
    child_arm(&worker->child, deadline_ms, on_job_deadline);
    child_send(&worker->child, frame, size, NULL, 0);
}

void worker_retire_after(struct worker *worker, uint64_t ms)
{
    require(worker->state == WORKER_IDLE);
    child_arm(&worker->child, ms, on_idle_deadline);
}

void worker_stop(struct worker *worker)
{
    worker->stopping = true;
    child_kill(&worker->child);
}
