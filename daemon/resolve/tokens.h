/* CUDA C++ cut into tokens, as far as it can be told without preprocessing. */
#ifndef DAEMON_RESOLVE_TOKENS_H
#define DAEMON_RESOLVE_TOKENS_H

#include <stdbool.h>

#include "proto/message.h"

enum token_kind {
    TOKEN_IDENTIFIER, /* with $ and bytes above ASCII, as compilers take them; a raw string's prefix is none */
    TOKEN_NUMBER,     /* a preprocessing number, its letters and digit separators with it */
    TOKEN_STRING,     /* a string, raw string or character literal, quotes included; an unterminated one ends with its
                         line, so that a stray quote cannot hide the rest of the code */
    TOKEN_SPLICE,     /* a backslash and the end of its line, outside of literals and comments */
    TOKEN_OTHER,      /* any other character */
};

struct token {
    enum token_kind kind;
    struct text text;
    bool directive; /* on a preprocessor line, the # included */
    bool begins;    /* it is the # that begins one */
};

/* Where one is in a code. Begin with tokens_of(). */
struct tokens {
    const char *at, *end;
    bool line_start; /* nothing but blanks and comments since the line began */
    bool directive;
};

struct tokens tokens_of(struct text code);

/* The next token, comments and blanks left out. false at the end. */
bool tokens_next(struct tokens *tokens, struct token *ret);

/* Whether the token is this identifier. */
bool token_names(const struct token *token, struct text identifier);
/* Whether the token is this one character, and no part of a literal. */
bool token_is(const struct token *token, char character);

#endif
