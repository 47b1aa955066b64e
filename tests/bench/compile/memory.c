/* P6b: the most that the compile side holds in memory while every worker compiles. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/bench/compile/compile.h"

#define BUDGET_MIB 1536.0

/* Looks again and again while the workers work. */
struct watch {
    pid_t front;
    atomic_bool over;
    double most_mib;
    size_t n_processes; /* then */
};

static void *run_watch(void *data)
{
    struct watch *watch = data;
    while (!atomic_load(&watch->over)) {
        size_t n;
        double mib = tree_pss_mib(watch->front, &n);
        if (mib > watch->most_mib) {
            watch->most_mib = mib;
            watch->n_processes = n;
        }
        poll(NULL, 0, 20);
    }
    return NULL;
}

void bench_memory(const struct bench *bench)
{
    static const struct program *const programs[] = {&program_row_sum, &program_math, &program_groups,
                                                     &program_standard};
    const unsigned workers = bench->quick ? 2 : 16;
    struct own_daemon daemon;
    struct watch watch = {0};
    pthread_t watcher;
    char number[16], row[96];
    const char *const options[] = {"--workers", number, NULL};
    snprintf(number, sizeof number, "%u", workers);
    own_daemon_start(&daemon, options);
    struct fusiond_connection *connection = own_daemon_connect(&daemon);
    watch.front = daemon.pid;
    if (pthread_create(&watcher, NULL, run_watch, &watch) != 0)
        die("no thread to watch the memory");
    /* As many at once as there are workers, and then some, so that each has had one of every kind. */
    for (size_t i = 0; i < (bench->quick ? 1 : sizeof programs / sizeof programs[0]); i++)
        if (can_compile(connection, programs[i], "P6b") &&
            (!programs[i]->toolkit || warm_prefix(connection, programs[i], "P6b")))
            storm(&daemon, 2 * workers, 3 * workers, programs[i]);
    atomic_store(&watch.over, true);
    pthread_join(watcher, NULL);
    snprintf(row, sizeof row, "P6b.pss_with_%u_workers", workers);
    print_row(stdout, row, watch.most_mib, "MiB", BUDGET_MIB / 16 * workers, "budget");
    snprintf(row, sizeof row, "P6b.processes_of_%u_workers", workers);
    print_row(stdout, row, (double)watch.n_processes, "count", workers, "workers");
    print_row(stdout, "P6b.front_pss", process_pss_mib(daemon.pid), "MiB", 0, "");
    fusiond_close(connection);
    own_daemon_stop(&daemon);
}
