#include "tests/support/daemon_process.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 32
#define TICK_MS 5

/* ---- waiting ---- */

long clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool becomes_true(bool (*condition)(void *context), void *context, long ms)
{
    long deadline = clock_ms() + ms;
    for (;;) {
        if (condition(context))
            return true;
        if (clock_ms() > deadline)
            return false;
        poll(NULL, 0, TICK_MS);
    }
}

static bool readable(int fd, long ms)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    long deadline = clock_ms() + ms;
    for (;;) {
        long left = deadline - clock_ms();
        int n = poll(&wanted, 1, left > 0 ? (int)left : 0);
        if (n >= 0 || errno != EINTR)
            return n > 0;
    }
}

bool process_ends(pid_t pid, long ms, int *ret_status)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    bool ended = fd >= 0 && readable(fd, ms);
    if (fd >= 0)
        close(fd);
    return ended && waitpid(pid, ret_status, 0) == pid;
}

pid_t fork_apart(const int *kept)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 3; fd < 1024; fd++) {
        bool keep = false;
        for (const int *at = kept; at && *at >= 0; at++)
            keep |= *at == fd;
        if (!keep)
            close(fd);
    }
    return 0;
}

/* ---- /proc ---- */

size_t process_descriptors(pid_t pid)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n > 2 ? n - 2 : 0;
}

size_t process_children(pid_t pid, pid_t *ret, size_t room)
{
    char path[64];
    size_t n = 0;
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1) {
        if (n < room)
            ret[n] = child;
        n++;
    }
    if (file)
        fclose(file);
    return n;
}

/* ---- the log ---- */

char *daemon_log(const struct daemon_process *daemon)
{
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room + 1);
    FILE *file = fopen(daemon->log, "re");
    for (size_t n = 1; text && file && n > 0; size += n) {
        if (size == room) {
            char *more = realloc(text, 2 * room + 1);
            if (!more)
                break;
            text = more;
            room *= 2;
        }
        n = fread(text + size, 1, room - size, file);
    }
    if (file)
        fclose(file);
    cr_assert(text != NULL);
    text[size] = '\0';
    return text;
}

size_t daemon_log_count(const struct daemon_process *daemon, const char *words)
{
    char *text = daemon_log(daemon), *rest = text, *line;
    size_t n = 0;
    while ((line = strsep(&rest, "\n")))
        n += strstr(line, words) != NULL;
    free(text);
    return n;
}

struct log_wait {
    const struct daemon_process *daemon;
    const char *words;
};

static bool log_has(void *context)
{
    struct log_wait *wait = context;
    return daemon_log_count(wait->daemon, wait->words) > 0;
}

bool daemon_log_waits_for(const struct daemon_process *daemon, const char *words)
{
    struct log_wait wait = {daemon, words};
    return becomes_true(log_has, &wait, DAEMON_PATIENCE_MS);
}

/* ---- the start ---- */

int daemon_prepare(struct daemon_process *ret, const struct daemon_options *options, struct error *error)
{
    struct daemon_process daemon = {0};
    snprintf(daemon.directory, sizeof daemon.directory, "/tmp/fusiond-test-XXXXXX");
    if (!mkdtemp(daemon.directory))
        return error_set_errno(error, STATUS_SYSTEM, errno, "making a folder in /tmp");
    if (options && options->uid && chown(daemon.directory, options->uid, (gid_t)-1) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "giving away %s", daemon.directory);
    snprintf(daemon.socket, sizeof daemon.socket, "%s/run/fusiond.sock", daemon.directory);
    snprintf(daemon.cache, sizeof daemon.cache, "%s/cache", daemon.directory);
    snprintf(daemon.database, sizeof daemon.database, "%s/v1/kernels.db", daemon.cache);
    snprintf(daemon.log, sizeof daemon.log, "%s/log", daemon.directory);
    *ret = daemon;
    return 0;
}

/* Between fork and exec: what the child becomes. */
static void become(const struct daemon_process *daemon, const struct daemon_options *options, char **argv, char **envp)
{
    struct rlimit limit = {options->files, options->files};
    const char *path = getenv("FUSIOND_DAEMON");
    int log = open(daemon->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (log < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0)
        _exit(126);
    /* Descriptors of the test runner are not the daemon's. */
    if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0 || (options->files && setrlimit(RLIMIT_NOFILE, &limit) < 0))
        _exit(126);
    if (options->uid && (setgid(options->uid) < 0 || setuid(options->uid) < 0))
        _exit(126);
    execve(path ? path : DAEMON_PATH, argv, envp);
    _exit(127);
}

static int open_notify_socket(const struct daemon_process *daemon, char path[108])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", daemon->directory);
    unlink(address.sun_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || chmod(address.sun_path, 0777) < 0)
        return -1;
    memcpy(path, address.sun_path, sizeof address.sun_path);
    return fd;
}

static bool answers_or_ended(void *context)
{
    const struct daemon_process *daemon = context;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    siginfo_t info = {0};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, daemon->socket, sizeof daemon->socket);
    bool yes = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    waitid(P_PID, (id_t)daemon->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return yes || info.si_pid == daemon->pid;
}

