/* The width of sizes, strides and indices in a kernel. The rule is B6.3's. */
#ifndef DAEMON_RESOLVE_INDEX_TYPE_H
#define DAEMON_RESOLVE_INDEX_TYPE_H

#include "proto/message.h"

/* Extent of a tensor, in elements: Σ (size − 1) · stride over the dimensions with size > 1 and stride > 0. Without
 * strides it is row-major and dense. `number` is its position, for the error: INVALID_FIELD for a negative size or
 * stride or another count of strides than of sizes, INDEX_TYPE when the extent does not fit 64 bits. */
int tensor_extent(const struct sample_tensor *tensor, size_t number, int64_t *ret, struct error *error);

/*
 * The sample is every tensor and output parameter in the order of params, and then the intermediates, if any.
 *   requested int64                            int64
 *   requested int32                            int32, or INDEX_TYPE when a tensor of the sample needs int64
 *   nothing requested                          int32 if the sample covers all tensors and each fits, else int64
 * *ret_uncovered is how many tensor and output parameters a given sample is short of.
 */
int index_type_settle(enum index_type requested, const struct param *params, size_t n_params,
                      const struct sample_tensor *sample, size_t n_sample, enum index_type *ret, size_t *ret_uncovered,
                      struct error *error);

#endif
