/* What a reference for `fusionctl run --reference` is: a shared object with one function, fusiond_reference. */
#ifndef CLIENT_FUSIONCTL_REFERENCE_H
#define CLIENT_FUSIONCTL_REFERENCE_H

#include <stdint.h>

/* A tensor, converted to double exactly where its type allows that (64-bit integers above 2^53 are rounded), in
 * row-major order of its logical sizes. An output's values are all NaN before the call. */
struct reference_tensor {
    const char *name;
    unsigned rank;
    const int64_t *sizes;
    double *values;
};

struct reference_scalar {
    const char *name;
    double value;
};

/* Tensors and outputs together, and scalars, each in the order of the fusion's params. */
struct reference_call {
    unsigned n_tensors;
    struct reference_tensor *tensors;
    unsigned n_scalars;
    const struct reference_scalar *scalars;
};

/* Fill the values of all outputs. 0, or another number when the sizes are not ones that it can do. */
int fusiond_reference(const struct reference_call *call);

#endif
