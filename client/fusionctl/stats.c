#include <stdio.h>
#include <string.h>

#include "client/fusionctl/print.h"
#include "client/fusionctl/verbs.h"
#include "client/stats.h"

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Times and sizes in units for people, by the name's ending. */
static void print_value(const char *name, uint64_t value)
{
    char room[PRINT_ROOM];
    if (ends_with(name, "_ns") || ends_with(name, "_ns_total"))
        printf("%-30s %s\n", name, print_time(value, room));
    else if (ends_with(name, "_bytes"))
        printf("%-30s %s\n", name, print_size(value, room));
    else
        printf("%-30s %llu\n", name, (unsigned long long)value);
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    struct fusiond_stats *stats;
    struct fusiond_error error;
    int option, result = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!common_take(common, option))
            return usage_error(&verb_stats, NULL);
    }
    if (!common_check(&verb_stats, common, argc - optind, 0, 0, &result))
        return result;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    if (fusiond_stats(connection, &stats, &error) < 0) {
        fusiond_close(connection);
        return fail(&error);
    }
    if (common->json) {
        message_print(&stats_reply_type, &stats->message, stdout, 2);
        putchar('\n');
    } else {
        const char *name;
        uint64_t value;
        for (size_t i = 0; fusiond_stats_at(stats, i, &name, &value); i++)
            print_value(name, value);
        if (stats->message.database_path.at)
            printf("%-30s %s\n", "database_path", stats->message.database_path.at);
        for (size_t i = 0; i < fusiond_stats_degraded(stats); i++)
            printf("%-30s %s\n", "degraded", fusiond_stats_degraded_at(stats, i));
    }
    fusiond_stats_destroy(stats);
    fusiond_close(connection);
    return 0;
}

const struct verb verb_stats = {
    .name = "stats",
    .summary = "what the daemon has done and holds",
    .help = "usage: fusionctl stats\n\n"
            "Counters since the daemon's start (…_total), and gauges of now.\n\n" COMMON_HELP,
    .run = run,
};
