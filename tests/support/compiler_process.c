#include "tests/support/compiler_process.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/envelope.h"

#define ARGS_MAX 32

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whether the descriptor has something to read (or its end) before the deadline. */
static bool wait_readable(int fd, long deadline)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    for (;;) {
        long left = deadline - now_ms();
        int n = poll(&wanted, 1, left > 0 ? (int)left : 0);
        if (n < 0 && errno == EINTR)
            continue;
        return n > 0;
    }
}

int compiler_process_start(struct compiler_process *ret, const char *const *args)
{
    const char *path = getenv("FUSIOND_COMPILER");
    const char *argv[ARGS_MAX] = {"fusiond-compiler", "--fd", "3"};
    char *const environment[] = {NULL};
    int pair[2], errors[2], n = 3;
    struct compiler_process process = {0};
    /* The worker's environment is empty: it is told what scripts/test has found. A later --nvrtc overrides. */
    const char *nvrtc = getenv("FUSIOND_NVRTC");
    if (nvrtc != NULL) {
        argv[n++] = "--nvrtc";
        argv[n++] = nvrtc;
    }
    for (; args != NULL && *args != NULL && n < ARGS_MAX - 1; args++)
        argv[n++] = *args;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    if (pipe2(errors, O_CLOEXEC) < 0) {
        close(pair[0]);
        close(pair[1]);
        return -1;
    }

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    /* By way of a high number: a dup2 of 3 onto itself would leave it closed on exec. */
    int high = fcntl(pair[1], F_DUPFD_CLOEXEC, 100);
    posix_spawn_file_actions_adddup2(&actions, high, 3);
    posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
    int failed =
        posix_spawn(&process.pid, path ? path : COMPILER_PATH, &actions, NULL, (char *const *)argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    close(high);
    close(pair[1]);
    close(errors[1]);
    if (failed) {
        close(pair[0]);
        close(errors[0]);
        return -1;
    }
    process.channel = pair[0];
    process.errors = errors[0];
    frame_reader_init(&process.reader, LIMIT_FRAME_WORKER);
    *ret = process;
    return 0;
}

int compiler_process_read(struct compiler_process *process, const struct message_type *type, msgpack_zone *zone,
                          void *ret, struct error *error)
{
    long deadline = now_ms() + COMPILER_PROCESS_PATIENCE_MS;
    const uint8_t *payload;
    size_t size, room;
    for (;;) {
        int got = frame_reader_next(&process->reader, &payload, &size, error);
        if (got < 0)
            return -1;
        if (got > 0)
            return envelope_read_message(payload, size, type, zone, ret, error);
        if (!wait_readable(process->channel, deadline))
            return error_set(error, STATUS_TIMEOUT, "no %s from the worker in time", type->name);
        uint8_t *at = frame_reader_room(&process->reader, &room);
        ssize_t n = at ? read(process->channel, at, room) : -1;
        if (n < 0)
            return error_set_errno(error, STATUS_SYSTEM, errno, "reading from the worker");
        if (n == 0)
            return error_set(error, STATUS_DISCONNECTED, "the worker closed the channel before a %s", type->name);
        frame_reader_filled(&process->reader, (size_t)n);
    }
}

int compiler_process_write(struct compiler_process *process, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = send(process->channel, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

int compiler_process_send(struct compiler_process *process, const struct worker_job *job)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    int failed = envelope_write_message(&out, &worker_job_type, job);
    if (!failed)
        failed = compiler_process_write(process, out.data, out.size);
    msgpack_sbuffer_destroy(&out);
    return failed ? -1 : 0;
}

int compiler_process_compile(struct compiler_process *process, const struct worker_job *job, msgpack_zone *zone,
                             struct worker_result *ret, struct error *error)
{
    if (compiler_process_send(process, job) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "sending a job");
    return compiler_process_read(process, &worker_result_type, zone, ret, error);
}

void compiler_process_hang_up(struct compiler_process *process)
{
    if (process->channel >= 0)
        close(process->channel);
    process->channel = -1;
}

int compiler_process_wait(struct compiler_process *process)
{
    int status = -1;
    /* The pipe ends when the process does: a wait with a bound, without a signal handler. */
    char words[4096];
    long deadline = now_ms() + COMPILER_PROCESS_PATIENCE_MS;
    while (process->errors >= 0) {
        if (!wait_readable(process->errors, deadline))
            return -1;
        if (read(process->errors, words, sizeof words) <= 0)
            break;
    }
    if (waitpid(process->pid, &status, 0) != process->pid)
        return -1;
    process->pid = 0;
    return status;
}

void compiler_process_words(struct compiler_process *process, char *ret, size_t size)
{
    long deadline = now_ms() + COMPILER_PROCESS_PATIENCE_MS;
    size_t held = 0;
    while (held < size - 1 && wait_readable(process->errors, deadline)) {
        ssize_t n = read(process->errors, ret + held, size - 1 - held);
        if (n <= 0)
            break;
        held += (size_t)n;
    }
    ret[held] = '\0';
}

void compiler_process_finish(struct compiler_process *process)
{
    compiler_process_hang_up(process);
    if (process->pid > 0) {
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
    }
    if (process->errors >= 0)
        close(process->errors);
    frame_reader_finish(&process->reader);
    process->pid = 0;
    process->errors = -1;
}

void compiler_process_start_or_skip(struct compiler_process *ret, const char *const *args, msgpack_zone *zone,
                                    struct worker_ready *ret_ready)
{
    struct error error = {0};
    cr_assert(compiler_process_start(ret, args) == 0, "fusiond-compiler cannot be started: %s", strerror(errno));
    int failed = compiler_process_read(ret, &worker_ready_type, zone, ret_ready, &error);
    cr_assert(failed == 0, "no worker_ready: %s", error.text);
    if (ret_ready->error.at != NULL) {
        compiler_process_finish(ret);
        cr_assert(getenv("FUSIOND_NVRTC") == NULL, "FUSIOND_NVRTC is set, and still: %s", ret_ready->error.at);
        cr_skip("no NVRTC here: %s", ret_ready->error.at);
    }
}
