/* How far a tensor's elements lie apart, and which indices reach them: the rule of B6.3, for compiles and launches. */
#ifndef DAEMON_LAUNCH_EXTENT_H
#define DAEMON_LAUNCH_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest extent that 32-bit indices address: INT_MAX / 2, so that a generated index may run past its tensor. */
#define EXTENT_INT32_MAX 1073741823

/* Σ (size − 1) · stride over the dimensions with size > 1 and stride > 0, in elements. Sizes and strides are not
 * negative. false: it does not fit 64 bits. */
bool extent_of(const int64_t *sizes, const int64_t *strides, size_t n, int64_t *ret);

/* Row-major strides of the sizes; one of 0 counts as 1, as array libraries do it. false: one that is used, by a size
 * above 1, does not fit 64 bits. */
bool extent_dense_strides(const int64_t *sizes, size_t n, int64_t *ret);

#endif
