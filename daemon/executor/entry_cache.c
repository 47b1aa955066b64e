#include "daemon/executor/entry_cache.h"

#include <stdlib.h>
#include <string.h>

struct entry *entry_create(const uint8_t *key, size_t key_size, size_t n)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    list_init(&entry->lru);
    entry->n = n;
    entry->key_size = key_size;
    entry->key = malloc(key_size + 1);
    entry->shapes = calloc(n + 1, sizeof *entry->shapes);
    entry->spans = calloc(n + 1, sizeof *entry->spans);
    entry->scratch_at = calloc(n + 1, sizeof *entry->scratch_at);
    if (!entry->key || !entry->shapes || !entry->spans || !entry->scratch_at) {
        entry_destroy(entry);
        return NULL;
    }
    memcpy(entry->key, key, key_size);
    return entry;
}

void entry_destroy(struct entry *entry)
{
    if (!entry)
        return;
    argument_bytes_finish(&entry->arguments);
    free(entry->key);
    free(entry->shapes);
    free(entry->spans);
    free(entry->scratch_at);
    free(entry);
}

void entry_cache_init(struct entry_cache *cache)
{
    *cache = (struct entry_cache){0};
    list_init(&cache->lru);
}

static void drop(struct entry_cache *cache, struct entry *entry)
{
    HASH_DEL(cache->by_key, entry);
    list_remove(&entry->lru);
    entry_destroy(entry);
}

void entry_cache_finish(struct entry_cache *cache)
{
    while (!list_empty(&cache->lru))
        drop(cache, container_of(cache->lru.next, struct entry, lru));
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

void entry_cache_add(struct entry_cache *cache, struct entry *entry)
{
    if (HASH_COUNT(cache->by_key) >= ENTRY_CACHE_MAX)
        drop(cache, container_of(cache->lru.next, struct entry, lru));
    HASH_ADD_KEYPTR(hh, cache->by_key, entry->key, entry->key_size, entry);
    list_push(&cache->lru, &entry->lru);
}
