#include "daemon/memo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uthash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h> /* XXH3 by the widest vectors that the processor has */
#else
#include <xxhash.h>
#endif

/* A request larger than this is decoded each time: it would push many small ones out. */
#define MAX_REQUEST (256u << 10)

struct memo_entry {
    UT_hash_handle hh;
    struct list lru;
    uint64_t hash;
    struct remembered what; /* its names are behind the request's bytes */
    size_t size;            /* of the request */
    uint8_t bytes[];
};

void memo_init(struct memo *memo, uint64_t limit, struct stats_reply *stats)
{
    *memo = (struct memo){.limit = limit, .stats = stats};
    list_init(&memo->lru);
    /* A seed that clients cannot know: they must not be able to choose what collides. */
    if (getrandom(&memo->seed, sizeof memo->seed, 0) < 0)
        memo->seed = (uint64_t)(uintptr_t)memo;
}

static void drop(struct memo *memo, struct memo_entry *entry)
{
    HASH_DEL(memo->by_hash, entry);
    list_remove(&entry->lru);
    memo->bytes -= sizeof *entry + entry->size + entry->what.names.size;
    free(entry);
}

void memo_clear(struct memo *memo)
{
    while (!list_empty(&memo->lru))
        drop(memo, container_of(memo->lru.next, struct memo_entry, lru));
}

void memo_finish(struct memo *memo)
{
    memo_clear(memo);
}

static struct memo_entry *find(struct memo *memo, uint64_t hash)
{
    struct memo_entry *entry;
    HASH_FIND(hh, memo->by_hash, &hash, sizeof hash, entry);
    return entry;
}

bool memo_find(struct memo *memo, struct bytes request, struct remembered *ret)
{
    if (request.size > MAX_REQUEST)
        return false;
    struct memo_entry *entry = find(memo, XXH3_64bits_withSeed(request.at, request.size, memo->seed));
    if (!entry || entry->size != request.size || memcmp(entry->bytes, request.at, request.size) != 0)
        return false;
    list_remove(&entry->lru);
    list_push(&memo->lru, &entry->lru);
    *ret = entry->what;
    memo->stats->memo_hits_total++;
    return true;
}

void memo_add(struct memo *memo, struct bytes request, const struct remembered *what)
{
    if (request.size > MAX_REQUEST)
        return;
    uint64_t hash = XXH3_64bits_withSeed(request.at, request.size, memo->seed);
    struct memo_entry *old = find(memo, hash);
    if (old)
        drop(memo, old);
    struct memo_entry *entry = malloc(sizeof *entry + request.size + what->names.size);
    if (!entry)
        return;
    entry->hash = hash;
    entry->what = *what;
    entry->size = request.size;
    memcpy(entry->bytes, request.at, request.size);
    if (what->names.size)
        memcpy(entry->bytes + request.size, what->names.at, what->names.size);
    entry->what.names.at = (const char *)entry->bytes + request.size;
    HASH_ADD(hh, memo->by_hash, hash, sizeof entry->hash, entry);
    list_push(&memo->lru, &entry->lru);
    memo->bytes += sizeof *entry + request.size + what->names.size;
    while (memo->bytes > memo->limit)
        drop(memo, container_of(memo->lru.next, struct memo_entry, lru));
}
