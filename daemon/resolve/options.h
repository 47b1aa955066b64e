/* From a fusion's compile options to the compiler's arguments; the rows of options.def. The rules are B2.1's. */
#ifndef DAEMON_RESOLVE_OPTIONS_H
#define DAEMON_RESOLVE_OPTIONS_H

#include "daemon/resolve/target.h"

#define OPT_LEVEL_DEFAULT 3u /* what the assembler does when nothing is said */
#define OPT_LEVEL_HOST 2u    /* of every host program, from preamble/host/arguments.def */
#define OPT_LEVEL_MAX 4u

/* What the rows read. */
struct settings {
    const struct compile_options *compile;
    const struct compiler_facts *facts;
    const struct target *target;
    struct text target_name; /* "sm_90a" */
    unsigned max_registers;  /* from register_limit(); 0: none */
    bool structured;         /* the defines are arguments; else they stand in the program */
};

/* What is known of one row. */
struct option_row {
    const char *name;
    const char *field; /* "" when the daemon decides */
    const char *values;
    bool in_key;
    const char *sass, *ptx, *host; /* forms; NULL: not sent */
    const char *load;              /* the driver's option; NULL: none */
    unsigned major, minor;         /* the first NVRTC that has it */
};

/* All rows in canonical order. */
const struct option_row *option_rows(size_t *ret_count);

/* INVALID_OPTION, naming the option's field and both versions, when the compiler is older than the row. */
int option_check_compiler(const struct option_row *row, const struct compiler_facts *facts, struct error *error);

/* INVALID_OPTION, naming field, value and limit, when
 *   opt_level is above 4, or above 0 together with debug (the assembler refuses that)
 *   max_registers is not 1 to 255
 *   a define's name is no C identifier, is given twice or is one that the daemon or the compiler sets
 *   a define's value has a control character other than a tab, or could reach beyond its line */
int options_check(const struct compile_options *compile, msgpack_zone *zone, struct error *error);

/* The arguments in canonical order (INVALID_OPTION as option_check_compiler() for what the client has set; a row that
 * the daemon decides about is not sent to a compiler that is too old) into ret->args, those of them that can change the
 * image into ret->key_args, and those that the compiler gets as arguments into ret->job_args. An optimiser level that
 * is the default is not sent, so that it does not make another key. A define without value is NAME=1, as for any
 * compiler. */
int options_write(const struct settings *settings, msgpack_zone *zone, struct resolved *ret, struct error *error);

#endif
