/* out[i][j] = gelu(x[i][j] + bias[j]) + residual[i][j] */
#include <math.h>

#include "client/fusionctl/reference.h"

int fusiond_reference(const struct reference_call *call)
{
    const struct reference_tensor *x = &call->tensors[0];
    const struct reference_tensor *bias = &call->tensors[1];
    const struct reference_tensor *residual = &call->tensors[2];
    struct reference_tensor *out = &call->tensors[3];
    const double pi = acos(-1.0);

    for (int64_t row = 0; row < x->sizes[0]; row++) {
        for (int64_t column = 0; column < x->sizes[1]; column++) {
            int64_t at = row * x->sizes[1] + column;
            double v = x->values[at] + bias->values[column];
            double gelu = v / 2.0 * (1.0 + tanh(sqrt(2.0 / pi) * (v + 0.044715 * pow(v, 3.0))));
            out->values[at] = gelu + residual->values[at];
        }
    }
    return 0;
}
