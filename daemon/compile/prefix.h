/*
 * The prefix of a program: what stands before its first line of substance. Comments, blank lines and #include lines
 * with names; anything else ends it, a #define or an #if before a later #include too, since what that one brings may
 * depend on it. Programs with the same names in their prefixes can share what the compiler makes of the headers.
 *
 * Pure functions. In doubt a prefix is shorter than it could be: that costs time, a wrong one would cost a wrong image.
 */
#ifndef DAEMON_COMPILE_PREFIX_H
#define DAEMON_COMPILE_PREFIX_H

#include <stdbool.h>

#include "kernels_db/kernel_key.h"
#include "proto/message.h"

/* What assembled programs begin with whose code is not wrapped. As the first line it says what the compiler knows, and
 * it keeps a compiler from making a precompiled header; so it is no part of a prefix, and may be left out. */
#define PREFIX_LINE_ONE "#line 1 \"fusion.cu\"\n"

/* A job's prefix, with all that must be the same for two jobs to share a header. */
struct job_prefix {
    struct text lines;           /* its #include lines, without what stands between them; absent: it has none, or none
                                    that is worth a header */
    uint8_t digest[DIGEST_SIZE]; /* of the lines, headers, arguments and compiler */
};

struct prefix {
    struct text program;
    size_t at; /* behind the last name, and the rest of its line */
};

void prefix_begin(struct prefix *prefix, struct text program);

/* The next name, with what is around it: "<cuda/std/tuple>" or "\"tile.h\"". It points into the program. false: the
 * prefix ends. */
bool prefix_next(struct prefix *prefix, struct text *ret);

#endif
