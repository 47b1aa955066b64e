/* The files that a program may include: the client's headers and the preamble, all from memory. */
#ifndef DAEMON_COMPILER_INCLUDES_H
#define DAEMON_COMPILER_INCLUDES_H

#include <msgpack.h>
#include <stddef.h>

#include "proto/message.h"

/* As the compiler wants them: NUL-terminated, two parallel arrays. */
struct includes {
    const char **texts;
    const char **names;
    size_t n;
};

/* The headers, then the preamble modules whose names the headers do not take. In the zone. -1 with INVALID_FIELD for a
 * header without bytes or with a NUL in them (the compiler would see only what stands before it), OUT_OF_MEMORY. */
int includes_collect(const struct job_header *headers, size_t n_headers, msgpack_zone *zone, struct includes *ret,
                     struct error *error);

#endif
