/* The compiler's log as structured diagnostics. */
#ifndef DAEMON_COMPILER_DIAGNOSTICS_H
#define DAEMON_COMPILER_DIAGNOSTICS_H

#include <msgpack.h>
#include <stddef.h>

#include "proto/message.h"

/* Bytes of one diagnostic's text. With LIMIT_DIAGNOSTICS this bounds the whole list to 2 MiB. */
#define DIAGNOSTIC_TEXT 8192

/* Find the diagnostics of a log, in its order, at most LIMIT_DIAGNOSTICS; where there are more, errors are kept before
 * warnings and notes. Each has its continuation lines, the quoted source line among them. File and line are those that
 * the compiler printed; the column is where its caret points. Findings of the assembler, of the command line and of
 * name expressions have no position in a client's file. "ptxas info" lines and summaries are no diagnostics.
 * Texts are copied into the zone. -1 with OUT_OF_MEMORY. */
int diagnostics_parse(struct text log, msgpack_zone *zone, struct diagnostic **ret, size_t *ret_n, struct error *error);

#endif
