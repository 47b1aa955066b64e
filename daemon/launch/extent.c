#include "daemon/launch/extent.h"

bool extent_of(const int64_t *sizes, const int64_t *strides, size_t n, int64_t *ret)
{
    int64_t extent = 0, step;
    for (size_t i = 0; i < n; i++) {
        if (sizes[i] > 1 &&
            (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) || __builtin_add_overflow(extent, step, &extent)))
            return false;
    }
    *ret = extent;
    return true;
}

bool extent_dense_strides(const int64_t *sizes, size_t n, int64_t *ret)
{
    int64_t stride = 1;
    bool overflow = false;
    for (size_t i = n; i-- > 0;) {
        if (overflow && sizes[i] > 1)
            return false;
        ret[i] = overflow ? 1 : stride;
        overflow |= __builtin_mul_overflow(stride, sizes[i] > 1 ? sizes[i] : 1, &stride);
    }
    return true;
}
