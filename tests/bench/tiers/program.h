/* A program of the tiers' corpus, and compiling it. */
#ifndef TESTS_BENCH_TIERS_PROGRAM_H
#define TESTS_BENCH_TIERS_PROGRAM_H

#include <stddef.h>

#include "daemon/compiler/nvrtc.h"

#define MAX_TYPES 3
#define MAX_PROGRAMS 256
#define MAX_INCLUDES 8
#define MAX_OPTIONS 8

struct program_setup {
    char target[16];
    const char *includes[MAX_INCLUDES];
    int n_includes;
    const char *options[MAX_OPTIONS];
    int n_options;
};

/* One file for one type, which it calls T. Its kernel is k(const T *a, const T *b, T *out, int n). */
struct program {
    char name[64];
    char type[16];
    size_t type_size;
    char *text; /* shared by the types of a file */
};

struct program_image {
    char *bytes;
    size_t size;
};

/* Read a file whose first line is "// types: float double int": a program for each of them. Returns how many. */
int program_read(const char *folder, const char *file, struct program ret[MAX_TYPES], struct error *error);
/* Free what the programs of one file share. */
void program_free(struct program *programs);

/* Compile with one more option: the level. */
int program_compile(struct nvrtc *nvrtc, const struct program_setup *setup, const struct program *program,
                    const char *level, struct program_image *ret, struct error *error);
void program_image_free(struct program_image *image);

#endif
