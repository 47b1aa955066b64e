/* A hash over a sequence of typed values. Every value is of fixed size or carries its size, so that bytes can't move
 * from one value to its neighbour without changing the hash. docs/kernel-key.md describes the bytes. */
#ifndef KERNELS_DB_CANONICAL_H
#define KERNELS_DB_CANONICAL_H

#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/message.h"

/* A tag says what is hashed and in which version of the layout: exactly this many characters. */
#define CANONICAL_TAG 16

/* Allocates nothing, cannot fail, and needs no sodium_init() (which only makes it faster). */
struct canonical {
    crypto_generichash_state state;
};

void canonical_init(struct canonical *canonical, const char tag[CANONICAL_TAG + 1]);
void canonical_byte(struct canonical *canonical, uint8_t value);
void canonical_number(struct canonical *canonical, uint64_t value);
/* Size, then bytes. Absent bytes and texts are hashed as empty ones. */
void canonical_bytes(struct canonical *canonical, struct bytes value);
void canonical_text(struct canonical *canonical, struct text value);
void canonical_digest(struct canonical *canonical, const uint8_t digest[DIGEST_SIZE]);
void canonical_finish(struct canonical *canonical, uint8_t ret[DIGEST_SIZE]);

#endif
