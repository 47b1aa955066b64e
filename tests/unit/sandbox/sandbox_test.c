/* The walls around a worker, each tried in a child of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/sandbox/sandbox.h"
#include "daemon/sandbox/under_asan.h"

/* Outcomes of a child. */
enum { GOOD = 0, BAD = 1, NOT_HERE = 2 };

/* Run `body` in a child; give its status. */
static int in_child(int (*body)(void))
{
    int status;
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0)
        _exit(body());
    cr_assert(waitpid(pid, &status, 0) == pid);
    return status;
}

static void expect_good(int (*body)(void))
{
    int status = in_child(body);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        cr_skip("this kernel or this build does not have it");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == GOOD, "status %x", (unsigned)status);
}

static void expect_killed(int (*body)(void))
{
    int status = in_child(body);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        cr_skip("this kernel or this build has no seccomp");
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "status %x", (unsigned)status);
}

static int try_landlock(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0)
        return BAD;
    if (sandbox_landlock(NULL) < 0)
        return NOT_HERE;
    bool read = open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES;
    bool write = open("/tmp/fusiond-sandbox-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EACCES;
    return read || write ? BAD : GOOD;
}

Test(sandbox, F28_landlock_alone_stops_files)
{
    expect_good(try_landlock);
}

static bool enter(void)
{
    enum sandbox sandbox = sandbox_enter(SANDBOX_COMPILER, NULL);
    return sandbox == SANDBOX_FULL || sandbox == SANDBOX_SECCOMP;
}

/* open and stat must not tell an existing file from a missing one. */
static int try_files(void)
{
    struct stat st;
    if (!enter())
        return NOT_HERE;
    const char *paths[] = {"/etc/passwd", "/nonexistent", "/proc/self/environ", "/"};
    for (int i = 0; i < 4; i++) {
        if (open(paths[i], O_RDONLY | O_CLOEXEC) >= 0 || errno != ENOENT)
            return BAD;
        if (stat(paths[i], &st) == 0 || errno != ENOENT)
            return BAD;
        if (access(paths[i], F_OK) == 0 || errno != ENOENT)
            return BAD;
        if (syscall(SYS_openat, AT_FDCWD, paths[i], O_RDONLY) >= 0 || errno != ENOENT)
            return BAD;
        if (syscall(SYS_newfstatat, 0, paths[i], &st, AT_EMPTY_PATH) == 0 || errno != ENOENT)
            return BAD;
    }
    return open("/tmp/fusiond-sandbox-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 ? GOOD : BAD;
}

Test(sandbox, F28_no_file_and_no_oracle)
{
    expect_good(try_files);
}

static int try_exec(void)
{
    if (!enter())
        return NOT_HERE;
    execl("/bin/true", "true", (char *)NULL);
    return BAD;
}

static int try_fork(void)
{
    if (!enter())
        return NOT_HERE;
    return syscall(SYS_fork) >= 0 ? BAD : GOOD;
}

static int try_socket(void)
{
    if (!enter())
        return NOT_HERE;
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ? BAD : GOOD;
}

static int try_ptrace(void)
{
    if (!enter())
        return NOT_HERE;
    return (int)syscall(SYS_ptrace, 16, getppid(), 0, 0) == 0 ? BAD : GOOD;
}

Test(sandbox, F28_exec_kills)
{
    expect_killed(try_exec);
}

Test(sandbox, F28_fork_kills)
{
    expect_killed(try_fork);
}

Test(sandbox, F28_socket_kills)
{
    expect_killed(try_socket);
}

Test(sandbox, F28_ptrace_kills)
{
    expect_killed(try_ptrace);
}

static int try_harmless(void)
{
    if (!enter())
        return NOT_HERE;
    /* clone without CLONE_THREAD is a fork by another name. */
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) >= 0 || errno != ENOSYS)
        return BAD;
    if (syscall(SYS_kill, getppid(), 0) == 0 || errno != ENOSYS)
        return BAD;
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return BAD;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0)
        return BAD;
    return GOOD;
}

Test(sandbox, F28_refused_without_death)
{
    expect_good(try_harmless);
}

static void *set_flag(void *flag)
{
    *(int *)flag = 1;
    return NULL;
}

static int try_threads(void)
{
    pthread_t thread;
    int flag = 0;
    if (!enter())
        return NOT_HERE;
    if (pthread_create(&thread, NULL, set_flag, &flag) != 0 || pthread_join(thread, NULL) != 0)
        return BAD;
    void *big = malloc(64 << 20);
    if (big == NULL)
        return BAD;
    memset(big, 1, 64 << 20);
    free(big);
    return flag == 1 ? GOOD : BAD;
}

Test(sandbox, threads_and_memory_work)
{
    expect_good(try_threads);
}

static int abort_inside(void)
{
    if (!enter())
        return NOT_HERE;
    abort();
}

/* The parent tells an abort by its signal. */
Test(sandbox, F4_abort_is_an_abort)
{
    int status = in_child(abort_inside);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        cr_skip("this kernel or this build has no seccomp");
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x", (unsigned)status);
}

