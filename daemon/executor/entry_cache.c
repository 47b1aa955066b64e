#include "daemon/executor/entry_cache.h"

#include <stdlib.h>
#include <string.h>

/* ---- one ---- */

struct entry *entry_create(const uint8_t *key, size_t key_size, size_t n_params, size_t n_shapes)
{
    /* In one piece: the struct, what has 8 bytes each, the key. */
    size_t size = sizeof(struct entry) + (2 * n_params + n_shapes) * sizeof(uint64_t) + key_size;
    struct entry *entry = calloc(1, size);
    if (!entry)
        return NULL;
    list_init(&entry->lru);
    entry->bytes = size;
    entry->spans = (uint64_t *)(entry + 1);
    entry->scratch_at = entry->spans + n_params;
    entry->shapes = (int64_t *)(entry->scratch_at + n_params);
    entry->key = (uint8_t *)(entry->shapes + n_shapes);
    entry->key_size = key_size;
    memcpy(entry->key, key, key_size);
    return entry;
}

void entry_destroy(struct entry *entry)
{
    if (!entry)
        return;
    argument_bytes_finish(&entry->arguments);
    free(entry);
}

/* ---- all ---- */

void entry_cache_init(struct entry_cache *cache)
{
    *cache = (struct entry_cache){0};
    list_init(&cache->lru);
}

static void drop_oldest(struct entry_cache *cache)
{
    struct entry *entry = container_of(cache->lru.next, struct entry, lru);
    HASH_DEL(cache->by_key, entry);
    list_remove(&entry->lru);
    cache->bytes -= entry->bytes;
    entry_destroy(entry);
}

void entry_cache_finish(struct entry_cache *cache)
{
    while (!list_empty(&cache->lru))
        drop_oldest(cache);
}

struct entry *entry_cache_find(struct entry_cache *cache, const uint8_t *key, size_t key_size)
{
    struct entry *entry;
    HASH_FIND(hh, cache->by_key, key, key_size, entry);
    if (entry) {
        list_remove(&entry->lru);
        list_push(&cache->lru, &entry->lru);
    }
    return entry;
}

int entry_cache_add(struct entry_cache *cache, struct entry *entry)
{
    for (size_t i = 0; i < entry->arguments.n; i++)
        entry->bytes += entry->arguments.sizes[i] + sizeof(size_t) + sizeof(void *);
    while (!list_empty(&cache->lru) && cache->bytes + entry->bytes > ENTRY_CACHE_BYTES)
        drop_oldest(cache);
    HASH_ADD_KEYPTR(hh, cache->by_key, entry->key, entry->key_size, entry);
    if (!table_has(entry))
        return -1;
    list_push(&cache->lru, &entry->lru);
    cache->bytes += entry->bytes;
    return 0;
}
