/* What the embed step (embed.c, run at build time) hands to preamble.c: tables in a generated C file. */
#ifndef PREAMBLE_EMBED_H
#define PREAMBLE_EMBED_H

#include "preamble/preamble.h"

/* An identifier and the modules that provide it, one bit each. */
struct preamble_word {
    const char *text; /* NULL: an empty slot */
    uint32_t size;
    uint32_t hash;
    uint64_t modules;
};

/* FNV-1a, the hash of the word table. `hash` starts as PREAMBLE_HASH_START. */
#define PREAMBLE_HASH_START 2166136261u
static inline uint32_t preamble_hash(uint32_t hash, unsigned char byte)
{
    return (hash ^ byte) * 16777619u;
}

extern struct preamble_module preamble_embedded[]; /* the digests are still empty */
extern const uint64_t preamble_closures[];         /* per module: itself and what it needs, by bit */
extern const uint64_t preamble_index_modules;      /* the alternatives that a closure leaves out */

extern const struct preamble_word preamble_words[]; /* open addressing, linear probing */
extern const uint32_t preamble_words_mask;          /* the number of slots, a power of two, minus one */

#endif
