/* out[i][j] = exp(x[i][j]) / sum over k of exp(x[i][k]), with the row's largest value taken off first */
#include <math.h>

#include "client/fusionctl/reference.h"

int fusiond_reference(const struct reference_call *call)
{
    const struct reference_tensor *x = &call->tensors[0];
    struct reference_tensor *out = &call->tensors[1];
    int64_t rows = x->sizes[0];
    int64_t columns = x->sizes[1];

    for (int64_t row = 0; row < rows; row++) {
        const double *from = x->values + row * columns;
        double *to = out->values + row * columns;
        double largest = -INFINITY;
        double sum = 0.0;
        for (int64_t i = 0; i < columns; i++)
            largest = from[i] > largest ? from[i] : largest;
        for (int64_t i = 0; i < columns; i++)
            sum += exp(from[i] - largest);
        for (int64_t i = 0; i < columns; i++)
            to[i] = exp(from[i] - largest) / sum;
    }
    return 0;
}
