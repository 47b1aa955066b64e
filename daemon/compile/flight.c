#include "daemon/compile/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/require.h"
#include "daemon/compile/product.h"
#include "daemon/compile/title.h"
#include "daemon/compiler/worker.h"
#include "proto/envelope.h"

/* Who waits is told of his turn at most this often. */
#define TELL_EVERY_NS 500000000u

enum flight_state {
    FLIGHT_LOOKING_UP,
    FLIGHT_TRANSFORMING,
    FLIGHT_COMPILING,
    FLIGHT_COMMITTING,
};

/* Of a flight: who boards with the same one shares it. Compared as bytes. */
struct flight_id {
    struct kernel_id kernel;
    uint64_t lane; /* the cache mode, or, of a bypass, a number that no other flight has */
};

#define LANE_BYPASS 16u

struct flight {
    UT_hash_handle hh;
    struct flight_id id;
    enum cache_mode mode;
    enum flight_state state;
    struct flights *flights;
    struct plan *plan;
    struct list passengers;
    struct bytes *header_texts;
    struct store_lookup lookup;
    struct transform_run transform;
    struct pool_job job;
    struct store_commit commit;
    bool brief; /* the second attempt of a compile that ran out of memory */
    uint64_t queue_ns;
    uint64_t compile_ns;
    bool has_begun; /* a worker had it */
    bool has_ended;
};

static struct pool *pool_of(const struct flight *flight)
{
    return flight->flights->pools[flight->plan->compiler_at];
}

/* ---- how far it is ---- */

static void tell(struct passenger *passenger)
{
    const struct flight *flight = passenger->flight;
    struct flight_progress progress = {.state = COMPILE_STATE_QUEUED};
    if (!passenger->on_progress || flight->state == FLIGHT_LOOKING_UP)
        return;
    if (flight->has_ended)
        progress.state = COMPILE_STATE_DONE;
    else if (flight->has_begun)
        progress.state = COMPILE_STATE_STARTED;
    else
        progress.ahead = pool_ahead(pool_of(flight), &flight->job);
    passenger->on_progress(passenger, &progress);
}

static void tell_all(struct flight *flight)
{
    for (struct list *link = flight->passengers.next; link != &flight->passengers; link = link->next)
        tell(container_of(link, struct passenger, link));
}

/* A turn was taken, so others have come nearer to theirs. */
static void tell_who_waits(struct flights *flights)
{
    uint64_t now = uv_hrtime();
    if (list_empty(&flights->watchers) || now - flights->told_ns < TELL_EVERY_NS)
        return;
    flights->told_ns = now;
    for (struct list *link = flights->watchers.next; link != &flights->watchers; link = link->next) {
        struct passenger *passenger = container_of(link, struct passenger, in_watchers);
        if (passenger->flight->state == FLIGHT_COMPILING && !passenger->flight->has_begun)
            tell(passenger);
    }
}

static void on_started(struct pool_job *job)
{
    struct flight *flight = container_of(job, struct flight, job);
    if (flight->has_begun)
        return; /* after a crash */
    flight->has_begun = true;
    tell_all(flight);
    tell_who_waits(flight->flights);
}

/* ---- landing ---- */

static size_t count_passengers(const struct flight *flight)
{
    size_t n = 0;
    for (const struct list *link = flight->passengers.next; link != &flight->passengers; link = link->next)
        n++;
    return n;
}

/* Answer everybody, and be gone. */
static void land(struct flight *flight, struct landing *landing)
{
    struct flights *flights = flight->flights;
    enum outcome outcome = landing->outcome;
    struct list *link;

    /* Out of the table first: who asks again from now on finds the kernel, or starts anew. */
    HASH_DEL(flights->by_id, flight);
    flights->stats->flights--;
    landing->queue_ns = flight->queue_ns;
    landing->compile_ns = flight->compile_ns;
    while ((link = list_pop(&flight->passengers))) {
        struct passenger *passenger = container_of(link, struct passenger, link);
        passenger->flight = NULL;
        list_remove(&passenger->in_watchers);
        if (!passenger->leads && outcome != OUTCOME_HIT_DATABASE)
            flights->stats->joined_total++;
        landing->outcome = passenger->leads || outcome != OUTCOME_COMPILED ? outcome : OUTCOME_JOINED;
        passenger->on_landing(passenger, landing);
    }
    msgpack_sbuffer_destroy(&flight->job.frame);
    plan_destroy(flight->plan);
    free(flight);
    flights->on_landed(flights->owner);
}

