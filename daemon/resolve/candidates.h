/* The identifiers of a fusion's entries, and what is found out about whether a placeholder may stand for them. */
#ifndef DAEMON_RESOLVE_CANDIDATES_H
#define DAEMON_RESOLVE_CANDIDATES_H

#include <stdbool.h>

#include "daemon/resolve/tokens.h"
#include "proto/message.h"

/* An identifier that may be replaced. */
struct candidate {
    struct text name;
    size_t entries;  /* that end with it */
    size_t declared; /* tokens of the code that declare a kernel */
    size_t comments; /* words in its comments */
    struct text why; /* it stays; absent: it is replaced */
    size_t index;    /* of its placeholder */
};

struct candidates {
    const struct fusion *fusion;
    msgpack_zone *zone;
    struct candidate *at; /* each name once, in the order of the entries */
    size_t n;
    struct text why_all; /* nothing is replaced */
};

/* From the entries. Names stay that no placeholder can stand for: longer ones, reserved ones, those that an entry uses
 * for something else, too. -1 with OUT_OF_MEMORY, as all below. */
int candidates_collect(struct candidates *candidates, struct error *error);

/* The candidate that the token is, or NULL. */
struct candidate *candidates_find(const struct candidates *candidates, const struct token *token);

/* Nothing is replaced, or this name is not; the first reason counts. `line` 0: no line of the code. */
int candidates_keep_all(struct candidates *candidates, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int candidates_keep(struct candidates *candidates, struct candidate *candidate, struct error *error, const char *why,
                    size_t line);

/* The next place in [at, end) where the word stands by itself, or NULL. `mangled`: a number in front of it is its
 * length, and does not make it another word. */
const char *word_find(const char *at, const char *end, struct text word, bool mangled);
bool text_has_word(struct text text, struct text word);
bool text_has_bytes(struct text text, const char *bytes);

/* Whether an identifier may have this byte, as compilers take them. */
bool is_word_byte(char c);

#endif
