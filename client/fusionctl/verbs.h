/* What the verbs of fusionctl share: options, exit codes, connecting, saying what went wrong. */
#ifndef CLIENT_FUSIONCTL_VERBS_H
#define CLIENT_FUSIONCTL_VERBS_H

#include <getopt.h>
#include <stdbool.h>

#include "client/fusiond.h"

/* 0 is success. */
enum {
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_UNREACHABLE = 3,
    EXIT_NO_DEVICE = 4,
};

/* Options that every verb takes, before or after its name. */
struct common {
    const char *socket;
    bool json;
    bool help;
};

/* Long options of every verb, for a getopt_long table; a verb's own short options are letters. */
enum { OPTION_SOCKET = 256, OPTION_JSON, OPTION_HELP, OPTION_VERB };
#define COMMON_OPTIONS                                                                                                 \
    {"socket", required_argument, NULL, OPTION_SOCKET}, {"json", no_argument, NULL, OPTION_JSON},                      \
    {                                                                                                                  \
        "help", no_argument, NULL, OPTION_HELP                                                                         \
    }
#define COMMON_HELP                                                                                                    \
    "      --json            print JSON\n"                                                                             \
    "      --socket PATH     the daemon's socket (default: $FUSIOND_SOCKET, then the user's, then the system's)\n"     \
    "      --help            this text\n"

struct verb {
    const char *name;
    const char *summary;
    const char *help;
    /* argv[0] is the verb's name. Returns the exit code. */
    int (*run)(int argc, char **argv, struct common *common);
};

extern const struct verb verb_ping, verb_stats, verb_devices, verb_compile, verb_explain, verb_ls, verb_show, verb_get,
    verb_dump, verb_run;

/* Take one option from getopt_long. False when it is not a common one. */
bool common_take(struct common *common, int option);

/* After the options: print help and set *ret_exit when it was asked for, or a usage error for another number of
 * arguments than min … max. True when the verb is to go on. */
bool common_check(const struct verb *verb, const struct common *common, int n_arguments, int min, int max,
                  int *ret_exit);

/* A usage error that getopt_long has printed already, or `text` is printed. Returns EXIT_USAGE. */
int usage_error(const struct verb *verb, const char *text);

/* Print the error; the exit code that belongs to it. */
int fail(const struct fusiond_error *error);

/* Connect, or print why not and set *ret_exit. */
struct fusiond_connection *connect_daemon(const struct common *common, int *ret_exit);

/* A number from an option, within min … max; else a message and false. */
bool parse_number(const char *option, const char *text, long long min, long long max, long long *ret);

#endif
