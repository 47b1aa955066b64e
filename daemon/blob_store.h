/* Bytes that clients sent once, to be named by their digest afterwards: include files. Bounded, in memory. */
#ifndef DAEMON_BLOB_STORE_H
#define DAEMON_BLOB_STORE_H

#include <uthash.h>

#include "daemon/base/list.h"
#include "proto/message.h"

struct blob;

struct blob_store {
    struct blob *by_digest;
    struct list lru; /* the least recently used first */
    uint64_t limit;
    struct stats_reply *stats;
};

void blob_store_init(struct blob_store *store, uint64_t limit, struct stats_reply *stats);
void blob_store_finish(struct blob_store *store);

/* Keep a copy of the bytes; *ret_digest names them. The same bytes are kept once. */
int blob_store_put(struct blob_store *store, struct bytes bytes, uint8_t ret_digest[DIGEST_SIZE], struct error *error);

/* The bytes, good until the next put; absent when they are not (or no longer) here. Counts as a use. */
struct bytes blob_store_get(struct blob_store *store, const uint8_t digest[DIGEST_SIZE]);

#endif
