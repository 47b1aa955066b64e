/* An image of the host device (preamble/host/abi.h), loaded into this process. */
#ifndef DAEMON_EXECUTOR_HOST_IMAGE_H
#define DAEMON_EXECUTOR_HOST_IMAGE_H

#include <stddef.h>

#include "preamble/host/abi.h"
#include "proto/error.h"

struct host_image;

/* Load the libraries that images are linked with (preamble/host/arguments.def), while files can still be opened. Once,
 * before the process is shut in. */
int host_image_prepare(struct error *error);

/* Load from a sealed memfd that holds a whole image; the descriptor stays the caller's. Loading runs code of the image
 * (its constructors, if it has any). What ABI, symbol and linker demand is checked; an image that does not do is an
 * INTERNAL error with a sentence.
 * The code stays mapped until the process ends: pool threads keep thread-local storage of it, so there is no way back.
 * An executor with too many is replaced. */
int host_image_load(int fd, struct host_image **ret, struct error *error);

/* Free what belongs to this struct. No launch of it is under way. Accepts NULL. */
void host_image_destroy(struct host_image *image);

/* The entry of that name; NULL when there is none. Lives as long as the image. */
const struct fusiond_host_entry *host_image_find(const struct host_image *image, const char *name, size_t size);

/* Where the calling OS thread's built-in variables of the image are. */
void host_image_here(const struct host_image *image, struct fusiond_host_here *ret);

/* Bytes of static shared memory of a block, at most: the image's thread-local storage without the dynamic block. */
size_t host_image_shared_bytes(const struct host_image *image);
/* Whether the kernels have an `extern __shared__` array. */
int host_image_has_dynamic_shared(const struct host_image *image);

#endif
