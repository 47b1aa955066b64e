#include "daemon/blob_store.h"

#include <stdlib.h>
#include <string.h>

#include "kernels_db/kernel_key.h"

struct blob {
    UT_hash_handle hh;
    struct list lru;
    uint8_t digest[DIGEST_SIZE];
    size_t size;
    uint8_t bytes[];
};

void blob_store_init(struct blob_store *store, uint64_t limit, struct stats_reply *stats)
{
    *store = (struct blob_store){.limit = limit, .stats = stats};
    list_init(&store->lru);
}

static void drop(struct blob_store *store, struct blob *blob)
{
    HASH_DEL(store->by_digest, blob);
    list_remove(&blob->lru);
    store->stats->blobs--;
    store->stats->blob_bytes -= blob->size;
    free(blob);
}

void blob_store_finish(struct blob_store *store)
{
    while (!list_empty(&store->lru))
        drop(store, container_of(store->lru.next, struct blob, lru));
}

static struct blob *find(struct blob_store *store, const uint8_t digest[DIGEST_SIZE])
{
    struct blob *blob;
    HASH_FIND(hh, store->by_digest, digest, DIGEST_SIZE, blob);
    if (blob) {
        list_remove(&blob->lru);
        list_push(&store->lru, &blob->lru);
    }
    return blob;
}

int blob_store_put(struct blob_store *store, struct bytes bytes, uint8_t ret_digest[DIGEST_SIZE], struct error *error)
{
    uint8_t digest[DIGEST_SIZE];
    digest_of(bytes.at, bytes.size, digest);
    if (!find(store, digest)) {
        struct blob *blob = malloc(sizeof *blob + bytes.size);
        if (!blob)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a blob of %zu bytes", bytes.size);
        blob->size = bytes.size;
        memcpy(blob->bytes, bytes.at, bytes.size);
        memcpy(blob->digest, digest, DIGEST_SIZE);
        HASH_ADD(hh, store->by_digest, digest, DIGEST_SIZE, blob);
        list_push(&store->lru, &blob->lru);
        store->stats->blobs++;
        store->stats->blob_bytes += blob->size;
        while (store->stats->blob_bytes > store->limit && store->lru.next != &blob->lru)
            drop(store, container_of(store->lru.next, struct blob, lru));
    }
    memcpy(ret_digest, digest, DIGEST_SIZE);
    return 0;
}

struct bytes blob_store_get(struct blob_store *store, const uint8_t digest[DIGEST_SIZE])
{
    struct blob *blob = find(store, digest);
    return blob ? (struct bytes){blob->bytes, blob->size} : (struct bytes){NULL, 0};
}
