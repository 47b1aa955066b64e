#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/sandbox/gate.h"
#include "daemon/sandbox/under_asan.h"

enum { CHANNEL = 3 };

int sandbox_follow_parent(int fd)
{
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* It may have died before the request to be told: then there is another parent now, or the channel is shut. */
    if (getppid() != parent)
        return -1;
    struct pollfd other_end = {.fd = fd, .events = POLLIN};
    if (poll(&other_end, 1, 0) > 0 && (other_end.revents & POLLHUP))
        return -1;
    return 0;
}

static void close_from(unsigned first)
{
    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return;
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = (int)first; fd < (most > 0 ? (int)most : 1024); fd++)
        close(fd);
}

static int arrange_descriptors(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return -1;
    if (fcntl(STDERR_FILENO, F_GETFD) < 0 && dup2(null, STDERR_FILENO) < 0)
        return -1;
    if (dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || dup2(fd, CHANNEL) < 0)
        return -1;
    /* What this process starts must not hold the channel open. */
    if (fcntl(CHANNEL, F_SETFD, FD_CLOEXEC) < 0)
        return -1;
    close_from(CHANNEL + 1);
    return 0;
}

static void offer_to_oom_killer(void)
{
    static const char score[] = "800";
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    /* Raising is always allowed; where /proc is read-only the worker is merely as likely as others. */
    ssize_t n = write(fd, score, sizeof score - 1);
    (void)n;
    close(fd);
}

static void limit(int resource, rlim_t soft, rlim_t hard)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
        return;
    if (now.rlim_max != RLIM_INFINITY && hard > now.rlim_max)
        hard = now.rlim_max;
    if (soft > hard)
        soft = hard;
    struct rlimit wanted = {soft, hard};
    setrlimit((__rlimit_resource_t)resource, &wanted);
}

int sandbox_prepare(int *fd, struct error *error)
{
    clearenv();
    if (arrange_descriptors(*fd) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "arranging the descriptors");
    *fd = CHANNEL;
    /* A parent that left, and a file that may not grow, are results of write, not deaths. */
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
    /* The main thread's stack grows up to the soft limit of the moment. */
    limit(RLIMIT_STACK, SANDBOX_STACK, SANDBOX_STACK);
    offer_to_oom_killer();
    return 0;
}

void sandbox_limits(enum sandbox_profile profile)
{
    limit(RLIMIT_CORE, 0, 0);
    if (profile == SANDBOX_HOST_EXECUTOR)
        return; /* its memory is its clients' buffers */
    rlim_t memory = profile == SANDBOX_FILTER ? SANDBOX_FILTER_MEMORY : SANDBOX_MEMORY;
    if (!UNDER_ASAN)
        limit(RLIMIT_AS, memory, memory);
    /* Headers that include each other are open together. */
    rlim_t files = profile == SANDBOX_TOOLKIT || profile == SANDBOX_ZYGOTE   ? 256
                   : profile == SANDBOX_HOST_CC || profile == SANDBOX_FILTER ? 64
                                                                             : 16;
    rlim_t bytes = profile == SANDBOX_HOST_CC ? SANDBOX_FILE : profile == SANDBOX_ZYGOTE ? SANDBOX_PCH_HEAP : 0;
    limit(RLIMIT_NOFILE, files, files);
    limit(RLIMIT_FSIZE, bytes, bytes);
    limit(RLIMIT_STACK, SANDBOX_STACK, SANDBOX_STACK);
    sandbox_allow_job();
}

void sandbox_allow_job(void)
{
    struct timespec used;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
        limit(RLIMIT_CPU, (rlim_t)used.tv_sec + 1 + SANDBOX_CPU_S, RLIM_INFINITY);
}

/* Root's worker must not keep root's rights: raising limits, reading what belongs to others. */
static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    syscall(SYS_capset, &header, none);
}

/* The rights on files by the version of the interface that brought them; headers may be older than the kernel. */
static uint64_t landlock_rights(long abi)
{
    uint64_t rights = (1ull << 13) - 1;
    if (abi >= 2)
        rights |= 1ull << 13; /* refer */
    if (abi >= 3)
        rights |= 1ull << 14; /* truncate */
    if (abi >= 5)
        rights |= 1ull << 15; /* ioctl on devices */
    return rights;
}

/* Grant rights on a path and all below it. What is not there needs none. */
static int grant(int ruleset, const char *path, uint64_t rights)
{
    const uint64_t of_files = 1ull << 0 | 1ull << 1 | 1ull << 2 | 1ull << 14; /* execute, write, read, truncate */
    struct stat status;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    if (fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode))
        rights &= of_files;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    long result = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(fd);
    return result == 0 ? 0 : -1;
}

