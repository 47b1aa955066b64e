#include <stdio.h>
#include <string.h>

#include "client/fusionctl/print.h"
#include "client/fusionctl/table.h"
#include "client/fusionctl/verbs.h"
#include "client/list.h"

static void fill_row(const void *data, size_t index, struct table_row *row)
{
    struct fusiond_summary summary = fusiond_kernel_list_at(data, index);
    snprintf(row->rooms[0], TABLE_CELL, "%.12s", summary.key);
    snprintf(row->rooms[4], TABLE_CELL, "%u", summary.max_registers);
    row->cells[0] = row->rooms[0];
    row->cells[1] = *summary.label ? summary.label : *summary.entry ? summary.entry : "-";
    row->cells[2] = summary.target;
    row->cells[3] = *summary.index_type ? summary.index_type : "-";
    row->cells[4] = summary.max_registers ? row->rooms[4] : "-";
    row->cells[5] = print_size(summary.image_size, row->rooms[5]);
    row->cells[6] = summary.compile_ns ? print_time(summary.compile_ns, row->rooms[6]) : "-";
    row->cells[7] = print_age(summary.created_unix_s, row->rooms[7]);
}

static void print_table(const struct fusiond_kernel_list *list)
{
    static const char *const titles[] = {"KEY", "LABEL", "TARGET", "INDEX", "REGS", "SIZE", "COMPILE", "AGE"};
    table_print(titles, 8, fusiond_kernel_list_count(list), fill_row, list);
}

static void print_json(const struct fusiond_kernel_list *list)
{
    fputs("[", stdout);
    for (size_t i = 0; i < list->n; i++) {
        fputs(i ? ",\n " : "", stdout);
        message_print(&kernel_summary_type, &list->rows[i].summary, stdout, -1);
    }
    puts("]");
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {{"label", required_argument, NULL, 'l'},
                                            {"target", required_argument, NULL, 't'},
                                            {"limit", required_argument, NULL, 'n'},
                                            COMMON_OPTIONS,
                                            {0}};
    struct fusiond_list_filter filter = {0};
    struct fusiond_kernel_list *list;
    struct fusiond_error error;
    long long limit;
    int option, result = 0;
    while ((option = getopt_long(argc, argv, "l:t:n:", options, NULL)) != -1) {
        if (common_take(common, option))
            continue;
        if (option == 'l')
            filter.label = optarg;
        else if (option == 't')
            filter.target = optarg;
        else if (option == 'n' && parse_number("--limit", optarg, 1, 1 << 30, &limit))
            filter.limit = (size_t)limit;
        else
            return usage_error(&verb_ls, NULL);
    }
    if (!common_check(&verb_ls, common, argc - optind, 0, 1, &result))
        return result;
    filter.prefix = optind < argc ? argv[optind] : NULL;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    if (fusiond_kernel_list(connection, &filter, &list, &error) < 0) {
        result = fail(&error);
    } else {
        if (common->json)
            print_json(list);
        else
            print_table(list);
        fusiond_kernel_list_destroy(list);
    }
    fusiond_close(connection);
    return result;
}

const struct verb verb_ls = {
    .name = "ls",
    .summary = "list the kernels in the database",
    .help = "usage: fusionctl ls [PREFIX] [--label L] [--target T] [--limit N]\n\n"
            "Kernels in key order; PREFIX is the beginning of their keys.\n\n"
            "  -l, --label L         only those of this label\n"
            "  -t, --target T        only those for this target\n"
            "  -n, --limit N         at most N\n" COMMON_HELP,
    .run = run,
};
