/* For tests of what holds kernels: kernels made from a number. */
#ifndef TESTS_UNIT_DAEMON_HELD_H
#define TESTS_UNIT_DAEMON_HELD_H

#include "daemon/memory_tier.h"

/* The id of the number's kernel, which belongs to uid 1000. */
struct kernel_id held_id(unsigned number);
/* A new kernel with everything that a kernel must have. The caller owns it. */
struct held_kernel *held_of(unsigned number, size_t image_size);
/* Whether its image is that of the number's kernel. */
bool held_is(const struct held_kernel *kernel, unsigned number);

#endif
