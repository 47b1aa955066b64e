/* out[i] = (x[i] - mean[i]) * rstd[i] * weight + bias, with the row's mean and 1 / sqrt(variance + eps) */
#include <math.h>

#include "client/fusionctl/reference.h"

int fusiond_reference(const struct reference_call *call)
{
    const struct reference_tensor *x = &call->tensors[0];
    const double *weight = call->tensors[1].values;
    const double *bias = call->tensors[2].values;
    double eps = call->scalars[0].value;
    double *out = call->tensors[3].values;
    double *means = call->tensors[4].values;
    double *rstds = call->tensors[5].values;
    int64_t columns = x->sizes[1];

    for (int64_t row = 0; row < x->sizes[0]; row++) {
        const double *from = x->values + row * columns;
        double sum = 0.0;
        for (int64_t i = 0; i < columns; i++)
            sum += from[i];
        double mean = sum / (double)columns;
        double variance = 0.0;
        for (int64_t i = 0; i < columns; i++)
            variance += pow(from[i] - mean, 2.0) / (double)columns;
        means[row] = mean;
        rstds[row] = 1.0 / sqrt(variance + eps);
        for (int64_t i = 0; i < columns; i++)
            out[row * columns + i] = (from[i] - mean) * rstds[row] * weight[i] + bias[i];
    }
    return 0;
}
