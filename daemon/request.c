/*
 * The life of a request, from a frame to its one reply:
 *
 *   request_receive     look at the envelope, demand a greeting, dispatch by method
 *   compile             memo → plan (decode, check, resolve, key) → memory → flight (database, compiler, commit)
 *   request_answer_kernel / conn_fail
 *
 * The other methods are short and stand in control.c.
 */
#include "daemon/request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/require.h"
#include "daemon/compile/walls.h"
#include "daemon/control.h"
#include "daemon/explain.h"
#include "daemon/kernel_names.h"
#include "daemon/kernel_source.h"
#include "daemon/server.h"

/* Requests of one connection that may wait at a time. */
#define MAX_REQUESTS 4096

/* ---- answering with a kernel ---- */

void request_answer_kernel(struct conn *conn, uint32_t id, enum method method, struct parts parts,
                           const struct kernel_answer *answer)
{
    int fds[LIMIT_FDS];
    size_t n_fds;
    struct error error;
    if (kernel_answer_write(answer, kernel_store_memory(conn->server->store), id, method, parts, &conn->server->scratch,
                            fds, &n_fds, &error) < 0)
        conn_fail_with(conn, id, &error);
    else
        conn_send_scratch(conn, fds, n_fds);
}

/* ---- waiting ---- */

struct request *request_create(struct conn *conn, uint32_t id, enum method method)
{
    struct error error;
    struct request *request = NULL;
    if (conn->n_requests >= MAX_REQUESTS) {
        error_set(&error, STATUS_BUSY, "%zu requests of this connection wait already, the limit is %d",
                  conn->n_requests, MAX_REQUESTS);
    } else {
        request = calloc(1, sizeof *request);
        if (!request)
            error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a request");
    }
    if (!request) {
        conn_fail_with(conn, id, &error);
        return NULL;
    }
    request->conn = conn;
    request->id = id;
    request->method = method;
    list_init(&request->in_parked);
    list_push(&conn->requests, &request->in_conn);
    conn->n_requests++;
    return request;
}

static void leave_conn(struct request *request)
{
    if (!request->conn)
        return;
    list_remove(&request->in_conn);
    request->conn->n_requests--;
    request->conn = NULL;
}

void request_destroy(struct request *request)
{
    leave_conn(request);
    list_remove(&request->in_parked);
    passenger_leave(&request->passenger);
    device_open_leave(&request->open);
    device_look_leave(&request->look);
    if (request->zone)
        msgpack_zone_free(request->zone);
    kernel_get_finish(&request->get);
    explanation_finish(&request->explanation);
    free((void *)request->params.at);
    free(request->note);
    free((void *)(uintptr_t)request->names.at);
    free(request);
}

void request_abandon(struct request *request)
{
    /* A compile or a device can be left at any time; a look into the database comes back and finds the request inert.
     */
    bool parked = !list_empty(&request->in_parked);
    if (parked || request->method == METHOD_COMPILE || request->method == METHOD_DEVICES ||
        request->method == METHOD_DEVICE_OPEN)
        request_destroy(request);
    else
        leave_conn(request);
}

void requests_orphan(struct conn *conn)
{
    while (!list_empty(&conn->requests))
        request_abandon(container_of(conn->requests.next, struct request, in_conn));
}

/* ---- compile ---- */

static void compile(struct conn *conn, uint32_t id, struct bytes params);
static void compile_with_names(struct conn *conn, uint32_t id, struct bytes params);
static void explain_request(struct conn *conn, uint32_t id, struct bytes params);

/* What the compiler says is about other code than the client's. */
static void fail_overridden(struct conn *conn, uint32_t id, const struct failure *failure,
                            const struct override_note *note)
{
    struct failure told = *failure;
    char text[ERROR_TEXT];
    snprintf(text, sizeof text, "the override %.180s: %.300s", note->file, failure->text.at);
    told.text = text_of(text);
    conn_fail(conn, id, &told);
}

