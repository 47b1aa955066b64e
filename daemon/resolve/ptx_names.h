/* Names in place of placeholders in PTX. */
#ifndef DAEMON_RESOLVE_PTX_NAMES_H
#define DAEMON_RESOLVE_PTX_NAMES_H

#include "daemon/resolve/entry_names.h"

/* A copy of the text with the names put in. With line information PTX also has names as lists of numbers, in its
 * section .debug_str, one string behind each label; these are written anew. -1 with OUT_OF_MEMORY. */
int ptx_names_put(struct entry_names names, struct bytes ptx, msgpack_zone *zone, struct bytes *ret,
                  struct error *error);

#endif
