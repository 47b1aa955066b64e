/* fusiond-bench: measure a running daemon. `tests/bench/run` starts one and calls this. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/compile/compile.h"

static const char usage[] =
    "Usage: fusiond-bench [--quick] [--rounds N] [--spin-us N] [ROW]...\n"
    "Prints `name value unit ratio base`. Rows, all of them when none is named:\n"
    "  of the daemon at $FUSIOND_SOCKET: idle (P15), hits (P1, P1b, P2), throughput (P3), launch (P9)\n"
    "  compile, with daemons of their own: small (P5, P17), heavy (P6), memory (P6b), ranks (P7), tiers (P8),\n"
    "    scaling (P16)\n"
    "--quick: as little as shows that a row works.\n";

static const struct row {
    const char *name;
    const char *set; /* may be named instead of its rows; NULL: none. Rows of a set start daemons of their own */
    void (*run)(const struct bench *bench);
} rows[] = {
    /* First those that fork processes which load NVRTC, from one that holds little yet. */
    {"small", "compile", bench_small},   {"heavy", "compile", bench_heavy},
    {"memory", "compile", bench_memory}, {"ranks", "compile", bench_ranks},
    {"tiers", "compile", bench_tiers},   {"scaling", "compile", bench_scaling},
    {"idle", NULL, bench_idle}, /* before the others: it measures a daemon that has done little yet */
    {"hits", NULL, bench_hits},          {"throughput", NULL, bench_throughput},
    {"launch", NULL, bench_launch}, /* last: it may open the CUDA driver */
};

static bool wanted(int argc, char **argv, const struct row *row)
{
    for (int i = optind; i < argc; i++)
        if (strcmp(argv[i], row->name) == 0 || (row->set && strcmp(argv[i], row->set) == 0))
            return true;
    return optind == argc;
}

/* A word that is no row would measure nothing, in silence. */
static void check_words(int argc, char **argv)
{
    for (int i = optind; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof rows / sizeof rows[0] && strcmp(argv[i], rows[k].name) != 0 &&
               (!rows[k].set || strcmp(argv[i], rows[k].set) != 0))
            k++;
        if (k == sizeof rows / sizeof rows[0])
            die("there is no row \"%s\"; see --help", argv[i]);
    }
}

static void read_flags(int argc, char **argv, struct bench *bench)
{
    static const struct option options[] = {{"rounds", required_argument, NULL, 'r'},
                                            {"spin-us", required_argument, NULL, 's'},
                                            {"quick", no_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'r')
            bench->rounds = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'q')
            bench->quick = true;
        else if (option == 's')
            bench->spin_us = (unsigned)strtoul(optarg, NULL, 10);
        else {
            fputs(usage, option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
    }
    if (bench->quick)
        bench->rounds = 1;
    if (bench->rounds == 0)
        die("--rounds must be a number of at least 1");
}

static void ask_pid(struct bench *bench)
{
    struct fusiond_connection *connection;
    struct fusiond_stats *stats;
    struct fusiond_error error;
    char spin[16];
    if (!bench->socket)
        die("FUSIOND_SOCKET is not set; tests/bench/run starts a daemon and sets it");
    snprintf(spin, sizeof spin, "%u", bench->spin_us);
    setenv("FUSIOND_SPIN_US", spin, 1);
    if (fusiond_connect(bench->socket, NULL, &connection, &error) < 0 || fusiond_stats(connection, &stats, &error) < 0)
        die("%s", error.text);
    if (!fusiond_stats_get(stats, "pid", &bench->pid))
        die("the daemon does not tell its pid");
    fusiond_stats_destroy(stats);
    fusiond_close(connection);
}

int main(int argc, char **argv)
{
    struct bench bench = {.socket = getenv("FUSIOND_SOCKET"), .rounds = 10};
    read_flags(argc, argv, &bench);
    check_words(argc, argv);
    print_head(stdout);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!wanted(argc, argv, &rows[i]))
            continue;
        if (!rows[i].set && !bench.pid)
            ask_pid(&bench);
        rows[i].run(&bench);
    }
    return 0;
}