/* The compiler speaks of placeholders; the client is told of his names. */
static void fail_compile(struct conn *conn, uint32_t id, const struct failure *failure, struct entry_names names,
                         const struct override_note *note)
{
    msgpack_zone zone;
    struct failure named;
    struct error error;
    msgpack_zone_init(&zone, 4096);
    if (kernel_names_put_failure(failure, names, &zone, &named, &error) < 0)
        conn_fail_with(conn, id, &error);
    else if (note && note->file[0])
        fail_overridden(conn, id, &named, note);
    else
        conn_fail(conn, id, &named);
    msgpack_zone_destroy(&zone);
}

static void on_landing(struct passenger *passenger, const struct landing *landing)
{
    struct request *request = container_of(passenger, struct request, passenger);
    bool missed = landing->failure && landing->failure->code == STATUS_CACHE_MISS;
    if (landing->names_show && request->params.at) {
        compile(request->conn, request->id, request->params);
    } else if (missed && request->params.at && !request->with_names) {
        compile_with_names(request->conn, request->id, request->params);
    } else if (landing->failure) {
        request->conn->server->stats.misses_refused_total += missed;
        fail_compile(request->conn, request->id, landing->failure, request->names, request->note);
    } else {
        struct kernel_answer answer = {.kernel = landing->kernel,
                                       .outcome = landing->outcome,
                                       .stored = landing->stored,
                                       .queue_ns = landing->queue_ns,
                                       .compile_ns = landing->compile_ns,
                                       .note = request->note,
                                       .names = request->names};
        request_answer_kernel(request->conn, request->id, METHOD_COMPILE, request->parts, &answer);
    }
    request_destroy(request);
}

static void on_progress(struct passenger *passenger, const struct flight_progress *progress)
{
    struct request *request = container_of(passenger, struct request, passenger);
    struct compile_progress message = {
        .request = request->id,
        .has_request = true,
        .state = progress->state,
        .ahead = progress->ahead < UINT32_MAX ? progress->ahead : UINT32_MAX,
        .has_ahead = progress->state == COMPILE_STATE_QUEUED,
    };
    conn_notify(request->conn, NOTIFICATION_COMPILE_PROGRESS, &compile_progress_type, &message);
}

static int keep_params(struct request *request, struct bytes params, struct error *error)
{
    uint8_t *copy = malloc(params.size);
    if (!copy)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a request of %zu bytes", params.size);
    memcpy(copy, params.at, params.size);
    request->params = (struct bytes){copy, params.size};
    return 0;
}

/* The compiler is not known yet: keep the request until it is. */
static void park(struct conn *conn, uint32_t id, enum method method, struct bytes params)
{
    struct request *request = request_create(conn, id, method);
    if (!request)
        return;
    struct error error;
    if (keep_params(request, params, &error) < 0) {
        conn_fail_with(conn, id, &error);
        request_destroy(request);
        return;
    }
    list_push(&conn->server->parked, &request->in_parked);
}

void requests_resume_parked(struct server *server)
{
    struct list ready;
    struct list *link;
    list_init(&ready);
    while ((link = list_pop(&server->parked)))
        list_push(&ready, link);
    while ((link = list_pop(&ready))) {
        struct request *request = container_of(link, struct request, in_parked);
        (request->method == METHOD_EXPLAIN ? explain_request : compile)(request->conn, request->id, request->params);
        request_destroy(request);
    }
}

void requests_fail_parked(struct server *server, enum status code, const char *text)
{
    struct list *link;
    while ((link = list_pop(&server->parked))) {
        struct request *request = container_of(link, struct request, in_parked);
        struct error error;
        error_set(&error, code, "%s", text);
        conn_fail_with(request->conn, request->id, &error);
        request_destroy(request);
    }
}

/* Whether the kernel is in memory; then it is the answer. */
static bool answer_from_memory(struct conn *conn, uint32_t id, const struct remembered *what,
                               const struct override_note *note)
{
    struct kernel_id kernel_id = {.owner = conn->uid};
    memcpy(kernel_id.key, what->key, sizeof kernel_id.key);
    struct held_kernel *kernel = kernel_store_find(conn->server->store, &kernel_id);
    if (!kernel)
        return false;
    struct kernel_answer answer = {
        .kernel = kernel, .outcome = OUTCOME_HIT_MEMORY, .stored = kernel->stored, .note = note, .names = what->names};
    conn->server->stats.hits_memory_total++;
    request_answer_kernel(conn, id, METHOD_COMPILE, what->parts, &answer);
    return true;
}

