/* Compiling a fusion: what goes inline, what by digest, and for which target. */
#include <stdlib.h>
#include <string.h>

#include "client/blob.h"
#include "client/compile.h"
#include "client/error.h"
#include "client/fusion.h"
#include "client/kernel.h"
#include "daemon/launch/driver.h"
#include "kernels_db/kernel_key.h"

_Static_assert(FUSIOND_INTERACTIVE == (int)PRIORITY_INTERACTIVE, "enums.def");
_Static_assert(FUSIOND_NORMAL == (int)PRIORITY_NORMAL, "enums.def");
_Static_assert(FUSIOND_QUEUED == (int)COMPILE_STATE_QUEUED, "enums.def");
_Static_assert(FUSIOND_STARTED == (int)COMPILE_STATE_STARTED, "enums.def");
_Static_assert(FUSIOND_DONE == (int)COMPILE_STATE_DONE, "enums.def");
_Static_assert(FUSIOND_BACKGROUND == (int)PRIORITY_BACKGROUND, "enums.def");
_Static_assert(FUSIOND_CACHE_USE == (int)CACHE_MODE_USE, "enums.def");
_Static_assert(FUSIOND_CACHE_REQUIRE == (int)CACHE_MODE_REQUIRE, "enums.def");
_Static_assert(FUSIOND_CACHE_BYPASS == (int)CACHE_MODE_BYPASS, "enums.def");
_Static_assert(FUSIOND_CACHE_REFRESH == (int)CACHE_MODE_REFRESH, "enums.def");

/* Headers up to this many, and this many bytes in all, go with the request; else they are sent once as blobs. */
#define INLINE_HEADERS 32u
#define INLINE_HEADER_BYTES (64u << 10)

/* ---- headers ---- */

static bool headers_are_inline(const struct fusiond_fusion *fusion)
{
    size_t total = 0;
    if (fusion->n_headers > INLINE_HEADERS)
        return false;
    for (size_t i = 0; i < fusion->n_headers; i++) {
        /* Checked one by one, so that the sum cannot wrap. */
        if (fusion->headers[i].size > INLINE_HEADER_BYTES)
            return false;
        total += fusion->headers[i].size;
    }
    return total <= INLINE_HEADER_BYTES;
}

static const uint8_t *header_digest_of(struct fusion_header *header)
{
    if (!header->has_digest) {
        digest_of(header->bytes, header->size, header->digest);
        header->has_digest = true;
    }
    return header->digest;
}

static void fill_headers(struct fusiond_fusion *fusion, struct header *ret)
{
    bool by_value = headers_are_inline(fusion);
    for (size_t i = 0; i < fusion->n_headers; i++) {
        struct fusion_header *header = &fusion->headers[i];
        ret[i] = (struct header){.name = text_of(header->name)};
        if (by_value) {
            ret[i].bytes = (struct bytes){header->bytes, header->size};
        } else {
            memcpy(ret[i].digest, header_digest_of(header), DIGEST_SIZE);
            ret[i].has_digest = true;
        }
    }
}

static int put_header(struct fusiond_connection *connection, const struct fusion_header *header, struct error *error)
{
    uint8_t digest[DIGEST_SIZE];
    if (blob_put(connection, header->bytes, header->size, digest, error) < 0)
        return error_wrap(error, "header %s", header->name);
    if (memcmp(digest, header->digest, DIGEST_SIZE) != 0)
        return error_set(error, STATUS_INTERNAL, "header %s: the daemon computed another digest", header->name);
    return 0;
}

static bool is_missing(const struct failure *failure, const struct fusion_header *header)
{
    if (failure->n_missing == 0)
        return true;
    for (size_t i = 0; i < failure->n_missing; i++) {
        if (memcmp(failure->missing[i].digest, header->digest, DIGEST_SIZE) == 0)
            return true;
    }
    return false;
}

/* Send what the daemon said it lacks. Putting replaces the connection's failure, so the list is made first. */
static int put_missing(struct fusiond_connection *connection, const struct fusiond_fusion *fusion, struct error *error)
{
    bool *missing = calloc(fusion->n_headers + 1, sizeof *missing);
    int result = 0;
    if (!missing)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu headers", fusion->n_headers);
    for (size_t i = 0; i < fusion->n_headers; i++)
        missing[i] = fusion->headers[i].has_digest && is_missing(&connection->failure, &fusion->headers[i]);
    for (size_t i = 0; result == 0 && i < fusion->n_headers; i++) {
        if (missing[i])
            result = put_header(connection, &fusion->headers[i], error);
    }
    free(missing);
    return result;
}

/* ---- the target ---- */

/* "cc_9.0" for the device that this process would launch on. */
static int local_target(char ret[32], struct error *error)
{
    int device;
    unsigned capability;
    const struct driver *driver = driver_get(error);
    if (!driver)
        return error_wrap(error, "target: absent, and there is no local device to take it from; give one, as sm_90a");
    if (driver_default_device(driver, &device, error) < 0 || driver_capability(driver, device, &capability, error) < 0)
        return error_wrap(error, "target: absent, and the local device does not tell its own");
    snprintf(ret, 32, "cc_%u.%u", capability / 10, capability % 10);
    return 0;
}

/* ---- the request ---- */

static int fill_samples(const struct fusiond_compile_options *options, struct sample_tensor *ret, struct error *error)
{
    for (size_t i = 0; i < options->n_samples; i++) {
        const struct fusiond_sample *sample = &options->samples[i];
        if (sample->rank > LIMIT_RANK)
            return error_set(error, STATUS_INVALID_FIELD, "sample[%zu]: rank %u is above the limit of %u", i,
                             sample->rank, LIMIT_RANK);
        ret[i] = (struct sample_tensor){
            .sizes = (int64_t *)(uintptr_t)sample->sizes,
            .n_sizes = sample->rank,
            .strides = (int64_t *)(uintptr_t)sample->strides,
            .n_strides = sample->strides ? sample->rank : 0,
        };
    }
    return 0;
}