static int grant_all(int ruleset, const struct sandbox_paths *paths, uint64_t every)
{
    const uint64_t to_read = 1ull << 2 | 1ull << 3;                     /* files, folders */
    const uint64_t to_run = 1ull << 0 | 1ull << 2 | 1ull << 3;          /* execute, read files, read folders */
    const uint64_t no_devices = ~(1ull << 6 | 1ull << 11 | 1ull << 15); /* character and block devices, ioctl */
    int failed = 0;
    for (const char *const *path = paths ? paths->read : NULL; path && *path; path++)
        failed |= grant(ruleset, *path, to_read);
    for (const char *const *path = paths ? paths->run : NULL; path && *path; path++)
        failed |= grant(ruleset, *path, to_run);
    for (const char *const *path = paths ? paths->work : NULL; path && *path; path++)
        failed |= grant(ruleset, *path, every & no_devices);
    return failed;
}

static long landlock_version(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool sandbox_has_landlock(void)
{
    return landlock_version() >= 1;
}

int sandbox_landlock(const struct sandbox_paths *paths)
{
    /* The structure as later versions extended it; smaller sizes are for older kernels. */
    struct {
        uint64_t files, network, scopes;
    } attributes = {0};
    long abi = landlock_version();
    if (abi < 1)
        return -1;
    size_t size = sizeof attributes.files;
    attributes.files = landlock_rights(abi);
    if (abi >= 4) {
        attributes.network = 3; /* bind and connect of TCP sockets */
        size += sizeof attributes.network;
    }
    if (abi >= 6) {
        attributes.scopes = 3; /* abstract sockets and signals outside */
        size += sizeof attributes.scopes;
    }
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
    if (ruleset < 0)
        return -1;
    long result = grant_all(ruleset, paths, attributes.files);
    if (result == 0)
        result = syscall(SYS_landlock_restrict_self, ruleset, 0);
    close(ruleset);
    return result == 0 ? 0 : -1;
}

/* Calls of which a compiler needs only some arguments. */
static int add_conditional(scmp_filter_ctx filter)
{
    const uint64_t thread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
    const uint64_t namespaces =
        CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    int failed = 0;
    /* Memory is never made executable: all code was loaded in the warm-up. */
    failed |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    failed |=
        seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    /* Threads, no processes. The flags of clone3 are in memory where a filter cannot see them; the C library uses
     * clone when it is told that there is no clone3. */
    failed |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                               SCMP_A0(SCMP_CMP_MASKED_EQ, thread | namespaces, thread));
    /* Asking for limits; the compiler raises its stack to the hard limit, the worker sets its own CPU time. */
    failed |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
                               SCMP_A2(SCMP_CMP_EQ, 0));
    failed |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
                               SCMP_A1(SCMP_CMP_EQ, RLIMIT_STACK));
    failed |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
                               SCMP_A1(SCMP_CMP_EQ, RLIMIT_CPU));
    return failed;
}

/* A signal for the process itself: abort(). */
static int add_abort(scmp_filter_ctx filter)
{
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (uint64_t)getpid()));
}

/* Opening to read, and nothing else. */
static int add_reading(scmp_filter_ctx filter)
{
    const uint64_t writes = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | O_TMPFILE;
    const uint64_t folder = O_DIRECTORY; /* a part of O_TMPFILE */
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
                            SCMP_A1(SCMP_CMP_MASKED_EQ, writes & ~folder, O_RDONLY)) |
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, writes & ~folder, O_RDONLY));
}

/* Processes are threads' containers here: a new one would be a process. */
static int add_threads(scmp_filter_ctx filter)
{
    return add_abort(filter) | seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                                SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

/* What takes a path, where a gate looks at the path. */
static int add_gated(scmp_filter_ctx filter, int call)
{
    if (call != SCMP_SYS(openat) && call != SCMP_SYS(newfstatat) && call != SCMP_SYS(faccessat) &&
        call != SCMP_SYS(unlinkat))
        return seccomp_rule_add(filter, SCMP_ACT_TRAP, call, 0);
    return seccomp_rule_add(filter, SCMP_ACT_TRAP, call, 1, SCMP_A5(SCMP_CMP_NE, gate_secret())) |
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_A5(SCMP_CMP_EQ, gate_secret()));
}

/* What a zygote needs to fork children that shut themselves in further. */
static int add_forking(scmp_filter_ctx filter)
{
    const uint64_t others = CLONE_VM | CLONE_VFORK | CLONE_THREAD | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                            CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    static const int options[] = {PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_GET_SECCOMP};
    int failed = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, others, 0));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        failed |=
            seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, (uint64_t)options[i]));
    return failed;
}

#define ALLOW(name) failed |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(name), 0);
#define HIDE(name) failed |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(name), 0);
#define KILL(name) failed |= seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(name), 0);

