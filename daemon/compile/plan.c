#include "daemon/compile/plan.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compile/prefix.h"
#include "preamble/preamble.h"
#include "proto/envelope.h"

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a compile request");
}

static int digest_headers(struct plan *plan, struct error *error)
{
    const struct fusion *fusion = plan->request.fusion;
    plan->header_digests = msgpack_zone_malloc(&plan->zone, (fusion->n_headers + 1) * DIGEST_SIZE);
    if (!plan->header_digests)
        return no_memory(error);
    for (size_t i = 0; i < fusion->n_headers; i++) {
        const struct header *header = &fusion->headers[i];
        if (header->bytes.at)
            digest_of(header->bytes.at, header->bytes.size, plan->header_digests[i]);
        else
            memcpy(plan->header_digests[i], header->digest, DIGEST_SIZE);
    }
    return 0;
}

static int decode(struct plan *plan, struct bytes params, struct error *error)
{
    uint8_t *copy = msgpack_zone_malloc(&plan->zone, params.size);
    if (!copy)
        return no_memory(error);
    memcpy(copy, params.at, params.size);
    if (message_parse(&compile_request_type, copy, params.size, &plan->zone, &plan->request, error) < 0)
        return -1;
    plan->compiler = compiler_for(plan->request.fusion);
    return 0;
}

/* As they are in the key: a program may be replaced before it is run. */
static int keep_transforms(struct plan *plan, const struct compiler_facts *facts, struct error *error)
{
    if (facts->n_transforms == 0)
        return 0;
    struct key_part *copy = msgpack_zone_malloc(&plan->zone, facts->n_transforms * sizeof *copy);
    if (!copy)
        return no_memory(error);
    memcpy(copy, facts->transforms, facts->n_transforms * sizeof *copy);
    plan->transforms = copy;
    plan->n_transforms = facts->n_transforms;
    return 0;
}

static int settle(struct plan *plan, const struct compiler_facts *facts, bool keep_names, struct error *error)
{
    const struct compile_request *request = &plan->request;
    const struct fusion *fusion = request->fusion;
    if ((keep_names ? resolve_keeping_names : resolve)(fusion, request->sample, request->n_sample, facts, &plan->zone,
                                                       &plan->resolved, error) < 0)
        return -1;
    plan->compiler_major = facts->major;
    plan->compiler_minor = facts->minor;
    memcpy(plan->build, facts->build, sizeof plan->build);
    plan->facts = *facts;
    if (keep_transforms(plan, facts, error) < 0 || digest_headers(plan, error) < 0)
        return -1;
    resolved_key(fusion, &plan->resolved, facts, (const uint8_t(*)[DIGEST_SIZE])plan->header_digests, plan->key);
    return 0;
}

int plan_settle(struct plan *plan, const struct compiler_facts *facts, struct error *error)
{
    /* A transform may do anything with names, so it is given the client's own. */
    return settle(plan, facts, facts->n_transforms > 0, error);
}

int plan_settle_with_names(struct plan *plan, const struct compiler_facts *facts, struct error *error)
{
    return settle(plan, facts, true, error);
}

static int copy_text(struct plan *plan, struct text text, struct text *ret, struct error *error)
{
    char *copy = msgpack_zone_malloc(&plan->zone, text.size + 1);
    if (!copy)
        return no_memory(error);
    memcpy(copy, text.at, text.size);
    copy[text.size] = '\0';
    *ret = (struct text){copy, text.size};
    return 0;
}

int plan_replace_code(struct plan *plan, struct text code, struct error *error)
{
    return copy_text(plan, code, &plan->request.fusion->code, error);
}

