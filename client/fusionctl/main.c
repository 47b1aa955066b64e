/* fusionctl: the daemon from the command line. */
#include <stdio.h>
#include <string.h>

#include "client/fusionctl/verbs.h"

/* To add a verb, also give it a file and name it in verbs.h, README.md and the tests. */
static const struct verb *const verbs[] = {
    &verb_ping, &verb_stats, &verb_devices, &verb_compile, &verb_explain,
    &verb_ls,   &verb_show,  &verb_get,     &verb_dump,    &verb_run,
};
#define N_VERBS (sizeof verbs / sizeof verbs[0])

static void print_help(FILE *out)
{
    fputs("usage: fusionctl [--socket PATH] [--json] VERB …\n\n", out);
    for (size_t i = 0; i < N_VERBS; i++)
        fprintf(out, "  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\n`fusionctl VERB --help` tells more. Exit codes: 0 done, 1 failed, 2 usage, 3 the daemon cannot be\n"
          "reached, 4 no such device.\n",
          out);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {COMMON_OPTIONS, {0}};
    struct common common = {0};
    int option;
    while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        if (!common_take(&common, option)) {
            print_help(stderr);
            return EXIT_USAGE;
        }
    }
    if (common.help) {
        print_help(stdout);
        return 0;
    }
    if (optind == argc) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i]->name, argv[optind]) != 0)
            continue;
        int first = optind;
        optind = 0; /* glibc: start anew, and options may follow arguments again */
        return verbs[i]->run(argc - first, argv + first, &common);
    }
    fprintf(stderr, "fusionctl: there is no verb \"%s\"\n", argv[optind]);
    print_help(stderr);
    return EXIT_USAGE;
}
