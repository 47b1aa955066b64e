/* Daemons that a row starts for itself, and compiles in them. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/kernel.h"
#include "tests/bench/compile/compile.h"

#define MAX_DAEMONS 8
#define START_MS 10000
#define WARM_MS 60000

static struct own_daemon running[MAX_DAEMONS];
static pid_t owner; /* a forked child must end nothing */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

void remove_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void end(struct own_daemon *daemon)
{
    kill(daemon->pid, SIGTERM);
    while (waitpid(daemon->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    remove_folder(daemon->folder);
    daemon->pid = 0;
}

static void end_all(void)
{
    for (size_t i = 0; i < MAX_DAEMONS; i++)
        if (running[i].pid && getpid() == owner)
            end(&running[i]);
}

static void note(const struct own_daemon *daemon)
{
    if (!owner) {
        owner = getpid();
        atexit(end_all);
    }
    for (size_t i = 0; i < MAX_DAEMONS; i++)
        if (!running[i].pid) {
            running[i] = *daemon;
            return;
        }
    die("more than %d daemons", MAX_DAEMONS);
}

/* In the build's tree, or in a copy of it. */
static void find_daemon(char *ret, size_t size)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    snprintf(ret, size, "%.*s/../../daemon/fusiond", slash ? (int)(slash - self) : 0, self);
}

static _Noreturn void become(const struct own_daemon *daemon, const char *const *options)
{
    char path[PATH_MAX + 32];
    find_daemon(path, sizeof path);
    const char *argv[32] = {path, "--socket", daemon->socket, "--cache-dir", daemon->folder, "--log", "warning"};
    size_t n = 7;
    for (; options && *options && n < 31; options++)
        argv[n++] = *options;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(path, (char **)argv);
    fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
    _exit(127);
}

void own_daemon_start(struct own_daemon *ret, const char *const *options)
{
    struct own_daemon daemon = {0};
    struct fusiond_connection *connection;
    struct fusiond_error error = {.text = "it never answered"};
    const char *parent = getenv("TMPDIR");
    snprintf(daemon.folder, sizeof daemon.folder, "%.32s/fusiond-bench-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(daemon.folder))
        die("%s: %s", daemon.folder, strerror(errno));
    snprintf(daemon.socket, sizeof daemon.socket, "%s/fusiond.sock", daemon.folder);
    daemon.pid = fork();
    if (daemon.pid < 0)
        die("fork failed");
    if (daemon.pid == 0)
        become(&daemon, options);
    note(&daemon);
    for (int waited = 0; waited < START_MS; waited += 10) {
        if (waitpid(daemon.pid, NULL, WNOHANG) != 0)
            die("the daemon ended at once");
        if (fusiond_connect(daemon.socket, NULL, &connection, &error) == 0) {
            fusiond_close(connection);
            *ret = daemon;
            return;
        }
        poll(NULL, 0, 10);
    }
    die("the daemon: %s", error.text);
}

void own_daemon_stop(struct own_daemon *daemon)
{
    for (size_t i = 0; i < MAX_DAEMONS; i++)
        if (running[i].pid == daemon->pid)
            end(&running[i]);
    daemon->pid = 0;
}

struct fusiond_connection *own_daemon_connect(const struct own_daemon *daemon)
{
    struct fusiond_connection *connection;
    struct fusiond_error error;
    if (fusiond_connect(daemon->socket, NULL, &connection, &error) < 0)
        die("%s", error.text);
    return connection;
}

/* ---- compiles ---- */

unsigned next_number(void)
{
    static unsigned number;
    return number++;
}

static struct fusiond_kernel *compile(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                                      unsigned parts, struct fusiond_error *error)
{
    struct fusiond_kernel *kernel;
    struct fusiond_compile_options options = {.parts = parts};
    return fusiond_compile(connection, fusion, &options, &kernel, error) < 0 ? NULL : kernel;
}

double cold_compile(struct fusiond_connection *connection, const struct program *program, unsigned i, unsigned parts,
                    struct fusiond_kernel **ret_kernel)
{
    struct fusiond_error error;
    struct fusiond_fusion *fusion = program_fusion(program, i);
    uint64_t start = now_ns();
    struct fusiond_kernel *kernel = compile(connection, fusion, FUSIOND_IMAGE | parts, &error);
    double ms = (double)(now_ns() - start) / 1e6;
    if (!kernel)
        die("compile %s: %s %s\n%s", program->name, error.name, error.text, fusiond_failure_log(connection));
    if (strcmp(fusiond_kernel_outcome(kernel), "compiled") != 0)
        die("%s %u was not compiled but is a %s", program->name, i, fusiond_kernel_outcome(kernel));
    fusiond_fusion_destroy(fusion);
    if (ret_kernel)
        *ret_kernel = kernel;
    else
        fusiond_kernel_destroy(kernel);
    return ms;
}

bool can_compile(struct fusiond_connection *connection, const struct program *program, const char *row)
{
    struct fusiond_error error;
    struct fusiond_fusion *fusion = program_fusion(program, next_number());
    struct fusiond_kernel *kernel = compile(connection, fusion, 0, &error);
    fusiond_fusion_destroy(fusion);
    if (kernel)
        fusiond_kernel_destroy(kernel);
    else
        printf("# %s: the daemon does not compile %s: %s\n", row, program->name, error.text);
    return kernel;
}

/* ---- what the daemon counts ---- */

uint64_t daemon_number(struct fusiond_connection *connection, const char *name)
{
    struct fusiond_stats *stats;
    struct fusiond_error error;
    uint64_t n = 0;
    if (fusiond_stats(connection, &stats, &error) < 0)
        die("%s", error.text);
    if (!fusiond_stats_get(stats, name, &n))
        n = 0;
    fusiond_stats_destroy(stats);
    return n;
}

bool warm_prefix(struct fusiond_connection *connection, const struct program *program, const char *row)
{
    uint64_t before = daemon_number(connection, "pch_hits_total"), start = now_ns();
    while (now_ns() - start < WARM_MS * 1000000ull) {
        cold_compile(connection, program, next_number(), 0, NULL);
        if (daemon_number(connection, "pch_hits_total") > before)
            return true;
        poll(NULL, 0, 200);
    }
    printf("# %s: %s: no compile begins from a precompiled header\n", row, program->name);
    return false;
}

/* ---- arguments ---- */

static void append(struct arguments *arguments, const char *argument)
{
    arguments->at = realloc(arguments->at, (arguments->n + 2) * sizeof *arguments->at);
    char *copy = strdup(argument);
    if (!arguments->at || !copy)
        die("no memory for arguments");
    arguments->at[arguments->n++] = copy;
    arguments->at[arguments->n] = NULL;
}

/* Where the daemon finds the toolkit's headers is told to bare NVRTC in its own words. */
static bool is_header_path(const char *argument)
{
    return strncmp(argument, "-I", 2) == 0;
}

struct arguments arguments_of(struct fusiond_connection *connection, const struct program *program)
{
    struct arguments ret = {0};
    struct fusiond_kernel *kernel;
    cold_compile(connection, program, next_number(), FUSIOND_DETAILS, &kernel);
    for (size_t i = 0; i < kernel->message.n_args; i++)
        if (!is_header_path(kernel->message.args[i].at))
            append(&ret, kernel->message.args[i].at);
    fusiond_kernel_destroy(kernel);
    return ret;
}

struct arguments arguments_with(const struct arguments *arguments, const char *more)
{
    struct arguments ret = {0};
    for (size_t i = 0; i < arguments->n; i++)
        append(&ret, arguments->at[i]);
    if (more)
        append(&ret, more);
    return ret;
}

struct arguments arguments_with_toolkit(const struct arguments *arguments)
{
    static const char *const parts[] = {"include", "include/cccl"};
    const char *home = getenv("CUDA_HOME");
    struct arguments ret = arguments_with(arguments, NULL);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char argument[512];
        snprintf(argument, sizeof argument, "--include-path=%.400s/%s", home && *home ? home : "/usr/local/cuda",
                 parts[i]);
        append(&ret, argument);
    }
    return ret;
}

void arguments_finish(struct arguments *arguments)
{
    for (size_t i = 0; i < arguments->n; i++)
        free((void *)arguments->at[i]);
    free(arguments->at);
    *arguments = (struct arguments){0};
}