static void land_with_failure(struct flight *flight, const struct failure *failure)
{
    struct landing landing = {.failure = failure};
    land(flight, &landing);
}

static void land_with_error(struct flight *flight, const struct error *error)
{
    struct failure failure = failure_of(error);
    land_with_failure(flight, &failure);
}

/* ---- the log: one line per compile ---- */

static void log_compile(const struct flight *flight, const char *result)
{
    char hex[KEY_HEX], entry[64], label[64], title[TITLE_SIZE], shown[96];
    const struct fusion *fusion = flight->plan->request.fusion;
    key_to_hex(flight->id.kernel.key, hex);
    log_event(LOG_INFO, "compile",
              "result=%s key=%.16s id=\"%s\" entry=\"%s\" label=\"%s\" target=%s ms=%.1f queue_ms=%.1f waiters=%zu",
              result, hex, text_show(title_of(fusion, flight->id.kernel.key, title), shown, sizeof shown),
              text_show(fusion->entries[0], entry, sizeof entry), text_show(fusion->label, label, sizeof label),
              flight->plan->resolved.target.at, (double)flight->compile_ns / 1e6, (double)flight->queue_ns / 1e6,
              count_passengers(flight));
}

/* ---- the steps ---- */

static void on_committed(struct store_commit *commit, struct held_kernel *kernel, bool stored)
{
    struct flight *flight = container_of(commit, struct flight, commit);
    struct landing landing = {.kernel = kernel, .outcome = OUTCOME_COMPILED, .stored = stored};
    struct flights *flights = flight->flights;
    log_compile(flight, stored ? "ok" : "ok_not_stored");
    land(flight, &landing);
    /* Who asked has the answer by now. */
    observers_offer(flights->observers, &kernel->kernel);
}

/* Nobody else is to have it: it goes when its one passenger is answered. */
static void land_without_storing(struct flight *flight, struct held_kernel *kernel)
{
    struct memory_tier *memory = kernel_store_memory(flight->flights->store);
    struct landing landing = {.kernel = kernel, .outcome = OUTCOME_COMPILED};
    log_compile(flight, "bypass");
    land(flight, &landing);
    memory_tier_destroy_unheld(memory, kernel);
}

/* Whoever waits settles his plan anew: its key has the names then. */
static void land_with_names_shown(struct flight *flight)
{
    struct error error;
    error_set(&error, STATUS_INTERNAL, "the image shows the names of its kernels");
    struct failure failure = failure_of(&error);
    struct landing landing = {.failure = &failure, .names_show = true};
    shown_names_add(&flight->flights->shown, flight->id.kernel.key);
    log_compile(flight, "names_shown");
    land(flight, &landing);
}

static int submit(struct flight *flight, struct pool *pool, struct error *error);

/* ---- failures, for a while ---- */

/* The longest that a compile of this plan may take. */
static uint64_t deadline_of(const struct flights *flights, const struct plan *plan)
{
    return plan->request.deadline_ms ? plan->request.deadline_ms : pool_deadline_ms(flights->pools[plan->compiler_at]);
}

/* What would come out again: the compiler's own verdict on the code, and ends that the code brings about. A compiler
 * that ran out of memory, or broke its own rules, may do better next time. */
static bool would_come_again(const struct pool_outcome *outcome)
{
    if (outcome->result)
        return outcome->result->result != NVRTC_RESULT_OUT_OF_MEMORY &&
               outcome->result->result != NVRTC_RESULT_INTERNAL_ERROR;
    return outcome->cause != CAUSE_NONE && outcome->cause != CAUSE_UNKNOWN;
}

static void remember(struct flight *flight, const struct pool_outcome *outcome, const struct failure *failure)
{
    struct flights *flights = flight->flights;
    /* The stored kernel that a refresh or a bypass did not look for is still good. */
    if (flight->mode != CACHE_MODE_USE || !would_come_again(outcome))
        return;
    failures_add(&flights->failures, &flight->id.kernel, failure, outcome->cause, outcome->attempts,
                 deadline_of(flights, flight->plan), uv_hrtime());
    flights->stats->failures_remembered = flights->failures.n;
}

const struct failure *flights_remember(struct flights *flights, const struct kernel_id *id, const struct plan *plan)
{
    const struct failure *failure = failures_find(&flights->failures, id, deadline_of(flights, plan), uv_hrtime());
    flights->stats->failures_remembered = flights->failures.n;
    return failure;
}

const struct failure *flights_recall(struct flights *flights, const struct kernel_id *id, const struct plan *plan)
{
    const struct failure *failure = flights_remember(flights, id, plan);
    flights->stats->failures_answered_total += failure != NULL;
    return failure;
}

