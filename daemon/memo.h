/*
 * From the bytes of a request to its key, parts and names, without decoding, resolving or hashing it again. The bytes
 * themselves are kept and compared, so two requests are never mistaken for each other.
 */
#ifndef DAEMON_MEMO_H
#define DAEMON_MEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/parts.h"
#include "daemon/resolve/entry_names.h"
#include "proto/message.h"

struct memo_entry;

struct memo {
    struct memo_entry *by_hash;
    struct list lru;
    uint64_t bytes;
    uint64_t limit;
    uint64_t seed;
    struct stats_reply *stats;
};

void memo_init(struct memo *memo, uint64_t limit, struct stats_reply *stats);
void memo_finish(struct memo *memo);
/* Forget everything: the compiler has changed, and with it every key. */
void memo_clear(struct memo *memo);

/* What a request comes to. */
struct remembered {
    uint8_t key[DIGEST_SIZE];
    struct parts parts;
    struct entry_names names; /* that placeholders stand for in it; borrowed */
};

/* Of a request with exactly these bytes; false when they were not seen. The names are good until the next call. */
bool memo_find(struct memo *memo, struct bytes request, struct remembered *ret);
void memo_add(struct memo *memo, struct bytes request, const struct remembered *what);

#endif
