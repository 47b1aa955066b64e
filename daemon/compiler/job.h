/* One compile: a job in, a result out. */
#ifndef DAEMON_COMPILER_JOB_H
#define DAEMON_COMPILER_JOB_H

#include "daemon/compiler/nvrtc.h"
#include "proto/message.h"

/* Compile. A program that does not compile is a result, not an error: its log and diagnostics say why; every failed
 * result has at least one diagnostic of severity error. The log is fetched whenever the compiler returned.
 * A PTX image ends with the NUL that the driver wants; the `ptx` beside it does not.
 * Everything *ret points to lives in the zone. -1 with OUT_OF_MEMORY when there was no memory for the answer itself. */
int job_run(const struct nvrtc *nvrtc, const struct worker_job *job, msgpack_zone *zone, struct worker_result *ret,
            struct error *error);

#endif
