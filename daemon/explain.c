#include "daemon/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/key_differences.h"
#include "daemon/request.h"
#include "daemon/server.h"

/* An answer while it is put together; texts are the plan's, or in the zone. */
struct answer {
    struct explain_reply reply;
    struct nearest_kernel nearest;
    struct failure failure;
    char compiler[64];
    msgpack_zone zone;
};

static struct kernel_id id_of(const struct conn *conn, const struct plan *plan)
{
    struct kernel_id id = {.owner = conn->uid};
    memcpy(id.key, plan->key, sizeof id.key);
    return id;
}

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to explain a key");
}

/* ---- the key's parts ---- */

static int tell_modules(const struct plan *plan, struct answer *answer, struct error *error)
{
    struct key_part parts[RESOLVED_PARTS];
    size_t n = resolved_parts(&plan->resolved, &plan->facts, parts);
    struct header_digest *modules = msgpack_zone_malloc(&answer->zone, n * sizeof *modules);
    if (!modules)
        return no_memory(error);
    for (size_t i = 0; i < n; i++) {
        modules[i] = (struct header_digest){.name = parts[i].name, .has_digest = true};
        memcpy(modules[i].digest, parts[i].digest, DIGEST_SIZE);
    }
    answer->reply.modules = modules;
    answer->reply.n_modules = n;
    return 0;
}

static int tell_headers(const struct plan *plan, struct answer *answer, struct error *error)
{
    const struct fusion *fusion = plan->request.fusion;
    struct header_digest *headers = msgpack_zone_malloc(&answer->zone, (fusion->n_headers + 1) * sizeof *headers);
    if (!headers)
        return no_memory(error);
    for (size_t i = 0; i < fusion->n_headers; i++) {
        headers[i] = (struct header_digest){.name = fusion->headers[i].name, .has_digest = true};
        memcpy(headers[i].digest, plan->header_digests[i], DIGEST_SIZE);
    }
    answer->reply.headers = headers;
    answer->reply.n_headers = fusion->n_headers;
    return 0;
}

static int tell_key(const struct plan *plan, const struct override_note *note, struct answer *answer,
                    struct error *error)
{
    const struct resolved *resolved = &plan->resolved;
    struct explain_reply *reply = &answer->reply;
    snprintf(answer->compiler, sizeof answer->compiler, "%s %u.%u", compiler_name(plan->compiler), plan->compiler_major,
             plan->compiler_minor);
    reply->has_key = reply->has_build = reply->has_code = true;
    memcpy(reply->key, plan->key, sizeof reply->key);
    memcpy(reply->build, plan->build, sizeof reply->build);
    digest_of(resolved->code.at, resolved->code.size, reply->code);
    reply->code_size = resolved->code.size;
    reply->has_code_size = true;
    reply->compiler = text_of(answer->compiler);
    reply->target = resolved->target;
    reply->image_kind = resolved->image_kind;
    reply->index_type = resolved->index_type;
    reply->structured = plan->request.fusion->structured;
    reply->args = resolved->key_args;
    reply->n_args = resolved->n_key_args;
    reply->entries = plan->request.fusion->entries;
    reply->n_entries = plan->request.fusion->n_entries;
    reply->renamed = entry_names_count(resolved->entry_names);
    reply->has_renamed = true;
    reply->names_kept = resolved->names_kept;
    if (note && note->file[0]) {
        reply->overridden = text_of(note->file);
        memcpy(reply->original, note->original, sizeof reply->original);
        reply->has_original = true;
    }
    return tell_modules(plan, answer, error) < 0 || tell_headers(plan, answer, error) < 0 ? -1 : 0;
}

/* ---- what is there in its place ---- */