/* READY=1, or the end of the process. */
static bool is_ready(struct daemon_process *daemon, int notify_fd, bool can_notify)
{
    char message[64] = "";
    if (!can_notify) /* without an environment it cannot tell: ask until it answers */
        return becomes_true(answers_or_ended, daemon, DAEMON_PATIENCE_MS);
    int process = (int)syscall(SYS_pidfd_open, daemon->pid, 0);
    struct pollfd wanted[2] = {{.fd = notify_fd, .events = POLLIN}, {.fd = process, .events = POLLIN}};
    while (poll(wanted, 2, DAEMON_PATIENCE_MS) < 0 && errno == EINTR)
        ;
    close(process);
    return wanted[0].revents & POLLIN && recv(notify_fd, message, sizeof message - 1, MSG_DONTWAIT) > 0 &&
           strstr(message, "READY=1");
}

static size_t make_environment(const struct daemon_options *options, const char *notify, char (*texts)[256],
                               char **envp)
{
    static const char *const kept[] = {"FUSIOND_NVRTC", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
                                       "TSAN_OPTIONS"};
    size_t n = 0;
    if (!options->empty_environment) {
        for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
            if (getenv(kept[i]) && (size_t)snprintf(texts[n], 256, "%s=%s", kept[i], getenv(kept[i])) < 256)
                envp[n] = texts[n], n++;
        snprintf(texts[n], 256, "NOTIFY_SOCKET=%s", notify);
        envp[n] = texts[n];
        n++;
    }
    envp[n] = NULL;
    return n;
}

int daemon_launch(struct daemon_process *daemon, const struct daemon_options *options, struct error *error)
{
    static const struct daemon_options none;
    char notify[108], texts[8][256];
    char *envp[9];
    const char *argv[ARGS_MAX] = {"fusiond", "--socket", daemon->socket, "--cache-dir", daemon->cache};
    size_t n = 5;
    if (!options)
        options = &none;
    for (const char *const *arg = options->args; arg && *arg && n < ARGS_MAX - 1; arg++)
        argv[n++] = *arg;
    int fd = open_notify_socket(daemon, notify);
    if (fd < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "listening for READY=1");
    make_environment(options, notify, texts, envp);
    fflush(NULL);
    daemon->pid = fork();
    if (daemon->pid == 0)
        become(daemon, options, (char **)argv, envp);
    bool ready = daemon->pid > 0 && is_ready(daemon, fd, !options->empty_environment);
    close(fd);
    /* One that answered and then ended is not ready. */
    if (ready && waitpid(daemon->pid, NULL, WNOHANG) == 0)
        return 0;
    char *log = daemon_log(daemon);
    size_t size = strlen(log);
    error_set(error, STATUS_SYSTEM, "fusiond did not become ready: …%s", size > 400 ? log + size - 400 : log);
    free(log);
    daemon_kill(daemon);
    return -1;
}

/* ---- the end ---- */

int daemon_stop(struct daemon_process *daemon, struct error *error)
{
    int status;
    kill(daemon->pid, SIGTERM);
    if (!process_ends(daemon->pid, DAEMON_PATIENCE_MS, &status))
        return error_set(error, STATUS_TIMEOUT, "fusiond did not end after SIGTERM");
    daemon->pid = 0;
    if (!WIFEXITED(status))
        return error_set(error, STATUS_SYSTEM, "fusiond was killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

void daemon_kill(struct daemon_process *daemon)
{
    if (daemon->pid <= 0)
        return;
    kill(daemon->pid, SIGKILL);
    waitpid(daemon->pid, NULL, 0);
    daemon->pid = 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

void daemon_finish(struct daemon_process *daemon)
{
    daemon_kill(daemon);
    if (daemon->directory[0])
        nftw(daemon->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    daemon->directory[0] = '\0';
}

/* ---- for tests ---- */

void daemon_start(struct daemon_process *ret, const struct daemon_options *options)
{
    struct error error = {0};
    cr_assert(daemon_prepare(ret, options, &error) == 0, "%s", error.text);
    cr_assert(daemon_launch(ret, options, &error) == 0, "%s", error.text);
}

static bool knows_its_compiler(void *context)
{
    return daemon_log_count(context, " compiler name=") > 0 || daemon_log_count(context, " compiler.unavailable ") > 0;
}

void daemon_start_or_skip(struct daemon_process *ret, const struct daemon_options *options)
{
    daemon_start(ret, options);
    cr_assert(becomes_true(knows_its_compiler, ret, DAEMON_PATIENCE_MS), "the compiler's probe takes too long");
    if (daemon_log_count(ret, " compiler.unavailable ") == 0)
        return;
    char *log = daemon_log(ret);
    char why[400];
    snprintf(why, sizeof why, "%s", strstr(log, " compiler.unavailable "));
    free(log);
    daemon_finish(ret);
    cr_assert(getenv("FUSIOND_NVRTC") == NULL, "FUSIOND_NVRTC is set, and still: %s", why);
    cr_skip("no NVRTC here: %s", why);
}

void daemon_restart(struct daemon_process *daemon, const struct daemon_options *options)
{
    struct error error = {0};
    cr_assert(daemon_launch(daemon, options, &error) == 0, "%s", error.text);
}

void daemon_stop_in_order(struct daemon_process *daemon)
{
    struct error error = {0};
    int status = daemon_stop(daemon, &error);
    char *log = daemon_log(daemon);
    cr_assert(status == 0, "exit status %d %s; the log:\n%s", status, error.text, log);
    free(log);
}
