/* One program for the host device: files, compiler, assembler and linker, image. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/compiler/compile_log.h"
#include "daemon/compiler/gcc_diagnostics.h"
#include "daemon/compiler/host_cc.h"
#include "daemon/compiler/shared_arrays.h"
#include "daemon/compiler/tool.h"
#include "daemon/compiler/work_dir.h"
#include "preamble/host/host.h"

#define PROGRAM "fusion.cu"
#define OBJECT "object.o"
#define SHARED "shared.s"
#define IMAGE "image.so"
#define SAID "said"
/* What is read of all that the tools say; diagnostics beyond are lost, and the log says so. */
#define SAID_MAX (16u << 20)
#define OBJECT_MAX LIMIT_IMAGE
/* write, compile, link */
#define N_PHASES 3
/* Arguments beside those of tables and of the job. */
#define MORE_ARGUMENTS 32

static const char *const includes[] = {"../m", "h", NULL};

struct compile {
    const struct host_cc *cc;
    const struct worker_job *job;
    msgpack_zone *zone;
    struct worker_result *ret;
    char folder[HOST_CC_PATH + 8]; /* work/job */
    char *said;                    /* of the last tool that failed; to be freed */
    size_t said_size;
    bool rejected;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void phase_end(struct compile *compile, const char *name, uint64_t *started)
{
    uint64_t now = now_ns();
    compile->ret->phases[compile->ret->n_phases++] =
        (struct phase){.name = text_of(name), .ns = now - *started, .has_ns = true};
    *started = now;
}

/* ---- files ---- */

/* A header's name becomes a file's; resolve has checked it, and this is the last wall. */
static bool is_plain(struct text name)
{
    if (name.size == 0 || name.at[0] == '/' || strlen(name.at) != name.size)
        return false;
    for (const char *part = name.at; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        size_t size = strcspn(part, "/");
        if (size == 0 || (size == 1 && part[0] == '.') || (size == 2 && part[0] == '.' && part[1] == '.'))
            return false;
    }
    return true;
}

/* What a compiler that keeps headers in memory would take, and a folder cannot: one name below another's, a long part.
 */
static bool is_no_file_name(int number)
{
    return number == ENOTDIR || number == EISDIR || number == EEXIST || number == ENAMETOOLONG;
}

static int write_header(struct compile *compile, const struct job_header *header, struct error *error)
{
    char name[LIMIT_NAME + 8];
    char *said;
    if (!is_plain(header->name))
        return error_set(error, STATUS_SYSTEM, "the header name \"%.100s\" is no path within a folder",
                         header->name.at);
    snprintf(name, sizeof name, "h/%s", header->name.at);
    if (tool_write_file(compile->folder, name, header->bytes.at, header->bytes.size, error) == 0)
        return 0;
    if (!is_no_file_name(errno))
        return -1;
    int size = asprintf(&said, "error: header \"%s\" cannot be a file beside the others: %s\n", header->name.at,
                        strerror(errno));
    if (size < 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the log");
    compile->said = said;
    compile->said_size = (size_t)size;
    compile->rejected = true;
    return 0;
}

static int write_files(struct compile *compile, struct error *error)
{
    const struct worker_job *job = compile->job;
    if (work_dir_remove(compile->cc->work, "job", error) < 0 || mkdir(compile->folder, 0700) < 0)
        return error_set(error, STATUS_SYSTEM, "the folder of a program cannot be made");
    for (size_t i = 0; i < job->n_headers && !compile->rejected; i++) {
        if (write_header(compile, &job->headers[i], error) < 0)
            return -1;
    }
    return tool_write_file(compile->folder, PROGRAM, job->program.at, job->program.size, error);
}

/* ---- the tools ---- */

/* Run the driver with the arguments; *compile->said is what it and its stages said. What ran out of memory, or was
 * killed, is an error: it is nothing that the code's author can read. */
static int run(struct compile *compile, const char *const *argv, struct error *error)
{
    char linker[HOST_CC_PATH + 16];
    const char *const environment[] = {"FUSIOND_FENCE=../b/fence.so", linker, NULL};
    const struct tool tool = {compile->cc->program, compile->folder, SAID, environment};
    int status;
    snprintf(linker, sizeof linker, "FUSIOND_LD=%s", compile->cc->stages[HOST_CC_LD]);
    free(compile->said);
    compile->said = NULL;
    if (tool_run(&tool, argv, &status, error) < 0 ||
        tool_read_file(compile->folder, SAID, SAID_MAX, &compile->said, &compile->said_size, error) < 0)
        return -1;
    log_make_utf8(compile->said, compile->said_size);
    if (status == 0)
        return 0;
    switch (gcc_diagnostics_end((struct text){compile->said, compile->said_size})) {
    case GCC_END_MEMORY:
    case GCC_END_KILLED: /* by nobody here but the kernel, which had no memory left */
        return error_set(error, STATUS_RESOURCE_LIMIT, "the C++ compiler ran out of memory");
    case GCC_END_STACK:
        return error_set(error, STATUS_RESOURCE_LIMIT, "stack overflow in the C++ compiler");
    case GCC_END_CPU:
        raise(SIGXCPU); /* as if it were this process's time */
        break;
    case GCC_END_DONE:
        break;
    }
    if (WIFSIGNALED(status) || WEXITSTATUS(status) == TOOL_NOT_STARTED)
        return error_set(error, STATUS_SYSTEM, "the C++ compiler's driver ended with status %x: %.200s",
                         (unsigned)status, compile->said);
    compile->rejected = true;
    return 0;
}

static size_t add_all(const char **argv, size_t n, const char *const *list)
{
    for (; *list; list++)
        argv[n++] = *list;
    return n;
}

static size_t count(const char *const *list)
{
    size_t n = 0;
    while (list[n])
        n++;
    return n;
}

static int compile_object(struct compile *compile, struct error *error)
{
    const struct worker_job *job = compile->job;
    char prefix[2 * HOST_CC_PATH];
    const char **argv = calloc(count(host_compile_arguments) + job->n_args + MORE_ARGUMENTS, sizeof *argv);
    size_t n = 0;
    if (!argv)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu arguments", job->n_args);
    snprintf(prefix, sizeof prefix, "-ffile-prefix-map=%s=.", compile->folder);
    argv[n++] = compile->cc->program;
    argv[n++] = "-wrapper";
    argv[n++] = "../b/leaf";
    n = add_all(argv, n, host_compile_arguments);
    argv[n++] = "-fdiagnostics-format=json";
    argv[n++] = "-fmax-errors=100";
    argv[n++] = "-frandom-seed=fusiond";
    argv[n++] = prefix;
    for (size_t i = 0; i < job->n_args; i++)
        argv[n++] = job->args[i].at;
    for (const char *const *folder = includes; *folder; folder++) {
        argv[n++] = "-I";
        argv[n++] = *folder;
    }
    argv[n++] = "-c";
    argv[n++] = "-o";
    argv[n++] = OBJECT;
    argv[n++] = PROGRAM;
    int status = run(compile, argv, error);
    free(argv);
    return status;
}

static int link_image(struct compile *compile, struct error *error)
{
    char *object, *assembly = NULL;
    size_t object_size, assembly_size = 0, n = 0;
    if (tool_read_file(compile->folder, OBJECT, OBJECT_MAX, &object, &object_size, error) < 0)
        return -1;
    int status = shared_arrays_define(object, object_size, &assembly, &assembly_size, error);
    if (status == 0)
        status = tool_write_file(compile->folder, SHARED, assembly, assembly_size, error);
    free(object);
    free(assembly);
    if (status < 0)
        return -1;
    const char **argv = calloc(count(host_link_arguments) + count(host_link_libraries) + MORE_ARGUMENTS, sizeof *argv);
    if (!argv)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to link");
    argv[n++] = compile->cc->program;
    argv[n++] = "-wrapper";
    argv[n++] = "../b/leaf";
    argv[n++] = "-B../b/"; /* its "ld" */
    n = add_all(argv, n, host_link_arguments);
    argv[n++] = "-o";
    argv[n++] = IMAGE;
    argv[n++] = OBJECT;
    argv[n++] = SHARED;
    n = add_all(argv, n, host_link_libraries);
    status = run(compile, argv, error);
    free(argv);
    return status;
}

/* ---- the result ---- */

static int fetch_image(struct compile *compile, struct error *error)
{
    char *image;
    size_t size;
    if (tool_read_file(compile->folder, IMAGE, LIMIT_IMAGE + 1ull, &image, &size, error) < 0)
        return -1;
    if (size > LIMIT_IMAGE) {
        free(image);
        return error_set(error, STATUS_RESOURCE_LIMIT, "the image has more than the %u bytes allowed", LIMIT_IMAGE);
    }
    if (!msgpack_zone_push_finalizer(compile->zone, free, image)) {
        free(image);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the image");
    }
    compile->ret->image = (struct bytes){(const uint8_t *)image, size};
    return 0;
}

static int fetch_entries(struct compile *compile, struct error *error)
{
    const struct worker_job *job = compile->job;
    struct kernel_entry *entries = msgpack_zone_malloc(compile->zone, (job->n_names + 1) * sizeof *entries);
    if (!entries)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu entries", job->n_names);
    /* The image's own table is searched by the name itself. */
    for (size_t i = 0; i < job->n_names; i++)
        entries[i] = (struct kernel_entry){.name = job->names[i], .lowered = job->names[i]};
    compile->ret->entries = entries;
    compile->ret->n_entries = job->n_names;
    return 0;
}

static int fetch_findings(struct compile *compile, struct error *error)
{
    struct worker_result *ret = compile->ret;
    const struct gcc_places places = {includes, compile->folder};
    char *log;
    size_t log_size;
    if (gcc_diagnostics_parse(compile->said, compile->said_size, &places, compile->zone, &ret->diagnostics,
                              &ret->n_diagnostics, &log, &log_size, error) < 0)
        return -1;
    ret->log.at = log_bound((struct text){log, log_size}, compile->zone, &ret->log.size, &ret->log_cut);
    free(log);
    return ret->log.at ? 0 : error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the log");
}

static int run_job(struct compile *compile, struct error *error)
{
    uint64_t started = now_ns();
    if (write_files(compile, error) < 0)
        return -1;
    phase_end(compile, "write", &started);
    if (!compile->rejected) {
        if (compile_object(compile, error) < 0)
            return -1;
        phase_end(compile, "compile", &started);
    }
    if (!compile->rejected) {
        /* Warnings of the compiler, before the linker's words replace them. */
        if (fetch_findings(compile, error) < 0 || link_image(compile, error) < 0)
            return -1;
        phase_end(compile, "link", &started);
    }
    if (compile->rejected)
        return fetch_findings(compile, error);
    return fetch_entries(compile, error) < 0 ? -1 : fetch_image(compile, error);
}

int host_cc_run(const struct host_cc *cc, const struct worker_job *job, msgpack_zone *zone, struct worker_result *ret,
                struct error *error)
{
    struct worker_result result = {.has_result = true};
    struct compile compile = {.cc = cc, .job = job, .zone = zone, .ret = &result};
    snprintf(compile.folder, sizeof compile.folder, "%s/job", cc->work);
    result.phases = msgpack_zone_malloc(zone, N_PHASES * sizeof *result.phases);
    if (!result.phases)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a job");
    int status = run_job(&compile, error);
    free(compile.said);
    if (status == 0)
        status = work_dir_remove(cc->work, "job", error);
    if (status < 0)
        return -1;
    result.result = compile.rejected;
    result.result_name = compile.rejected ? TEXT_OF("the C++ compiler rejected the code") : TEXT_OF("success");
    *ret = result;
    return 0;
}
