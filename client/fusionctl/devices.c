#include <stdio.h>
#include <string.h>

#include "client/device_list.h"
#include "client/fusionctl/print.h"
#include "client/fusionctl/table.h"
#include "client/fusionctl/verbs.h"

static void fill_row(const void *data, size_t index, struct table_row *row)
{
    struct fusiond_device_info info = fusiond_device_list_at(data, index);
    bool is_host = strcmp(info.kind, "host") == 0;
    snprintf(row->rooms[0], TABLE_CELL, "%u", info.ordinal);
    snprintf(row->rooms[3], TABLE_CELL, "%u.%u", info.capability / 10, info.capability % 10);
    snprintf(row->rooms[5], TABLE_CELL, "%u", info.multiprocessors);
    snprintf(row->rooms[6], TABLE_CELL, "%u.%u", info.driver / 1000, info.driver % 1000 / 10);
    row->cells[0] = is_host ? "host" : row->rooms[0];
    row->cells[1] = info.kind;
    row->cells[2] = info.name;
    row->cells[3] = info.capability ? row->rooms[3] : "-";
    row->cells[4] = info.memory_bytes ? print_size(info.memory_bytes, row->rooms[4]) : "-";
    row->cells[5] = info.multiprocessors ? row->rooms[5] : "-";
    row->cells[6] = info.driver ? row->rooms[6] : "-";
    row->cells[7] = *info.uuid ? info.uuid : "-";
}

static void print_table(const struct fusiond_device_list *list)
{
    static const char *const titles[] = {"DEVICE", "KIND", "NAME", "CAPABILITY", "MEMORY", "SMS", "DRIVER", "UUID"};
    table_print(titles, 8, fusiond_device_list_count(list), fill_row, list);
    for (size_t i = 0; i < fusiond_device_list_problems(list); i++)
        printf("%s\n", fusiond_device_list_problem(list, i));
    if (fusiond_device_list_mps(list))
        puts("CUDA MPS runs: kernels of different processes run together.");
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    struct fusiond_device_list *list;
    struct fusiond_error error;
    int option, result = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!common_take(common, option))
            return usage_error(&verb_devices, NULL);
    }
    if (!common_check(&verb_devices, common, argc - optind, 0, 0, &result))
        return result;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    if (fusiond_devices(connection, &list, &error) < 0) {
        result = fail(&error);
    } else {
        if (common->json) {
            message_print(&devices_reply_type, &list->message, stdout, 2);
            putchar('\n');
        } else {
            print_table(list);
        }
        fusiond_device_list_destroy(list);
    }
    fusiond_close(connection);
    return result;
}

const struct verb verb_devices = {
    .name = "devices",
    .summary = "what the daemon can launch on",
    .help = "usage: fusionctl devices\n\n"
            "The first column is what `fusionctl run --device` takes, on a machine whose CUDA_VISIBLE_DEVICES is not\n"
            "set. SMS: multiprocessors, or the host device's CPU threads.\n\n" COMMON_HELP,
    .run = run,
};
