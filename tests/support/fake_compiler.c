/*
 * A stand-in for fusiond-compiler that speaks its messages and does what the --nvrtc argument says, so that every way
 * in which a worker can behave or fail is had at will: "[/]<behaviour>[:<path>]".
 *
 *   normal              compiles everything: the image names the process and the job
 *   ready-error         worker_ready says that there is no compiler
 *   wrong-protocol      worker_ready is of another version
 *   says-little         the probe tells neither build nor identity
 *   garbage-ready       bytes that are no message, instead of worker_ready
 *   other-identity      the worker has another library than the probe
 *   identity            what the library is stands in the file at path
 *   minor-N             the library is version 13.N
 *   probe-once          the probe dies unless path exists, and creates it
 *   dies-at-start       the worker does, the probe does not
 *   starts-late         the worker dies at its start until path exists
 *   dies-on-job         abort
 *   crash-once          abort on a job unless path exists, which it creates
 *   hangs               on a job, for ever
 *   garbage             bytes that are no message, instead of worker_result
 *   no-memory, no-stack, no-time   ends on a job like a compiler that ran out of it
 *   chatters            says "out of memory" during one job, and dies without a word on the next
 *   waits               for one byte from the FIFO at path before it answers a job
 *   unasked             sends a second result
 *   shows-names         the image holds the name of the first entry, where nothing can be put in its place
 *   silent              never gets ready
 *   no-walls, seccomp-alone   is not shut in, or only so
 *
 * A program that contains "#error" is rejected in all of them.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/compiler/worker.h"
#include "kernels_db/kernel_key.h"
#include "proto/envelope.h"
#include "proto/frame.h"

#define CHANNEL 3

static const char *script = "normal";
static char path[4096];
static bool probe;

static bool does(const char *behaviour)
{
    size_t size = strlen(behaviour);
    return strncmp(script, behaviour, size) == 0 && (script[size] == '\0' || script[size] == ':');
}

/* Whether the file was there; it is from now on. */
static bool seen(void)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

static void write_all(const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(CHANNEL, at, size);
        if (n <= 0)
            _exit(3);
        at += n;
        size -= (size_t)n;
    }
}

static void send_message(const struct message_type *type, const void *message)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    if (envelope_write_message(&out, type, message) < 0)
        _exit(5);
    write_all(out.data, out.size);
    msgpack_sbuffer_destroy(&out);
}

static void send_garbage(void)
{
    write_all("\0\0\0\x04\x93\x02\xc0\xc0", 8);
}

/* ---- the greeting ---- */

static unsigned minor_version(void)
{
    return strncmp(script, "minor-", 6) == 0 ? (unsigned)atoi(script + 6) : 0;
}

static struct text identity(void)
{
    /* What was loaded at the start stays loaded. */
    static bool known;
    static char text[256] = "library 1";
    if (known)
        return text_of(text);
    known = true;
    if (does("other-identity") && !probe)
        strcpy(text, "library 2");
    if (minor_version() > 0)
        snprintf(text, sizeof text, "library of minor version %u", minor_version());
    if (does("identity")) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    return text_of(text);
}

static void greet(void)
{
    static int64_t archs[] = {75, 80, 90};
    struct worker_ready ready = {
        .protocol = does("wrong-protocol") ? WORKER_PROTOCOL + 1 : WORKER_PROTOCOL,
        .has_protocol = true,
        .major = 13,
        .has_major = true,
        .minor = minor_version(),
        .has_minor = true,
        .archs = archs,
        .n_archs = 3,
        .library = TEXT_OF("/fake/libnvrtc.so"),
        .identity = identity(),
        .sandbox = does("no-walls")        ? SANDBOX_NONE
                   : does("seccomp-alone") ? SANDBOX_SECCOMP
                                           : SANDBOX_FULL,
    };
    digest_of(ready.identity.at, ready.identity.size, ready.build);
    ready.has_build = probe;
    if (does("ready-error"))
        ready.error = TEXT_OF("there is no NVRTC here");
    if (does("says-little")) {
        ready.identity = (struct text){NULL, 0};
        ready.has_build = false;
    }
    if (does("garbage-ready"))
        send_garbage();
    else
        send_message(&worker_ready_type, &ready);
    if (ready.error.at)
        _exit(4);
}

/* ---- jobs ---- */

