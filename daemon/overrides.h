/*
 * Overrides: files of the daemon's owner that replace the code of a kernel, for debugging (B4.5).
 *
 * In the folder `<key>.cu` is for the kernel with that key, and `<label>.<ordinal>.cu` for the ordinal-th different
 * kernel that a connection asks for under that label, from 1; in the label all but letters, digits, '.', '-' and '_' is
 * '_', and so is a '.' at its beginning. The key's file comes first.
 *
 * Folder and file must belong to the daemon's uid or to root and be writable by nobody else; links are not followed.
 */
#ifndef DAEMON_OVERRIDES_H
#define DAEMON_OVERRIDES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels_db/kernel_key.h"
#include "proto/error.h"
#include "proto/message.h"

/* A file's name: a label, and the rest. */
#define OVERRIDE_NAME (LIMIT_NAME + 32)

struct overrides;

/* What the client is told of its kernel. Zeroed: nothing. */
struct override_note {
    char file[OVERRIDE_NAME];   /* the file whose text was compiled; "" when there is none */
    uint8_t original[KEY_SIZE]; /* the key of the code that the client sent; meant with `file` */
    unsigned ordinal;           /* 0: unknown */
    char problem[ERROR_TEXT];   /* why a file that is there was not used; "" when nothing is wrong */
};

/* NULL when memory ran out. */
struct overrides *overrides_create(const char *folder);
/* NULL is fine. */
void overrides_destroy(struct overrides *overrides);

/* Look for a file. Its name, or a problem, goes into the note, whose ordinal (0: unknown) is set already. The text ends
 * with a NUL and is good until the next call; absent when there is none to be used. Reads at most 1 MiB, and only what
 * has changed since the last time. */
struct text overrides_find(struct overrides *overrides, const uint8_t key[KEY_SIZE], struct text label,
                           struct override_note *note);

/* ---- ordinals ---- */

/* The kernels that one connection has asked for, by label. Zeroed: none. */
struct ordinals {
    struct ordinal *at;
    size_t n, room;
};

void ordinals_finish(struct ordinals *ordinals);
/* Which of the label's kernels this is, from 1; 0 when there are too many to remember. */
unsigned ordinals_of(struct ordinals *ordinals, struct text label, const uint8_t key[KEY_SIZE]);

#endif
