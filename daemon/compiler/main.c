/*
 * fusiond-compiler: reads jobs from a socket, compiles them with NVRTC, or with the C++ compiler for the host device,
 * answers. One thread, one job at a time.
 *
 *   load the library, or find the compiler → one compile to warm it up → shut the process in → worker_ready → {
 * worker_job → worker_result }
 *
 * worker_ready comes last, so that a job never reaches a worker that is not shut in, and because it carries how well
 * it is. The process ends by _exit only: the compiler's exit handlers must not run.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/compiler/channel.h"
#include "daemon/compiler/crash.h"
#include "daemon/compiler/host_cc.h"
#include "daemon/compiler/job.h"
#include "daemon/compiler/nvrtc.h"
#include "daemon/compiler/toolkit.h"
#include "daemon/compiler/worker.h"
#include "daemon/compiler/zygote.h"
#include "daemon/sandbox/sandbox.h"
#include "preamble/preamble.h"
#include "proto/envelope.h"

#define DIRS_MAX 16
/* A third of the share of a process that is not nice: compiles go on beside programs that use every core. */
#define NICER_BY 5

struct options {
    int fd;
    bool probe;
    const char *nvrtc;
    const char *dirs[DIRS_MAX];
    size_t n_dirs;
    bool toolkit; /* programs may include the toolkit's headers */
    const char *toolkit_include;
    const char *host_cc; /* NULL: NVRTC */
    const char *work_dir;
    bool zygote; /* work_dir is then for its header */
};

/* What compiles. */
struct back_end {
    const struct toolkit *toolkit; /* whose headers are open to programs; NULL: none */
    uint8_t headers[DIGEST_SIZE];  /* which they are */
    int (*run)(const void *compiler, const struct worker_job *job, msgpack_zone *zone, struct worker_result *ret,
               struct error *error);
    const void *compiler;
    /* What worker_ready tells. */
    unsigned major, minor;
    const int *archs;
    size_t n_archs;
    const char *path;
    char identity[512];
    uint8_t build[DIGEST_SIZE];
};

static void complain(const struct error *error)
{
    fprintf(stderr, "fusiond-compiler: %s\n", error->text);
}

static int parse_options(int argc, char **argv, struct options *ret)
{
    static const struct option table[] = {
        {"fd", required_argument, NULL, 'f'},
        {"nvrtc", required_argument, NULL, 'n'},
        {"nvrtc-dir", required_argument, NULL, 'd'},
        {"toolkit-headers", no_argument, NULL, 't'},
        {"toolkit-include", required_argument, NULL, 'i'},
        {"host-cc", required_argument, NULL, 'c'},
        {"work-dir", required_argument, NULL, 'w'},
        {"probe", no_argument, NULL, 'p'},
        {"zygote", no_argument, NULL, 'z'},
        {0},
    };
    struct options options = {.fd = -1};
    char *end;
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (letter == 'f') {
            long fd = strtol(optarg, &end, 10);
            if (end == optarg || *end != '\0' || fd < 3 || fd > 1 << 20)
                return -1;
            options.fd = (int)fd;
        } else if (letter == 'n') {
            options.nvrtc = optarg;
        } else if (letter == 'd' && options.n_dirs < DIRS_MAX) {
            options.dirs[options.n_dirs++] = optarg;
        } else if (letter == 't') {
            options.toolkit = true;
        } else if (letter == 'i') {
            options.toolkit_include = optarg;
        } else if (letter == 'c') {
            options.host_cc = optarg;
        } else if (letter == 'w') {
            options.work_dir = optarg;
        } else if (letter == 'p') {
            options.probe = true;
        } else if (letter == 'z') {
            options.zygote = true;
        } else {
            return -1;
        }
    }
    if (options.fd < 0 || optind != argc || (options.host_cc || options.zygote) != !!options.work_dir ||
        (options.zygote && (options.host_cc || options.probe)))
        return -1;
    *ret = options;
    return 0;
}

static int send_ready(struct channel *channel, const struct back_end *back_end, enum sandbox sandbox, bool probe,
                      struct error *error)
{
    int64_t archs[NVRTC_MAX_ARCHS];
    struct worker_ready ready = {
        .protocol = WORKER_PROTOCOL,
        .has_protocol = true,
        .major = back_end->major,
        .has_major = true,
        .minor = back_end->minor,
        .has_minor = true,
        .archs = archs,
        .n_archs = back_end->n_archs,
        .library = text_of(back_end->path),
        .identity = text_of(back_end->identity),
        .sandbox = sandbox,
    };
    for (size_t i = 0; i < back_end->n_archs; i++)
        archs[i] = back_end->archs[i];
    if (probe) {
        memcpy(ready.build, back_end->build, DIGEST_SIZE);
        ready.has_build = true;
    }
    return channel_write_message(channel, &worker_ready_type, &ready, error);
}

