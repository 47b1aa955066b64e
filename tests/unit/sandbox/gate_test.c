/* Which paths the gate admits, and what a process behind it sees, in a child of its own. */
#include "daemon/sandbox/gate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/under_asan.h"

enum { GOOD = 0, NOT_HERE = 200 }; /* else: the number of the first expectation that failed */

static char folder[] = "/tmp/fusiond-gate-XXXXXX";
static char file[64], fresh[64];

static void setup(void)
{
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(fresh, sizeof fresh, "%s/fresh", folder);
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(fd >= 0);
    close(fd);
}

static void teardown(void)
{
    unlink(file);
    rmdir(folder);
}

TestSuite(gate, .init = setup, .fini = teardown);

Test(gate, F28_what_it_admits)
{
    static const char *const folders[] = {"/a/b", "/c", NULL};
    static const char *const good[] = {"/a/b",      "/a/b/",          "/a/b/x",     "/a/b//x/./y", "/c/x/..",
                                       "/c/x/../y", "/a/b/x/y/../..", "/c/..x/...", "/c/."};
    static const char *const bad[] = {"",          "/",       "a/b/x",      "/a",      "/a/bc",
                                      "/a/b/..",   "/c/../c", "/c/x/../..", "/c/./..", "/c/x/../../c/x",
                                      "/d/../c/x", "./c"};
    struct error error;
    cr_assert(gate_install(folders, &error) == 0, "%s", error.text);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cr_expect(gate_admits(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_not(gate_admits(bad[i]), "%s", bad[i]);
}

Test(gate, too_many_folders)
{
    const char *many[GATE_FOLDERS + 2] = {NULL};
    struct error error;
    for (size_t i = 0; i <= GATE_FOLDERS; i++)
        many[i] = folder;
    cr_assert(gate_install(many, &error) < 0);
    many[GATE_FOLDERS] = NULL;
    cr_assert(gate_install(many, &error) == 0);
}

static int behind_it(void)
{
    const char *const folders[] = {folder, NULL};
    const char *const others[] = {"/etc/passwd", "/nonexistent", "/proc/self/environ", "/", "etc/passwd", ""};
    struct error error;
    struct stat st;
    char out[128];
    if (UNDER_ASAN || gate_install(folders, &error) < 0 ||
        sandbox_enter(SANDBOX_ZYGOTE, &(struct sandbox_paths){.work = folders}) != SANDBOX_FULL)
        return NOT_HERE;
    int fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || fstat(fd, &st) < 0 || st.st_size != 1 || unlink(fresh) < 0)
        return 1;
    if (stat(fresh, &st) == 0 || errno != ENOENT || stat(file, &st) < 0 || access(file, R_OK) < 0)
        return 2;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (open(others[i], O_RDONLY | O_CLOEXEC) >= 0 || errno != ENOENT || stat(others[i], &st) == 0 ||
            errno != ENOENT || access(others[i], F_OK) == 0 || errno != ENOENT || unlink(others[i]) == 0 ||
            errno != ENOENT || readlink(others[i], out, sizeof out) >= 0 || errno != ENOENT)
            return 10 + (int)i;
        if (syscall(SYS_openat, AT_FDCWD, others[i], O_RDONLY, 0, 0, 12345) >= 0 || errno != ENOENT)
            return 20 + (int)i;
    }
    snprintf(out, sizeof out, "%s/../../etc/passwd", folder);
    if (open(out, O_RDONLY | O_CLOEXEC) >= 0 || errno != ENOENT || rename(file, fresh) == 0 || mkdir(fresh, 0700) == 0)
        return 3;
    /* Who knows the secret is past the gate, and meets the wall. */
    if (syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY, 0, 0, gate_secret()) >= 0 || errno != EACCES)
        return 4;
    return GOOD;
}

static int children(void)
{
    const char *const folders[] = {folder, NULL};
    struct error error;
    int status;
    if (UNDER_ASAN || gate_install(folders, &error) < 0 ||
        sandbox_enter(SANDBOX_ZYGOTE, &(struct sandbox_paths){.work = folders}) != SANDBOX_FULL)
        return NOT_HERE;
    pid_t pid = fork();
    if (pid < 0)
        return 1;
    if (pid == 0) {
        if (sandbox_seccomp(SANDBOX_ZYGOTE_CHILD) < 0)
            _exit(2);
        if (access(file, R_OK) < 0 || access("/etc/passwd", R_OK) == 0 || errno != ENOENT)
            _exit(3);
        if (dup(0) >= 0 || getppid() >= 0 || syscall(SYS_tgkill, 1, 1, 0) == 0)
            _exit(4);
        fork(); /* ends it */
        _exit(5);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
        return WIFEXITED(status) ? 50 + WEXITSTATUS(status) : 6;
    return WTERMSIG(status) == SIGSYS ? GOOD : 7;
}

static void expect_good(int (*body)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    cr_assert(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        cr_skip("this kernel or this build has no Landlock or no seccomp");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == GOOD, "status %x", (unsigned)status);
}

Test(gate, F28_a_process_behind_it)
{
    expect_good(behind_it);
}

Test(gate, F28_children_are_shut_in_further)
{
    expect_good(children);
}
