/* Whether a fusion's parameters and outputs agree. */
#ifndef DAEMON_RESOLVE_PARAMS_H
#define DAEMON_RESOLVE_PARAMS_H

#include "proto/message.h"

/* Names are not empty and not given twice; only tensors, outputs and intermediates have ranks; alloc_rank comes with
 * rank; ranks are at most LIMIT_RANK. INVALID_FIELD or MISSING_FIELD. */
int params_check(const struct fusion *fusion, msgpack_zone *zone, struct error *error);

/* Every output parameter is described in outputs, by name, and every output is such a parameter; an output has as many
 * sizes as its parameter has dimensions, and strides for all allocated dimensions or none; an alias names a tensor of
 * the same type and rank, and may have no sizes. To be called with parameters that params_check() accepted. */
int outputs_check(const struct fusion *fusion, msgpack_zone *zone, struct error *error);

/* The same for intermediates. */
int intermediates_check(const struct fusion *fusion, msgpack_zone *zone, struct error *error);

#endif