/* The parent is told in words; it need not read stderr for this. */
static int refuse(struct channel *channel, const struct error *why)
{
    struct error error;
    struct worker_ready ready = {.protocol = WORKER_PROTOCOL, .has_protocol = true, .error = text_of(why->text)};
    complain(why);
    if (channel_write_message(channel, &worker_ready_type, &ready, &error) < 0)
        complain(&error);
    return WORKER_EXIT_NO_COMPILER;
}

/* The worker's programs are keyed by the headers that it started with. */
static int check_headers(const struct back_end *back_end, struct error *error)
{
    uint8_t headers[DIGEST_SIZE];
    if (toolkit_identity(back_end->toolkit, headers, error) < 0)
        return -1;
    if (memcmp(headers, back_end->headers, DIGEST_SIZE) != 0)
        return error_set(error, STATUS_COMPILER_UNAVAILABLE, "the toolkit's headers have changed");
    return 0;
}

/* Answer one job. The exit code if the worker cannot go on, else -1. */
static int serve(struct channel *channel, const struct back_end *back_end, const uint8_t *frame, size_t size)
{
    struct error error;
    struct worker_job job;
    struct worker_result result;
    int code = -1;
    msgpack_zone zone;
    if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE)) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a job");
        complain(&error);
        return WORKER_EXIT_MEMORY;
    }
    sandbox_allow_job();
    if (back_end->toolkit && check_headers(back_end, &error) < 0)
        code = WORKER_EXIT_REPLACED;
    else if (envelope_read_message(frame, size, &worker_job_type, &zone, &job, &error) < 0)
        code = WORKER_EXIT_CHANNEL;
    else if (back_end->run(back_end->compiler, &job, &zone, &result, &error) < 0)
        code = error.code == STATUS_SYSTEM ? WORKER_EXIT_SYSTEM : WORKER_EXIT_MEMORY;
    else if (channel_write_message(channel, &worker_result_type, &result, &error) < 0)
        code = WORKER_EXIT_CHANNEL;
    if (code != -1)
        complain(&error);
    msgpack_zone_destroy(&zone);
    return code;
}

static int serve_all(struct channel *channel, const struct back_end *back_end)
{
    struct error error;
    const uint8_t *frame;
    size_t size;
    for (;;) {
        int got = channel_read(channel, &frame, &size, &error);
        if (got == 0)
            return WORKER_EXIT_DONE;
        if (got < 0) {
            complain(&error);
            return WORKER_EXIT_CHANNEL;
        }
        int code = serve(channel, back_end, frame, size);
        if (code != -1)
            return code;
    }
}

/* ---- the two back ends ---- */

static int run_nvrtc(const void *compiler, const struct worker_job *job, msgpack_zone *zone, struct worker_result *ret,
                     struct error *error)
{
    return job_run(compiler, job, zone, ret, error);
}

/* Before the warm-up: whether there are headers at all is known quickly. */
static int open_toolkit(const struct options *options, struct nvrtc *nvrtc, struct back_end *ret, struct error *error)
{
    static struct toolkit toolkit;
    if (!sandbox_has_landlock())
        return error_set(error, STATUS_COMPILER_UNAVAILABLE,
                         "toolkit headers: this kernel has no Landlock, so a program that may read them could read any "
                         "file; send what it includes with fusion.headers");
    if (toolkit_find(&toolkit, nvrtc->path, options->toolkit_include, error) < 0)
        return -1;
    nvrtc->includes = toolkit.option_list;
    ret->toolkit = &toolkit;
    return 0;
}

/* The headers are a part of the compiler: of its identity, and of its digest, which is in every key. */
static int identify_toolkit(bool probe, struct back_end *back_end, struct error *error)
{
    char hex[2 * DIGEST_SIZE + 1];
    uint8_t both[2][DIGEST_SIZE];
    if (toolkit_identity(back_end->toolkit, back_end->headers, error) < 0)
        return -1;
    key_to_hex(back_end->headers, hex);
    size_t used = strlen(back_end->identity);
    snprintf(back_end->identity + used, sizeof back_end->identity - used, " headers %s", hex);
    if (!probe)
        return 0;
    memcpy(both[0], back_end->build, DIGEST_SIZE);
    if (toolkit_build(back_end->toolkit, both[1], error) < 0)
        return -1;
    digest_of(both, sizeof both, back_end->build);
    return 0;
}

