#include "daemon/compiler/transform.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/sandbox/filter.h"
#include "daemon/sandbox/sandbox.h"

/* What is kept of its stderr. */
#define SAID_MAX 2048u
/* How often a program is looked at that has closed its pipes and goes on. */
#define REAP_MS 2

struct run {
    const struct transform_job *job;
    const char *argv[FILTER_ARGS + 2];
    struct filter_files files;
    pid_t pid;
    int in, out, err, grade; /* this side's ends; -1: closed */
    size_t written;          /* of the text */
    char *text;              /* in the zone, with room for one byte more than it may write, and a NUL */
    size_t size;
    char said[SAID_MAX + 1];
    size_t n_said;
    int64_t until_ms;
    const char *broken; /* why it was killed */
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the program's side ---- */

/* Between fork and exec, in a process of one thread. What it says goes to the pipe that its stderr is by then. */
static void become(const struct run *run, const int pipes[4][2], pid_t parent)
{
    static const char *const libraries[] = {"/lib",       "/lib64",         "/usr/lib",        "/usr/lib64",
                                            "/usr/lib32", "/usr/local/lib", "/etc/ld.so.cache"};
    enum { LIBRARIES = sizeof libraries / sizeof libraries[0] };
    const char *runnable[FILTER_FILES + LIBRARIES + 1];
    char language[] = "LC_ALL=C";
    char *environment[] = {language, NULL};
    struct sigaction as_usual = {.sa_handler = SIG_DFL};
    size_t n = 0;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || chdir("/") < 0)
        _exit(127);
    /* Above where they go to, so that none overwrites another. */
    int grade = fcntl(pipes[3][1], F_DUPFD_CLOEXEC, 16);
    if (grade < 0 || dup2(pipes[0][0], STDIN_FILENO) < 0 || dup2(pipes[1][1], STDOUT_FILENO) < 0 ||
        dup2(pipes[2][1], STDERR_FILENO) < 0)
        _exit(127);
    sigaction(SIGPIPE, &as_usual, NULL);
    sigaction(SIGXFSZ, &as_usual, NULL);
    for (size_t i = 0; i < run->files.n; i++)
        runnable[n++] = run->files.paths[i];
    for (size_t i = 0; i < LIBRARIES; i++)
        runnable[n++] = libraries[i];
    runnable[n] = NULL;
    const struct sandbox_paths paths = {.run = runnable};
    const rlim_t seconds = (rlim_t)(run->job->timeout_ms / 1000 + 1);
    uint8_t granted = (uint8_t)sandbox_enter(SANDBOX_FILTER, &paths);
    /* Its own, which the profile's cannot undo. */
    setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds});
    if (write(grade, &granted, 1) != 1)
        _exit(127);
    execve(run->argv[0], (char *const *)(uintptr_t)run->argv, environment);
    dprintf(STDERR_FILENO, "it cannot be started: %s\n", strerror(errno));
    _exit(127);
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int start(struct run *run, struct error *error)
{
    int pipes[4][2];
    for (int i = 0; i < 4; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) == 0)
            continue;
        error_set_errno(error, STATUS_SYSTEM, errno, "no pipe for a transform");
        while (i-- > 0)
            close(pipes[i][0]), close(pipes[i][1]);
        return -1;
    }
    pid_t self = getpid();
    run->pid = fork();
    if (run->pid == 0)
        become(run, pipes, self);
    int number = errno;
    close(pipes[0][0]);
    run->in = pipes[0][1];
    for (int i = 1; i < 4; i++)
        close(pipes[i][1]);
    run->out = pipes[1][0];
    run->err = pipes[2][0];
    run->grade = pipes[3][0];
    fcntl(run->in, F_SETFL, O_NONBLOCK);
    return run->pid < 0 ? error_set_errno(error, STATUS_SYSTEM, number, "starting a transform") : 0;
}

/* ---- this side ---- */

static void feed(struct run *run)
{
    struct text text = run->job->text;
    ssize_t n = write(run->in, text.at + run->written, text.size - run->written);
    if (n > 0)
        run->written += (size_t)n;
    /* It need not read it all. */
    if ((n < 0 && errno != EAGAIN && errno != EINTR) || run->written == text.size)
        close_one(&run->in);
}

static void take_out(struct run *run)
{
    size_t room = (size_t)run->job->limit + 1 - run->size;
    ssize_t n = read(run->out, run->text + run->size, room);
    if (n <= 0) {
        close_one(&run->out);
        return;
    }
    run->size += (size_t)n;
    if (run->size > run->job->limit)
        run->broken = "it wrote more than it may";
}

static void take_err(struct run *run)
{
    char scrap[4096];
    ssize_t n = read(run->err, scrap, sizeof scrap);
    if (n <= 0)
        close_one(&run->err);
    for (ssize_t i = 0; i < n && run->n_said < SAID_MAX; i++) {
        unsigned char c = (unsigned char)scrap[i];
        run->said[run->n_said++] = c == '\n' || (c >= 0x20 && c < 0x7f) ? scrap[i] : '?';
    }
}

