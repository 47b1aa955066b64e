/*
 * P7: N processes that all need the same K kernels at the same time, none of which exists. Through the daemon, against
 * NVRTC in each process, one process alone through the daemon, and a folder with a lock file per kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/compile/compile.h"
#include "tests/support/rtc.h"

#define MAX_RANKS 64

/* What a rank does, in a process of its own. */
struct job {
    const struct own_daemon *daemon;
    struct bare_variant variant;
    unsigned first, n_kernels;
    const char *folder; /* of the lock files */
    /* Before the start is given, and after. */
    void (*prepare)(struct job *job);
    void (*run)(struct job *job);
    struct fusiond_connection *connection;
};

struct rank_result {
    uint64_t took_ns, cpu_ns;
};

struct group_result {
    double wall, cpu, skew; /* seconds, seconds, 0 to 1 */
};

/* ---- one rank ---- */

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void prepare_client(struct job *job)
{
    job->connection = own_daemon_connect(job->daemon);
}

static void run_client(struct job *job)
{
    for (unsigned i = 0; i < job->n_kernels; i++) {
        struct fusiond_fusion *fusion = program_fusion(job->variant.program, job->first + i);
        fusiond_kernel_destroy(get_kernel(job->connection, fusion, FUSIOND_IMAGE));
        fusiond_fusion_destroy(fusion);
    }
}

static void prepare_bare(struct job *job)
{
    char why[256];
    (void)job;
    if (!rtc_open(why))
        die("%s", why);
}

static void run_bare(struct job *job)
{
    for (unsigned i = 0; i < job->n_kernels; i++)
        bare_compile_here(&job->variant, job->first + i);
}

/* Whoever gets the lock first compiles; the others find the file. */
static void run_with_lock_files(struct job *job)
{
    char path[128], image[144];
    for (unsigned i = 0; i < job->n_kernels; i++) {
        snprintf(path, sizeof path, "%s/%u.lock", job->folder, job->first + i);
        snprintf(image, sizeof image, "%s/%u.image", job->folder, job->first + i);
        int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (lock < 0 || flock(lock, LOCK_EX) < 0)
            die("%s: %s", path, strerror(errno));
        int fd = open(image, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            char scrap[65536];
            while (read(fd, scrap, sizeof scrap) > 0)
                ;
        } else {
            struct bare_result result = bare_compile_here(&job->variant, job->first + i);
            fd = open(image, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (fd < 0 || ftruncate(fd, (off_t)result.size) < 0)
                die("%s: %s", image, strerror(errno));
        }
        close(fd);
        close(lock);
    }
}

/* ---- a group of them ---- */

static _Noreturn void be_rank(struct job *job, int ready, int start, int result)
{
    char byte = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    job->prepare(job);
    uint64_t cpu = cpu_ns();
    if (write(ready, &byte, 1) != 1)
        _exit(1);
    close(ready);
    /* The end of the pipe is the start. */
    if (read(start, &byte, 1) != 0)
        _exit(1);
    uint64_t started = now_ns();
    job->run(job);
    struct rank_result took = {now_ns() - started, cpu_ns() - cpu};
    _exit(write(result, &took, sizeof took) == sizeof took ? 0 : 1);
}

static struct group_result run_group(struct job *job, unsigned n_ranks)
{
    int ready[2], start[2], results[2], status;
    char byte;
    struct group_result group = {0};
    double first = 1e9;
    if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(start, O_CLOEXEC) < 0 || pipe2(results, O_CLOEXEC) < 0)
        die("no pipes");
    fflush(NULL);
    for (unsigned i = 0; i < n_ranks; i++) {
        pid_t pid = fork();
        if (pid < 0)
            die("fork failed");
        if (pid == 0) {
            close(start[1]);
            be_rank(job, ready[1], start[0], results[1]);
        }
    }
    close(ready[1]);
    for (unsigned i = 0; i < n_ranks; i++)
        if (read(ready[0], &byte, 1) != 1)
            die("a rank did not start");
    double daemon_cpu = job->daemon ? tree_cpu_seconds(job->daemon->pid) : 0;
    close(start[1]);
    for (unsigned i = 0; i < n_ranks; i++) {
        if (wait(&status) < 0 || status != 0)
            die("a rank failed");
        struct rank_result took;
        if (read(results[0], &took, sizeof took) != sizeof took)
            die("a rank told nothing");
        double seconds = (double)took.took_ns / 1e9;
        group.wall = seconds > group.wall ? seconds : group.wall;
        first = seconds < first ? seconds : first;
        group.cpu += (double)took.cpu_ns / 1e9;
    }
    if (job->daemon)
        group.cpu += tree_cpu_seconds(job->daemon->pid) - daemon_cpu;
    group.skew = (group.wall - first) / group.wall;
    close(ready[0]);
    close(start[0]);
    close(results[0]);
    close(results[1]);
    return group;
}