static void on_notification(struct fusiond_connection *connection, uint32_t id, const struct envelope *envelope)
{
    const struct fusiond_compile_options *options = connection->notified;
    struct compile_progress message;
    struct error ignored;
    msgpack_zone zone;
    if (!text_is(envelope->name, NOTIFICATION_COMPILE_PROGRESS) || !msgpack_zone_init(&zone, 256))
        return;
    /* What makes no sense, or is of an earlier request, is no reason to fail the compile. */
    if (message_parse(&compile_progress_type, envelope->body.at, envelope->body.size, &zone, &message, &ignored) == 0 &&
        message.request == id) {
        struct fusiond_progress progress = {(enum fusiond_compile_state)message.state, (uint32_t)message.ahead};
        options->on_progress(options->context, &progress);
    }
    msgpack_zone_destroy(&zone);
}

static int call(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                const struct compile_request *request, struct reply *ret, struct error *error)
{
    int result = connection_call(connection, METHOD_COMPILE, request, NULL, 0, ret, error);
    if (result == 0 || error->code != STATUS_UNKNOWN_BLOB)
        return result;
    if (put_missing(connection, fusion, error) < 0)
        return -1;
    return connection_call(connection, METHOD_COMPILE, request, NULL, 0, ret, error);
}

/* The daemon has checked the values. A kernel that is PTX does not hold them: it is the same for all of them. */
static void keep_load_options(const struct compile_options *compile, struct fusiond_kernel *kernel)
{
    if (!compile)
        return;
    kernel->max_registers = compile->has_max_registers ? (unsigned)compile->max_registers : 0;
    kernel->block_size = compile->has_block_size ? (unsigned)compile->block_size : 0;
    kernel->level = compile->has_opt_level ? (unsigned)compile->opt_level + 1 : 0;
}

static int ask_kernel(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                      const struct compile_request *request, void *ret, struct error *error)
{
    struct reply reply;
    struct fusiond_kernel **kernel = ret;
    if (call(connection, fusion, request, &reply, error) < 0 ||
        kernel_of_reply(connection, METHOD_COMPILE, &reply, kernel, error) < 0)
        return -1;
    keep_load_options(request->fusion->compile, *kernel);
    return 0;
}

int compile_ask(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                const struct fusiond_compile_options *options, compile_asker *ask, void *ret, struct error *error)
{
    char target[32];
    struct header *headers = NULL;
    struct sample_tensor *samples = NULL;
    int result = -1;
    const struct fusion *built = fusion_message(fusion, error);
    if (!built)
        return -1;
    struct fusion message = *built;
    message.code = (struct text){fusion->code ? fusion->code : "", fusion->code_size};
    if (!fusion->has_target) {
        if (local_target(target, error) < 0)
            return -1;
        message.target = text_of(target);
    }
    if (fusion->n_headers > 0 && !(headers = calloc(fusion->n_headers, sizeof *headers)))
        goto no_memory;
    if (options->n_samples > 0 && !(samples = calloc(options->n_samples, sizeof *samples)))
        goto no_memory;
    fill_headers(fusion, headers);
    message.headers = headers;
    message.n_headers = fusion->n_headers;
    struct compile_request request = {
        .fusion = &message,
        .sample = samples,
        .n_sample = options->n_samples,
        .deadline_ms = options->deadline_ms,
        .has_deadline_ms = options->deadline_ms > 0,
        .with_image = options->parts & FUSIOND_IMAGE,
        .with_ptx = options->parts & FUSIOND_PTX,
        .with_log = options->parts & FUSIOND_LOG,
        .with_details = options->parts & FUSIOND_DETAILS,
        .priority = (enum priority)options->priority,
        .cache = (enum cache_mode)options->cache,
        .progress = options->on_progress != NULL,
    };
    if (fill_samples(options, samples, error) == 0)
        result = ask(connection, fusion, &request, ret, error);
    goto done;
no_memory:
    error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a request");
done:
    free(headers);
    free(samples);
    return result;
}

int fusiond_compile(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                    const struct fusiond_compile_options *options, struct fusiond_kernel **ret,
                    struct fusiond_error *ret_error)
{
    static const struct fusiond_compile_options image_only = {.parts = FUSIOND_IMAGE};
    struct error error = {0};
    if (!options)
        options = &image_only;
    connection->on_notification = options->on_progress ? on_notification : NULL;
    connection->notified = options;
    int result = compile_ask(connection, fusion, options, ask_kernel, ret, &error);
    connection->on_notification = NULL;
    return error_export(result, &error, ret_error);
}

/* ---- after a failure ---- */

const char *fusiond_failure_log(const struct fusiond_connection *connection)
{
    return connection->failure.log.at ? connection->failure.log.at : "";
}

size_t fusiond_failure_diagnostics(const struct fusiond_connection *connection)
{
    return connection->failure.n_diagnostics;
}

struct fusiond_diagnostic fusiond_failure_diagnostic(const struct fusiond_connection *connection, size_t index)
{
    const struct diagnostic *diagnostic = &connection->failure.diagnostics[index];
    const char *word = severity_word((int)diagnostic->severity);
    return (struct fusiond_diagnostic){
        .severity = word ? word : "error",
        .file = diagnostic->file.at,
        .line = (unsigned)diagnostic->line,
        .column = (unsigned)diagnostic->column,
        .text = diagnostic->text.at,
    };
}
