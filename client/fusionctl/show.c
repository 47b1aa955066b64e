#include <stdio.h>

#include "client/fusionctl/find.h"
#include "client/fusionctl/print.h"
#include "client/fusionctl/verbs.h"
#include "client/kernel.h"

static void row(const char *name, const char *value)
{
    if (value && *value)
        printf("%-16s %s\n", name, value);
}

static void print_number(const char *name, bool known, uint64_t value, const char *unit)
{
    if (known)
        printf(", %s %llu%s", name, (unsigned long long)value, unit);
}

static void print_entry(const struct kernel_entry *entry)
{
    printf("%-16s %s", "entry", entry->name.at);
    print_number("registers", entry->has_registers, entry->registers, "");
    print_number("shared", entry->has_shared_memory, entry->shared_memory, " B");
    print_number("constant", entry->has_constant_memory, entry->constant_memory, " B");
    print_number("stack", entry->has_stack_frame, entry->stack_frame, " B");
    print_number("spill stores", entry->has_spill_stores, entry->spill_stores, " B");
    print_number("spill loads", entry->has_spill_loads, entry->spill_loads, " B");
    printf("\n%-16s %s\n", "", entry->lowered.at);
}

static void print_texts(const char *name, const struct text *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%-16s %s\n", i == 0 ? name : "", texts[i].at);
}

static void print_kernel(const struct fusiond_kernel *kernel)
{
    const struct kernel *message = &kernel->message;
    char room[PRINT_ROOM], age[PRINT_ROOM];
    row("key", kernel->key);
    row("id", message->title.at);
    row("label", message->label.at);
    row("scheduler", message->scheduler.at);
    row("target", message->target.at);
    row("index type", fusiond_kernel_index_type(kernel));
    printf("%-16s %s, %s\n", "image", fusiond_kernel_image_kind(kernel), print_size(message->image_size, room));
    if (message->has_ptx_size)
        row("PTX", print_size(message->ptx_size, room));
    for (size_t i = 0; i < message->n_entries; i++)
        print_entry(&message->entries[i]);
    if (message->has_block_size)
        printf("%-16s %llu\n", "block size", (unsigned long long)message->block_size);
    if (message->has_max_registers)
        printf("%-16s %llu\n", "max registers", (unsigned long long)message->max_registers);
    print_texts("args", message->args, message->n_args);
    print_texts("modules", message->modules, message->n_modules);
    for (size_t i = 0; i < message->n_headers; i++)
        row("header", message->headers[i].name.at);
    print_texts("warnings", message->warnings, message->n_warnings);
    row("compiler", message->compiler.at);
    for (size_t i = 0; i < message->n_phases; i++)
        printf("%-16s %s %s\n", i == 0 ? "phases" : "", message->phases[i].name.at,
               print_time(message->phases[i].ns, room));
    printf("%-16s %s ago\n", "created", print_age(message->created_unix_s, age));
    row("found in", fusiond_kernel_outcome(kernel));
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    int option, result = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!common_take(common, option))
            return usage_error(&verb_show, NULL);
    }
    if (!common_check(&verb_show, common, argc - optind, 1, 1, &result))
        return result;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    if (find_kernel(connection, argv[optind], FUSIOND_DETAILS, &kernel, &error) < 0) {
        result = fail(&error);
    } else {
        if (common->json) {
            message_print(&kernel_type, &kernel->message, stdout, 2);
            putchar('\n');
        } else {
            print_kernel(kernel);
        }
        fusiond_kernel_destroy(kernel);
    }
    fusiond_close(connection);
    return result;
}

const struct verb verb_show = {
    .name = "show",
    .summary = "everything known of one kernel",
    .help = "usage: fusionctl show KEY\n\n"
            "KEY is a kernel's key or the beginning of one.\n\n" COMMON_HELP,
    .run = run,
};
