#include "client/fusionctl/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- finding ---- */

static char *find_in(const char *folder, size_t size, const char *behind, const char *name)
{
    char *path;
    if (size == 0 || asprintf(&path, "%.*s%s/%s", (int)size, folder, behind, name) < 0)
        return NULL;
    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static char *find_one(const char *name)
{
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    const char *at = getenv("PATH");
    char *path = NULL;
    while (at && *at && !path) {
        size_t size = strcspn(at, ":");
        path = find_in(at, size, "", name);
        at += size + (at[size] == ':');
    }
    for (size_t i = 0; i < 2 && !path; i++) {
        const char *home = getenv(variables[i]);
        path = home ? find_in(home, strlen(home), "/bin", name) : NULL;
    }
    return path ? path : find_in("/usr/local/cuda", strlen("/usr/local/cuda"), "/bin", name);
}

char *command_find(const char *const *names)
{
    char *path = NULL;
    for (; *names && !path; names++)
        path = find_one(*names);
    return path;
}

/* ---- running ---- */

struct running {
    pid_t pid;
    int out, err; /* -1 at their ends */
    FILE *kept;
    size_t size, limit;
    size_t n_said;
    struct command_output *ret;
    long long until_ms;
    const char *broken; /* why it was killed */
};

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int start(const char *const *argv, int out, int err, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    /* A group of its own, to be killed as one. */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    int number = posix_spawn(ret, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return number;
}

static void take_out(struct running *running)
{
    char bytes[65536];
    ssize_t n = read(running->out, bytes, sizeof bytes);
    if (n <= 0) {
        running->out = -1;
        return;
    }
    running->size += (size_t)n;
    if (running->size > running->limit)
        running->broken = "it wrote too much";
    else
        fwrite(bytes, 1, (size_t)n, running->kept);
}

static void take_err(struct running *running)
{
    char bytes[4096];
    ssize_t n = read(running->err, bytes, sizeof bytes);
    if (n <= 0)
        running->err = -1;
    for (ssize_t i = 0; i < n && running->n_said < COMMAND_SAID - 1; i++)
        running->ret->said[running->n_said++] = bytes[i];
    running->ret->said[running->n_said] = '\0';
}

/* Read both pipes to their ends, or until it is enough. */
static void listen_to(struct running *running)
{
    while (!running->broken && (running->out >= 0 || running->err >= 0)) {
        struct pollfd fds[2] = {{.fd = running->out, .events = POLLIN}, {.fd = running->err, .events = POLLIN}};
        long long left = running->until_ms - now_ms();
        if (left <= 0) {
            running->broken = "it was not done in time";
        } else if (poll(fds, 2, (int)left) > 0) {
            if (fds[0].revents)
                take_out(running);
            if (fds[1].revents)
                take_err(running);
        }
    }
}

/* It has closed its pipes, or must go now. */
static int reap(struct running *running)
{
    int status = -1;
    pid_t pid;
    /* Pipes can be closed by a program that goes on all the same. */
    while (!running->broken && (pid = waitpid(running->pid, &status, WNOHANG)) == 0) {
        if (now_ms() >= running->until_ms)
            running->broken = "it was not done in time";
        else
            poll(NULL, 0, 5);
    }
    if (running->broken) {
        kill(-running->pid, SIGKILL);
        while (waitpid(running->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    return status;
}

/* One sentence in place of what it said. */
static int explain(struct running *running, int status)
{
    char words[COMMAND_SAID];
    size_t line = strcspn(running->ret->said, "\n");
    if (running->broken)
        snprintf(words, sizeof words, "%s", running->broken);
    else if (WIFSIGNALED(status))
        snprintf(words, sizeof words, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(words, sizeof words, "exit status %d", WEXITSTATUS(status));
    size_t used = strlen(words);
    if (line)
        snprintf(words + used, sizeof words - used, ": %.*s", (int)(line < 400 ? line : 400), running->ret->said);
    memcpy(running->ret->said, words, sizeof words);
    return -1;
}

static int run(const char *const *argv, const int out[2], const int err[2], struct running *running)
{
    int number = start(argv, out[1], err[1], &running->pid);
    close(out[1]);
    close(err[1]);
    if (number) {
        snprintf(running->ret->said, sizeof running->ret->said, "%.400s: %s", argv[0], strerror(number));
        return -1;
    }
    running->out = out[0];
    running->err = err[0];
    listen_to(running);
    int status = reap(running);
    return running->broken || status != 0 ? explain(running, status) : 0;
}

int command_run(const char *const *argv, long deadline_ms, size_t limit, struct command_output *ret)
{
    struct running running = {.limit = limit, .ret = ret, .until_ms = now_ms() + deadline_ms};
    int out[2], err[2];
    *ret = (struct command_output){0};
    if (pipe2(out, O_CLOEXEC) < 0) {
        snprintf(ret->said, sizeof ret->said, "no pipe: %s", strerror(errno));
        return -1;
    }
    if (pipe2(err, O_CLOEXEC) < 0) {
        snprintf(ret->said, sizeof ret->said, "no pipe: %s", strerror(errno));
        close(out[0]);
        close(out[1]);
        return -1;
    }
    running.kept = open_memstream(&ret->out, &ret->size);
    int result = -1;
    if (running.kept) {
        result = run(argv, out, err, &running);
        if (fclose(running.kept) != 0 && result == 0) {
            snprintf(ret->said, sizeof ret->said, "no memory for its output");
            result = -1;
        }
    } else {
        close(out[1]);
        close(err[1]);
        snprintf(ret->said, sizeof ret->said, "no memory for its output");
    }
    close(out[0]);
    close(err[0]);
    if (result < 0) {
        free(ret->out);
        ret->out = NULL;
        ret->size = 0;
    }
    return result;
}
