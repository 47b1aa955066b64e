#include "daemon/sandbox/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static const char *gate_folders[GATE_FOLDERS + 1];
static uint64_t secret;

/* Whether a path that begins at a folder stays below it, as far as its text says. */
static bool is_below(const char *path)
{
    int depth = 0;
    for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
        size_t size = strcspn(path, "/");
        if (size == 2 && memcmp(path, "..", 2) == 0)
            depth--;
        else if (!(size == 1 && *path == '.'))
            depth++;
        if (depth < 0)
            return false;
        path += size;
    }
    return true;
}

bool gate_admits(const char *path)
{
    for (const char *const *folder = gate_folders; *folder; folder++) {
        size_t size = strlen(*folder);
        const char *rest = path + size;
        if (strncmp(path, *folder, size) == 0 && (*rest == '/' || *rest == '\0') && is_below(rest))
            return true;
    }
    return false;
}

/* ---- the handler: only what is safe in one ---- */

static long call(long number, long a, long b, long c, long d)
{
    long result = syscall(number, a, b, c, d, 0L, secret);
    return result < 0 ? -errno : result;
}

static long on_path(const char *path, long number, long a, long b, long c, long d)
{
    return path && gate_admits(path) ? call(number, a, b, c, d) : -ENOENT;
}

/* The same for a call that may name a folder by its descriptor, which then is open, and so below one of the gate's. */
static long on_path_at(const long *args, long number, long c, long d)
{
    const char *path = (const char *)args[1];
    if (path && path[0] != '/' && args[0] >= 0 && is_below(path))
        return call(number, args[0], args[1], c, d);
    return on_path(path, number, AT_FDCWD, args[1], c, d);
}

/* What a trapped call comes to. The older calls are made as those that have a folder's descriptor in front. */
static long answer(long number, const long *args)
{
    const char *path = (const char *)args[0];
    switch (number) {
#ifdef SYS_open
    case SYS_open:
        return on_path(path, SYS_openat, AT_FDCWD, args[0], args[1], args[2]);
    case SYS_stat:
        return on_path(path, SYS_newfstatat, AT_FDCWD, args[0], args[1], 0);
    case SYS_lstat:
        return on_path(path, SYS_newfstatat, AT_FDCWD, args[0], args[1], AT_SYMLINK_NOFOLLOW);
    case SYS_access:
        return on_path(path, SYS_faccessat, AT_FDCWD, args[0], args[1], 0);
    case SYS_unlink:
        return on_path(path, SYS_unlinkat, AT_FDCWD, args[0], 0, 0);
#endif
    case SYS_openat:
        return on_path_at(args, SYS_openat, args[2], args[3]);
    case SYS_newfstatat:
        return on_path_at(args, SYS_newfstatat, args[2], args[3]);
    case SYS_faccessat:
        return on_path_at(args, SYS_faccessat, args[2], 0);
    case SYS_unlinkat:
        return on_path_at(args, SYS_unlinkat, args[2], 0);
    default:
        return -ENOENT;
    }
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
    int saved = errno;
    (void)signal;
#if defined(__x86_64__)
    greg_t *registers = at->uc_mcontext.gregs;
    const long args[] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], registers[REG_R10]};
    registers[REG_RAX] = answer(info->si_syscall, args);
#elif defined(__aarch64__)
    const long args[] = {(long)at->uc_mcontext.regs[0], (long)at->uc_mcontext.regs[1], (long)at->uc_mcontext.regs[2],
                         (long)at->uc_mcontext.regs[3]};
    at->uc_mcontext.regs[0] = (unsigned long)answer(info->si_syscall, args);
#else
#error "the gate needs to know where this machine's system calls have their arguments"
#endif
    errno = saved;
}

int gate_install(const char *const *folders, struct error *error)
{
    size_t n = 0;
    for (; folders[n]; n++)
        if (n == GATE_FOLDERS)
            return error_set(error, STATUS_SYSTEM, "more than %d folders for the gate", GATE_FOLDERS);
    memcpy(gate_folders, folders, (n + 1) * sizeof *folders);
    if (getrandom(&secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return error_set_errno(error, STATUS_SYSTEM, errno, "random bytes for the gate");
    /* One that comes while it is handled is a call of the handler's that the filter does not know: death. */
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSYS, &action, NULL) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "the handler of the gate");
    return 0;
}

uint64_t gate_secret(void)
{
    return secret;
}