/* Complaints hold the line that they are about. Below this length there would have to be 100,000 of them to fill a
 * worker's memory. */
#define LONG_LINE (16u << 10)

static bool has_long_line(struct text program)
{
    for (const char *at = program.at; at;) {
        const char *end = strchr(at, '\n');
        if ((end ? (size_t)(end - at) : strlen(at)) >= LONG_LINE)
            return true;
        at = end ? end + 1 : NULL;
    }
    return false;
}

/* Memory may have run out while the compiler copied a long line into its complaints about it: once more, without. */
static bool try_briefly(struct flight *flight, const struct pool_outcome *outcome)
{
    struct pool *pool = pool_of(flight);
    struct error error;
    if (outcome->cause != CAUSE_MEMORY || flight->brief || flight->plan->compiler == COMPILER_HOST || !pool ||
        !has_long_line(flight->plan->resolved.program))
        return false;
    flight->brief = true;
    msgpack_sbuffer_clear(&flight->job.frame);
    if (plan_write_job(flight->plan, flight->header_texts, true, &flight->job.frame) < 0)
        return false;
    flight->flights->stats->worker_brief_retries_total++;
    return submit(flight, pool, &error) == 0;
}

/* ---- the compile ---- */

static void on_compiled(struct pool_job *job, const struct pool_outcome *outcome)
{
    struct flight *flight = container_of(job, struct flight, job);
    struct stats_reply *stats = flight->flights->stats;
    struct held_kernel *kernel = NULL;
    struct error error = outcome->error;

    if (try_briefly(flight, outcome))
        return;

    flight->queue_ns = outcome->queue_ns;
    flight->compile_ns = outcome->compile_ns;
    stats->queue_ns_total += outcome->queue_ns;
    stats->compile_ns_total += outcome->compile_ns;
    bool is_compiled = outcome->result && outcome->result->result == 0;
    if (is_compiled && !product_takes_names(flight->plan, outcome->result)) {
        land_with_names_shown(flight);
        return;
    }
    flight->has_ended = true;
    if (flight->has_begun)
        tell_all(flight);
    if (is_compiled)
        kernel = product_of(flight->plan, &flight->id.kernel, outcome, &error);
    if (kernel && flight->mode == CACHE_MODE_BYPASS) {
        stats->compiles_total++;
        land_without_storing(flight, kernel);
        return;
    }
    if (kernel) {
        stats->compiles_total++;
        failures_forget(&flight->flights->failures, &flight->id.kernel);
        flight->state = FLIGHT_COMMITTING;
        flight->commit = (struct store_commit){kernel, flight->header_texts, on_committed};
        kernel_store_commit(flight->flights->store, &flight->commit);
        return;
    }
    stats->compiles_failed_total++;
    if (error.code == STATUS_OK) {
        struct failure failure = product_failure(flight->plan, outcome->result, &error);
        log_compile(flight, "rejected");
        remember(flight, outcome, &failure);
        land_with_failure(flight, &failure);
    } else {
        struct failure failure = failure_of(&error);
        log_compile(flight, status_name(error.code));
        remember(flight, outcome, &failure);
        land_with_failure(flight, &failure);
    }
}

/* Nobody waits any more, and nothing has begun. */
static void give_up(struct flight *flight)
{
    struct landing landing = {0};
    flight->flights->stats->compiles_withdrawn_total++;
    land(flight, &landing);
}

/* Queue the job for its leader; who joined meanwhile may move it up. */
static int submit(struct flight *flight, struct pool *pool, struct error *error)
{
    struct list *first = flight->passengers.next;
    flight->job.build = flight->plan->build;
    plan_find_prefix(flight->plan);
    flight->job.prefix = flight->plan->prefix.lines.at && !flight->brief ? &flight->plan->prefix : NULL;
    flight->job.deadline_ms = flight->plan->request.deadline_ms;
    flight->job.started = on_started;
    flight->job.done = on_compiled;
    flight->job.owner = container_of(first, struct passenger, link)->owner;
    if (pool_submit(pool, &flight->job, error) < 0)
        return -1;
    for (struct list *link = first->next; link != &flight->passengers; link = link->next)
        pool_join(pool, &flight->job, &container_of(link, struct passenger, link)->owner);
    if (!flight->has_begun)
        tell_all(flight);
    return 0;
}

