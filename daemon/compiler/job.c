#include "daemon/compiler/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/compiler/compile_log.h"
#include "daemon/compiler/diagnostics.h"
#include "daemon/compiler/includes.h"
#include "daemon/compiler/ptxas_report.h"

/* The name under which the compiler knows the program; part of what diagnostics and line tables say. */
#define PROGRAM_NAME "fusion.cu"
/* Longest lowered name, from messages.def. */
#define LOWERED_MAX 4096
/* What a frame keeps for everything but image and PTX. */
#define FRAME_REST (4u << 20)

/* create, compile, fetch */
#define N_PHASES 3

/* Functions below return the compiler's result codes; memory that runs out here is the compiler's out-of-memory. */
struct compile {
    const struct nvrtc *nvrtc;
    const struct worker_job *job;
    msgpack_zone *zone;
    struct worker_result *ret;
    void *program;
    char complaint[DIAGNOSTIC_TEXT]; /* of ours, about what the compiler does not say; empty: none */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- in ---- */

static int create(struct compile *compile)
{
    const struct worker_job *job = compile->job;
    const struct nvrtc *nvrtc = compile->nvrtc;
    struct includes includes;
    struct error error = {0};
    if (includes_collect(job->headers, job->n_headers, compile->zone, &includes, &error) < 0) {
        snprintf(compile->complaint, sizeof compile->complaint, "%s", error.text);
        return error.code == STATUS_OUT_OF_MEMORY ? NVRTC_RESULT_OUT_OF_MEMORY : NVRTC_RESULT_INVALID_INPUT;
    }
    int result = nvrtc->create(&compile->program, job->program.at, PROGRAM_NAME, (int)includes.n, includes.texts,
                               includes.names);
    for (size_t i = 0; i < job->n_names && result == NVRTC_RESULT_SUCCESS; i++)
        result = nvrtc->add_name(compile->program, job->names[i].at);
    return result;
}

static int compile_program(struct compile *compile)
{
    const struct worker_job *job = compile->job;
    const char *const *includes = compile->nvrtc->includes;
    size_t n = job->n_args, n_includes = 0;
    while (includes != NULL && includes[n_includes] != NULL)
        n_includes++;
    const char **args = msgpack_zone_malloc(compile->zone, (n + n_includes + 2) * sizeof *args);
    if (args == NULL)
        return NVRTC_RESULT_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        args[i] = job->args[i].at;
    for (size_t i = 0; i < n_includes; i++)
        args[n + i] = includes[i];
    n += n_includes;
    if (job->brief)
        args[n++] = "--brief-diagnostics=true";
    return compile->nvrtc->compile(compile->program, (int)n, args);
}

/* ---- out ---- */

/* The whole log, to be freed; empty and NULL when there is none. */
static char *fetch_log(const struct compile *compile, struct text *ret)
{
    size_t size = 0;
    *ret = TEXT_OF("");
    if (compile->program == NULL)
        return NULL;
    /* The size counts the final NUL. */
    if (compile->nvrtc->log_size(compile->program, &size) != NVRTC_RESULT_SUCCESS || size <= 1)
        return NULL;
    char *log = malloc(size);
    if (log == NULL) {
        *ret = TEXT_OF("[fusiond: the compiler's log did not fit into the memory that was left]\n");
        return NULL;
    }
    if (compile->nvrtc->log(compile->program, log) != NVRTC_RESULT_SUCCESS) {
        free(log);
        return NULL;
    }
    log[size - 1] = '\0';
    *ret = text_of(log);
    log_make_utf8(log, ret->size);
    return log;
}

static int fetch_part(struct compile *compile, const char *what, int (*ask_size)(void *, size_t *),
                      int (*get)(void *, char *), struct bytes *ret)
{
    size_t size = 0;
    int result = ask_size(compile->program, &size);
    if (result != NVRTC_RESULT_SUCCESS)
        return result;
    if (size <= 1 || size > LIMIT_IMAGE) {
        snprintf(compile->complaint, sizeof compile->complaint, "the %s has %zu bytes; 2 to %u are expected", what,
                 size, LIMIT_IMAGE);
        return NVRTC_RESULT_INTERNAL_ERROR;
    }
    char *at = msgpack_zone_malloc(compile->zone, size);
    if (at == NULL)
        return NVRTC_RESULT_OUT_OF_MEMORY;
    result = get(compile->program, at);
    if (result == NVRTC_RESULT_SUCCESS)
        *ret = (struct bytes){(const uint8_t *)at, size};
    return result;
}

static int fetch_images(struct compile *compile)
{
    const struct nvrtc *nvrtc = compile->nvrtc;
    struct bytes image = {0}, ptx = {0};
    int result = fetch_part(compile, "PTX", nvrtc->ptx_size, nvrtc->ptx, &ptx);
    if (result != NVRTC_RESULT_SUCCESS)
        return result;
    if (compile->job->image_kind == IMAGE_KIND_PTX)
        image = ptx;
    else
        result = fetch_part(compile, "cubin", nvrtc->cubin_size, nvrtc->cubin, &image);
    if (result != NVRTC_RESULT_SUCCESS)
        return result;
    if (ptx.at[ptx.size - 1] == '\0')
        ptx.size--;
    compile->ret->image = image;
    /* The image is what was asked for; a PTX that does not fit beside it is left out. */
    if (image.size + ptx.size <= LIMIT_FRAME_WORKER - FRAME_REST)
        compile->ret->ptx = ptx;
    return NVRTC_RESULT_SUCCESS;
}

static int fetch_entries(struct compile *compile)
{
    const struct worker_job *job = compile->job;
    struct kernel_entry *entries = msgpack_zone_malloc(compile->zone, (job->n_names + 1) * sizeof *entries);
    if (entries == NULL)
        return NVRTC_RESULT_OUT_OF_MEMORY;
    for (size_t i = 0; i < job->n_names; i++) {
        const char *lowered = NULL;
        int result = compile->nvrtc->lowered_name(compile->program, job->names[i].at, &lowered);
        if (result != NVRTC_RESULT_SUCCESS)
            return result;
        size_t size = strlen(lowered);
        if (size > LOWERED_MAX) {
            snprintf(compile->complaint, sizeof compile->complaint,
                     "the lowered name of entry %zu has %zu bytes, the limit is %d", i, size, LOWERED_MAX);
            return NVRTC_RESULT_INVALID_INPUT;
        }
        /* The library's string dies with the program. */
        char *copy = msgpack_zone_malloc(compile->zone, size + 1);
        if (copy == NULL)
            return NVRTC_RESULT_OUT_OF_MEMORY;
        memcpy(copy, lowered, size + 1);
        entries[i] = (struct kernel_entry){.name = job->names[i], .lowered = {copy, size}};
    }
    compile->ret->entries = entries;
    compile->ret->n_entries = job->n_names;
    return NVRTC_RESULT_SUCCESS;
}

static bool has_error(const struct worker_result *result)
{
    for (size_t i = 0; i < result->n_diagnostics; i++)
        if (result->diagnostics[i].severity == SEVERITY_ERROR)
            return true;
    return false;
}

/* A failure that the compiler does not explain still says something. NVRTC 13.0 fails silently when an entry uses too
 * much static shared memory: only the report of the assembler shows it. */
static int explain(struct compile *compile, struct error *error)
{
    struct worker_result *ret = compile->ret;
    if (compile->complaint[0] == '\0') {
        if (has_error(ret))
            return 0;
        snprintf(compile->complaint, sizeof compile->complaint,
                 "%s without a reason; see the log for what it last reported (static shared memory above the "
                 "target's limit, 49152 bytes on most, is such a case)",
                 ret->result_name.at);
    }
    size_t size = strlen(compile->complaint);
    size_t n = ret->n_diagnostics < LIMIT_DIAGNOSTICS ? ret->n_diagnostics : LIMIT_DIAGNOSTICS - 1;
    struct diagnostic *list = msgpack_zone_malloc(compile->zone, (n + 1) * sizeof *list);
    char *text = msgpack_zone_malloc(compile->zone, size + 1);
    if (list == NULL || text == NULL)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the diagnostics");
    if (n > 0)
        memcpy(list, ret->diagnostics, n * sizeof *list);
    memcpy(text, compile->complaint, size + 1);
    list[n] = (struct diagnostic){.severity = SEVERITY_ERROR, .text = {text, size}};
    ret->diagnostics = list;
    ret->n_diagnostics = n + 1;
    return 0;
}

/* Log, diagnostics, the assembler's report. */
static int fetch_findings(struct compile *compile, struct error *error)
{
    struct worker_result *ret = compile->ret;
    struct text log;
    char *buffer = fetch_log(compile, &log);
    if (buffer != NULL && compile->job->source_name.at != NULL) {
        log.size = log_rename(buffer, log.size, compile->job->source_name, PROGRAM_NAME);
        buffer[log.size] = '\0';
    }
    ptxas_report(log, ret->entries, ret->n_entries);
    int failed = diagnostics_parse(log, compile->zone, &ret->diagnostics, &ret->n_diagnostics, error);
    if (failed == 0) {
        ret->log.at = log_bound(log, compile->zone, &ret->log.size, &ret->log_cut);
        if (ret->log.at == NULL)
            failed = error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the log");
    }
    free(buffer);
    return failed;
}

/* A phase that was not reached is not listed. */
static void phase_end(struct compile *compile, const char *name, uint64_t *started)
{
    uint64_t now = now_ns();
    compile->ret->phases[compile->ret->n_phases++] =
        (struct phase){.name = text_of(name), .ns = now - *started, .has_ns = true};
    *started = now;
}

int job_run(const struct nvrtc *nvrtc, const struct worker_job *job, msgpack_zone *zone, struct worker_result *ret,
            struct error *error)
{
    struct worker_result result = {.has_result = true};
    struct compile compile = {.nvrtc = nvrtc, .job = job, .zone = zone, .ret = &result};
    uint64_t started = now_ns();
    result.phases = msgpack_zone_malloc(zone, N_PHASES * sizeof *result.phases);
    if (result.phases == NULL)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a job");

    int code = create(&compile);
    phase_end(&compile, "create", &started);
    if (code == NVRTC_RESULT_SUCCESS) {
        code = compile_program(&compile);
        phase_end(&compile, "compile", &started);
    }
    if (code == NVRTC_RESULT_SUCCESS)
        code = fetch_entries(&compile);
    if (code == NVRTC_RESULT_SUCCESS)
        code = fetch_images(&compile);
    result.result = (uint64_t)code;
    result.result_name = text_of(nvrtc->result_name(code));
    int failed = fetch_findings(&compile, error);
    if (failed == 0 && code != NVRTC_RESULT_SUCCESS)
        failed = explain(&compile, error);
    phase_end(&compile, "fetch", &started);
    if (compile.program != NULL)
        nvrtc->destroy(&compile.program);
    if (failed < 0)
        return -1;
    *ret = result;
    return 0;
}
