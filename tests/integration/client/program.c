#include "tests/integration/client/program.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Collect both pipes until they end. */
static void collect(int out, int err, struct program_output *ret)
{
    struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    char *buffers[2] = {ret->out, ret->err}, surplus[4096];
    size_t sizes[2] = {0, 0};
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        cr_assert_gt(poll(fds, 2, 120000), 0, "the program is silent for 2 minutes");
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            size_t room = sizeof ret->out - 1 - sizes[i];
            ssize_t n = read(fds[i].fd, room ? buffers[i] + sizes[i] : surplus, room ? room : sizeof surplus);
            if (n <= 0)
                fds[i].fd = -1;
            else if (room)
                sizes[i] += (size_t)n;
        }
    }
    ret->out[sizes[0]] = ret->err[sizes[1]] = '\0';
}

void program_run(const char *path, const char *environment, const char *const *arguments, struct program_output *ret)
{
    char *argv[64] = {(char *)(uintptr_t)path}, *envp[512];
    size_t n = 1, n_env = 0;
    int out[2], err[2], status;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    for (size_t i = 0; arguments[i]; i++)
        argv[n++] = (char *)(uintptr_t)arguments[i];
    for (size_t i = 0; environ[i] && n_env < 500; i++)
        envp[n_env++] = environ[i];
    if (environment)
        envp[n_env++] = (char *)(uintptr_t)environment;
    envp[n_env] = NULL;
    cr_assert(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    cr_assert_eq(posix_spawn(&pid, path, &actions, NULL, argv, envp), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    collect(out[0], err[0], ret);
    close(out[0]);
    close(err[0]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    ret->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void fusionctl(const char *socket, const char *environment, const char *const *arguments, struct program_output *ret)
{
    const char *all[64] = {"--socket", socket};
    size_t n = socket ? 2 : 0;
    for (size_t i = 0; arguments[i]; i++)
        all[n++] = arguments[i];
    all[n] = NULL;
    program_run(FUSIONCTL_PATH, environment, all, ret);
}