static void compile(struct flight *flight)
{
    struct flights *flights = flight->flights;
    struct header_digest *missing = NULL;
    size_t n_missing = 0;
    struct error error;
    struct pool *pool = pool_of(flight);

    if (!pool) {
        error_set(&error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
        land_with_error(flight, &error);
        return;
    }
    if (plan_collect_headers(flight->plan, flights->blobs, &flight->header_texts, &missing, &n_missing, &error) < 0) {
        struct failure failure = failure_of(&error);
        failure.missing = missing;
        failure.n_missing = n_missing;
        land_with_failure(flight, &failure);
        return;
    }
    if (plan_write_job(flight->plan, flight->header_texts, false, &flight->job.frame) < 0) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a compile job");
        land_with_error(flight, &error);
        return;
    }
    flight->state = FLIGHT_COMPILING;
    if (submit(flight, pool, &error) < 0) {
        struct failure failure = failure_of(&error);
        failure.has_retry_after_ms = error.code == STATUS_BUSY;
        failure.retry_after_ms = failure.has_retry_after_ms ? pool_retry_ms(pool) : 0;
        land_with_failure(flight, &failure);
    }
}

static void land_with_miss(struct flight *flight)
{
    const struct plan *plan = flight->plan;
    const struct fusion *fusion = plan->request.fusion;
    char hex[KEY_HEX], label[64], entry[64];
    struct error error;
    key_to_hex(plan->has_first_key ? plan->first_key : flight->id.kernel.key, hex);
    error_set(
        &error, STATUS_CACHE_MISS,
        "kernel %s (label \"%s\", entry %s) is not in the cache, and nothing may be compiled for this request; %s "
        "%u.%u would compile it for %s",
        hex, text_show(fusion->label, label, sizeof label), text_show(fusion->entries[0], entry, sizeof entry),
        compiler_name(plan->compiler), plan->compiler_major, plan->compiler_minor, plan->resolved.target.at);
    land_with_error(flight, &error);
}

/* ---- transforms: the code, then the program that is made of it ---- */

static void transform_source(struct flight *flight);

static void fail_transform(struct flight *flight, const struct error *error, struct text said)
{
    struct failure failure = failure_of(error);
    failure.log = said;
    flight->flights->stats->compiles_failed_total++;
    log_compile(flight, status_name(error->code));
    land_with_failure(flight, &failure);
}

static void transform(struct flight *flight, enum transform_point point, struct text text,
                      void (*done)(struct transform_run *run, struct text text, const struct error *error,
                                   struct text said))
{
    struct error error;
    flight->state = FLIGHT_TRANSFORMING;
    flight->transform.done = done;
    if (transforms_start(flight->flights->transforms, point, text, flight->plan->transforms, &flight->transform,
                         &error) < 0)
        fail_transform(flight, &error, (struct text){NULL, 0});
}

/* Compile, if somebody still waits. */
static void go_on(struct flight *flight)
{
    if (list_empty(&flight->passengers))
        give_up(flight);
    else
        compile(flight);
}

static void on_source(struct transform_run *run, struct text text, const struct error *error, struct text said)
{
    struct flight *flight = container_of(run, struct flight, transform);
    struct error failed;
    if (error)
        fail_transform(flight, error, said);
    else if (plan_transform_source(flight->plan, text, &failed) < 0)
        land_with_error(flight, &failed);
    else
        go_on(flight);
}

static void on_code(struct transform_run *run, struct text text, const struct error *error, struct text said)
{
    struct flight *flight = container_of(run, struct flight, transform);
    const struct compiler_facts *facts = pool_facts(pool_of(flight));
    struct error failed;
    if (error) {
        fail_transform(flight, error, said);
    } else if (!facts || memcmp(facts->build, flight->plan->build, DIGEST_SIZE) != 0) {
        error_set(&failed, STATUS_COMPILER_UNAVAILABLE, "the compiler library was replaced; try again");
        land_with_error(flight, &failed);
    } else if (plan_transform_code(flight->plan, text, &failed) < 0) {
        error_wrap(&failed, "the transformed code");
        land_with_error(flight, &failed);
    } else {
        transform_source(flight);
    }
}

static void transform_source(struct flight *flight)
{
    if (transforms_any(flight->flights->transforms, TRANSFORM_SOURCE))
        transform(flight, TRANSFORM_SOURCE, flight->plan->resolved.program, on_source);
    else
        go_on(flight);
}

static void transform_code(struct flight *flight)
{
    if (transforms_any(flight->flights->transforms, TRANSFORM_CODE))
        transform(flight, TRANSFORM_CODE, flight->plan->request.fusion->code, on_code);
    else
        transform_source(flight);
}

