/* A source transform as the daemon's owner writes it: "NAME:POINT[:MS] PROGRAM [ARGUMENT]...". */
#ifndef DAEMON_COMPILE_TRANSFORM_SPEC_H
#define DAEMON_COMPILE_TRANSFORM_SPEC_H

#include <stdint.h>

#include "daemon/sandbox/filter.h"

#define TRANSFORM_NAME 64
#define TRANSFORM_SPEC 4096
/* How many there may be. */
#define TRANSFORMS_MAX 8
/* The time of one that is given none. */
#define TRANSFORM_MS 5000

/* What it changes. */
enum transform_point {
    TRANSFORM_CODE,   /* the fusion's code, before the preamble is chosen for it */
    TRANSFORM_SOURCE, /* the assembled program */
};

struct transform_spec {
    char name[TRANSFORM_NAME];
    enum transform_point point;
    uint64_t timeout_ms;
    const char *argv[FILTER_ARGS + 2]; /* in `words`; ends with NULL */
    char words[TRANSFORM_SPEC];
};

/* "code", "source" */
const char *transform_point_word(enum transform_point point);

/* Words are separated by spaces; nothing is quoted. The result must stay where it is. INVALID_FIELD. */
int transform_spec_parse(const char *text, struct transform_spec *ret, struct error *error);

/* An observer's: "NAME[:MS] PROGRAM [ARGUMENT]..."; it has no point. */
int observer_spec_parse(const char *text, struct transform_spec *ret, struct error *error);

#endif
