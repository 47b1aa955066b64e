/* Everything there is of a kernel, as files or on the standard output: for the verbs dump, compile and run. */
#ifndef CLIENT_FUSIONCTL_DUMP_H
#define CLIENT_FUSIONCTL_DUMP_H

#include <jansson.h>
#include <stdbool.h>

#include "client/fusiond.h"

/* One file each; dump_words has their names. */
enum dump_part {
    DUMP_CODE,
    DUMP_SOURCE,
    DUMP_ARGS,
    DUMP_PTX,
    DUMP_CUBIN,
    DUMP_SASS,
    DUMP_PTXAS,
    DUMP_META,
    DUMP_PARTS,
};

#define DUMP_WORDS "code,source,args,ptx,cubin,sass,ptxas,meta"

struct dump_settings {
    const char *folder; /* made if it is not there; "-": the standard output; NULL: nothing is dumped */
    unsigned parts;     /* bits 1u << enum dump_part; 0: all */
    bool force;         /* files that exist are replaced */
};

/* "ptx,sass" into parts; false, with a message, when a word is none. */
bool dump_choose(const char *words, struct dump_settings *ret);

/* Dump one kernel. A part that it does not have is told on stderr, and is a failure only if it was chosen. `launch`,
 * which may be NULL, becomes one more file. A description of what was written, or why not, is appended to `report`
 * unless that is NULL. Returns the exit code. */
int dump_kernel(struct fusiond_connection *connection, const char *key, const struct dump_settings *settings,
                const json_t *launch, json_t *report);

/* The options of verbs that dump what they have made. */
enum { OPTION_DUMP = 1000, OPTION_WHAT, OPTION_FORCE };
#define DUMP_OPTIONS                                                                                                   \
    {"dump", required_argument, NULL, OPTION_DUMP}, {"what", required_argument, NULL, OPTION_WHAT},                    \
    {                                                                                                                  \
        "force", no_argument, NULL, OPTION_FORCE                                                                       \
    }
#define DUMP_HELP                                                                                                      \
    "      --dump DIR        write all there is of the kernel into files there (see `fusionctl dump --help`)\n"        \
    "      --what PARTS      only these: " DUMP_WORDS "\n"                                                             \
    "      --force           replace files that exist\n"

/* Take one of these; false when it is none, or wrong. */
bool dump_option(struct dump_settings *settings, int option);

#endif