/* Whether the same compile failed a short while ago; then that is the answer. */
static bool answer_from_failures(struct conn *conn, uint32_t id, const struct plan *plan,
                                 const struct override_note *note)
{
    struct kernel_id kernel_id = {.owner = conn->uid};
    memcpy(kernel_id.key, plan->key, sizeof kernel_id.key);
    const struct failure *failure = flights_recall(&conn->server->flights, &kernel_id, plan);
    if (!failure)
        return false;
    fail_compile(conn, id, failure, plan->resolved.entry_names, note);
    return true;
}

/* What the request needs once its compile is over, and the plan gone. */
static int keep_names(struct request *request, struct entry_names names, struct bytes params, struct error *error)
{
    if (names.size == 0)
        return 0;
    char *copy = malloc(names.size);
    if (!copy)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a request");
    memcpy(copy, names.at, names.size);
    request->names = (struct entry_names){copy, names.size};
    return keep_params(request, params, error);
}

/* The plan and the note are taken over. */
static void board(struct conn *conn, uint32_t id, struct bytes params, struct plan *plan, struct parts parts,
                  struct override_note *note)
{
    struct error error;
    struct request *request = request_create(conn, id, METHOD_COMPILE);
    if (!request) {
        plan_destroy(plan);
        free(note);
        return;
    }
    request->parts = parts;
    request->note = note;
    request->with_names = plan->has_first_key;
    request->passenger.on_landing = on_landing;
    request->passenger.on_progress = plan->request.progress ? on_progress : NULL;
    request->passenger.owner = (struct queue_owner){plan->request.priority, conn->uid, conn->number};
    if (keep_names(request, plan->resolved.entry_names, params, &error) < 0) {
        plan_destroy(plan);
        conn_fail_with(conn, id, &error);
        request_destroy(request);
        return;
    }
    if (flights_board(&conn->server->flights, plan, &request->passenger, &error) < 0) {
        conn_fail_with(conn, id, &error);
        request_destroy(request);
    }
}

static int settle(struct server *server, struct plan *plan, const struct compiler_facts *facts, struct error *error)
{
    if (plan_settle(plan, facts, error) < 0)
        return -1;
    return shown_names_have(&server->flights.shown, plan->key) ? plan_settle_with_names(plan, facts, error) : 0;
}

/* What the request asks for, as this daemon allows it. */
static int settle_cache_mode(const struct server *server, struct plan *plan, struct error *error)
{
    enum cache_mode *mode = &plan->request.cache;
    if (!server->require_cached)
        return 0;
    if (*mode == CACHE_MODE_BYPASS || *mode == CACHE_MODE_REFRESH)
        return error_set(error, STATUS_FORBIDDEN,
                         "cache: \"%s\" compiles, and this daemon was told not to compile "
                         "(--require-cached)",
                         cache_mode_word((int)*mode));
    *mode = CACHE_MODE_REQUIRE;
    return 0;
}

/* Whether the answer may be a kernel that is there. */
static bool reads_cache(const struct plan *plan)
{
    return plan->request.cache != CACHE_MODE_BYPASS && plan->request.cache != CACHE_MODE_REFRESH;
}

/* Or a failure that is remembered. Who may not compile is told of kernels alone. */
static bool reads_failures(const struct plan *plan)
{
    return plan->request.cache == cache_mode_absent || plan->request.cache == CACHE_MODE_USE;
}

/* Other code for the kernel, if the daemon's owner has put a file there; then the plan is settled anew, under the key
 * of that code. */
