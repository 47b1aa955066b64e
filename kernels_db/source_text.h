/* Source texts: compressed, stored once under their digest, shared by all kernels that name it. */
#ifndef KERNELS_DB_SOURCE_TEXT_H
#define KERNELS_DB_SOURCE_TEXT_H

#include "kernels_db/connection.h"

/* Store a text unless it is there; part of the caller's transaction. `digest` is the text's. */
int source_text_put(struct kernels_db *db, struct bytes text, const uint8_t digest[DIGEST_SIZE], struct error *error);

/* Unpack bytes from the file, which may be anything, into the zone, ended by a NUL that is not counted.
 * 1: *ret has that digest and is no larger than max; 0: it is not what was stored; -1: memory ran out. */
int source_text_unpack(struct kernels_db *db, struct bytes packed, struct bytes digest, uint64_t max,
                       msgpack_zone *zone, struct text *ret, struct error *error);

#endif
