/* Launch entries: everything that the sizes of a call lead to, worked out once (B6.5). */
#ifndef DAEMON_EXECUTOR_ENTRY_CACHE_H
#define DAEMON_EXECUTOR_ENTRY_CACHE_H

#include <uthash.h>

#include "daemon/base/list.h"
#include "daemon/launch/launch.h"

/* Entries of one fusion; the least recently used goes first. */
#define ENTRY_CACHE_MAX 1024u

/*
 * What is equal for all launches with the same sizes, strides, alignment of pointers, launch overrides, and values of
 * the scalars that expressions read. Those are its key. Owned by the cache; good until the next entry is added.
 */
struct entry {
    UT_hash_handle hh;
    struct list lru;
    size_t key_size;
    uint8_t *key;
    size_t n;
    struct launch_params params;
    struct shape *shapes;            /* one per parameter */
    struct argument_bytes arguments; /* a template: addresses and scalars are put in for each launch */
    uint64_t *spans;                 /* bytes that each tensor spans; 0 for what is none */
    uint64_t *scratch_at;            /* where each intermediate lies in the stream's scratch memory */
    uint64_t scratch;                /* bytes of all intermediates */
    uint64_t moved;                  /* bytes of all tensors and outputs, once each */
};

struct entry_cache {
    struct entry *by_key;
    struct list lru; /* the least recently used first */
};

void entry_cache_init(struct entry_cache *cache);
void entry_cache_finish(struct entry_cache *cache);

/* NULL when there is none. Counts as a use. */
struct entry *entry_cache_find(struct entry_cache *cache, const uint8_t *key, size_t key_size);

/* Hold an entry that entry_create made. */
void entry_cache_add(struct entry_cache *cache, struct entry *entry);

/* An entry with room for n parameters and a copy of the key, all else zero. NULL when memory ran out. */
struct entry *entry_create(const uint8_t *key, size_t key_size, size_t n);
/* NULL is fine. */
void entry_destroy(struct entry *entry);

#endif