static void on_looked_up(struct store_lookup *lookup, struct held_kernel *kernel)
{
    struct flight *flight = container_of(lookup, struct flight, lookup);
    struct stats_reply *stats = flight->flights->stats;
    if (kernel) {
        struct landing landing = {.kernel = kernel, .outcome = OUTCOME_HIT_DATABASE, .stored = true};
        stats->hits_database_total += count_passengers(flight);
        land(flight, &landing);
        return;
    }
    if (flight->mode == CACHE_MODE_REQUIRE) {
        land_with_miss(flight);
        return;
    }
    stats->misses_total++;
    if (list_empty(&flight->passengers))
        give_up(flight);
    else
        transform_code(flight);
}

/* ---- boarding ---- */

void flights_init(struct flights *flights, struct kernel_store *store, struct pool **pools, struct blob_store *blobs,
                  struct stats_reply *stats, uint64_t remember_ms, void (*on_landed)(void *owner), void *owner)
{
    *flights = (struct flights){
        .store = store, .pools = pools, .blobs = blobs, .stats = stats, .on_landed = on_landed, .owner = owner};
    list_init(&flights->watchers);
    failures_init(&flights->failures, remember_ms);
}

void flights_finish(struct flights *flights)
{
    failures_finish(&flights->failures);
}

static enum cache_mode mode_of(const struct plan *plan)
{
    return plan->request.cache == cache_mode_absent ? CACHE_MODE_USE : plan->request.cache;
}

static struct flight_id id_of(struct flights *flights, const struct plan *plan, uint64_t owner)
{
    struct flight_id id = {.kernel = {.owner = owner}, .lane = mode_of(plan)};
    memcpy(id.kernel.key, plan->key, sizeof id.kernel.key);
    if (id.lane == CACHE_MODE_BYPASS)
        id.lane = LANE_BYPASS + flights->n_bypasses++;
    return id;
}

static int start_flight(struct flights *flights, const struct flight_id *id, struct plan *plan, struct flight **ret,
                        struct error *error)
{
    struct flight *flight = calloc(1, sizeof *flight);
    if (!flight)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a compile");
    flight->id = *id;
    flight->mode = mode_of(plan);
    flight->state = FLIGHT_LOOKING_UP;
    flight->flights = flights;
    list_init(&flight->passengers);
    msgpack_sbuffer_init(&flight->job.frame);
    flight->lookup = (struct store_lookup){
        .id = id->kernel,
        .blind = flight->mode == CACHE_MODE_BYPASS || flight->mode == CACHE_MODE_REFRESH,
        .done = on_looked_up,
    };
    if (kernel_store_look_up(flights->store, &flight->lookup, error) < 0) {
        free(flight);
        return -1;
    }
    flight->plan = plan;
    HASH_ADD(hh, flights->by_id, id, sizeof flight->id, flight);
    flights->stats->flights++;
    *ret = flight;
    return 0;
}

int flights_board(struct flights *flights, struct plan *plan, struct passenger *passenger, struct error *error)
{
    struct flight_id id = id_of(flights, plan, passenger->owner.uid);
    struct flight *flight;
    HASH_FIND(hh, flights->by_id, &id, sizeof id, flight);
    passenger->leads = !flight;
    if (flight) {
        plan_destroy(plan);
    } else if (start_flight(flights, &id, plan, &flight, error) < 0) {
        plan_destroy(plan);
        return -1;
    }
    passenger->flight = flight;
    list_push(&flight->passengers, &passenger->link);
    list_init(&passenger->in_watchers);
    if (passenger->on_progress)
        list_push(&flights->watchers, &passenger->in_watchers);
    if (!passenger->leads && flight->state == FLIGHT_COMPILING)
        pool_join(pool_of(flight), &flight->job, &passenger->owner);
    tell(passenger);
    return 0;
}

void passenger_leave(struct passenger *passenger)
{
    struct flight *flight = passenger->flight;
    if (!flight)
        return;
    list_remove(&passenger->link);
    list_remove(&passenger->in_watchers);
    passenger->flight = NULL;
    if (list_empty(&flight->passengers) && flight->state == FLIGHT_COMPILING &&
        pool_withdraw(pool_of(flight), &flight->job))
        give_up(flight);
}

bool flights_have(const struct flights *flights, const struct kernel_id *id)
{
    struct flight_id whole = {.kernel = *id, .lane = CACHE_MODE_USE};
    const struct flight *flight;
    HASH_FIND(hh, flights->by_id, &whole, sizeof whole, flight);
    return flight != NULL;
}

size_t flights_count(const struct flights *flights)
{
    return HASH_COUNT(flights->by_id);
}
