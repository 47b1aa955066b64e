#include "daemon/compile/transforms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/child.h"
#include "daemon/base/log.h"
#include "daemon/base/require.h"
#include "proto/envelope.h"

/* The process that runs a program has this much longer than the program. */
#define GRACE_MS 5000

struct transform {
    const struct transform_spec *spec;
    struct filter_files files;
    char problem[ERROR_TEXT]; /* why it cannot be run; "": it can */
    char part_name[TRANSFORM_NAME + 32];
};

/* One text and one program. Owner: itself; freed when its process is reaped. */
struct transform_process {
    struct child child;
    struct transforms *transforms;
    struct transform_run *run;
    bool answered; /* by a transform_result */
    char *text;    /* of the result */
    size_t size;
    struct error error;
    char said[4097];
};

struct transforms {
    uv_loop_t *loop;
    struct transforms_options options;
    struct transform all[TRANSFORMS_MAX];
    struct key_part parts[TRANSFORMS_MAX];
    size_t n;
    struct list waiting, running;
    size_t n_running;
    bool stopping;
    enum sandbox sandbox;
};

static void advance(struct transforms *transforms);

/* ---- what they are made of ---- */

/* Find the program's files and digest them. A key with a program that cannot be run leads nowhere, but to the error. */
static void look_at(struct transforms *transforms, size_t i)
{
    struct transform *transform = &transforms->all[i];
    const char *const *argv = transform->spec->argv;
    struct key_part *part = &transforms->parts[i];
    struct error error;
    filter_files_finish(&transform->files);
    memset(part->digest, 0, sizeof part->digest);
    transform->problem[0] = '\0';
    if (filter_files_find(argv, &transform->files, &error) == 0 &&
        filter_files_digest(argv, &transform->files, part->digest, &error) == 0)
        return;
    snprintf(transform->problem, sizeof transform->problem, "%s", error.text);
    log_event(LOG_WARNING, "transform.unusable", "name=%s reason=\"%s\"", transform->spec->name, error.text);
}

struct transforms *transforms_create(uv_loop_t *loop, const struct transforms_options *options)
{
    struct transforms *transforms = calloc(1, sizeof *transforms);
    if (!transforms)
        return NULL;
    transforms->loop = loop;
    transforms->options = *options;
    transforms->n = options->n_specs;
    list_init(&transforms->waiting);
    list_init(&transforms->running);
    for (size_t i = 0; i < transforms->n; i++) {
        struct transform *transform = &transforms->all[i];
        transform->spec = &options->specs[i];
        snprintf(transform->part_name, sizeof transform->part_name, "transform %s:%s", transform->spec->name,
                 transform_point_word(transform->spec->point));
        transforms->parts[i].name = text_of(transform->part_name);
        look_at(transforms, i);
    }
    return transforms;
}

void transforms_destroy(struct transforms *transforms)
{
    if (!transforms)
        return;
    require(list_empty(&transforms->waiting) && transforms->n_running == 0);
    for (size_t i = 0; i < transforms->n; i++)
        filter_files_finish(&transforms->all[i].files);
    free(transforms);
}

bool transforms_refresh(struct transforms *transforms)
{
    bool changed = false;
    for (size_t i = 0; transforms && i < transforms->n; i++) {
        struct transform *transform = &transforms->all[i];
        /* What cannot be run may be mended by any change of any file. */
        if (!transform->problem[0] && !filter_files_changed(&transform->files))
            continue;
        uint8_t before[DIGEST_SIZE];
        char problem[ERROR_TEXT];
        memcpy(before, transforms->parts[i].digest, sizeof before);
        memcpy(problem, transform->problem, sizeof problem);
        struct error error;
        if (problem[0] && filter_files_find(transform->spec->argv, &transform->files, &error) < 0 &&
            strcmp(error.text, problem) == 0)
            continue;
        look_at(transforms, i);
        changed |= memcmp(before, transforms->parts[i].digest, sizeof before) != 0;
    }
    return changed;
}

const struct key_part *transforms_parts(const struct transforms *transforms, size_t *ret_n)
{
    *ret_n = transforms ? transforms->n : 0;
    return transforms ? transforms->parts : NULL;
}

bool transforms_any(const struct transforms *transforms, enum transform_point point)
{
    for (size_t i = 0; transforms && i < transforms->n; i++)
        if (transforms->all[i].spec->point == point)
            return true;
    return false;
}