static int override(struct conn *conn, struct plan *plan, const struct compiler_facts *facts,
                    struct override_note **ret, struct error *error)
{
    struct text label = plan->request.fusion->label;
    struct override_note *note = calloc(1, sizeof *note);
    if (!note)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to look for an override");
    *ret = note;
    note->ordinal = ordinals_of(&conn->ordinals, label, plan->key);
    struct text text = overrides_find(conn->server->overrides, plan->key, label, note);
    if (!text.at)
        return 0;
    if (plan_replace_code(plan, text, error) == 0 && settle(conn->server, plan, facts, error) == 0)
        return 0;
    return error_wrap(error, "the override %.200s", note->file);
}

/* The compiler's facts: NULL when the request was parked until they are known, or answered with why they never are. */
static const struct compiler_facts *find_compiler(struct conn *conn, uint32_t id, enum method method,
                                                  struct bytes params, struct plan *plan)
{
    struct server *server = conn->server;
    struct error error;
    enum compilers_choice choice = compilers_choose(&server->compilers, plan->compiler, plan->request.fusion->compiler,
                                                    &plan->compiler_at, &error);
    if (choice == COMPILERS_NONE) {
        conn_fail_with(conn, id, &error);
        return NULL;
    }
    struct pool *pool = server->compilers.pools[plan->compiler_at];
    const struct compiler_facts *facts = NULL;
    if (choice == COMPILERS_CHOSEN)
        facts = server_facts(server, plan->compiler_at);
    if (facts && walls_admit(pool_sandbox(pool), conn->uid, geteuid(), &error) == 0)
        return facts;
    if (!facts && server->state == SERVER_RUNNING && (choice == COMPILERS_NOT_KNOWN_YET || !pool_problem(pool))) {
        park(conn, id, method, params);
        pool_want(pool);
        return NULL;
    }
    if (!facts && server->state != SERVER_RUNNING)
        error_set(&error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    else if (!facts)
        error_set(&error, STATUS_COMPILER_UNAVAILABLE, "%s", pool_problem(pool));
    conn_fail_with(conn, id, &error);
    return NULL;
}

/* The plan of a compile request, settled, and its note (NULL: there are no overrides), both the caller's. NULL when the
 * request is answered, or parked. with_names: see compile_as. */
static struct plan *plan_of(struct conn *conn, uint32_t id, enum method method, struct bytes params, bool with_names,
                            struct override_note **ret_note)
{
    struct server *server = conn->server;
    struct override_note *note = NULL;
    struct plan *plan;
    struct error error;
    if (plan_create(params, &plan, &error) < 0) {
        conn_fail_with(conn, id, &error);
        return NULL;
    }
    const struct compiler_facts *facts = find_compiler(conn, id, method, params, plan);
    if (!facts) {
        plan_destroy(plan);
        return NULL;
    }
    int status = settle(server, plan, facts, &error);
    if (status == 0 && server->overrides)
        status = override(conn, plan, facts, &note, &error);
    if (status == 0 && method == METHOD_COMPILE)
        status = settle_cache_mode(server, plan, &error);
    if (status == 0 && with_names) {
        memcpy(plan->first_key, plan->key, sizeof plan->first_key);
        plan->has_first_key = true;
        status = plan_settle_with_names(plan, facts, &error);
    }
    if (status == 0) {
        *ret_note = note;
        return plan;
    }
    conn_fail_with(conn, id, &error);
    plan_destroy(plan);
    free(note);
    return NULL;
}

/* with_names: a kernel of this code may be there whose image was found to show its names, by a daemon before this one.
 * Only who may not compile asks so: a compile would find it out anew. */
static void compile_as(struct conn *conn, uint32_t id, struct bytes params, bool with_names)
{
    struct server *server = conn->server;
    struct remembered what;
    struct override_note *note;

    if (transforms_refresh(server->transforms))
        memo_clear(&server->memo);
    /* Which key a request has depends on files, where there are overrides. */
    if (!server->overrides && !with_names && memo_find(&server->memo, params, &what) &&
        answer_from_memory(conn, id, &what, NULL))
        return;
    struct plan *plan = plan_of(conn, id, METHOD_COMPILE, params, with_names, &note);
    if (!plan)
        return;
    what.parts = (struct parts){plan->request.with_image, plan->request.with_ptx, plan->request.with_log, false,
                                plan->request.with_details};
    what.names = plan->resolved.entry_names;
    memcpy(what.key, plan->key, sizeof what.key);
    if (!server->overrides && !with_names && reads_cache(plan))
        memo_add(&server->memo, params, &what);
    if ((reads_cache(plan) && answer_from_memory(conn, id, &what, note)) ||
        (reads_failures(plan) && answer_from_failures(conn, id, plan, note))) {
        plan_destroy(plan);
        free(note);
    } else {
        board(conn, id, params, plan, what.parts, note);
    }
}

static void compile(struct conn *conn, uint32_t id, struct bytes params)
{
    compile_as(conn, id, params, false);
}

static void compile_with_names(struct conn *conn, uint32_t id, struct bytes params)
{
    compile_as(conn, id, params, true);
}

static void explain_request(struct conn *conn, uint32_t id, struct bytes params)
{
    struct override_note *note;
    if (transforms_refresh(conn->server->transforms))
        memo_clear(&conn->server->memo);
    struct plan *plan = plan_of(conn, id, METHOD_EXPLAIN, params, false, &note);
    if (plan)
        explain(conn, id, plan, note);
}

/* ---- the entrance ---- */

static void dispatch(struct conn *conn, const struct envelope *envelope)
{
    switch (envelope->method) {
    case METHOD_HELLO:
        control_hello(conn, envelope);
        break;
    case METHOD_PING:
        control_ping(conn, envelope);
        break;
    case METHOD_STATS:
        control_stats(conn, envelope);
        break;
    case METHOD_COMPILE:
        compile(conn, envelope->id, envelope->body);
        break;
    case METHOD_EXPLAIN:
        explain_request(conn, envelope->id, envelope->body);
        break;
    case METHOD_KERNEL_GET:
        control_kernel_get(conn, envelope);
        break;
    case METHOD_KERNEL_SOURCE:
        kernel_source(conn, envelope);
        break;
    case METHOD_KERNEL_LIST:
        control_kernel_list(conn, envelope);
        break;
    case METHOD_BLOB_PUT:
        control_blob_put(conn, envelope);
        break;
    case METHOD_DEVICES:
        control_devices(conn, envelope);
        break;
    case METHOD_DEVICE_OPEN:
        control_device_open(conn, envelope);
        break;
    case METHOD_CANCEL:
        control_cancel(conn, envelope);
        break;
    default: {
        struct error error;
        char name[LIMIT_METHOD + 1];
        bool elsewhere = methods[envelope->method].where == METHOD_CHANNEL;
        error_set(&error, STATUS_UNKNOWN_METHOD, "there is no method \"%s\"%s",
                  text_show(envelope->name, name, sizeof name),
                  elsewhere ? " here: it is one of a direct channel" : "");
        conn_fail_with(conn, envelope->id, &error);
    }
    }
}

void request_receive(struct conn *conn, const uint8_t *frame, size_t size)
{
    struct stats_reply *stats = &conn->server->stats;
    struct envelope envelope;
    struct error error = {0};
    char name[LIMIT_METHOD + 1];

    if (envelope_read(frame, size, &envelope, &error) == 0) {
        if (envelope.kind != ENVELOPE_REQUEST)
            error_set(&error, STATUS_MALFORMED, "a client sends requests only");
        else if (conn->state == CONN_GREETING && envelope.method != METHOD_HELLO)
            error_set(&error, STATUS_NOT_GREETED, "the first message must be hello, not \"%s\"",
                      text_show(envelope.name, name, sizeof name));
    }
    if (error.code != STATUS_OK) {
        stats->protocol_errors_total++;
        log_event(LOG_WARNING, "conn.broken", "uid=%u pid=%d code=%s reason=\"%s\"", conn->uid, conn->pid,
                  status_name(error.code), error.text);
        conn_fail_with(conn, envelope.id, &error);
        conn_close(conn);
        return;
    }
    stats->requests_total++;
    server_expect_more(conn->server);
    dispatch(conn, &envelope);
}
