/* P6b: what the compile side holds in memory when every worker has compiled. */
#include "tests/bench/compile/compile.h"

#define BUDGET_MIB 1536.0

void bench_memory(const struct bench *bench)
{
    static const struct program *const programs[] = {&program_row_sum, &program_math, &program_groups,
                                                     &program_standard};
    const unsigned workers = bench->quick ? 2 : 16;
    struct own_daemon daemon;
    size_t n_processes;
    char number[16], row[96];
    const char *const options[] = {"--workers", number, NULL};
    snprintf(number, sizeof number, "%u", workers);
    own_daemon_start(&daemon, options);
    struct fusiond_connection *connection = own_daemon_connect(&daemon);
    /* As many at once as there are workers, and then some, so that each has had one of every kind. */
    for (size_t i = 0; i < (bench->quick ? 1 : sizeof programs / sizeof programs[0]); i++)
        if (can_compile(connection, programs[i], "P6b") &&
            (!programs[i]->toolkit || warm_prefix(connection, programs[i], "P6b")))
            storm(&daemon, 2 * workers, 3 * workers, programs[i]);
    double mib = tree_pss_mib(daemon.pid, &n_processes);
    snprintf(row, sizeof row, "P6b.pss_with_%u_workers", workers);
    print_row(stdout, row, mib, "MiB", BUDGET_MIB / 16 * workers, "budget");
    snprintf(row, sizeof row, "P6b.processes_of_%u_workers", workers);
    print_row(stdout, row, (double)n_processes, "count", workers, "workers");
    print_row(stdout, "P6b.front_pss", process_pss_mib(daemon.pid), "MiB", 0, "");
    fusiond_close(connection);
    own_daemon_stop(&daemon);
}