/* ---- the end of a run ---- */

static void finish(struct transform_run *run, const struct error *error, struct text said)
{
    char *own = run->own;
    struct text text = run->text;
    if (error)
        text = (struct text){NULL, 0};
    run->own = NULL;
    run->done(run, text, error, said); /* may free the run */
    free(own);
}

/* The next transform of the point, from `from`. */
static size_t next_of(const struct transforms *transforms, enum transform_point point, size_t from)
{
    while (from < transforms->n && transforms->all[from].spec->point != point)
        from++;
    return from;
}

/* The program is gone. */
static void on_over(struct transform_process *process)
{
    struct transforms *transforms = process->transforms;
    struct transform_run *run = process->run;
    struct stats_reply *stats = transforms->options.stats;
    struct transform *transform = &transforms->all[run->next];
    struct error error = process->error;
    run->process = NULL;
    stats->transforms_total++;
    if (transforms->stopping)
        error_set(&error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    if (error.code != STATUS_OK) {
        stats->transforms_failed_total++;
        log_event(LOG_WARNING, "transform.failed", "name=%s reason=\"%s\"", transform->spec->name, error.text);
        finish(run, &error, text_of(process->said[0] ? process->said : NULL));
        return;
    }
    free(run->own);
    run->own = process->text;
    run->text = (struct text){process->text, process->size};
    process->text = NULL;
    run->next = next_of(transforms, run->point, run->next + 1);
    if (run->next < transforms->n)
        list_push(&transforms->waiting, &run->link);
    else
        finish(run, NULL, (struct text){NULL, 0});
}

/* ---- one process ---- */

static void note_sandbox(struct transforms *transforms, enum sandbox sandbox)
{
    if (!sandbox || sandbox == transforms->sandbox)
        return;
    transforms->sandbox = sandbox;
    log_event(sandbox == SANDBOX_FULL ? LOG_INFO : LOG_WARNING, "transform.sandbox", "grade=%s",
              sandbox_word((int)sandbox));
}

/* "the transform fix (code) failed: exit status 3: first line" */
static void explain(struct transform_process *process, const struct transform_result *result)
{
    const struct transform_spec *spec = process->transforms->all[process->run->next].spec;
    int line = result->said.at ? (int)strcspn(result->said.at, "\n") : 0;
    error_set(&process->error, result->replaced ? STATUS_COMPILER_UNAVAILABLE : STATUS_TRANSFORM_FAILED,
              "the transform %s (%s) failed: %.200s%s%.*s", spec->name, transform_point_word(spec->point),
              result->error.at ? result->error.at : "no text and no reason", line ? ": " : "", line < 200 ? line : 200,
              result->said.at ? result->said.at : "");
    snprintf(process->said, sizeof process->said, "%s", result->said.at ? result->said.at : "");
}

static void take_result(struct transform_process *process, const struct transform_result *result)
{
    process->answered = true;
    note_sandbox(process->transforms, result->sandbox);
    if (!result->text.at) {
        explain(process, result);
        return;
    }
    process->text = malloc(result->text.size + 1);
    if (!process->text) {
        error_set(&process->error, STATUS_OUT_OF_MEMORY, "no memory for a transformed text");
        return;
    }
    memcpy(process->text, result->text.at, result->text.size + 1);
    process->size = result->text.size;
}

static void on_frame(struct child *child, const uint8_t *frame, size_t size)
{
    struct transform_process *process = child->owner;
    struct transform_result result;
    struct error error;
    msgpack_zone zone;
    if (process->answered || !msgpack_zone_init(&zone, 65536))
        return;
    if (envelope_read_message(frame, size, &transform_result_type, &zone, &result, &error) == 0)
        take_result(process, &result);
    msgpack_zone_destroy(&zone);
    child_kill(child); /* it has nothing more to say */
}

static void on_exit_of(struct child *child, const struct child_exit *exit)
{
    struct transform_process *process = child->owner;
    struct transforms *transforms = process->transforms;
    if (!process->answered && process->error.code == STATUS_OK) {
        char how[ERROR_TEXT];
        child_describe_exit(exit, how, sizeof how);
        error_set(&process->error, STATUS_TRANSFORM_FAILED, "the transform %s could not be run: %.300s",
                  transforms->all[process->run->next].spec->name, how);
    }
    list_remove(&process->run->link);
    transforms->n_running--;
    on_over(process);
    free(process->text);
    free(process);
    advance(transforms);
}

static const struct child_events events = {on_frame, on_exit_of};

static void on_deadline(struct child *child)
{
    child_kill(child);
}

static int write_job(const struct transforms *transforms, const struct transform_run *run, msgpack_sbuffer *out)
{
    const struct transform_spec *spec = transforms->all[run->next].spec;
    struct text argv[FILTER_ARGS + 1];
    struct transform_job job = {
        .argv = argv,
        .has_digest = true,
        .timeout_ms = spec->timeout_ms,
        .has_timeout_ms = true,
        .limit = run->limit,
        .has_limit = true,
        .text = run->text,
    };
    while (spec->argv[job.n_argv]) {
        argv[job.n_argv] = text_of(spec->argv[job.n_argv]);
        job.n_argv++;
    }
    memcpy(job.digest, run->parts[run->next].digest, sizeof job.digest);
    return envelope_write_message(out, &transform_job_type, &job);
}

/* Start the run's next program. -1: it cannot be. */
static int start(struct transforms *transforms, struct transform_run *run, struct error *error)
{
    const struct transform *transform = &transforms->all[run->next];
    char *argv[] = {(char *)(uintptr_t)transforms->options.program, NULL};
    if (transforms->stopping)
        return error_set(error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    if (transform->problem[0])
        return error_set(error, STATUS_TRANSFORM_FAILED, "the transform %s (%s) cannot be run: %.300s",
                         transform->spec->name, transform_point_word(transform->spec->point), transform->problem);
    struct transform_process *process = calloc(1, sizeof *process);
    msgpack_sbuffer frame;
    msgpack_sbuffer_init(&frame);
    if (!process || write_job(transforms, run, &frame) < 0) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory to run a transform");
        goto fail;
    }
    process->transforms = transforms;
    process->run = run;
    if (child_start(&process->child, transforms->loop, argv[0], argv, LIMIT_FRAME_WORKER, &events, process, error) < 0)
        goto fail;
    run->process = process;
    child_arm(&process->child, transform->spec->timeout_ms + GRACE_MS, on_deadline);
    child_send(&process->child, frame.data, frame.size, NULL, 0);
    msgpack_sbuffer_destroy(&frame);
    return 0;
fail:
    msgpack_sbuffer_destroy(&frame);
    free(process);
    return -1;
}

/* ---- all of them ---- */

/* As many at a time as may be, in the order in which they came. */
static void advance(struct transforms *transforms)
{
    while (!list_empty(&transforms->waiting) && transforms->n_running < transforms->options.max_running) {
        struct transform_run *run = container_of(list_pop(&transforms->waiting), struct transform_run, link);
        struct error error;
        if (start(transforms, run, &error) < 0) {
            transforms->options.stats->transforms_failed_total++;
            finish(run, &error, (struct text){NULL, 0});
            continue;
        }
        transforms->n_running++;
        list_push(&transforms->running, &run->link);
    }
}

int transforms_start(struct transforms *transforms, enum transform_point point, struct text text,
                     const struct key_part *parts, struct transform_run *run, struct error *error)
{
    run->parts = parts;
    run->transforms = transforms;
    run->point = point;
    run->next = next_of(transforms, point, 0);
    run->text = text;
    run->own = NULL;
    run->process = NULL;
    run->limit = point == TRANSFORM_CODE ? LIMIT_INLINE : LIMIT_PROGRAM;
    require(run->next < transforms->n);
    if (!list_empty(&transforms->waiting) || transforms->n_running >= transforms->options.max_running) {
        list_push(&transforms->waiting, &run->link);
        return 0;
    }
    /* What fails at once is told by the result, not by a call back. */
    if (start(transforms, run, error) < 0) {
        transforms->options.stats->transforms_failed_total++;
        return -1;
    }
    transforms->n_running++;
    list_push(&transforms->running, &run->link);
    return 0;
}

void transforms_stop(struct transforms *transforms)
{
    if (!transforms)
        return;
    transforms->stopping = true;
    for (struct list *link = transforms->running.next; link != &transforms->running; link = link->next)
        child_kill(&container_of(link, struct transform_run, link)->process->child);
    struct list *link;
    while ((link = list_pop(&transforms->waiting))) {
        struct error error;
        error_set(&error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
        finish(container_of(link, struct transform_run, link), &error, (struct text){NULL, 0});
    }
}
