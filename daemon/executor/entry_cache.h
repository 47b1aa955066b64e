/* Launch entries: everything that the sizes of a call lead to, worked out once (B6.5). */
#ifndef DAEMON_EXECUTOR_ENTRY_CACHE_H
#define DAEMON_EXECUTOR_ENTRY_CACHE_H

#include "daemon/base/list.h"
#include "daemon/executor/table.h"
#include "daemon/launch/launch.h"

/* Of all entries of one session: tens of thousands of ordinary ones. */
#define ENTRY_CACHE_BYTES (16u << 20)

/*
 * What is equal for all launches of a fusion with the same sizes, strides, alignment of pointers, launch overrides, and
 * values of the scalars that expressions read. Those are its key. Owned by the cache; good until the next entry is
 * added.
 */
struct entry {
    UT_hash_handle hh;
    struct list lru;
    size_t bytes; /* of all its memory */
    size_t key_size;
    uint8_t *key;
    struct launch_params params;
    struct argument_bytes arguments; /* a template: addresses and scalars are put in for each launch */
    uint64_t *spans;                 /* per parameter: bytes that a tensor spans; 0 for what is none */
    uint64_t *scratch_at;            /* per parameter: where an intermediate lies in the stream's scratch memory */
    int64_t *shapes;                 /* of the outputs, in their order: sizes, then strides */
    uint64_t scratch;                /* bytes of all intermediates */
    uint64_t moved;                  /* bytes of all tensors and outputs, once each */
};

struct entry_cache {
    struct entry *by_key;
    struct list lru; /* the least recently used first */
    size_t bytes;
};

void entry_cache_init(struct entry_cache *cache);
void entry_cache_finish(struct entry_cache *cache);

/* NULL when there is none. Counts as a use. */
struct entry *entry_cache_find(struct entry_cache *cache, const uint8_t *key, size_t key_size);

/* Hold an entry that entry_create made and that is complete; the least recently used ones go. -1 when memory ran out:
 * it stays the caller's. */
int entry_cache_add(struct entry_cache *cache, struct entry *entry);

/* An entry with room for n parameters and so many sizes and strides, and a copy of the key; all else zero. NULL when
 * memory ran out. */
struct entry *entry_create(const uint8_t *key, size_t key_size, size_t n_params, size_t n_shapes);
/* NULL is fine. */
void entry_destroy(struct entry *entry);

#endif
