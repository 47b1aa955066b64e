/* The programs of the precompiled-header proof: sets of includes, and kernels of different kinds for each. */
#ifndef TESTS_BENCH_PCH_PROGRAMS_H
#define TESTS_BENCH_PCH_PROGRAMS_H

#include <stddef.h>

/* Programs that begin with the same includes. */
struct program_set {
    const char *name;
    const char *includes;     /* lines */
    const char *const *kinds; /* kernels with one %u, a number that makes each another; ends with NULL */
    int preamble;             /* the includes are fusiond's own modules: all of them with a precompiled header, those
                                 that a kernel needs without */
};

extern const struct program_set program_sets[];
extern const size_t n_program_sets;

/* Kernels of one set. */
#define PROGRAMS 24

/* The set's includes as the precompiled header has them. Freed by the caller, as the next one. */
char *program_prefix(const struct program_set *set);
/* The set's i-th program, to be compiled with that header, or alone. */
char *program_text(const struct program_set *set, unsigned i, int with_header);

#endif
