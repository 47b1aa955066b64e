#include "client/fusionctl/dump.h"

#include <stdio.h>
#include <string.h>

#include "client/fusionctl/find.h"
#include "client/fusionctl/verbs.h"

static int dump_prefix(struct fusiond_connection *connection, const char *prefix, const struct dump_settings *settings,
                       json_t *report)
{
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    if (find_kernel(connection, prefix, 0, &kernel, &error) < 0)
        return fail(&error);
    int result = dump_kernel(connection, fusiond_kernel_key(kernel), settings, NULL, report);
    fusiond_kernel_destroy(kernel);
    return result;
}

static int dump_label(struct fusiond_connection *connection, const char *label, const struct dump_settings *settings,
                      json_t *report)
{
    struct fusiond_list_filter filter = {.label = label};
    struct fusiond_kernel_list *list;
    struct fusiond_error error;
    int result = 0;
    if (fusiond_kernel_list(connection, &filter, &list, &error) < 0)
        return fail(&error);
    size_t n = fusiond_kernel_list_count(list);
    for (size_t i = 0; i < n; i++) {
        int one = dump_kernel(connection, fusiond_kernel_list_at(list, i).key, settings, NULL, report);
        result = result ? result : one;
    }
    fusiond_kernel_list_destroy(list);
    if (n == 0) {
        fprintf(stderr, "fusionctl: no kernel has the label \"%s\"\n", label);
        return EXIT_FAILED;
    }
    return result;
}

static int dump_all(struct fusiond_connection *connection, char **prefixes, int n, const char *label,
                    const struct dump_settings *settings, bool json)
{
    json_t *report = json ? json_array() : NULL;
    int result = label ? dump_label(connection, label, settings, report) : 0;
    for (int i = 0; i < n; i++) {
        int one = dump_prefix(connection, prefixes[i], settings, report);
        result = result ? result : one;
    }
    if (report) {
        json_dumpf(report, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
        json_decref(report);
    }
    return result;
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {{"label", required_argument, NULL, 'l'},
                                            {"what", required_argument, NULL, OPTION_WHAT},
                                            {"to", required_argument, NULL, 'o'},
                                            {"force", no_argument, NULL, OPTION_FORCE},
                                            COMMON_OPTIONS,
                                            {0}};
    struct dump_settings settings = {.folder = "."};
    const char *label = NULL;
    int option, result = 0;
    while ((option = getopt_long(argc, argv, "l:o:", options, NULL)) != -1) {
        if (common_take(common, option))
            continue;
        if (option == 'l')
            label = optarg;
        else if (option == 'o')
            settings.folder = optarg;
        else if (!dump_option(&settings, option))
            return usage_error(&verb_dump, NULL);
    }
    if (!common_check(&verb_dump, common, argc - optind, label ? 0 : 1, 1 << 20, &result))
        return result;
    if (common->json && strcmp(settings.folder, "-") == 0)
        return usage_error(&verb_dump, "--json tells of files; with --to - there are none");
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    result = dump_all(connection, argv + optind, argc - optind, label, &settings, common->json);
    fusiond_close(connection);
    return result;
}

const struct verb verb_dump = {
    .name = "dump",
    .summary = "write all there is of a kernel into files",
    .help = "usage: fusionctl dump KEY… | --label L [--what PARTS] [--to DIR|-] [--force]\n\n"
            "KEY is a kernel's key or the beginning of one. Files are named by title or label, and key:\n\n"
            "  code    LABEL.KEY.cu          the code that the client sent\n"
            "  source  LABEL.KEY.full.cu     the whole program, with the preamble in it\n"
            "  args    LABEL.KEY.args.json   the compiler's arguments, and what else decided about the image\n"
            "  ptx     LABEL.KEY.ptx\n"
            "  cubin   LABEL.KEY.cubin       (.so for the host device)\n"
            "  sass    LABEL.KEY.sass        by nvdisasm or cuobjdump\n"
            "  ptxas   LABEL.KEY.ptxas.txt   what the compiler and the assembler said\n"
            "  meta    LABEL.KEY.json        the whole record\n\n"
            "A part that there is not is told; it is a failure only if --what asks for it.\n\n"
            "  -l, --label L         all kernels of this label\n"
            "      --what PARTS      only these, as ptx,sass\n"
            "  -o, --to DIR          into this folder (default: the current one); -: to the standard output\n"
            "      --force           replace files that exist\n" COMMON_HELP,
    .run = run,
};
