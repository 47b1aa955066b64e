/*
 * fusiond-executor: launches kernels on one device for the clients of one user. executor.h has its arguments.
 *
 *   open the device → shut the process in (host device) → executor_ready → { clients, requests, work } → the end
 *
 * The process ends by _exit: exit handlers of drivers and of kernels must not run.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/executor/executor.h"
#include "daemon/executor/host/image.h"
#include "daemon/executor/host/pool.h"
#include "daemon/executor/process.h"
#include "daemon/sandbox/sandbox.h"
#include "proto/envelope.h"

struct options {
    int fd;
    bool probe;
    const char *device;
    unsigned long threads;
    unsigned long spin_us;
};

static int parse_number(const char *text, unsigned long most, unsigned long *ret)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value > most)
        return -1;
    *ret = value;
    return 0;
}

static int parse_options(int argc, char **argv, struct options *ret)
{
    static const struct option table[] = {
        {"fd", required_argument, NULL, 'f'},      {"probe", no_argument, NULL, 'p'},
        {"device", required_argument, NULL, 'd'},  {"threads", required_argument, NULL, 't'},
        {"spin-us", required_argument, NULL, 's'}, {0},
    };
    struct options options = {.fd = -1};
    unsigned long fd;
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1) {
        int status = 0;
        if (letter == 'f') {
            status = parse_number(optarg, 1 << 20, &fd);
            options.fd = (int)fd;
        } else if (letter == 'p') {
            options.probe = true;
        } else if (letter == 'd') {
            options.device = optarg;
        } else if (letter == 't') {
            status = parse_number(optarg, 4096, &options.threads);
        } else if (letter == 's') {
            status = parse_number(optarg, 1000000, &options.spin_us);
        } else {
            status = -1;
        }
        if (status < 0)
            return -1;
    }
    if (options.fd < 3 || optind != argc || options.probe == (options.device != NULL))
        return -1;
    *ret = options;
    return 0;
}

static void complain(const struct error *error)
{
    fprintf(stderr, "fusiond-executor: %s\n", error->text);
}

/* ---- the probe ---- */

static int send_blocking(int fd, const struct executor_ready *ready)
{
    msgpack_sbuffer out;
    int code = EXECUTOR_EXIT_DONE;
    msgpack_sbuffer_init(&out);
    if (envelope_write_message(&out, &executor_ready_type, ready) < 0)
        code = EXECUTOR_EXIT_MEMORY;
    for (size_t at = 0; code == EXECUTOR_EXIT_DONE && at < out.size;) {
        ssize_t n = write(fd, out.data + at, out.size - at);
        if (n <= 0)
            code = EXECUTOR_EXIT_CHANNEL;
        else
            at += (size_t)n;
    }
    msgpack_sbuffer_destroy(&out);
    return code;
}

static int probe(int fd)
{
    static struct device devices[64];
    char no_cuda[ERROR_TEXT] = "", no_host[ERROR_TEXT] = "";
    struct text problems[2];
    struct executor_ready ready = {
        .protocol = EXECUTOR_PROTOCOL, .has_protocol = true, .devices = devices, .problems = problems};
    ready.n_devices = cuda_devices_probe(devices, 63, &ready.mps, no_cuda);
    ready.n_devices += host_devices_probe(devices + ready.n_devices, 1, no_host);
    if (no_cuda[0])
        problems[ready.n_problems++] = text_of(no_cuda);
    if (no_host[0])
        problems[ready.n_problems++] = text_of(no_host);
    return send_blocking(fd, &ready);
}

/* ---- one device ---- */

/* The process is shut in before the first thread is there: Landlock binds the caller and what it starts afterwards.
 * Only memfds are loaded from then on. */
static int open_host(uv_loop_t *loop, const struct options *options, struct backend **ret, enum sandbox *ret_sandbox,
                     struct error *error)
{
    struct device unused;
    char problem[ERROR_TEXT];
    host_devices_probe(&unused, 1, problem); /* reads what it must of the machine */
    if (host_image_prepare(error) < 0 || host_pool_report_faults(error) < 0)
        return -1;
    *ret_sandbox = sandbox_enter(SANDBOX_HOST_EXECUTOR, NULL);
    return host_device_open(loop, (unsigned)options->threads, ret, error);
}

static int open_device(uv_loop_t *loop, const struct options *options, struct backend **ret, enum sandbox *ret_sandbox,
                       struct error *error)
{
    unsigned long ordinal;
    if (strcmp(options->device, "host") == 0)
        return open_host(loop, options, ret, ret_sandbox, error);
    if (parse_number(options->device, 1024, &ordinal) < 0)
        return error_set(error, STATUS_NO_DEVICE, "\"%.64s\" is neither host nor an ordinal", options->device);
    return cuda_device_open(loop, (unsigned)ordinal, ret, error);
}

static int refuse(int fd, const struct error *why)
{
    struct executor_ready ready = {.protocol = EXECUTOR_PROTOCOL, .has_protocol = true, .error = text_of(why->text)};
    complain(why);
    int code = send_blocking(fd, &ready);
    return code == EXECUTOR_EXIT_DONE ? EXECUTOR_EXIT_NO_DEVICE : code;
}

/* A descriptor per buffer of the host device, per image, per client. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int serve(const struct options *options)
{
    static struct process process; /* its handles live as long as the loop */
    static uv_loop_t loop;
    struct process_options settings = {.fd = options->fd, .spin_us = options->spin_us};
    struct backend *backend;
    struct error error;
    if (uv_loop_init(&loop) < 0)
        return EXECUTOR_EXIT_MEMORY;
    raise_file_limit();
    if (open_device(&loop, options, &backend, &settings.sandbox, &error) < 0)
        return refuse(options->fd, &error);
    if (process_init(&process, &loop, backend, &settings, &error) < 0) {
        complain(&error);
        return EXECUTOR_EXIT_MEMORY;
    }
    return process_run(&process);
}

/* Die with the front, which is the process at the channel's other end. */
static int follow_parent(int fd)
{
    char byte;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -1;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct options options;
    if (parse_options(argc, argv, &options) < 0) {
        fprintf(stderr, "usage: fusiond-executor --fd N --probe\n"
                        "       fusiond-executor --fd N --device host|ORDINAL [--threads N] [--spin-us N]\n"
                        "A part of fusiond, which starts it; N is a connected Unix stream socket.\n");
        _exit(EXECUTOR_EXIT_USAGE);
    }
    if (follow_parent(options.fd) < 0)
        _exit(EXECUTOR_EXIT_ORPHAN);
    sigaction(SIGPIPE, &ignore, NULL);
    _exit(options.probe ? probe(options.fd) : serve(&options));
}
