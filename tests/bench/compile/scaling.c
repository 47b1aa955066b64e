/* P16: compiles per second of a pool of W workers that never lack a job, against one worker. */
#include "tests/bench/compile/compile.h"

#define MAX_POOLS 3
#define JOBS_PER_WORKER 4

struct own_pool {
    unsigned workers;
    struct own_daemon daemon;
    struct series per_second;
};

void bench_scaling(const struct bench *bench)
{
    struct own_pool pools[MAX_POOLS] = {{.workers = 1}, {.workers = 2}, {.workers = cores()}};
    size_t n = cores() > 2 ? 3 : cores();
    const struct program *program = bench->quick ? &program_row_sum : &program_block;
    const unsigned rounds = bench->rounds < 5 ? bench->rounds : 5;
    char row[96];
    for (size_t i = 0; i < n; i++) {
        char number[16];
        const char *const options[] = {"--workers", number, NULL};
        snprintf(number, sizeof number, "%u", pools[i].workers);
        own_daemon_start(&pools[i].daemon, options);
        struct fusiond_connection *connection = own_daemon_connect(&pools[i].daemon);
        if (i == 0 && program->toolkit && !can_compile(connection, program, "P16"))
            program = &program_row_sum;
        if (program->toolkit)
            warm_prefix(connection, program, "P16");
        fusiond_close(connection);
        /* Every worker has started and compiled. */
        storm(&pools[i].daemon, 2 * pools[i].workers, 2 * pools[i].workers, program);
    }
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < n; i++) {
            unsigned jobs = (bench->quick ? 1 : JOBS_PER_WORKER) * pools[i].workers;
            series_add(&pools[i].per_second, jobs / storm(&pools[i].daemon, 2 * pools[i].workers, jobs, program));
        }
    for (size_t i = 0; i < n; i++) {
        snprintf(row, sizeof row, "P16.%s.%u_workers.p50", program->name, pools[i].workers);
        print_row(stdout, row, series_percentile(&pools[i].per_second, 0.5), "1/s",
                  i ? series_percentile(&pools[0].per_second, 0.5) : 0, "one_worker");
    }
    for (size_t i = 0; i < n; i++) {
        series_finish(&pools[i].per_second);
        own_daemon_stop(&pools[i].daemon);
    }
}