/* ---- the row ---- */

enum { DAEMON, ALONE, IN_PROCESS, LOCK_FILES, WAYS };

struct measured {
    struct series wall[WAYS], cpu[WAYS], skew[WAYS], compiles;
};

static unsigned take_numbers(unsigned n)
{
    unsigned first = next_number();
    while (--n)
        next_number();
    return first;
}

static void measure(struct measured *measured, const struct own_daemon *daemon, struct fusiond_connection *connection,
                    const struct bare_variant *variant, unsigned n_ranks, unsigned n_kernels)
{
    for (int way = 0; way < WAYS; way++) {
        char folder[] = "/tmp/fusiond-locks-XXXXXX";
        struct job job = {.variant = *variant,
                          .first = take_numbers(n_kernels),
                          .n_kernels = n_kernels,
                          .prepare = prepare_bare,
                          .run = run_bare};
        if (way == DAEMON || way == ALONE) {
            job.daemon = daemon;
            job.prepare = prepare_client;
            job.run = run_client;
        } else if (way == LOCK_FILES) {
            job.run = run_with_lock_files;
            job.folder = mkdtemp(folder);
            if (!job.folder)
                die("%s: %s", folder, strerror(errno));
        }
        uint64_t compiles = daemon_number(connection, "compiles_total");
        struct group_result group = run_group(&job, way == ALONE ? 1 : n_ranks);
        if (way == DAEMON)
            series_add(&measured->compiles, (double)(daemon_number(connection, "compiles_total") - compiles));
        if (job.folder)
            remove_folder(job.folder);
        series_add(&measured->wall[way], group.wall);
        series_add(&measured->cpu[way], group.cpu);
        series_add(&measured->skew[way], 100 * group.skew);
    }
}

static void print(struct measured *measured, unsigned n_ranks, unsigned n_kernels)
{
    static const char *const names[WAYS] = {"daemon", "one_rank_through_daemon", "nvrtc_in_each", "lock_files"};
    struct series *wall = measured->wall, *cpu = measured->cpu, *skew = measured->skew;
    char row[96];
    snprintf(row, sizeof row, "P7.%ux%u.duplicates", n_ranks, n_kernels);
    print_row(stdout, row, series_percentile(&measured->compiles, 1) - n_kernels, "count",
              (double)(n_ranks - 1) * n_kernels, names[IN_PROCESS]);
    for (int base = ALONE; base < WAYS; base++) {
        snprintf(row, sizeof row, "P7.%ux%u.wall", n_ranks, n_kernels);
        print_series(row, &wall[DAEMON], "s", &wall[base], names[base]);
        snprintf(row, sizeof row, "P7.%ux%u.cpu", n_ranks, n_kernels);
        print_series(row, &cpu[DAEMON], "s", &cpu[base], names[base]);
    }
    for (int way = 0; way < WAYS; way++) {
        snprintf(row, sizeof row, "P7.%ux%u.skew.%s", n_ranks, n_kernels, names[way]);
        if (way != ALONE)
            print_series(row, &skew[way], "percent", NULL, "");
        series_finish(&wall[way]);
        series_finish(&cpu[way]);
        series_finish(&skew[way]);
    }
    series_finish(&measured->compiles);
}

void bench_ranks(const struct bench *bench)
{
    const unsigned n_ranks = bench->quick ? 2 : 8, n_kernels = bench->quick ? 2 : 32;
    const unsigned rounds = bench->rounds < 5 ? bench->rounds : 5;
    struct measured measured = {0};
    struct own_daemon daemon;
    own_daemon_start(&daemon, NULL);
    struct fusiond_connection *connection = own_daemon_connect(&daemon);
    struct arguments arguments = arguments_of(connection, &program_row_sum);
    struct bare_variant variant = {&program_row_sum, true, arguments};
    /* Its workers have started: a daemon runs before the job does. */
    storm(&daemon, cores(), 4 * cores(), &program_row_sum);
    for (unsigned i = 0; i < rounds; i++)
        measure(&measured, &daemon, connection, &variant, n_ranks, n_kernels);
    print(&measured, n_ranks, n_kernels);
    arguments_finish(&arguments);
    fusiond_close(connection);
    own_daemon_stop(&daemon);
}