static void misbehave(unsigned n_jobs)
{
    char byte;
    if (does("dies-on-job") || (does("crash-once") && !seen()) || (does("chatters") && n_jobs > 1))
        abort();
    if (does("hangs"))
        for (;;)
            pause();
    if (does("no-memory") || does("chatters"))
        fputs("nvrtc: out of memory\n", stderr);
    if (does("no-stack"))
        fputs(WORKER_WORDS_STACK "\n", stderr);
    if (does("no-memory") || does("no-stack"))
        abort();
    if (does("no-time"))
        raise(SIGXCPU);
    if (does("waits")) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, &byte, 1) != 1)
            _exit(9);
        close(fd);
    }
}

static void answer(const struct worker_job *job, unsigned n_jobs)
{
    static struct kernel_entry entries[LIMIT_ENTRIES];
    static char image[256];
    struct diagnostic diagnostic = {.severity = SEVERITY_ERROR,
                                    .file = TEXT_OF("fusion.cu"),
                                    .line = 7,
                                    .has_line = true,
                                    .text = TEXT_OF("#error: as asked")};
    struct phase phase = {.name = TEXT_OF("compile"), .ns = 5, .has_ns = true};
    struct worker_result result = {
        .has_result = true, .result_name = TEXT_OF("NVRTC_SUCCESS"), .phases = &phase, .n_phases = 1};
    if (strstr(job->program.at, "#error")) {
        result.result = 6;
        result.result_name = TEXT_OF("NVRTC_ERROR_COMPILATION");
        result.diagnostics = &diagnostic;
        result.n_diagnostics = 1;
        result.log = TEXT_OF("fusion.cu(7): error: as asked");
    } else {
        if (does("shows-names"))
            snprintf(image, sizeof image, "image of %s", job->names[0].at);
        else
            snprintf(image, sizeof image, "image pid=%d job=%u library=%s", getpid(), n_jobs, identity().at);
        for (size_t i = 0; i < job->n_names; i++)
            entries[i] = (struct kernel_entry){
                .name = job->names[i], .lowered = job->names[i], .registers = 16, .has_registers = true};
        result.entries = entries;
        result.n_entries = job->n_names;
        result.image = (struct bytes){(const uint8_t *)image, strlen(image)};
        result.ptx = (struct bytes){(const uint8_t *)"ptx", 3};
        result.log = TEXT_OF("");
    }
    if (does("garbage"))
        send_garbage();
    else
        send_message(&worker_result_type, &result);
    if (does("unasked"))
        send_message(&worker_result_type, &result);
}

static void serve(void)
{
    struct frame_reader reader;
    struct error error;
    const uint8_t *frame;
    size_t size, room;
    frame_reader_init(&reader, LIMIT_FRAME_WORKER);
    for (unsigned n_jobs = 1;;) {
        int got = frame_reader_next(&reader, &frame, &size, &error);
        if (got < 0)
            _exit(3);
        if (got > 0) {
            msgpack_zone *zone = msgpack_zone_new(4096);
            struct worker_job job;
            if (envelope_read_message(frame, size, &worker_job_type, zone, &job, &error) < 0)
                _exit(3);
            misbehave(n_jobs);
            answer(&job, n_jobs++);
            msgpack_zone_free(zone);
            continue;
        }
        uint8_t *into = frame_reader_room(&reader, &room);
        ssize_t n = read(CHANNEL, into, room);
        if (n <= 0)
            _exit(0);
        frame_reader_filled(&reader, (size_t)n);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--probe") == 0)
            probe = true;
        if (strcmp(argv[i], "--nvrtc") == 0 && i + 1 < argc) {
            script = argv[++i];
            script += script[0] == '/'; /* a daemon makes every path absolute */
        }
    }
    if (script[0] == '/')
        script++; /* the daemon makes it a path */
    if (strchr(script, ':'))
        snprintf(path, sizeof path, "%s", strchr(script, ':') + 1);
    if (does("silent") && !probe)
        for (;;)
            pause();
    if ((does("dies-at-start") && !probe) || (does("starts-late") && !probe && access(path, F_OK) != 0) ||
        (does("probe-once") && probe && !seen())) {
        fputs("no reason given\n", stderr);
        _exit(1);
    }
    greet();
    if (!probe)
        serve();
    _exit(0);
}
