/* Launch entries: their keys, and how one is made from a launch that has not been seen before (B6.5). */
#ifndef DAEMON_EXECUTOR_LAUNCH_ENTRY_H
#define DAEMON_EXECUTOR_LAUNCH_ENTRY_H

#include "daemon/executor/defined.h"
#include "daemon/executor/entry_cache.h"

/* Whether a parameter is given memory by the client, and whether it has sizes. */
bool param_takes_memory(const struct param *param);
bool param_has_shape(const struct param *param);

/* The entry of a launch: found in the cache (*ret_cached), or made and added. addresses: one per parameter, 0 for those
 * that are not given. The zone is for work. INVALID_LAUNCH, INDEX_TYPE, INVALID_BUFFER for a wrong alignment. */
int launch_entry_get(struct entry_cache *cache, const struct defined *defined, const struct launch_request *request,
                     const uint64_t *addresses, msgpack_zone *zone, struct entry **ret, bool *ret_cached,
                     struct error *error);

#endif