static int open_nvrtc(const struct options *options, struct back_end *ret, struct error *error)
{
    static struct nvrtc nvrtc;
    if (nvrtc_open(&nvrtc, options->nvrtc, options->dirs, options->n_dirs, error) < 0)
        return -1;
    preamble_modules(); /* digests its texts once, while everything is allowed */
    /* After the library was found, before it looks where it is: line tables hold the folder. */
    if (chdir("/") < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "chdir /");
    *ret = (struct back_end){.run = run_nvrtc,
                             .compiler = &nvrtc,
                             .major = (unsigned)nvrtc.major,
                             .minor = (unsigned)nvrtc.minor,
                             .archs = nvrtc.archs,
                             .n_archs = nvrtc.n_archs,
                             .path = nvrtc.path};
    if (options->toolkit && open_toolkit(options, &nvrtc, ret, error) < 0)
        return -1;
    if (nvrtc_warm_up(&nvrtc, error) < 0 || nvrtc_identity(&nvrtc, ret->identity, sizeof ret->identity, error) < 0 ||
        (options->probe && nvrtc_build(&nvrtc, ret->build, error) < 0))
        return -1;
    return options->toolkit ? identify_toolkit(options->probe, ret, error) : 0;
}

static int run_host_cc(const void *compiler, const struct worker_job *job, msgpack_zone *zone,
                       struct worker_result *ret, struct error *error)
{
    return host_cc_run(compiler, job, zone, ret, error);
}

static int open_host_cc(const struct options *options, struct back_end *ret, struct error *error)
{
    static struct host_cc cc;
    if (host_cc_open(&cc, options->host_cc, options->work_dir, error) < 0)
        return -1;
    *ret = (struct back_end){
        .run = run_host_cc, .compiler = &cc, .major = cc.major, .minor = cc.minor, .path = cc.program};
    return host_cc_warm_up(&cc, error) < 0 || host_cc_identity(&cc, ret->identity, sizeof ret->identity, error) < 0 ||
                   (options->probe && host_cc_build(&cc, ret->build, error) < 0)
               ? -1
               : 0;
}

static int run(struct channel *channel, const struct options *options)
{
    struct back_end back_end;
    struct error error;
    enum sandbox sandbox;
    if ((options->host_cc ? open_host_cc(options, &back_end, &error) : open_nvrtc(options, &back_end, &error)) < 0)
        return refuse(channel, &error);
    if (options->zygote)
        return zygote_run(channel, &(struct zygote_compiler){.nvrtc = back_end.compiler,
                                                             .toolkit = back_end.toolkit,
                                                             .headers = back_end.headers,
                                                             .identity = back_end.identity,
                                                             .folder = options->work_dir});
    if (options->host_cc)
        sandbox = host_cc_enter_sandbox(back_end.compiler);
    else if (options->toolkit)
        sandbox = sandbox_enter(SANDBOX_TOOLKIT, &(struct sandbox_paths){.read = back_end.toolkit->paths});
    else
        sandbox = sandbox_enter(SANDBOX_COMPILER, NULL);
    if (back_end.toolkit)
        toolkit_fence(back_end.toolkit);
    if (send_ready(channel, &back_end, sandbox, options->probe, &error) < 0) {
        complain(&error);
        return WORKER_EXIT_CHANNEL;
    }
    return options->probe ? WORKER_EXIT_DONE : serve_all(channel, &back_end);
}

/* Workers may use every core for minutes: the daemon's loop and its clients are served before them. What cannot be had
 * costs only that. The programs that it starts inherit both. */
static void let_others_go_first(void)
{
    static const struct sched_param none;
    sched_setscheduler(0, SCHED_BATCH, &none);
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICER_BY);
}

int main(int argc, char **argv)
{
    struct options options;
    struct error error;
    struct channel channel;
    if (parse_options(argc, argv, &options) < 0) {
        fprintf(stderr, "usage: fusiond-compiler --fd N [--nvrtc FILE] [--nvrtc-dir FOLDER]... [--probe]\n"
                        "                        [--toolkit-headers [--toolkit-include FOLDER[:FOLDER]...]]\n"
                        "       fusiond-compiler --fd N [--nvrtc …] [--toolkit-headers …] --zygote --work-dir FOLDER\n"
                        "       fusiond-compiler --fd N --host-cc PROGRAM --work-dir FOLDER [--probe]\n"
                        "A part of fusiond, which starts it; N is a connected Unix stream socket.\n");
        _exit(WORKER_EXIT_USAGE);
    }
    if (sandbox_follow_parent(options.fd) < 0)
        _exit(WORKER_EXIT_ORPHAN);
    if (sandbox_prepare(&options.fd, &error) < 0) {
        complain(&error);
        _exit(WORKER_EXIT_CHANNEL);
    }
    let_others_go_first();
    crash_handlers_install(SANDBOX_STACK);
    channel_init(&channel, options.fd);
    int code = run(&channel, &options);
    channel_finish(&channel);
    _exit(code);
}
