#include "daemon/compile/pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/require.h"
#include "daemon/compile/worker.h"
#include "daemon/compile/zygotes.h"
#include "daemon/compiler/worker.h"

/* A worker without a job for this long is let go; the next one costs a fraction of a second. */
#define IDLE_MS 60000
/* A worker is replaced after this many jobs, since a C++ front end that never exits only grows. */
#define JOBS_PER_WORKER 500
/* A job is tried again once after its worker died without a reason that a second try would meet again. */
#define MAX_ATTEMPTS 2
/* Workers that die before they are ready are started again ever more slowly, and after this many times in a row the
 * queued jobs are told. */
#define MAX_FAILED_STARTS 3
#define BACKOFF_MS 50
#define MAX_BACKOFF_MS 5000
/* A compiler that is not there may be installed while the daemon runs. */
#define PROBE_BACKOFF_MS 1000ull
#define MAX_PROBE_BACKOFF_MS 60000
#define MAX_ARGS 40
/* Who is told BUSY comes back when that many jobs have left the queue, within reason. */
#define RETRY_JOBS 10
#define MIN_RETRY_MS 100
#define MAX_RETRY_MS 30000

#define REPLACED "the compiler library was replaced; try again"

struct pool {
    uv_loop_t *loop;
    struct pool_options options;
    struct list workers;
    struct queue queue;
    size_t n_workers;
    size_t n_starting;
    struct budget_member share;                  /* a place for each worker */
    size_t told_workers, told_busy, told_queued; /* its part of the gauges */
    struct worker *probe;                        /* not one of the workers */
    struct zygotes *zygotes;                     /* NULL: none of this compiler, or closed */

    bool has_facts;
    struct compiler_facts facts;
    int64_t archs[256];
    char identity[1025];
    char problem[ERROR_TEXT];
    char probe_said[ERROR_TEXT]; /* why this probe is no good */
    enum sandbox sandbox;

    unsigned failed_starts;
    unsigned failed_probes;
    uv_timer_t backoff; /* until workers, or the probe, are started again */
    bool backing_off;

    bool dormant; /* nobody has wanted it yet */
    bool closing;
    void (*on_facts)(void *owner);
    void (*on_closed)(void *owner);
    void *owner;
};

static void advance(struct pool *pool);

/* ---- starting processes ---- */

static size_t add_nvrtc(const struct pool *pool, size_t n, char **ret)
{
    if (pool->options.nvrtc) {
        ret[n++] = (char *)"--nvrtc";
        ret[n++] = (char *)pool->options.nvrtc;
    }
    for (const char *const *dir = pool->options.nvrtc_dirs; dir && *dir && n + 6 < MAX_ARGS; dir++) {
        ret[n++] = (char *)"--nvrtc-dir";
        ret[n++] = (char *)*dir;
    }
    if (pool->options.kind == COMPILER_TOOLKIT)
        ret[n++] = (char *)"--toolkit-headers";
    if (pool->options.kind == COMPILER_TOOLKIT && pool->options.toolkit_include) {
        ret[n++] = (char *)"--toolkit-include";
        ret[n++] = (char *)pool->options.toolkit_include;
    }
    return n;
}

static size_t add_host_cc(const struct pool *pool, size_t n, char **ret)
{
    ret[n++] = (char *)"--host-cc";
    ret[n++] = (char *)pool->options.host_cc;
    ret[n++] = (char *)"--work-dir";
    ret[n++] = (char *)pool->options.work_dir;
    return n;
}

static size_t make_argv(const struct pool *pool, bool probe, char **ret)
{
    size_t n = 0;
    ret[n++] = (char *)pool->options.compiler;
    ret[n++] = (char *)"--fd";
    ret[n++] = (char *)"3";
    if (probe)
        ret[n++] = (char *)"--probe";
    n = pool->options.kind == COMPILER_HOST ? add_host_cc(pool, n, ret) : add_nvrtc(pool, n, ret);
    ret[n] = NULL;
    return n;
}

static size_t count_busy(const struct pool *pool)
{
    size_t busy = 0;
    for (const struct list *link = pool->workers.next; link != &pool->workers; link = link->next)
        busy += container_of(link, struct worker, link)->state == WORKER_BUSY;
    return busy;
}

