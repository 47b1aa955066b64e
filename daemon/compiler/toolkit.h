/* The headers of a CUDA toolkit: where they are, which bytes they hold, and the fence around them. */
#ifndef DAEMON_COMPILER_TOOLKIT_H
#define DAEMON_COMPILER_TOOLKIT_H

#include <limits.h>
#include <stddef.h>

#include "kernels_db/kernel_key.h"
#include "proto/error.h"

#define TOOLKIT_FOLDERS 8

struct toolkit {
    char folders[TOOLKIT_FOLDERS][PATH_MAX]; /* without symbolic links, in the order in which they are searched */
    size_t n;
    const char *paths[TOOLKIT_FOLDERS + 1];       /* the same; ends with NULL */
    char options[TOOLKIT_FOLDERS][PATH_MAX + 4];  /* "-I/usr/local/cuda/include" */
    const char *option_list[TOOLKIT_FOLDERS + 1]; /* the same; ends with NULL */
};

/* The include folders beside `library` (the path of libnvrtc): those of a toolkit, or of Python wheels. `configured`,
 * when not NULL, is what to use instead: folders with ':' between them. -1 with COMPILER_UNAVAILABLE and a text that
 * says what to do when there are none with a cuda_fp16.h. *ret must stay where it is. */
int toolkit_find(struct toolkit *ret, const char *library, const char *configured, struct error *error);

/* A digest of the names of all files in the folders, their sizes, times and inodes: changes when one is touched. */
int toolkit_identity(const struct toolkit *toolkit, uint8_t ret[DIGEST_SIZE], struct error *error);

/* A digest of the names and bytes of all files in the folders. Reads about 30 MB. */
int toolkit_build(const struct toolkit *toolkit, uint8_t ret[DIGEST_SIZE], struct error *error);

/* From now on this process opens and sees no file by name but those in the toolkit's folders; any other does not exist.
 * It is a fence for what a source tells the compiler to include, so that what exists elsewhere cannot be asked for;
 * the wall behind it is the sandbox. The toolkit must outlive the process's last use of a file. */
void toolkit_fence(const struct toolkit *toolkit);

#endif
