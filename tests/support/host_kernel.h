/* Kernels of the host device for tests: compiled by g++ directly, as the compiler worker does it, loaded, and run. */
#ifndef TESTS_SUPPORT_HOST_KERNEL_H
#define TESTS_SUPPORT_HOST_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/executor/host/grid.h"

/* What the tools said; the beginning of it. */
#define HOST_KERNEL_LOG 8192

struct host_kernel_source {
    const char *code;
    /* 32 or 64: preamble modules in front and the namespace around it, as for unstructured code. 0: the code alone. */
    int index_bits;
    /* Name expressions; ends with NULL. The image's entries have these names. */
    const char *const *entries;
    /* "-DX", …; ends with NULL. NULL: none. */
    const char *const *defines;
};

/* NULL when the compiler refuses it, or when there is none, with its words in `log`. The image lives until the
 * process ends. */
struct host_image *host_kernel_build(const struct host_kernel_source *source, char log[static HOST_KERNEL_LOG]);

/* True with a sentence when there is no g++. */
bool host_kernel_is_missing(char why[static 256]);

/* A text of the source tree: "tests/fusions/host/scan.cu". To be freed; the test ends when it is not there. */
char *host_kernel_read(const char *path);

/* Run one grid to its end, in a pool that is made when needed. NULL when it ran, else why not; valid until the next
 * call. */
struct host_kernel_run {
    struct host_image *image;
    const char *entry;
    unsigned grid[3], block[3]; /* 0 counts as 1 */
    size_t dynamic_shared;
    bool cooperative;
    const void *const *arguments; /* as in struct host_launch */
};
const char *host_kernel_run(const struct host_kernel_run *run);
/* What the last run printed. */
const char *host_kernel_printed(void);

#endif
