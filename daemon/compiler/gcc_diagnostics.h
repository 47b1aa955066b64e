/* What the host compiler says, as a log for people and as structured diagnostics. */
#ifndef DAEMON_COMPILER_GCC_DIAGNOSTICS_H
#define DAEMON_COMPILER_GCC_DIAGNOSTICS_H

#include <msgpack.h>
#include <stddef.h>

#include "proto/message.h"

/* Where the tools ran. */
struct gcc_places {
    /* Folders, relative to the one that the compiler runs in, that hold included files; a file's name for the client is
     * without them. Ends with NULL. */
    const char *const *includes;
    /* The one that it runs in, absolute: in no line that a client sees. NULL: unknown. */
    const char *folder;
};

/* Read the compiler's output: one line per call of it that is a JSON array (-fdiagnostics-format=json), other lines as
 * they are (the assembler's, the linker's, the driver's). At most LIMIT_DIAGNOSTICS diagnostics; where there are more,
 * errors are kept before warnings and notes. *ret_log is what a terminal would have shown, unbounded; to be freed, as
 * is nothing else: the diagnostics are in the zone. `said` is written to: what JSON does not allow is replaced. -1 with
 * OUT_OF_MEMORY. */
int gcc_diagnostics_parse(char *said, size_t size, const struct gcc_places *places, msgpack_zone *zone,
                          struct diagnostic **ret, size_t *ret_n, char **ret_log, size_t *ret_log_size,
                          struct error *error);

/* Why a tool ended before it was done. */
enum gcc_end {
    GCC_END_DONE, /* it was: what it says is its verdict */
    GCC_END_MEMORY,
    GCC_END_STACK,
    GCC_END_CPU,
    GCC_END_KILLED,
};

/* What the output of tools that failed says about their end. Text of the client's code is no reason: only lines that
 * begin with a program's name count. */
enum gcc_end gcc_diagnostics_end(struct text said);

#endif
