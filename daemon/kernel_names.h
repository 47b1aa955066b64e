/*
 * A kernel as one client is given it. What is stored is of placeholders; entries, texts and images go out with the
 * names that the client has given to his kernels, or with those of whoever had it compiled.
 */
#ifndef DAEMON_KERNEL_NAMES_H
#define DAEMON_KERNEL_NAMES_H

#include "daemon/parts.h"
#include "daemon/resolve/entry_names.h"

/* The names under which a kernel was stored. */
int kernel_names_stored(const struct kernel *stored, msgpack_zone *zone, struct entry_names *ret, struct error *error);

/* The names of someone whose entries (packed as names are) are these, in the order in which they were compiled. Absent
 * entries: the stored names. INVALID_FIELD when they are not the kernel's but for their names. */
int kernel_names_of_entries(const struct kernel *stored, struct entry_names entries, msgpack_zone *zone,
                            struct entry_names *ret, struct error *error);

/* A copy of the kernel with the names put into its texts, those of `parts`; its images are the stored ones. New texts
 * are in the zone. */
int kernel_names_put(const struct kernel *stored, struct entry_names names, struct parts parts, msgpack_zone *zone,
                     struct kernel *ret, struct error *error);

/* The same for a failure. Its error's text stays as long as it was, at most. */
int kernel_names_put_failure(const struct failure *failure, struct entry_names names, msgpack_zone *zone,
                             struct failure *ret, struct error *error);

#endif
