/* What is checked before anything is compiled, in the order of B1.2. */
#ifndef DAEMON_RESOLVE_CHECKS_H
#define DAEMON_RESOLVE_CHECKS_H

#include "daemon/resolve/target.h"

/* Each field by itself: code, entries, headers, parameters. INVALID_FIELD, MISSING_FIELD. */
int check_fields(const struct fusion *fusion, msgpack_zone *zone, struct error *error);

/* NO_OUTPUTS unless the fusion is marked as having side effects only; then whether outputs and parameters agree. */
int check_outputs(const struct fusion *fusion, msgpack_zone *zone, struct error *error);

/* UNSUPPORTED_TARGET with the fusion's reason when the target is below requires.min_capability; SHARED_MEMORY_LIMIT
 * when requires.static_shared_memory is above what the compiler takes for the target. */
int check_requirements(const struct requirements *requires, const struct target *target,
                       const struct compiler_facts *facts, struct error *error);

/* INVALID_BLOCK unless compile.block_size is absent or 1 to 1024. */
int check_block(const struct compile_options *compile, struct error *error);

/* Bytes of static shared memory that this compiler takes for a target. */
unsigned shared_memory_limit(const struct target *target, const struct compiler_facts *facts);

#endif