static bool is_same(struct text a, struct text b)
{
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

int plan_transform_code(struct plan *plan, struct text code, struct error *error)
{
    const struct compile_request *request = &plan->request;
    if (is_same(code, request->fusion->code))
        return 0;
    struct fusion *other = msgpack_zone_malloc(&plan->zone, sizeof *other);
    if (!other)
        return no_memory(error);
    *other = *request->fusion;
    if (copy_text(plan, code, &other->code, error) < 0 ||
        resolve_keeping_names(other, request->sample, request->n_sample, &plan->facts, &plan->zone, &plan->resolved,
                              error) < 0)
        return -1;
    plan->transformed = true;
    return 0;
}

int plan_transform_source(struct plan *plan, struct text program, struct error *error)
{
    if (is_same(program, plan->resolved.program))
        return 0;
    plan->transformed = true;
    return copy_text(plan, program, &plan->resolved.program, error);
}

int plan_create(struct bytes params, struct plan **ret, struct error *error)
{
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return no_memory(error);
    if (!msgpack_zone_init(&plan->zone, 16384)) {
        free(plan);
        return no_memory(error);
    }
    if (decode(plan, params, error) < 0) {
        plan_destroy(plan);
        return -1;
    }
    *ret = plan;
    return 0;
}

void plan_destroy(struct plan *plan)
{
    if (!plan)
        return;
    msgpack_zone_destroy(&plan->zone);
    free(plan);
}

int plan_collect_headers(struct plan *plan, struct blob_store *blobs, struct bytes **ret_texts,
                         struct header_digest **ret_missing, size_t *ret_n_missing, struct error *error)
{
    const struct fusion *fusion = plan->request.fusion;
    size_t n = fusion->n_headers, n_missing = 0, total = 0;
    struct bytes *texts = msgpack_zone_malloc(&plan->zone, (n + 1) * sizeof *texts);
    struct header_digest *missing = msgpack_zone_malloc(&plan->zone, (n + 1) * sizeof *missing);
    if (!texts || !missing)
        return no_memory(error);
    for (size_t i = 0; i < n; i++) {
        const struct header *header = &fusion->headers[i];
        texts[i] = header->bytes.at ? header->bytes : blob_store_get(blobs, header->digest);
        if (!texts[i].at) {
            missing[n_missing] = (struct header_digest){.name = header->name, .has_digest = true};
            memcpy(missing[n_missing++].digest, header->digest, DIGEST_SIZE);
            continue;
        }
        total += texts[i].size;
        if (total > LIMIT_HEADER_BYTES)
            continue; /* to tell the sum */
        if (!header->bytes.at) {
            /* The store may let go of a blob while the compile runs. */
            uint8_t *copy = msgpack_zone_malloc(&plan->zone, texts[i].size + 1);
            if (!copy)
                return no_memory(error);
            memcpy(copy, texts[i].at, texts[i].size);
            texts[i].at = copy;
        }
    }
    if (n_missing) {
        *ret_missing = missing;
        *ret_n_missing = n_missing;
        return error_set(error, STATUS_UNKNOWN_BLOB,
                         "fusion.headers: %zu of %zu are given by digests of no blob that the daemon holds; the first "
                         "is \"%.100s\"",
                         n_missing, n, missing[0].name.at);
    }
    if (total > LIMIT_HEADER_BYTES)
        return error_set(error, STATUS_INVALID_FIELD,
                         "fusion.headers: %zu bytes together are above the limit of %u for one fusion", total,
                         LIMIT_HEADER_BYTES);
    *ret_texts = texts;
    return 0;
}

/* ---- the prefix ---- */

/* Arguments that decide about code behind the front end: one header serves all of their values. */
static bool is_back_end(struct text arg)
{
    static const char *const names[] = {"--maxrregcount=", "--ptxas-options="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(arg.at, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* What a debugger reads of a header is not compared when a zygote proves itself. */
static bool is_debugged(const struct resolved *resolved)
{
    for (size_t i = 0; i < resolved->n_job_args; i++)
        if (strcmp(resolved->job_args[i].at, "-G") == 0 || strcmp(resolved->job_args[i].at, "-lineinfo") == 0)
            return true;
    return false;
}

static bool is_module(struct text name)
{
    const struct preamble_module *modules = preamble_modules();
    for (size_t i = 0; i < preamble_count; i++)
        if (name.size == strlen(modules[i].include) + 2 && memcmp(name.at + 1, modules[i].include, name.size - 2) == 0)
            return true;
    return false;
}

/* The lines, one after the other. Absent if they are the preamble's alone: that compiles faster than a header loads. */
static struct text write_lines(struct plan *plan)
{
    static const char include[] = "#include ";
    struct prefix prefix;
    struct text name;
    size_t size = 1;
    bool worth = false;
    for (prefix_begin(&prefix, plan->resolved.program); prefix_next(&prefix, &name);) {
        size += sizeof include + name.size;
        worth |= !is_module(name);
    }
    char *lines = worth ? msgpack_zone_malloc(&plan->zone, size) : NULL, *at = lines;
    if (!lines)
        return (struct text){NULL, 0};
    for (prefix_begin(&prefix, plan->resolved.program); prefix_next(&prefix, &name);) {
        memcpy(at, include, sizeof include - 1);
        at += sizeof include - 1;
        memcpy(at, name.at, name.size);
        at += name.size;
        *at++ = '\n';
    }
    *at = '\0';
    return (struct text){lines, (size_t)(at - lines)};
}

static void hash_text(crypto_generichash_state *state, struct text text)
{
    crypto_generichash_update(state, (const uint8_t *)&text.size, sizeof text.size);
    crypto_generichash_update(state, (const uint8_t *)text.at, text.size);
}

void plan_find_prefix(struct plan *plan)
{
    const struct fusion *fusion = plan->request.fusion;
    const struct resolved *resolved = &plan->resolved;
    crypto_generichash_state state;
    plan->prefix = (struct job_prefix){0};
    if (plan->compiler == COMPILER_HOST || is_debugged(resolved))
        return;
    plan->prefix.lines = write_lines(plan);
    if (!plan->prefix.lines.at)
        return;
    crypto_generichash_init(&state, NULL, 0, DIGEST_SIZE);
    crypto_generichash_update(&state, plan->build, DIGEST_SIZE);
    hash_text(&state, plan->prefix.lines);
    for (size_t i = 0; i < resolved->n_job_args; i++)
        if (!is_back_end(resolved->job_args[i]))
            hash_text(&state, resolved->job_args[i]);
    for (size_t i = 0; i < fusion->n_headers; i++) {
        hash_text(&state, fusion->headers[i].name);
        crypto_generichash_update(&state, plan->header_digests[i], DIGEST_SIZE);
    }
    crypto_generichash_final(&state, plan->prefix.digest, DIGEST_SIZE);
}

/* ---- the name ---- */

/* A line table says where the lines are from. The name has the key in it, so that the daemon can be asked for the file
 * by it; it cannot be in what is hashed for the key, and follows from it. The C++ compiler's stages look into files. */
static bool has_line_table(const struct plan *plan)
{
    const struct compile_options *compile = plan->request.fusion->compile;
    return compile && (compile->line_info || compile->debug) && plan->resolved.image_kind != IMAGE_KIND_SHARED_OBJECT;
}

/* The program with its name in front of the client's code, to be freed; NULL when memory ran out. A transformed program
 * may have lost the line that says where the code begins; it then stays as it is. */
static char *name_code(struct text program, const char *name, size_t *ret_size)
{
    char line[PLAN_SOURCE_NAME + sizeof "#line 1 \"\"\n"];
    size_t size = (size_t)snprintf(line, sizeof line, "#line 1 \"%s\"\n", name);
    const char *there = memmem(program.at, program.size, PREFIX_LINE_ONE, sizeof PREFIX_LINE_ONE - 1);
    size_t before = there ? (size_t)(there - program.at) : program.size;
    size_t after = there ? before + sizeof PREFIX_LINE_ONE - 1 : program.size;
    char *named = malloc(program.size + size + 1);
    if (!named)
        return NULL;
    memcpy(named, program.at, before);
    if (there) {
        memcpy(named + before, line, size);
        before += size;
    }
    memcpy(named + before, program.at + after, program.size - after);
    *ret_size = before + program.size - after;
    named[*ret_size] = '\0';
    return named;
}

void plan_source_name(const uint8_t key[KEY_SIZE], char ret[PLAN_SOURCE_NAME])
{
    char hex[KEY_HEX];
    key_to_hex(key, hex);
    snprintf(ret, PLAN_SOURCE_NAME, "fusiond-%s.cu", hex);
}

int plan_write_job(const struct plan *plan, const struct bytes *header_texts, bool brief, msgpack_sbuffer *out)
{
    const struct fusion *fusion = plan->request.fusion;
    struct job_header *headers = calloc(fusion->n_headers + 1, sizeof *headers);
    if (!headers)
        return -1;
    for (size_t i = 0; i < fusion->n_headers; i++)
        headers[i] = (struct job_header){.name = fusion->headers[i].name, .bytes = header_texts[i]};
    struct worker_job job = {
        .program = plan->resolved.program,
        .headers = headers,
        .n_headers = fusion->n_headers,
        .args = plan->resolved.job_args,
        .n_args = plan->resolved.n_job_args,
        .names = plan->resolved.names,
        .n_names = plan->resolved.n_names,
        .image_kind = plan->resolved.image_kind,
        .brief = brief,
    };
    char name[PLAN_SOURCE_NAME], *named = NULL;
    if (has_line_table(plan)) {
        plan_source_name(plan->key, name);
        job.source_name = text_of(name);
        job.program.at = named = name_code(job.program, name, &job.program.size);
    }
    int status = job.program.at ? envelope_write_message(out, &worker_job_type, &job) : -1;
    free(named);
    free(headers);
    return status;
}
