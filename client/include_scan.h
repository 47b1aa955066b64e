/* What a text includes, or asks about, as a preprocessor would read it: without one, so conditions are not decided. */
#ifndef CLIENT_INCLUDE_SCAN_H
#define CLIENT_INCLUDE_SCAN_H

#include <stdbool.h>
#include <stddef.h>

enum include_kind {
    INCLUDE_PLAIN,    /* #include "a.h" */
    INCLUDE_NEXT,     /* #include_next "a.h" */
    INCLUDE_HAS,      /* #if __has_include("a.h") */
    INCLUDE_HAS_NEXT, /* #if __has_include_next("a.h") */
    INCLUDE_MACRO,    /* #define A "a.h": perhaps for an #include A */
};

/* Longest name of a file in a directive; longer ones are not reported. */
#define INCLUDE_NAME 512

struct include_site {
    enum include_kind kind;
    bool angled;
    char name[INCLUDE_NAME + 1]; /* between the quotes, without line splices; never empty */
    unsigned line;               /* from 1 */
    unsigned depth;              /* of conditions around it */
    size_t from, to;             /* the bytes of the name with its quotes; of the NEXT kinds, from the word on */
};

struct include_sites {
    struct include_site *at;
    size_t n, room;
};

/* All sites in the order of the text. -1 when memory ran out; finish in any case. */
int include_scan(const char *text, size_t size, struct include_sites *ret);
void include_sites_finish(struct include_sites *sites);

#endif
