/* fusiond-leaf: what it starts ends with the process that started it. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/fusiond-leaf-XXXXXX";
static char linker[64];

static void setup(void)
{
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(linker, sizeof linker, "%s/ld", folder);
    cr_assert(symlink(LEAF_PATH, linker) == 0);
}

static void teardown(void)
{
    unlink(linker);
    rmdir(folder);
}

TestSuite(leaf, .init = setup, .fini = teardown);

static bool is_called(pid_t pid, const char *name)
{
    char path[64], comm[64] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    bool same = file != NULL && fgets(comm, sizeof comm, file) && strncmp(comm, name, strlen(name)) == 0;
    if (file != NULL)
        fclose(file);
    return same;
}

/* A stage's parent that starts a leaf and is then killed: the leaf's program, "sleep", must end. */
static void expect_end(const char *program, const char *const *argv)
{
    int report[2], status;
    pid_t pid = 0;
    cr_assert(pipe2(report, O_CLOEXEC) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        char *const environment[] = {(char *)"FUSIOND_LD=/bin/sleep", (char *)"PATH=/usr/bin:/bin", NULL};
        pid = fork();
        if (pid == 0) {
            execve(program, (char *const *)argv, environment);
            _exit(126);
        }
        if (write(report[1], &pid, sizeof pid) != sizeof pid)
            _exit(1);
        for (;;)
            pause();
    }
    cr_assert(read(report[0], &pid, sizeof pid) == sizeof pid);
    const struct timespec moment = {.tv_nsec = 2000000};
    for (int i = 0; i < 5000 && !is_called(pid, "sleep"); i++)
        nanosleep(&moment, NULL);
    cr_assert(is_called(pid, "sleep"), "it never ran");
    kill(parent, SIGKILL);
    cr_assert(waitpid(parent, &status, 0) == parent);
    struct pollfd wanted = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    bool ended = wanted.fd >= 0 && poll(&wanted, 1, 10000) == 1;
    close(wanted.fd);
    if (!ended)
        kill(pid, SIGKILL);
    cr_assert(waitpid(pid, &status, 0) == pid);
    cr_assert(ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%d, status %x", ended, (unsigned)status);
    close(report[0]);
    close(report[1]);
}

Test(leaf, F3_a_stage_ends_with_its_parent)
{
    expect_end(LEAF_PATH, (const char *const[]){"fusiond-leaf", "/bin/sleep", "600", NULL});
}

/* Under the linker's name it is the linker. */
Test(leaf, F3_the_linker_ends_with_its_parent)
{
    expect_end(linker, (const char *const[]){linker, "600", NULL});
}

static int exit_status(const char *const *argv, char *const *environment)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execve(argv[0], (char *const *)argv, environment);
        _exit(126);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "status %x", (unsigned)status);
    return WEXITSTATUS(status);
}

/* It never starts a stage that reads a client's text without the fence, nor a linker that nobody has named. */
Test(leaf, F28_no_stage_without_its_fence)
{
    char *const empty[] = {NULL};
    cr_assert_eq(exit_status((const char *const[]){LEAF_PATH, "/nonexistent/cc1plus", NULL}, empty), 127);
    cr_assert_eq(exit_status((const char *const[]){LEAF_PATH, "as", "--version", NULL}, empty), 127);
    cr_assert_eq(exit_status((const char *const[]){linker, "--version", NULL}, empty), 127);
    cr_assert_eq(exit_status((const char *const[]){LEAF_PATH, NULL}, empty), 127);
    cr_assert_eq(exit_status((const char *const[]){LEAF_PATH, "/bin/true", NULL}, empty), 0);
}
