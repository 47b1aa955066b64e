/* Names in place of placeholders in what a compiler made: cubins and PTX. */
#ifndef DAEMON_RESOLVE_IMAGE_NAMES_H
#define DAEMON_RESOLVE_IMAGE_NAMES_H

#include "daemon/resolve/entry_names.h"

/* How many placeholders an image has. */
size_t image_names_count(struct bytes image);

/*
 * A copy of the image with the names put in; the image itself when it has no placeholder.
 *
 * PTX is text, and only gets shorter. A cubin keeps its size: names stand in tables of strings, which others refer to
 * by where they begin, so a shorter name is followed by more NULs; in the PTX text that line information brings along,
 * whose lines are counted, by blanks. No other byte changes: code, data and relocations are those of the stored image.
 *
 * INTERNAL when a placeholder stands anywhere else, in data that a kernel can read for example, or when two symbols
 * would have one name then. OUT_OF_MEMORY.
 */
int image_names_put(struct entry_names names, enum image_kind kind, struct bytes image, msgpack_zone *zone,
                    struct bytes *ret, struct error *error);

#endif
