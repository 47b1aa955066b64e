/* What a compile came to: a kernel, or a failure that speaks of the client's own lines. */
#ifndef DAEMON_COMPILE_PRODUCT_H
#define DAEMON_COMPILE_PRODUCT_H

#include "daemon/compile/plan.h"
#include "daemon/compile/pool.h"
#include "daemon/memory_tier.h"

/* The kernel of a successful compile, holding copies of everything. NULL with INTERNAL when the worker's answer lacks
 * something, OUT_OF_MEMORY otherwise. */
struct held_kernel *product_of(const struct plan *plan, const struct kernel_id *id, const struct pool_outcome *outcome,
                               struct error *error);

/* Whether every placeholder in the images of a successful compile stands where a name can be put in. If not, its names
 * must be in its key. */
bool product_takes_names(const struct plan *plan, const struct worker_result *result);

/* The failure of a compile that the compiler rejected. Its texts live in `result` and in `*error`, which is filled. */
struct failure product_failure(const struct plan *plan, const struct worker_result *result, struct error *error);

#endif
