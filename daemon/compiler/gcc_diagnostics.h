/* What the host compiler says, as a log for people and as structured diagnostics. */
#ifndef DAEMON_COMPILER_GCC_DIAGNOSTICS_H
#define DAEMON_COMPILER_GCC_DIAGNOSTICS_H

#include <msgpack.h>
#include <stddef.h>

#include "proto/message.h"

/* Folders, relative to the one that the compiler runs in, that hold included files; a file's name for the client is
 * without them. Ends with NULL. */
typedef const char *const *gcc_folders;

/* Read the compiler's output: one line per call of it that is a JSON array (-fdiagnostics-format=json), other lines as
 * they are (the assembler's, the linker's, the driver's). At most LIMIT_DIAGNOSTICS diagnostics; where there are more,
 * errors are kept before warnings and notes. *ret_log is what a terminal would have shown, unbounded; to be freed, as
 * is nothing else: the diagnostics are in the zone. -1 with OUT_OF_MEMORY. */
int gcc_diagnostics_parse(struct text said, gcc_folders folders, msgpack_zone *zone, struct diagnostic **ret,
                          size_t *ret_n, char **ret_log, size_t *ret_log_size, struct error *error);

#endif