/* Also as root: the capability that could raise them is gone. */
static int try_limits(void)
{
    struct rlimit now;
    if (!enter())
        return NOT_HERE;
    getrlimit(RLIMIT_STACK, &now);
    if (now.rlim_cur != SANDBOX_STACK || now.rlim_max != SANDBOX_STACK)
        return BAD;
    struct rlimit more = {SANDBOX_STACK * 2, SANDBOX_STACK * 2};
    if (setrlimit(RLIMIT_STACK, &more) == 0)
        return BAD;
    getrlimit(RLIMIT_AS, &now);
    if (now.rlim_max != SANDBOX_MEMORY || malloc(SANDBOX_MEMORY) != NULL)
        return BAD;
    getrlimit(RLIMIT_NOFILE, &now);
    if (now.rlim_max != 16)
        return BAD;
    getrlimit(RLIMIT_FSIZE, &now);
    if (now.rlim_max != 0)
        return BAD;
    getrlimit(RLIMIT_CORE, &now);
    return now.rlim_max == 0 ? GOOD : BAD;
}

Test(sandbox, F4_limits_hold)
{
    expect_good(try_limits);
}

static int try_cpu(void)
{
    struct rlimit before, after;
    if (!enter())
        return NOT_HERE;
    getrlimit(RLIMIT_CPU, &before);
    /* A worker that has used a second is granted one more. */
    volatile unsigned long spin = 0;
    struct timespec used = {0};
    while (used.tv_sec < 1) {
        spin++;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    }
    sandbox_allow_job();
    getrlimit(RLIMIT_CPU, &after);
    return before.rlim_cur != RLIM_INFINITY && after.rlim_cur > before.rlim_cur ? GOOD : BAD;
}

Test(sandbox, F4_cpu_time_is_per_job)
{
    expect_good(try_cpu);
}

static int try_prepare(void)
{
    struct error error;
    int pair[2], extra = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || extra < 0)
        return BAD;
    int fd = fcntl(pair[1], F_DUPFD_CLOEXEC, 50);
    setenv("SECRET", "value", 1);
    if (sandbox_prepare(&fd, &error) < 0 || fd != 3)
        return BAD;
    if (getenv("SECRET") != NULL || fcntl(50, F_GETFD) >= 0 || fcntl(4, F_GETFD) >= 0)
        return BAD;
    /* 3 is the channel's end: its peer was closed with the rest. */
    char byte;
    return read(3, &byte, 1) == 0 ? GOOD : BAD;
}

Test(sandbox, F28_descriptors_and_environment)
{
    expect_good(try_prepare);
}

static int try_orphan(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return BAD;
    if (sandbox_follow_parent(pair[1]) != 0)
        return BAD;
    close(pair[0]);
    return sandbox_follow_parent(pair[1]) == -1 ? GOOD : BAD;
}

Test(sandbox, F2_an_orphan_knows)
{
    expect_good(try_orphan);
}

static int enter_and_exit(void)
{
    return (int)sandbox_enter(SANDBOX_COMPILER, NULL);
}

Test(sandbox, asan_builds_say_so)
{
    if (!UNDER_ASAN)
        cr_skip("not an AddressSanitizer build");
    int status = in_child(enter_and_exit);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == SANDBOX_NONE);
}

/* ---- the other profiles ---- */

static bool enter_host_executor(void)
{
    return sandbox_enter(SANDBOX_HOST_EXECUTOR, NULL) == SANDBOX_FULL;
}

/* What the dynamic linker does with an image: by /proc/self/fd it is a file, and the only one. */
static int try_memfd(void)
{
    char path[64];
    int fd = memfd_create("image", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 4096) < 0)
        return BAD;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!enter_host_executor())
        return NOT_HERE;
    int again = open(path, O_RDONLY | O_CLOEXEC);
    if (again < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, again, 0) == MAP_FAILED)
        return BAD;
    return open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && open("/proc/self/environ", O_RDONLY | O_CLOEXEC) < 0 &&
                   open("/tmp/fusiond-sandbox-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0
               ? GOOD
               : BAD;
}

Test(sandbox, F28_native_kernels_reach_memfds_and_no_file)
{
    expect_good(try_memfd);
}

static int try_exec_from_kernel(void)
{
    if (!enter_host_executor())
        return NOT_HERE;
    execl("/bin/true", "true", (char *)NULL);
    return BAD;
}

static int try_socket_from_kernel(void)
{
    if (!enter_host_executor())
        return NOT_HERE;
    socket(AF_UNIX, SOCK_STREAM, 0);
    return BAD;
}

static int try_fork_from_kernel(void)
{
    if (!enter_host_executor())
        return NOT_HERE;
    return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) < 0 ? GOOD : BAD;
}

Test(sandbox, F28_native_kernels_run_nothing_else)
{
    expect_killed(try_exec_from_kernel);
    expect_killed(try_socket_from_kernel);
    expect_good(try_fork_from_kernel);
}

static char work_folder[] = "/tmp/fusiond-sandbox-XXXXXX";

