#include "daemon/resolve/index_type.h"

#include "daemon/launch/extent.h"

int tensor_extent(const struct sample_tensor *tensor, size_t number, int64_t *ret, struct error *error)
{
    if (tensor->n_strides && tensor->n_strides != tensor->n_sizes)
        return error_set(error, STATUS_INVALID_FIELD, "sample[%zu].strides: has %zu values, but sizes has %zu", number,
                         tensor->n_strides, tensor->n_sizes);
    int64_t dense[LIMIT_RANK];
    for (size_t i = 0; i < tensor->n_sizes; i++) {
        if (tensor->sizes[i] < 0)
            return error_set(error, STATUS_INVALID_FIELD, "sample[%zu].sizes[%zu]: is %lld; the least is 0", number, i,
                             (long long)tensor->sizes[i]);
    }
    for (size_t i = 0; i < tensor->n_strides; i++) {
        if (tensor->strides[i] < 0)
            return error_set(error, STATUS_INVALID_FIELD,
                             "sample[%zu].strides[%zu]: is %lld; negative strides cannot be indexed, the least is 0",
                             number, i, (long long)tensor->strides[i]);
    }
    bool fits = tensor->n_strides || extent_dense_strides(tensor->sizes, tensor->n_sizes, dense);
    if (!fits || !extent_of(tensor->sizes, tensor->n_strides ? tensor->strides : dense, tensor->n_sizes, ret))
        return error_set(error, STATUS_INDEX_TYPE, "sample[%zu]: its extent does not fit 64 bits", number);
    return 0;
}

/* How many parameters are tensors; the sample's first ones must have their ranks. */
static int check_ranks(const struct param *params, size_t n_params, const struct sample_tensor *sample, size_t n_sample,
                       size_t *ret_tensors, struct error *error)
{
    size_t tensors = 0;
    for (size_t i = 0; i < n_params; i++)
        tensors += params[i].kind == PARAM_KIND_TENSOR || params[i].kind == PARAM_KIND_OUTPUT;
    *ret_tensors = tensors;
    /* Of a shorter sample nobody knows which tensors it describes. */
    if (n_sample < tensors)
        return 0;
    size_t number = 0;
    for (size_t i = 0; i < n_params; i++) {
        const struct param *param = &params[i];
        if (param->kind != PARAM_KIND_TENSOR && param->kind != PARAM_KIND_OUTPUT)
            continue;
        size_t dims = sample[number].n_sizes;
        if (param->has_rank && dims != param->rank && !(param->has_alloc_rank && dims == param->alloc_rank))
            return error_set(error, STATUS_INVALID_FIELD,
                             "sample[%zu].sizes: has %zu values, but fusion.params[%zu] has rank %u", number, dims, i,
                             (unsigned)param->rank);
        number++;
    }
    return 0;
}

int index_type_settle(enum index_type requested, const struct param *params, size_t n_params,
                      const struct sample_tensor *sample, size_t n_sample, enum index_type *ret, size_t *ret_uncovered,
                      struct error *error)
{
    size_t tensors;
    bool fits = true;
    if (check_ranks(params, n_params, sample, n_sample, &tensors, error))
        return -1;
    for (size_t i = 0; i < n_sample; i++) {
        int64_t extent;
        if (tensor_extent(&sample[i], i, &extent, error))
            return -1;
        if (extent <= EXTENT_INT32_MAX)
            continue;
        if (requested == INDEX_TYPE_INT32)
            return error_set(
                error, STATUS_INDEX_TYPE,
                "fusion.index_type: is int32, but sample[%zu] has an extent of %lld elements; the limit is %d", i,
                (long long)extent, EXTENT_INT32_MAX);
        fits = false;
    }
    size_t uncovered = n_sample && n_sample < tensors ? tensors - n_sample : 0;
    if (requested)
        *ret = requested;
    else
        *ret = n_sample && !uncovered && fits ? INDEX_TYPE_INT32 : INDEX_TYPE_INT64;
    *ret_uncovered = uncovered;
    return 0;
}
