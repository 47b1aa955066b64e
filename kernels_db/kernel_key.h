/* The key of a kernel: BLAKE2b-256 over everything that can change its code, in one documented byte layout. */
#ifndef KERNELS_DB_KERNEL_KEY_H
#define KERNELS_DB_KERNEL_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "proto/message.h"

#define KEY_SIZE DIGEST_SIZE
#define KEY_HEX (2 * KEY_SIZE + 1)

/* A name and the digest of its text: a preamble module or a header. */
struct key_part {
    struct text name;
    uint8_t digest[DIGEST_SIZE];
};

/* Everything a kernel is made from. Pointers are borrowed for the call. Arrays are hashed in the order given, except
 * headers, at most LIMIT_HEADERS, which are a set: their order never matters. */
struct key_input {
    uint8_t build[DIGEST_SIZE]; /* the compiler: library, its builtins, toolkit headers if allowed */
    struct text target;         /* resolved: "sm_90a", "compute_80" */
    enum image_kind image_kind;
    enum index_type index_type; /* absent for structured code */
    bool structured;
    const struct text *args; /* image-relevant compiler arguments, canonical order */
    size_t n_args;
    const struct key_part *modules; /* preamble modules in front of the code, in order */
    size_t n_modules;
    const struct key_part *headers;
    size_t n_headers;
    const struct text *entries;
    size_t n_entries;
    size_t n_renamed; /* placeholders that stand for names in entries and code */
    struct text code;
};

void kernel_key(const struct key_input *input, uint8_t ret[KEY_SIZE]);

/* BLAKE2b-256 of bytes, as used for blobs, headers and modules. */
void digest_of(const void *bytes, size_t size, uint8_t ret[DIGEST_SIZE]);

void key_to_hex(const uint8_t key[KEY_SIZE], char ret[KEY_HEX]);
/* 0, or -1 when the text is not exactly 64 hex digits. */
int key_from_hex(const char *hex, uint8_t ret[KEY_SIZE]);

#endif
