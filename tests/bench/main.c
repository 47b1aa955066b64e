/* fusiond-bench: measure a running daemon. `tests/bench/run` starts one and calls this. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"

static const char usage[] =
    "Usage: fusiond-bench [--rounds N] [--spin-us N] [ROW]...\n"
    "Measures the daemon at $FUSIOND_SOCKET. Rows: hits (P1, P1b, P2), throughput (P3), idle\n"
    "(P15), launch (P9); all of them when none is named. Prints `name value unit ratio base`.\n";

static const struct {
    const char *name;
    void (*run)(const struct bench *bench);
} rows[] = {
    {"idle", bench_idle}, /* first: it measures a daemon that has done little yet */
    {"hits", bench_hits},
    {"throughput", bench_throughput},
    {"launch", bench_launch}, /* last: it may open the CUDA driver */
};

static bool wanted(int argc, char **argv, const char *name)
{
    for (int i = optind; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return optind == argc;
}

static void read_flags(int argc, char **argv, struct bench *bench)
{
    static const struct option options[] = {{"rounds", required_argument, NULL, 'r'},
                                            {"spin-us", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'r')
            bench->rounds = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 's')
            bench->spin_us = (unsigned)strtoul(optarg, NULL, 10);
        else {
            fputs(usage, option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
    }
    if (bench->rounds == 0)
        die("--rounds must be a number of at least 1");
}

int main(int argc, char **argv)
{
    struct bench bench = {.socket = getenv("FUSIOND_SOCKET"), .rounds = 10};
    struct fusiond_connection *connection;
    struct fusiond_stats *stats;
    struct fusiond_error error;
    char spin[16];
    read_flags(argc, argv, &bench);
    if (!bench.socket)
        die("FUSIOND_SOCKET is not set; tests/bench/run starts a daemon and sets it");
    snprintf(spin, sizeof spin, "%u", bench.spin_us);
    setenv("FUSIOND_SPIN_US", spin, 1);
    if (fusiond_connect(bench.socket, NULL, &connection, &error) < 0 || fusiond_stats(connection, &stats, &error) < 0)
        die("%s", error.text);
    if (!fusiond_stats_get(stats, "pid", &bench.pid))
        die("the daemon does not tell its pid");
    fusiond_stats_destroy(stats);
    fusiond_close(connection);
    print_head(stdout);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (wanted(argc, argv, rows[i].name))
            rows[i].run(&bench);
    return 0;
}
