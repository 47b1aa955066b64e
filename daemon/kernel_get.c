#include "daemon/kernel_get.h"

#include <stdlib.h>
#include <string.h>

#include "kernels_db/kernel_key.h"

static int keep_entries(const struct kernel_get_request *get, msgpack_zone *zone, struct entry_names *ret,
                        struct error *error)
{
    struct entry_names packed;
    if (get->n_entries == 0)
        return 0;
    if (entry_names_pack(get->entries, get->n_entries, zone, &packed, error) < 0)
        return -1;
    char *copy = malloc(packed.size);
    if (!copy)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to look for a kernel");
    memcpy(copy, packed.at, packed.size);
    *ret = (struct entry_names){copy, packed.size};
    return 0;
}

void kernel_get_finish(struct kernel_get *get)
{
    free((void *)(uintptr_t)get->entries.at);
    get->entries = (struct entry_names){0};
}

int kernel_get_read(struct bytes params, uint64_t owner, struct kernel_get *ret, struct error *error)
{
    msgpack_zone zone;
    struct kernel_get_request get;
    msgpack_zone_init(&zone, 1024);
    struct entry_names entries = {0};
    int status = message_parse(&kernel_get_request_type, params.at, params.size, &zone, &get, error);
    if (status == 0)
        status = keep_entries(&get, &zone, &entries, error);
    msgpack_zone_destroy(&zone);
    if (status < 0)
        return -1;
    *ret = (struct kernel_get){
        .lookup.id.owner = owner,
        .parts = {get.with_image, get.with_ptx, get.with_log, get.with_code, get.with_details},
        .entries = entries,
    };
    memcpy(ret->lookup.id.key, get.key, sizeof ret->lookup.id.key);
    return 0;
}

bool kernel_get_find(const struct kernel_get *get, struct kernel_store *store, struct stats_reply *stats,
                     struct kernel_answer *ret)
{
    struct held_kernel *kernel = kernel_store_find(store, &get->lookup.id);
    if (!kernel)
        return false;
    *ret = (struct kernel_answer){
        .kernel = kernel, .outcome = OUTCOME_HIT_MEMORY, .stored = kernel->stored, .entries = get->entries};
    stats->hits_memory_total++;
    return true;
}

static void on_looked_up(struct store_lookup *lookup, struct held_kernel *kernel)
{
    struct kernel_get *get = container_of(lookup, struct kernel_get, lookup);
    if (kernel) {
        struct kernel_answer answer = {
            .kernel = kernel, .outcome = OUTCOME_HIT_DATABASE, .stored = true, .entries = get->entries};
        get->stats->hits_database_total++;
        get->done(get, &answer, NULL);
    } else {
        struct error error;
        char hex[KEY_HEX];
        key_to_hex(lookup->id.key, hex);
        error_set(&error, STATUS_NOT_FOUND, "key: there is no kernel %s", hex);
        get->done(get, NULL, &error);
    }
}

int kernel_get_look_up(struct kernel_get *get, struct kernel_store *store, struct stats_reply *stats,
                       struct error *error)
{
    get->stats = stats;
    get->lookup.done = on_looked_up;
    return kernel_store_look_up(store, &get->lookup, error);
}