static int tell_nearest(const struct plan *plan, const struct kernels_db_near *at, size_t n, struct answer *answer,
                        struct error *error)
{
    struct key_differences *best = NULL;
    const struct kernels_db_near *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        struct key_differences *differences = msgpack_zone_malloc(&answer->zone, sizeof *differences);
        if (!differences)
            return no_memory(error);
        *differences = (struct key_differences){.zone = &answer->zone};
        key_differences_find(plan, &at[i], differences);
        if (!best || differences->n < best->n) {
            best = differences;
            nearest = &at[i];
        }
    }
    if (!best)
        return 0;
    answer->nearest = (struct nearest_kernel){
        .has_key = true,
        .kinship = nearest->kinship,
        .label = nearest->kernel.label,
        .compiler = nearest->kernel.compiler,
        .created_unix_s = nearest->kernel.created_unix_s,
        .has_created_unix_s = true,
        .differences = best->at,
        .n_differences = best->n < KEY_DIFFERENCES ? best->n : KEY_DIFFERENCES,
        .more = best->n < KEY_DIFFERENCES ? 0 : best->n - KEY_DIFFERENCES,
        .has_more = best->n > KEY_DIFFERENCES,
    };
    memcpy(answer->nearest.key, nearest->kernel.key, DIGEST_SIZE);
    answer->reply.nearest = &answer->nearest;
    return 0;
}

static void tell_failure(struct conn *conn, const struct plan *plan, struct answer *answer)
{
    struct kernel_id id = id_of(conn, plan);
    const struct failure *failure = flights_remember(&conn->server->flights, &id, plan);
    if (!failure)
        return;
    answer->failure = (struct failure){.code = failure->code,
                                       .has_code = true,
                                       .name = failure->name,
                                       .text = failure->text,
                                       .retryable = failure->retryable,
                                       .remembered = true};
    answer->reply.failure = &answer->failure;
}

static void tell(struct conn *conn, uint32_t id, const struct plan *plan, const struct override_note *note,
                 enum tier found, const struct kernels_db_near *near, size_t n)
{
    struct kernel_id kernel_id = id_of(conn, plan);
    struct error error;
    struct answer *answer = calloc(1, sizeof *answer);
    if (!answer || !msgpack_zone_init(&answer->zone, 8192)) {
        free(answer);
        no_memory(&error);
        conn_fail_with(conn, id, &error);
        return;
    }
    answer->reply.found = found;
    if (tell_key(plan, note, answer, &error) < 0 || tell_nearest(plan, near, n, answer, &error) < 0) {
        conn_fail_with(conn, id, &error);
    } else {
        if (!found) {
            answer->reply.under_way = flights_have(&conn->server->flights, &kernel_id);
            tell_failure(conn, plan, answer);
        }
        conn_reply(conn, id, METHOD_EXPLAIN, &answer->reply, NULL, 0);
    }
    msgpack_zone_destroy(&answer->zone);
    free(answer);
}

/* ---- the request ---- */

void explanation_finish(struct explanation *explanation)
{
    plan_destroy(explanation->plan);
    free(explanation->note);
}

static void on_near(struct store_near *near, bool found, const struct kernels_db_near *at, size_t n)
{
    struct explanation *explanation = container_of(near, struct explanation, near);
    struct request *request = container_of(explanation, struct request, explanation);
    if (request->conn)
        tell(request->conn, request->id, explanation->plan, explanation->note, found ? TIER_DATABASE : tier_absent, at,
             n);
    request_destroy(request);
}

static void look_below(struct conn *conn, uint32_t id, struct plan *plan, struct override_note *note)
{
    struct error error;
    struct request *request = request_create(conn, id, METHOD_EXPLAIN);
    if (!request) {
        plan_destroy(plan);
        free(note);
        return;
    }
    struct explanation *explanation = &request->explanation;
    *explanation = (struct explanation){.plan = plan, .note = note};
    explanation->near = (struct store_near){.owner = conn->uid, .done = on_near};
    explanation->near.wish = (struct kernels_db_wish){
        .label = plan->request.fusion->label,
        .header_digests = (const uint8_t(*)[DIGEST_SIZE])plan->header_digests,
        .n_headers = plan->request.fusion->n_headers,
    };
    memcpy(explanation->near.wish.key, plan->key, DIGEST_SIZE);
    digest_of(plan->resolved.code.at, plan->resolved.code.size, explanation->near.wish.code);
    if (kernel_store_near(conn->server->store, &explanation->near, &error) < 0) {
        conn_fail_with(conn, id, &error);
        request_destroy(request);
    }
}

void explain(struct conn *conn, uint32_t id, struct plan *plan, struct override_note *note)
{
    struct kernel_id kernel_id = id_of(conn, plan);
    if (!memory_tier_has(kernel_store_memory(conn->server->store), &kernel_id)) {
        look_below(conn, id, plan, note);
        return;
    }
    tell(conn, id, plan, note, TIER_MEMORY, NULL, 0);
    plan_destroy(plan);
    free(note);
}
