/* Integer expressions of a launch description: over the sizes and strides of tensors, and scalars, by name. */
#ifndef DAEMON_LAUNCH_EXPRESSION_H
#define DAEMON_LAUNCH_EXPRESSION_H

#include "proto/message.h"

/* A tensor that expressions may name: x.size[i] for i < n_sizes, x.stride[i] (in elements) for i < n_strides. */
struct scope_tensor {
    struct text name;
    const int64_t *sizes;
    size_t n_sizes;
    const int64_t *strides;
    size_t n_strides;
};

/* A scalar that expressions may name, if it is an integer; naming another one is an error that says so. */
struct scope_scalar {
    struct text name;
    bool is_integer;
    int64_t value;
};

/* Everything an expression can name. Borrowed. */
struct scope {
    const struct scope_tensor *tensors;
    size_t n_tensors;
    const struct scope_scalar *scalars;
    size_t n_scalars;
};

/* The value of an expression:
 *
 *   comparison  sum, or sum OP sum with OP one of == != < <= > >=; 1 or 0
 *   sum         product, then + or - product, any number of times
 *   product     unary, then *, / or % unary
 *   unary       - unary, or primary
 *   primary     a decimal number, name, name.size[comparison], name.stride[comparison], (comparison),
 *               ceilDiv(a, b), min(a, b), max(a, b)
 *
 * All in 64 bits. / and % are C's. ceilDiv rounds towards plus infinity and needs b > 0. -1 with INVALID_LAUNCH, which
 * holds the expression's text and the position: syntax, an unknown name, an index outside the rank, overflow, division
 * by zero. */
int expression_evaluate(struct text text, const struct scope *scope, int64_t *ret, struct error *error);

/* Whether the expression can be evaluated in such a scope, as far as that does not depend on values: syntax and names.
 * The scope's values are not looked at. reads: one per scalar of the scope; those that the expression names are set. */
int expression_check(struct text text, const struct scope *scope, bool *reads, struct error *error);

#endif
