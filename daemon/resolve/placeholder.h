/*
 * Names out of the key: what stands for the names of kernels while a program is hashed and compiled.
 *
 * The identifier of each entry ("softmax" of "nvf::softmax<float>") is replaced in code and entries by a placeholder
 * of a fixed length, so that the same kernel under another name has the same key. Whoever is given the kernel gets his
 * own names back: entry_names.h puts them into texts, image_names.h into images.
 */
#ifndef DAEMON_RESOLVE_PLACEHOLDER_H
#define DAEMON_RESOLVE_PLACEHOLDER_H

#include "daemon/resolve/entry_names.h"
#include "proto/message.h"

/* What became of a fusion's names. Texts live in the zone, or are the fusion's. */
struct renaming {
    struct text code;         /* the fusion's, with placeholders */
    struct text *entries;     /* the same; one per entry of the fusion */
    struct entry_names names; /* the identifiers that were replaced, in the order of their placeholders */
    struct text kept;         /* why some entry keeps its name, a sentence; absent: none does */
};

/*
 * Replace what can be replaced without changing what the program means; all else keeps its name, which is then part of
 * the key. An identifier is replaced when every one of its tokens in the code declares a __global__ function:
 *
 *     template <typename T> __global__ void __launch_bounds__(256) softmax(T *x)
 *
 * Then nothing else can mean it: no preprocessor line, no argument of a macro (nothing within brackets is), no string.
 * And nothing may see it: the code has no ##, no __func__ and their like; headers, definitions and the preamble do not
 * use the word; what is included is there to be looked at. Comments are renamed along. Code with debug
 * information or assertions keeps its names. docs/kernel-key.md has the whole list.
 *
 * `keep`: a reason to replace nothing, or NULL. No line of the code moves. -1 with OUT_OF_MEMORY.
 */
int placeholder_rename(const struct fusion *fusion, const char *keep, msgpack_zone *zone, struct renaming *ret,
                       struct error *error);

#endif