/* A toolchain runs, reads its own folders, and writes one. */
static int try_toolchain(void)
{
    const char *const run[] = {"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", NULL};
    const char *const work[] = {work_folder, NULL};
    const struct sandbox_paths paths = {run, work};
    char path[64];
    if (sandbox_enter(SANDBOX_HOST_CC, &paths) != SANDBOX_FULL)
        return NOT_HERE;
    snprintf(path, sizeof path, "%s/out", work_folder);
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || open("/proc/self/environ", O_RDONLY | O_CLOEXEC) >= 0 ||
        open("/tmp/fusiond-sandbox-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 ||
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 || unlink(path) < 0)
        return BAD;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/cat", "cat", "/etc/passwd", (char *)NULL);
        _exit(99);
    }
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1 ? GOOD : BAD;
}

Test(sandbox, F28_a_toolchain_has_its_own_folders_only)
{
    cr_assert_not_null(mkdtemp(work_folder));
    int status = in_child(try_toolchain);
    rmdir(work_folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        cr_skip("this kernel or this build does not have it");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == GOOD, "status %x", (unsigned)status);
}

/* Headers below a folder: read and listed, nothing written, nothing beside it. */
static int try_headers(void)
{
    const char *const read[] = {work_folder, NULL};
    const struct sandbox_paths paths = {.read = read};
    struct stat st;
    char path[64], beside[64];
    snprintf(path, sizeof path, "%s/header", work_folder);
    snprintf(beside, sizeof beside, "%s/../passwd", work_folder);
    if (sandbox_enter(SANDBOX_TOOLKIT, &paths) != SANDBOX_FULL)
        return NOT_HERE;
    bool reads = open(path, O_RDONLY) >= 0 && open(work_folder, O_RDONLY | O_DIRECTORY) >= 0 && stat(path, &st) == 0;
    bool writes = open(path, O_WRONLY) >= 0 || open(path, O_RDWR) >= 0 || open(path, O_RDONLY | O_TRUNC) >= 0 ||
                  open(beside, O_RDONLY | O_CREAT, 0600) >= 0 || unlink(path) == 0 || mkdir(beside, 0700) == 0;
    bool leaves = open("/etc/passwd", O_RDONLY) >= 0 || open("/proc/self/environ", O_RDONLY) >= 0;
    return reads && !writes && !leaves ? GOOD : BAD;
}

Test(sandbox, F28_toolkit_headers_are_read_and_nothing_else)
{
    char path[64];
    cr_assert_not_null(mkdtemp(work_folder));
    snprintf(path, sizeof path, "%s/header", work_folder);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    int status = in_child(try_headers);
    unlink(path);
    rmdir(work_folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        cr_skip("this kernel or this build does not have it");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == GOOD, "status %x", (unsigned)status);
}

static int try_exec_beside_headers(void)
{
    const char *const read[] = {"/usr", NULL};
    const struct sandbox_paths paths = {.read = read};
    if (sandbox_enter(SANDBOX_TOOLKIT, &paths) != SANDBOX_FULL)
        return NOT_HERE;
    execl("/usr/bin/true", "true", (char *)NULL);
    return BAD;
}

Test(sandbox, F28_a_compiler_with_toolkit_headers_runs_no_program)
{
    expect_killed(try_exec_beside_headers);
}

/* ---- machines that lack a wall ---- */

static int no_landlock(const struct sandbox_paths *paths)
{
    (void)paths;
    return -1;
}

static int no_seccomp(enum sandbox_profile profile)
{
    (void)profile;
    return -1;
}

static const struct sandbox_walls without_landlock = {no_landlock, sandbox_seccomp};
static const struct sandbox_walls without_seccomp = {sandbox_landlock, no_seccomp};
static const struct sandbox_walls without_any = {no_landlock, no_seccomp};

/* No file can be opened: that is enough for who needs none. */
static int try_without_landlock(void)
{
    struct stat st;
    if (UNDER_ASAN)
        return NOT_HERE;
    if (sandbox_enter_with(SANDBOX_COMPILER, NULL, &without_landlock) != SANDBOX_SECCOMP)
        return BAD;
    if (open("/etc/passwd", O_RDONLY) >= 0 || errno != ENOENT || stat("/etc/passwd", &st) == 0)
        return BAD;
    return GOOD;
}

Test(sandbox, F28_without_landlock_seccomp_is_enough_for_a_compiler_without_files)
{
    expect_good(try_without_landlock);
}

static const struct {
    enum sandbox_profile profile;
    const struct sandbox_walls *walls;
} unsafe[] = {{SANDBOX_TOOLKIT, &without_landlock},
              {SANDBOX_HOST_CC, &without_landlock},
              {SANDBOX_COMPILER, &without_any},
              {SANDBOX_COMPILER, &without_seccomp}};
static size_t which;

static int try_unsafe(void)
{
    return sandbox_enter_with(unsafe[which].profile, NULL, unsafe[which].walls) == SANDBOX_NONE ? GOOD : BAD;
}

Test(sandbox, F28_what_lacks_a_wall_that_it_needs_says_so)
{
    for (which = 0; which < sizeof unsafe / sizeof unsafe[0]; which++) {
        int status = in_child(try_unsafe);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == GOOD, "case %zu: status %x", which, (unsigned)status);
    }
}
