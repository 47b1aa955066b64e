/* What two cubins must have in common to be the same program: their code, and their variables by name. */
#ifndef TESTS_BENCH_PCH_IMAGE_DIGEST_H
#define TESTS_BENCH_PCH_IMAGE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Of the functions' sections, names and bytes in their order; 0 if this is no ELF image. */
uint64_t code_digest(const char *image, size_t size);

/*
 * Of initialised variables and constants: the bytes of each by its name, wherever it lies. (Compilers lay variables
 * that nobody reads out in another order when they come from a precompiled header.)
 */
uint64_t variables_digest(const char *image, size_t size);

#endif
