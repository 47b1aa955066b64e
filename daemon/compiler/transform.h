/* One run of a source transform: a program that is shut in, between two pipes. */
#ifndef DAEMON_COMPILER_TRANSFORM_H
#define DAEMON_COMPILER_TRANSFORM_H

#include <msgpack.h>

#include "proto/error.h"
#include "proto/message.h"

/* Run the job's program on its text, in a sandbox where it can read nothing but itself and the system's libraries, with
 * nothing in its environment but LC_ALL=C. How it fails is a result; -1, with SYSTEM or OUT_OF_MEMORY, when it cannot
 * be tried. Everything in the zone. The program is reaped. SIGPIPE must be ignored. */
int transform_run(const struct transform_job *job, msgpack_zone *zone, struct transform_result *ret,
                  struct error *error);

#endif
