#include <stdio.h>
#include <stdlib.h>

#include "client/fusionctl/print.h"
#include "client/fusionctl/verbs.h"
#include "client/socket.h"

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds of n round trips, ascending. */
static int measure(struct fusiond_connection *connection, uint64_t *times, size_t n)
{
    struct fusiond_error error;
    for (size_t i = 0; i < n; i++) {
        uint64_t start = clock_ns();
        if (fusiond_ping(connection, &error) < 0)
            return fail(&error);
        times[i] = clock_ns() - start;
    }
    qsort(times, n, sizeof *times, compare);
    return 0;
}

static void report(const struct fusiond_connection *connection, const uint64_t *times, size_t n, bool json)
{
    char median[PRINT_ROOM], worst[PRINT_ROOM];
    if (json) {
        fputs("{\"socket\": ", stdout);
        print_json_string(fusiond_socket(connection), stdout);
        fputs(", \"version\": ", stdout);
        print_json_string(fusiond_version(connection), stdout);
        printf(", \"count\": %zu, \"median_ns\": %llu, \"p99_ns\": %llu}\n", n, (unsigned long long)times[n / 2],
               (unsigned long long)times[n * 99 / 100]);
        return;
    }
    printf("fusiond %s at %s: %zu round trip%s, median %s, p99 %s\n", fusiond_version(connection),
           fusiond_socket(connection), n, n == 1 ? "" : "s", print_time(times[n / 2], median),
           print_time(times[n * 99 / 100], worst));
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {{"count", required_argument, NULL, 'n'}, COMMON_OPTIONS, {0}};
    long long count = 1;
    int option, result = 0;
    while ((option = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
        if (common_take(common, option))
            continue;
        if (option != 'n')
            return usage_error(&verb_ping, NULL);
        if (!parse_number("--count", optarg, 1, 1000000, &count))
            return EXIT_USAGE;
    }
    if (!common_check(&verb_ping, common, argc - optind, 0, 0, &result))
        return result;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    uint64_t *times = calloc((size_t)count, sizeof *times);
    if (!times) {
        fputs("fusionctl: no memory\n", stderr);
        result = EXIT_FAILED;
    } else if ((result = measure(connection, times, (size_t)count)) == 0) {
        report(connection, times, (size_t)count, common->json);
    }
    free(times);
    fusiond_close(connection);
    return result;
}

const struct verb verb_ping = {
    .name = "ping",
    .summary = "see whether the daemon answers, and how fast",
    .help = "usage: fusionctl ping [-n COUNT]\n\n"
            "Greet the daemon and measure round trips.\n\n"
            "  -n, --count COUNT     this many (default 1)\n" COMMON_HELP,
    .run = run,
};
