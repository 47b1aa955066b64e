#include <stdio.h>
#include <string.h>

#include "client/fusionctl/print.h"
#include "client/fusionctl/verbs.h"
#include "client/list.h"

#define COLUMNS 8

/* What one kernel shows in the table; texts that need room are in `rooms`. */
static void cells_of(const struct fusiond_summary *row, char rooms[4][PRINT_ROOM], const char *ret[COLUMNS])
{
    snprintf(rooms[0], PRINT_ROOM, "%.12s", row->key);
    if (row->max_registers)
        snprintf(rooms[1], PRINT_ROOM, "%u", row->max_registers);
    else
        snprintf(rooms[1], PRINT_ROOM, "-");
    ret[0] = rooms[0];
    ret[1] = *row->label ? row->label : *row->entry ? row->entry : "-";
    ret[2] = row->target;
    ret[3] = *row->index_type ? row->index_type : "-";
    ret[4] = rooms[1];
    ret[5] = print_size(row->image_size, rooms[2]);
    ret[6] = row->compile_ns ? print_time(row->compile_ns, rooms[3]) : "-";
    ret[7] = NULL; /* the age, printed last and not measured */
}

/* Columns a text takes: bytes that do not continue a UTF-8 character. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void print_cell(const char *text, size_t width, const char *end)
{
    printf("%s%*s%s", text, (int)(width - width_of(text)), "", end);
}

static void print_table(const struct fusiond_kernel_list *list)
{
    static const char *const titles[COLUMNS] = {"KEY", "LABEL", "TARGET", "INDEX", "REGS", "SIZE", "COMPILE", "AGE"};
    char rooms[4][PRINT_ROOM], age[PRINT_ROOM];
    const char *cells[COLUMNS];
    size_t widths[COLUMNS];
    size_t n = fusiond_kernel_list_count(list);
    for (size_t c = 0; c < COLUMNS; c++)
        widths[c] = strlen(titles[c]);
    for (size_t i = 0; i < n; i++) {
        struct fusiond_summary row = fusiond_kernel_list_at(list, i);
        cells_of(&row, rooms, cells);
        for (size_t c = 0; c + 1 < COLUMNS; c++)
            widths[c] = width_of(cells[c]) > widths[c] ? width_of(cells[c]) : widths[c];
    }
    bool colours = print_colours(stdout);
    fputs(colours ? "\033[1m" : "", stdout);
    for (size_t c = 0; c + 1 < COLUMNS; c++)
        print_cell(titles[c], widths[c], "  ");
    printf("%s%s\n", titles[COLUMNS - 1], colours ? "\033[0m" : "");
    for (size_t i = 0; i < n; i++) {
        struct fusiond_summary row = fusiond_kernel_list_at(list, i);
        cells_of(&row, rooms, cells);
        for (size_t c = 0; c + 1 < COLUMNS; c++)
            print_cell(cells[c], widths[c], "  ");
        puts(print_age(row.created_unix_s, age));
    }
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
