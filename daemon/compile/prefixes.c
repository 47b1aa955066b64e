#include "daemon/compile/prefixes.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct prefix_note {
    UT_hash_handle hh;
    struct list link;
    uint8_t digest[DIGEST_SIZE];
    unsigned compiles;
    uint64_t barred_until_ms;
};

void prefixes_init(struct prefixes *prefixes)
{
    *prefixes = (struct prefixes){0};
    list_init(&prefixes->by_use);
}

static void forget(struct prefixes *prefixes, struct prefix_note *note)
{
    HASH_DEL(prefixes->by_digest, note);
    list_remove(&note->link);
    prefixes->n--;
    free(note);
}

void prefixes_finish(struct prefixes *prefixes)
{
    while (!list_empty(&prefixes->by_use))
        forget(prefixes, container_of(prefixes->by_use.next, struct prefix_note, link));
}

/* Its note, made if there is none; NULL when memory ran out. It is the most recently met now. */
static struct prefix_note *meet(struct prefixes *prefixes, const uint8_t *digest)
{
    struct prefix_note *note;
    HASH_FIND(hh, prefixes->by_digest, digest, DIGEST_SIZE, note);
    if (note) {
        list_remove(&note->link);
    } else {
        if (prefixes->n == PREFIXES_MAX)
            forget(prefixes, container_of(prefixes->by_use.next, struct prefix_note, link));
        note = calloc(1, sizeof *note);
        if (!note)
            return NULL;
        memcpy(note->digest, digest, DIGEST_SIZE);
        HASH_ADD(hh, prefixes->by_digest, digest, DIGEST_SIZE, note);
        prefixes->n++;
    }
    list_push(&prefixes->by_use, &note->link);
    return note;
}

bool prefixes_compiled(struct prefixes *prefixes, const uint8_t digest[DIGEST_SIZE], uint64_t now_ms)
{
    struct prefix_note *note = meet(prefixes, digest);
    if (!note || now_ms < note->barred_until_ms)
        return false;
    if (note->compiles < PREFIXES_COMPILES)
        note->compiles++;
    return note->compiles == PREFIXES_COMPILES;
}

void prefixes_bar(struct prefixes *prefixes, const uint8_t digest[DIGEST_SIZE], uint64_t now_ms)
{
    struct prefix_note *note = meet(prefixes, digest);
    if (!note)
        return; /* at worst it is tried again too soon */
    note->compiles = 0;
    note->barred_until_ms = now_ms + PREFIXES_BARRED_MS;
}