static void talk(struct run *run)
{
    if (run->job->text.size == 0)
        close_one(&run->in);
    while (!run->broken && (run->out >= 0 || run->err >= 0)) {
        struct pollfd fds[3] = {
            {.fd = run->in, .events = POLLOUT}, {.fd = run->out, .events = POLLIN}, {.fd = run->err, .events = POLLIN}};
        int64_t left = run->until_ms - now_ms();
        if (left <= 0) {
            run->broken = "it was killed after its deadline";
        } else if (poll(fds, 3, (int)(left < 1000000 ? left : 1000000)) > 0) {
            if (fds[0].revents)
                feed(run);
            if (fds[1].revents)
                take_out(run);
            if (fds[2].revents)
                take_err(run);
        }
    }
}

static int reap(struct run *run)
{
    int status = 0;
    pid_t pid;
    while (!run->broken && (pid = waitpid(run->pid, &status, WNOHANG)) == 0) {
        if (now_ms() >= run->until_ms)
            run->broken = "it was killed after its deadline";
        else
            poll(NULL, 0, REAP_MS);
    }
    if (run->broken) {
        kill(run->pid, SIGKILL);
        while (waitpid(run->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    return status;
}

/* ---- what came of it ---- */

static int fail(msgpack_zone *zone, struct transform_result *ret, const char *what, struct error *error)
{
    size_t size = strnlen(what, ERROR_TEXT - 1);
    char *copy = msgpack_zone_malloc(zone, size + 1);
    if (!copy)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a transform's result");
    memcpy(copy, what, size);
    copy[size] = '\0';
    ret->error = (struct text){copy, size};
    return 0;
}

static int keep_said(const struct run *run, msgpack_zone *zone, struct transform_result *ret, struct error *error)
{
    if (run->n_said == 0)
        return 0;
    char *copy = msgpack_zone_malloc(zone, run->n_said + 1);
    if (!copy)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a transform's words");
    memcpy(copy, run->said, run->n_said);
    copy[run->n_said] = '\0';
    ret->said = (struct text){copy, run->n_said};
    return 0;
}

static int judge(struct run *run, int status, msgpack_zone *zone, struct transform_result *ret, struct error *error)
{
    char what[ERROR_TEXT];
    if (keep_said(run, zone, ret, error) < 0)
        return -1;
    if (run->broken)
        snprintf(what, sizeof what, "%s (%llu ms, %llu bytes)", run->broken, (unsigned long long)run->job->timeout_ms,
                 (unsigned long long)run->job->limit);
    else if (WIFSIGNALED(status))
        snprintf(what, sizeof what, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        snprintf(what, sizeof what, "exit status %d", WEXITSTATUS(status));
    else if (run->size == 0)
        snprintf(what, sizeof what, "it wrote nothing");
    else if (memchr(run->text, '\0', run->size))
        snprintf(what, sizeof what, "it wrote a NUL byte");
    else {
        run->text[run->size] = '\0';
        ret->text = (struct text){run->text, run->size};
        return 0;
    }
    return fail(zone, ret, what, error);
}

static int run_program(struct run *run, msgpack_zone *zone, struct transform_result *ret, struct error *error)
{
    uint8_t grade = 0;
    run->text = msgpack_zone_malloc(zone, (size_t)run->job->limit + 2);
    if (!run->text)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the text of a transform");
    run->until_ms = now_ms() + (int64_t)run->job->timeout_ms;
    int status = 0, result = start(run, error);
    if (result == 0) {
        talk(run);
        status = reap(run);
        if (read(run->grade, &grade, 1) == 1)
            ret->sandbox = (enum sandbox)grade;
    }
    close_one(&run->in);
    close_one(&run->out);
    close_one(&run->err);
    close_one(&run->grade);
    return result < 0 ? -1 : judge(run, status, zone, ret, error);
}

/* Whether it is still the program that the key was computed for. */
static int check(struct run *run, msgpack_zone *zone, struct transform_result *ret, bool *ret_good, struct error *error)
{
    uint8_t digest[DIGEST_SIZE];
    struct error why;
    *ret_good = false;
    if (filter_files_find(run->argv, &run->files, &why) < 0 ||
        filter_files_digest(run->argv, &run->files, digest, &why) < 0)
        return fail(zone, ret, why.text, error);
    *ret_good = memcmp(digest, run->job->digest, DIGEST_SIZE) == 0;
    ret->replaced = !*ret_good;
    return *ret_good ? 0 : fail(zone, ret, "it was replaced; try again", error);
}

int transform_run(const struct transform_job *job, msgpack_zone *zone, struct transform_result *ret,
                  struct error *error)
{
    struct transform_result result = {0};
    struct run run = {.job = job, .in = -1, .out = -1, .err = -1, .grade = -1};
    bool good;
    if (job->n_argv == 0 || job->n_argv > FILTER_ARGS + 1)
        return error_set(error, STATUS_SYSTEM, "a transform with %zu arguments; the limit is %d", job->n_argv,
                         FILTER_ARGS + 1);
    for (size_t i = 0; i < job->n_argv; i++)
        run.argv[i] = job->argv[i].at;
    int status = check(&run, zone, &result, &good, error);
    if (status == 0 && good)
        status = run_program(&run, zone, &result, error);
    filter_files_finish(&run.files);
    if (status == 0)
        *ret = result;
    return status;
}