/* The gauges are the sums over all pools. */
static void update_gauges(struct pool *pool)
{
    struct stats_reply *stats = pool->options.stats;
    size_t busy = count_busy(pool);
    stats->workers += pool->n_workers - pool->told_workers;
    stats->workers_busy += busy - pool->told_busy;
    stats->queue_depth += pool->queue.n - pool->told_queued;
    pool->told_workers = pool->n_workers;
    pool->told_busy = busy;
    pool->told_queued = pool->queue.n;
}

/* ---- jobs ---- */

/* Tell a job's owner what became of it. The owner may free the job. */
static void finish_job(struct pool_job *job, struct pool_outcome *outcome)
{
    outcome->queue_ns = job->queue_ns;
    job->done(job, outcome);
}

static void fail_queue(struct pool *pool, enum status code, const char *text)
{
    struct list failed;
    struct list *link;
    struct queue_place *place;
    list_init(&failed);
    while ((place = queue_pop(&pool->queue)))
        list_push(&failed, &place->link);
    update_gauges(pool);
    while ((link = list_pop(&failed))) {
        struct pool_outcome outcome = {0};
        error_set(&outcome.error, code, "%s", text);
        finish_job(container_of(link, struct pool_job, place.link), &outcome);
    }
}

static int enqueue(struct pool *pool, struct pool_job *job, struct error *error)
{
    job->queued_ns = uv_hrtime();
    job->place.bytes = job->frame.size;
    if (queue_push(&pool->queue, &job->place, &job->owner) < 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to queue a compile");
    return 0;
}

static uint64_t deadline_of(const struct pool *pool, const struct pool_job *job)
{
    return job->deadline_ms ? job->deadline_ms : pool->options.deadline_ms;
}

static void give_job(struct pool *pool, struct worker *worker)
{
    struct pool_job *job = container_of(queue_pop(&pool->queue), struct pool_job, place);
    job->queue_ns += uv_hrtime() - job->queued_ns;
    job->attempts++;
    job->forked |= worker->forked;
    worker_give(worker, job->frame.data, job->frame.size, deadline_of(pool, job), job);
    if (job->started)
        job->started(job);
}

/* A result of another compiler than the job was keyed for would be stored under the wrong key. */
static bool is_current(const struct pool *pool, const struct pool_job *job)
{
    return pool->has_facts && memcmp(job->build, pool->facts.build, DIGEST_SIZE) == 0;
}

static bool may_retry(const struct pool *pool, const struct pool_job *job, enum cause cause)
{
    return verdict_allows_retry(cause) && job->attempts < MAX_ATTEMPTS && is_current(pool, job);
}

/* A zygote's child whose compiler did not use the header. */
static bool is_refusal(const struct worker *worker, const struct worker_end *end)
{
    return worker->forked && !end->timed_out && !end->exit->signal && end->exit->status == WORKER_EXIT_NO_PCH;
}

/* That is nobody's fault: an ordinary worker compiles the job. */
static bool compile_without(struct pool *pool, struct pool_job *job)
{
    struct error error;
    if (pool->closing || !is_current(pool, job))
        return false;
    pool->options.stats->pch_refused_total++;
    zygotes_refused(pool->zygotes, job->prefix);
    job->attempts--;
    return enqueue(pool, job, &error) == 0;
}

/* The worker is gone with a job in its hands. */
static void settle_job(struct pool *pool, struct pool_job *job, const struct worker_end *end, uint64_t compile_ns)
{
    struct pool_outcome outcome = {.compile_ns = compile_ns, .attempts = job->attempts};
    if (pool->closing) {
        error_set(&outcome.error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    } else {
        outcome.cause = verdict_of(end, deadline_of(pool, job), job->attempts, &outcome.error);
        pool->options.stats->worker_limits_total += outcome.error.code == STATUS_RESOURCE_LIMIT;
        if (may_retry(pool, job, outcome.cause)) {
            pool->options.stats->worker_retries_total++;
            if (enqueue(pool, job, &outcome.error) == 0)
                return;
        }
    }
    finish_job(job, &outcome);
}

/* ---- the probe ---- */

/* A probe is shut in as its workers will be. */
static void note_sandbox(struct pool *pool, enum sandbox grade)
{
    if (!grade || grade == pool->sandbox)
        return;
    pool->sandbox = grade;
    log_event(grade == SANDBOX_FULL ? LOG_INFO : LOG_WARNING, "compiler.sandbox", "name=%s grade=%s",
              compiler_name(pool->options.kind), sandbox_word((int)grade));
}

static int take_facts(struct pool *pool, const struct worker_ready *ready)
{
    bool told_archs = ready->n_archs > 0 || pool->options.kind == COMPILER_HOST;
    if (ready->error.at || !ready->has_build || !ready->identity.at || !told_archs) {
        snprintf(pool->probe_said, sizeof pool->probe_said, "%s",
                 ready->error.at ? ready->error.at : "the compiler's probe told too little");
        return -1;
    }
    pool->facts = (struct compiler_facts){.kind = pool->options.kind,
                                          .major = (unsigned)ready->major,
                                          .minor = (unsigned)ready->minor,
                                          .archs = pool->archs,
                                          .transforms = pool->options.transforms,
                                          .n_transforms = pool->options.n_transforms,
                                          .n_archs = ready->n_archs};
    for (size_t i = 0; i < ready->n_archs; i++)
        pool->archs[i] = ready->archs[i];
    memcpy(pool->facts.build, ready->build, sizeof pool->facts.build);
    snprintf(pool->identity, sizeof pool->identity, "%s", ready->identity.at);
    pool->problem[0] = '\0';
    note_sandbox(pool, ready->sandbox);
    pool->has_facts = true;
    pool->failed_probes = 0;
    log_event(LOG_INFO, "compiler", "name=%s version=%u.%u library=%s targets=%zu", compiler_name(pool->options.kind),
              pool->facts.major, pool->facts.minor, ready->library.at ? ready->library.at : "?", pool->facts.n_archs);
    return 0;
}

static int on_probe_ready(struct worker *worker, const struct worker_ready *ready)
{
    return take_facts(worker->pool, ready);
}

static void on_probe_result(struct worker *worker, const struct worker_result *result, uint64_t compile_ns)
{
    (void)worker, (void)result, (void)compile_ns;
}

static void finish_if_closed(struct pool *pool);

static void on_backoff(uv_timer_t *timer);

/* There is no compiler, for now. Whether that, or why, is news. */
static bool lack_compiler(struct pool *pool, const char *why)
{
    unsigned shift = pool->failed_probes < 8 ? pool->failed_probes : 8;
    uint64_t ms = PROBE_BACKOFF_MS << shift;
    pool->failed_probes++;
    uv_timer_start(&pool->backoff, on_backoff, ms < MAX_PROBE_BACKOFF_MS ? ms : MAX_PROBE_BACKOFF_MS, 0);
    if (strcmp(pool->problem, why) == 0)
        return false;
    snprintf(pool->problem, sizeof pool->problem, "%s", why);
    log_event(LOG_ERROR, "compiler.unavailable", "reason=\"%s\"", pool->problem);
    return true;
}

static void start_probe(struct pool *pool);

static void on_probe_gone(struct worker *worker, const struct worker_end *end)
{
    struct pool *pool = worker->pool;
    bool outdated = worker->outdated;
    char why[ERROR_TEXT];
    pool->probe = NULL;
    free(worker);
    if (pool->closing) {
        finish_if_closed(pool);
    } else if (outdated) {
        start_probe(pool);
    } else if (pool->has_facts) {
        pool->on_facts(pool->owner);
    } else {
        snprintf(why, sizeof why, "%s%.400s", pool->probe_said[0] ? "" : "the compiler's probe failed: ",
                 pool->probe_said[0] ? pool->probe_said : end->text);
        if (lack_compiler(pool, why))
            pool->on_facts(pool->owner);
    }
}

static const struct worker_events probe_events = {on_probe_ready, on_probe_result, on_probe_gone};

static void start_probe(struct pool *pool)
{
    char *argv[MAX_ARGS];
    struct error error;
    make_argv(pool, true, argv);
    pool->has_facts = false;
    pool->probe_said[0] = '\0';
    pool->probe = malloc(sizeof *pool->probe);
    if (!pool->probe) {
        lack_compiler(pool, "no memory for the compiler's probe");
    } else if (worker_start(pool->probe, pool->loop, argv, &probe_events, pool, &error) < 0) {
        free(pool->probe);
        pool->probe = NULL;
        lack_compiler(pool, error.text);
    }
}

/* ---- the workers ---- */

/* The library was replaced under the daemon. What is queued was keyed for the old one, and who has loaded the old one
 * may finish its job, but must not get another. */
static void compiler_changed(struct pool *pool)
{
    if (!pool->has_facts)
        return; /* it is known already */
    log_event(LOG_WARNING, "compiler.changed", "was=\"%s\"", pool->identity);
    for (struct list *link = pool->workers.next; link != &pool->workers; link = link->next) {
        struct worker *worker = container_of(link, struct worker, link);
        worker->outdated = true;
        if (worker->state != WORKER_BUSY)
            worker_stop(worker);
    }
    pool->has_facts = false;
    if (pool->zygotes)
        zygotes_drop(pool->zygotes);
    fail_queue(pool, STATUS_COMPILER_UNAVAILABLE, REPLACED);
    /* A probe that has told and not ended yet told of the old one. */
    if (pool->probe)
        pool->probe->outdated = true;
    else
        start_probe(pool);
    pool->on_facts(pool->owner);
}

static int on_worker_ready(struct worker *worker, const struct worker_ready *ready)
{
    struct pool *pool = worker->pool;
    if (ready->error.at)
        return -1;
    if (!ready->identity.at || strcmp(ready->identity.at, pool->identity) != 0) {
        compiler_changed(pool);
        return -1;
    }
    pool->n_starting--;
    pool->failed_starts = 0;
    note_sandbox(pool, ready->sandbox);
    worker_retire_after(worker, IDLE_MS);
    advance(pool);
    return 0;
}

/* Others like it may come: they may be compiled from a precompiled header. */
static void offer_zygote(struct pool *pool, const struct pool_job *job)
{
    char *argv[MAX_ARGS];
    if (!pool->zygotes || !job->prefix || !is_current(pool, job) || !zygotes_trust(&pool->facts))
        return;
    make_argv(pool, false, argv);
    zygotes_compiled(pool->zygotes, job->prefix, &job->frame, argv, pool->identity);
}

static void on_worker_result(struct worker *worker, const struct worker_result *result, uint64_t compile_ns)
{
    struct pool *pool = worker->pool;
    struct pool_outcome outcome = {.result = result, .compile_ns = compile_ns};
    struct pool_job *job = worker->job;
    worker->job = NULL;
    /* First, because the job's owner may submit the next one, which this worker may get. */
    if (worker->forked)
        pool->options.stats->pch_hits_total++;
    else if (worker->outdated || worker->jobs_done >= JOBS_PER_WORKER || budget_is_needed(&pool->share))
        worker_stop(worker);
    else
        worker_retire_after(worker, IDLE_MS);
    if (!worker->forked && result->result == 0)
        offer_zygote(pool, job);
    finish_job(job, &outcome);
    advance(pool);
}

static void on_backoff(uv_timer_t *timer)
{
    struct pool *pool = timer->data;
    pool->backing_off = false;
    if (!pool->has_facts && !pool->probe)
        start_probe(pool);
    advance(pool);
}

static void back_off(struct pool *pool, const char *why)
{
    unsigned shift = pool->failed_starts < 8 ? pool->failed_starts : 8;
    uint64_t ms = (uint64_t)BACKOFF_MS << shift;
    pool->failed_starts++;
    pool->backing_off = true;
    uv_timer_start(&pool->backoff, on_backoff, ms < MAX_BACKOFF_MS ? ms : MAX_BACKOFF_MS, 0);
    if (pool->failed_starts >= MAX_FAILED_STARTS) {
        char text[ERROR_TEXT];
        snprintf(text, sizeof text, "compiler workers cannot be started: %.400s", why);
        fail_queue(pool, STATUS_COMPILER_UNAVAILABLE, text);
    }
}

static void on_worker_gone(struct worker *worker, const struct worker_end *end)
{
    struct pool *pool = worker->pool;
    struct pool_job *job = worker->job;
    uint64_t compile_ns = job ? uv_hrtime() - worker->started_ns : 0;
    bool no_pch = is_refusal(worker, end);

    list_remove(&worker->link);
    pool->n_workers--;
    if (!end->on_purpose && !pool->closing && !no_pch) {
        if (end->timed_out)
            pool->options.stats->worker_timeouts_total++;
        else
            pool->options.stats->worker_crashes_total++;
        log_event(LOG_WARNING, end->timed_out ? "worker.timeout" : "worker.died", "pid=%d reason=\"%s\"",
                  worker->child.process.pid, end->text);
    }
    if (end->was_starting) {
        pool->n_starting--;
        if (!pool->closing && !end->on_purpose)
            back_off(pool, end->text);
    }
    if (job && !(no_pch && compile_without(pool, job)))
        settle_job(pool, job, end, compile_ns);
    bool lent = worker->lent;
    free(worker);
    if (!lent)
        budget_give(&pool->share);
    advance(pool);
    finish_if_closed(pool);
}

static const struct worker_events worker_events = {on_worker_ready, on_worker_result, on_worker_gone};

static int start_worker(struct pool *pool)
{
    char *argv[MAX_ARGS];
    struct error error;
    make_argv(pool, false, argv);
    struct worker *worker = malloc(sizeof *worker);
    if (!worker)
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a worker");
    if (!worker || worker_start(worker, pool->loop, argv, &worker_events, pool, &error) < 0) {
        log_event(LOG_ERROR, "worker.start_failed", "reason=\"%s\"", error.text);
        free(worker);
        back_off(pool, error.text);
        return -1;
    }
    list_push(&pool->workers, &worker->link);
    pool->n_workers++;
    pool->n_starting++;
    pool->options.stats->worker_starts_total++;
    return 0;
}

/* As many programs are compiled at a time as the pool has places. A forked worker takes the place of one that is idle,
 * which then has to wait. */
static bool has_place(const struct pool *pool)
{
    return count_busy(pool) + pool->n_starting < pool->share.held;
}

static struct worker *idle_worker(const struct pool *pool)
{
    if (!has_place(pool))
        return NULL;
    for (struct list *link = pool->workers.next; link != &pool->workers; link = link->next) {
        struct worker *worker = container_of(link, struct worker, link);
        if (worker->state == WORKER_IDLE && !worker->child.killed)
            return worker;
    }
    return NULL;
}

/* A worker that begins from a precompiled header, for the job whose turn it is; NULL: it gets an ordinary one. A job is
 * tried that way once. */
static struct worker *fork_worker(struct pool *pool)
{
    const struct queue_place *place = queue_next(&pool->queue);
    const struct pool_job *job = container_of(place, const struct pool_job, place);
    struct error error;
    int remote[2];
    if (!pool->zygotes || !job->prefix || job->forked || !zygotes_have(pool->zygotes, job->prefix))
        return NULL;
    bool lent = has_place(pool);
    if (!lent && !budget_take(&pool->share))
        return NULL;
    struct worker *worker = malloc(sizeof *worker);
    if (!worker || worker_expect(worker, pool->loop, &worker_events, pool, remote, &error) < 0) {
        free(worker);
        if (!lent)
            budget_give(&pool->share);
        return NULL;
    }
    worker->lent = lent;
    zygotes_fork(pool->zygotes, job->prefix, &worker->child, remote);
    list_push(&pool->workers, &worker->link);
    pool->n_workers++;
    return worker;
}

/* Bring jobs and workers together: the one place that decides. */
static void advance(struct pool *pool)
{
    if (!pool->closing && pool->has_facts) {
        struct worker *worker;
        while (pool->queue.n && ((worker = fork_worker(pool)) || (worker = idle_worker(pool))))
            give_job(pool, worker);
        while (pool->queue.n > pool->n_starting && !pool->backing_off && budget_take(&pool->share)) {
            if (start_worker(pool) < 0) {
                budget_give(&pool->share);
                break;
            }
        }
    }
    if (pool->queue.n == 0 || pool->backing_off || pool->closing || !pool->has_facts)
        budget_forget(&pool->share);
    update_gauges(pool);
}

/* ---- the machine is shared ---- */

static void on_room(struct budget_member *share)
{
    advance(container_of(share, struct pool, share));
}

static bool let_go(struct budget_member *share)
{
    struct pool *pool = container_of(share, struct pool, share);
    for (struct list *link = pool->workers.next; link != &pool->workers && pool->queue.n == 0; link = link->next) {
        struct worker *worker = container_of(link, struct worker, link);
        if (worker->child.killed && !worker->lent)
            return true; /* one is on its way out already */
        if (worker->state == WORKER_IDLE && !worker->child.killed && has_place(pool)) {
            worker_stop(worker);
            return true;
        }
    }
    return false;
}

/* ---- life ---- */

int pool_create(uv_loop_t *loop, const struct pool_options *options, void (*on_facts)(void *owner), void *owner,
                struct pool **ret, struct error *error)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the compiler pool");
    pool->loop = loop;
    pool->options = *options;
    pool->on_facts = on_facts;
    pool->owner = owner;
    pool->share = (struct budget_member){.on_room = on_room, .let_go = let_go};
    budget_join(options->budget, &pool->share);
    list_init(&pool->workers);
    queue_init(&pool->queue);
    struct zygotes_options zygotes = {options->work_dir, options->max_zygotes, options->pch_bytes,
                                      options->zygote_idle_ms, options->stats};
    if (options->kind != COMPILER_HOST && options->work_dir &&
        zygotes_create(loop, &zygotes, &pool->zygotes, error) < 0) {
        free(pool);
        return -1;
    }
    uv_timer_init(loop, &pool->backoff);
    pool->backoff.data = pool;
    pool->dormant = options->on_demand;
    if (!pool->dormant)
        start_probe(pool);
    *ret = pool;
    return 0;
}

void pool_want(struct pool *pool)
{
    if (!pool || !pool->dormant || pool->closing)
        return;
    pool->dormant = false;
    start_probe(pool);
}

const struct compiler_facts *pool_facts(const struct pool *pool)
{
    return pool && pool->has_facts ? &pool->facts : NULL;
}

const char *pool_problem(const struct pool *pool)
{
    return pool && pool->problem[0] ? pool->problem : NULL;
}

enum sandbox pool_sandbox(const struct pool *pool)
{
    return pool ? pool->sandbox : sandbox_absent;
}

uint64_t pool_retry_ms(const struct pool *pool)
{
    const struct stats_reply *stats = pool->options.stats;
    uint64_t n = stats->compiles_total + stats->compiles_failed_total;
    uint64_t each_ms = n ? stats->compile_ns_total / n / 1000000 : 0;
    uint64_t ms = each_ms * RETRY_JOBS / pool->options.budget->limit;
    return ms < MIN_RETRY_MS ? MIN_RETRY_MS : ms < MAX_RETRY_MS ? ms : MAX_RETRY_MS;
}

uint64_t pool_deadline_ms(const struct pool *pool)
{
    return pool ? pool->options.deadline_ms : 0;
}

int pool_submit(struct pool *pool, struct pool_job *job, struct error *error)
{
    if (pool->closing)
        return error_set(error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    if (pool->problem[0])
        return error_set(error, STATUS_COMPILER_UNAVAILABLE, "%s", pool->problem);
    if (!is_current(pool, job))
        return error_set(error, STATUS_COMPILER_UNAVAILABLE, "%s", REPLACED);
    if (queue_admit(&pool->queue, &pool->options.queue, job->owner.uid, job->frame.size, error) < 0) {
        size_t used = strlen(error->text);
        snprintf(error->text + used, sizeof error->text - used, "; try again in %llu ms",
                 (unsigned long long)pool_retry_ms(pool));
        return -1;
    }
    job->queue_ns = 0;
    job->attempts = 0;
    job->forked = false;
    if (enqueue(pool, job, error) < 0)
        return -1;
    advance(pool);
    return 0;
}

void pool_join(struct pool *pool, struct pool_job *job, const struct queue_owner *owner)
{
    if (queue_waits(&job->place))
        queue_join(&pool->queue, &job->place, owner);
}

size_t pool_ahead(const struct pool *pool, const struct pool_job *job)
{
    return queue_waits(&job->place) ? queue_ahead(&pool->queue, &job->place) : 0;
}

bool pool_withdraw(struct pool *pool, struct pool_job *job)
{
    if (!queue_waits(&job->place))
        return false;
    queue_remove(&pool->queue, &job->place);
    update_gauges(pool);
    return true;
}

static void on_backoff_closed(uv_handle_t *handle)
{
    struct pool *pool = handle->data;
    void (*on_closed)(void *) = pool->on_closed;
    void *owner = pool->owner;
    budget_leave(&pool->share);
    free(pool);
    on_closed(owner);
}

static void finish_if_closed(struct pool *pool)
{
    if (pool->closing && pool->n_workers == 0 && !pool->probe && !pool->zygotes &&
        !uv_is_closing((uv_handle_t *)&pool->backoff))
        uv_close((uv_handle_t *)&pool->backoff, on_backoff_closed);
}

static void on_zygotes_closed(void *owner)
{
    struct pool *pool = owner;
    pool->zygotes = NULL;
    finish_if_closed(pool);
}

void pool_close(struct pool *pool, void (*on_closed)(void *owner))
{
    pool->closing = true;
    pool->on_closed = on_closed;
    uv_timer_stop(&pool->backoff);
    fail_queue(pool, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    for (struct list *link = pool->workers.next; link != &pool->workers; link = link->next)
        worker_stop(container_of(link, struct worker, link));
    if (pool->probe)
        worker_stop(pool->probe);
    if (pool->zygotes)
        zygotes_close(pool->zygotes, on_zygotes_closed, pool);
    finish_if_closed(pool);
}
