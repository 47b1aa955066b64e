/* The names that placeholders stand for, and putting them back into what a client reads. */
#ifndef DAEMON_RESOLVE_ENTRY_NAMES_H
#define DAEMON_RESOLVE_ENTRY_NAMES_H

#include <stdbool.h>

#include "proto/message.h"

/* Every placeholder has this many bytes, so that names of up to as many fit into the image that it was compiled to.
 * The two digits count the identifiers that are replaced: LIMIT_ENTRIES of them are enough. */
#define PLACEHOLDER_SIZE 64u
#define PLACEHOLDER_STEM "fusiond_entry_"
#define PLACEHOLDER_TAIL "_its_name_is_put_in_when_the_kernel_is_delivered"
_Static_assert(sizeof PLACEHOLDER_STEM "00" PLACEHOLDER_TAIL == PLACEHOLDER_SIZE + 1, "the size of a placeholder");
_Static_assert(LIMIT_ENTRIES <= 100, "two digits number every entry");

/* Identifiers in the order of their placeholders, each with its NUL, one behind the other. size 0: there is none, and
 * everything below changes nothing. Borrowed. */
struct entry_names {
    const char *at;
    size_t size;
};

/* The bytes of placeholder `index`. */
void placeholder_write(size_t index, char ret[PLACEHOLDER_SIZE + 1]);
/* Where the next placeholder begins in [at, end), and its number; NULL when there is none. */
const char *placeholder_find(const char *at, const char *end, size_t *ret_index);

/* The identifier of a placeholder; absent when there are not so many. */
struct text entry_name(struct entry_names names, size_t index);
size_t entry_names_count(struct entry_names names);
bool entry_names_equal(struct entry_names a, struct entry_names b);
/* From the form that messages have. NULL bytes with OUT_OF_MEMORY; the size is 0 for no texts. */
int entry_names_pack(const struct text *texts, size_t n, msgpack_zone *zone, struct entry_names *ret,
                     struct error *error);
/* To that form. */
int entry_names_unpack(struct entry_names names, msgpack_zone *zone, struct text **ret, size_t *ret_n,
                       struct error *error);

/* The identifier that a placeholder would replace in an entry's name: "softmax" of "nvf::softmax<float, 4>". */
struct text entry_identifier(struct text entry);

/*
 * A copy of the text with the names in place of the placeholders; the text itself when there is nothing to replace. In
 * a mangled name the length in front goes with it: "_ZN7fusiond64…EPf" becomes "_ZN7fusiond7softmaxEPf". A line that
 * holds nothing but a caret points into the line above it, and moves with what it points to. A placeholder that was cut
 * off at the end of the text is a name that is cut off.
 * -1 with OUT_OF_MEMORY.
 */
int entry_names_put(struct entry_names names, struct text text, msgpack_zone *zone, struct text *ret,
                    struct error *error);

/* Write one line with the names put in, at most as many bytes as it has; `to` may be the line itself. Returns how many
 * there are. */
size_t entry_names_write(struct entry_names names, struct text line, char *to);

/* The same for the diagnostics of a compile, texts and columns; the array itself is written to. */
int entry_names_put_diagnostics(struct entry_names names, struct diagnostic *diagnostics, size_t n, msgpack_zone *zone,
                                struct error *error);

#endif