static int add_compiler(scmp_filter_ctx filter)
{
    int failed = add_conditional(filter) | add_abort(filter);
#include "daemon/sandbox/compiler.def"
#include "daemon/sandbox/no_files.def"
    return failed;
}

static int add_toolkit(scmp_filter_ctx filter)
{
    int failed = add_conditional(filter) | add_abort(filter) | add_reading(filter);
#include "daemon/sandbox/compiler.def"
#include "daemon/sandbox/toolkit.def"
    return failed;
}

static int add_host_cc(scmp_filter_ctx filter)
{
    int failed = 0;
#include "daemon/sandbox/host_cc.def"
    return failed;
}

static int add_host_executor(scmp_filter_ctx filter)
{
    int failed = add_threads(filter);
#include "daemon/sandbox/host_executor.def"
    return failed;
}

/* prlimit64 may ask, and set nothing. */
static int add_filter(scmp_filter_ctx filter)
{
    int failed = add_threads(filter) | add_reading(filter) |
                 seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
                                  SCMP_A2(SCMP_CMP_EQ, 0));
#include "daemon/sandbox/filter.def"
    return failed;
}

static int add_forbidden(scmp_filter_ctx filter)
{
    int failed = 0;
#include "daemon/sandbox/forbidden.def"
    return failed;
}

#undef HIDE
#define HIDE(name) failed |= add_gated(filter, SCMP_SYS(name));

static int add_zygote(scmp_filter_ctx filter)
{
    int failed = add_conditional(filter) | add_forking(filter);
#include "daemon/sandbox/compiler.def"
#include "daemon/sandbox/no_files.def"
#include "daemon/sandbox/zygote.def"
    /* abort() in a child, which narrows it to itself. */
    ALLOW(tgkill)
    /* To see whether the toolkit's headers have changed. */
    ALLOW(getdents64)
    ALLOW(fcntl)
    return failed;
}

#undef ALLOW
#undef HIDE

/* On top of the zygote's list, which still holds: only what that has and a child must not. */
#define ALLOW(name) failed |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(name), 0);

static int add_zygote_child(scmp_filter_ctx filter)
{
    int failed =
        seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(clone), 1,
                         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) |
        seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_NE, (uint64_t)getpid())) |
        seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(prctl), 0);
#include "daemon/sandbox/zygote.def"
    return failed;
}

#undef ALLOW
#undef KILL

int sandbox_seccomp(enum sandbox_profile profile)
{
    static int (*const profiles[])(scmp_filter_ctx filter) = {
        [SANDBOX_COMPILER] = add_compiler, [SANDBOX_TOOLKIT] = add_toolkit,
        [SANDBOX_ZYGOTE] = add_zygote,     [SANDBOX_ZYGOTE_CHILD] = add_zygote_child,
        [SANDBOX_HOST_CC] = add_host_cc,   [SANDBOX_HOST_EXECUTOR] = add_host_executor,
        [SANDBOX_FILTER] = add_filter,
    };
    bool is_second = profile == SANDBOX_ZYGOTE_CHILD;
    scmp_filter_ctx filter = seccomp_init(is_second ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(ENOSYS));
    int failed = filter == NULL;
    if (failed)
        return -1;
    /* All threads; a tree of comparisons instead of a chain, where the library can. */
    failed |= seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (!is_second)
        failed |= add_forbidden(filter);
    failed |= profiles[profile](filter);
    if (!failed)
        failed = seccomp_load(filter);
    seccomp_release(filter);
    return failed ? -1 : 0;
}

/* Under AddressSanitizer the address space cannot be limited (its shadow is 20 TB) and the run-time opens files and
 * calls what the list does not have when it reports. Such a build has Landlock and the other limits only, and says
 * that it is not shut in. Where files are only Landlock's business, nothing without it is shut in. */
enum sandbox sandbox_enter(enum sandbox_profile profile, const struct sandbox_paths *paths)
{
    static const struct sandbox_walls walls = {sandbox_landlock, sandbox_seccomp};
    return sandbox_enter_with(profile, paths, &walls);
}

enum sandbox sandbox_enter_with(enum sandbox_profile profile, const struct sandbox_paths *paths,
                                const struct sandbox_walls *walls)
{
    prctl(PR_SET_DUMPABLE, 0);
    sandbox_limits(profile);
    drop_capabilities();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return SANDBOX_NONE;
    int landlock = walls->landlock(paths);
    if (UNDER_ASAN || walls->seccomp(profile) < 0)
        return SANDBOX_NONE;
    if (landlock == 0)
        return SANDBOX_FULL;
    return profile == SANDBOX_COMPILER ? SANDBOX_SECCOMP : SANDBOX_NONE;
}
