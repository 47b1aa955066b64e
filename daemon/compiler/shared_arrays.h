/* Dynamic shared memory in an object file of the host compiler. */
#ifndef DAEMON_COMPILER_SHARED_ARRAYS_H
#define DAEMON_COMPILER_SHARED_ARRAYS_H

#include <stddef.h>

#include "proto/error.h"

/* The `extern __shared__` arrays of a program are thread-local symbols that its object leaves undefined. Write the
 * assembler file that defines them all as one block, as preamble/host/abi.h says; empty when there are none. To be
 * freed. INTERNAL for what is no 64-bit ELF object of this machine. */
int shared_arrays_define(const void *object, size_t size, char **ret, size_t *ret_size, struct error *error);

#endif
