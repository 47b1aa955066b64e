#include "daemon/launch/arguments.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/launch/extent.h"

/* ---- element types ---- */

/* Bytes per element; integers may stand in expressions. */
static const struct {
    unsigned char size;
    bool is_integer;
} dtypes[] = {
    [DTYPE_BOOL] = {1, true},         [DTYPE_INT8] = {1, true},         [DTYPE_INT16] = {2, true},
    [DTYPE_INT32] = {4, true},        [DTYPE_INT64] = {8, true},        [DTYPE_UINT8] = {1, true},
    [DTYPE_UINT16] = {2, true},       [DTYPE_UINT32] = {4, true},       [DTYPE_UINT64] = {8, true},
    [DTYPE_FLOAT16] = {2, false},     [DTYPE_BFLOAT16] = {2, false},    [DTYPE_FLOAT32] = {4, false},
    [DTYPE_FLOAT64] = {8, false},     [DTYPE_COMPLEX64] = {8, false},   [DTYPE_COMPLEX128] = {16, false},
    [DTYPE_FLOAT8_E4M3] = {1, false}, [DTYPE_FLOAT8_E5M2] = {1, false},
};

size_t dtype_size(enum dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof dtypes[0] ? dtypes[dtype].size : 0;
}

bool dtype_is_integer(enum dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof dtypes[0] && dtypes[dtype].is_integer;
}

/* The value of an integer scalar; false when it does not fit 64 signed bits. */
static bool read_integer(enum dtype dtype, const void *bytes, int64_t *ret)
{
    uint64_t raw = 0;
    unsigned bits = 8 * (unsigned)dtype_size(dtype);
    memcpy(&raw, bytes, dtype_size(dtype)); /* little-endian, as every machine with CUDA is */
    bool is_signed = dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 || dtype == DTYPE_INT64;
    if (!is_signed && raw > INT64_MAX)
        return false;
    *ret = is_signed && bits < 64 ? (int64_t)(raw << (64 - bits)) >> (64 - bits) : (int64_t)raw;
    return true;
}

/* ---- shapes ---- */

static bool is_tensor(const struct param *param)
{
    return param->kind == PARAM_KIND_TENSOR || param->kind == PARAM_KIND_OUTPUT ||
           param->kind == PARAM_KIND_INTERMEDIATE;
}

/* Whether its shape is computed: always an intermediate's, and an output's unless it is given. */
static bool is_computed(const struct param *param, const struct argument *argument)
{
    return param->kind == PARAM_KIND_INTERMEDIATE || (param->kind == PARAM_KIND_OUTPUT && !argument->sizes);
}

static int refuse(const struct param *param, struct error *error, const char *what)
{
    return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: %s", param->name.at, what);
}

/* Row-major strides of the sizes. */
static int fill_strides(const struct param *param, struct shape *shape, struct error *error)
{
    if (shape->alloc_rank != shape->rank)
        return refuse(param, error, "its allocated rank differs from its rank, so its strides must be given");
    if (!extent_dense_strides(shape->sizes, shape->rank, shape->strides))
        return refuse(param, error, "its elements do not fit 64 bits");
    return 0;
}

static int check_shape(const struct param *param, const struct shape *shape, struct error *error)
{
    for (unsigned i = 0; i < shape->rank; i++) {
        if (shape->sizes[i] < 0)
            return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: size[%u] is %lld; the least is 0",
                             param->name.at, i, (long long)shape->sizes[i]);
    }
    for (unsigned i = 0; i < shape->alloc_rank; i++) {
        if (shape->strides[i] < 0)
            return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: stride[%u] is %lld; the least is 0",
                             param->name.at, i, (long long)shape->strides[i]);
    }
    return 0;
}

static int given_shape(const struct param *param, const struct argument *argument, struct shape *ret,
                       struct error *error)
{
    if (ret->rank > 0 && !argument->sizes)
        return refuse(param, error, "its sizes are absent");
    if (ret->rank > 0)
        memcpy(ret->sizes, argument->sizes, ret->rank * sizeof *ret->sizes);
    if (!argument->strides) {
        if (check_shape(param, ret, error) < 0)
            return -1;
        return fill_strides(param, ret, error);
    }
    memcpy(ret->strides, argument->strides, ret->alloc_rank * sizeof *ret->strides);
    return check_shape(param, ret, error);
}

/* How a fusion describes an output or an intermediate. */
struct description {
    const struct text *sizes, *strides;
    size_t n_sizes, n_strides;
};

static bool find_description(const struct fusion *fusion, const struct param *param, struct description *ret)
{
    if (param->kind == PARAM_KIND_INTERMEDIATE) {
        const struct intermediate *found = fusion_intermediate(fusion, param);
        if (found)
            *ret = (struct description){found->sizes, found->strides, found->n_sizes, found->n_strides};
        return found;
    }
    const struct output *found = fusion_output(fusion, param);
    if (found)
        *ret = (struct description){found->sizes, found->strides, found->n_sizes, found->n_strides};
    return found;
}

const struct output *fusion_output(const struct fusion *fusion, const struct param *param)
{
    for (size_t i = 0; i < fusion->n_outputs; i++) {
        if (text_is(fusion->outputs[i].name, param->name.at))
            return &fusion->outputs[i];
    }
    return NULL;
}

const struct intermediate *fusion_intermediate(const struct fusion *fusion, const struct param *param)
{
    for (size_t i = 0; i < fusion->n_intermediates; i++) {
        if (text_is(fusion->intermediates[i].name, param->name.at))
            return &fusion->intermediates[i];
    }
    return NULL;
}

static int evaluate_all(const struct param *param, const char *what, const struct text *texts, unsigned n,
                        const struct scope *scope, int64_t *ret, struct error *error)
{
    for (unsigned i = 0; i < n; i++) {
        if (expression_evaluate(texts[i], scope, &ret[i], error) < 0)
            return error_wrap(error, "%s %s: %s[%u]", param_kind_word((int)param->kind), param->name.at, what, i);
    }
    return 0;
}

static int computed_shape(const struct fusion *fusion, const struct param *param, const struct scope *scope,
                          struct shape *ret, struct error *error)
{
    struct description description;
    if (!find_description(fusion, param, &description))
        return refuse(param, error, "it has no sizes, and the fusion does not describe it");
    if (description.n_sizes != ret->rank || (description.n_strides && description.n_strides != ret->alloc_rank))
        return refuse(param, error, "its description has another rank");
    if (evaluate_all(param, "sizes", description.sizes, ret->rank, scope, ret->sizes, error) < 0)
        return -1;
    if (!description.n_strides) {
        if (check_shape(param, ret, error) < 0)
            return -1;
        return fill_strides(param, ret, error);
    }
    if (evaluate_all(param, "strides", description.strides, ret->alloc_rank, scope, ret->strides, error) < 0)
        return -1;
    return check_shape(param, ret, error);
}

int shape_elements(const struct shape *shape, bool spanned, int64_t *ret, struct error *error)
{
    int64_t count = 1, last = 0, step;
    bool overflow = false;
    for (unsigned i = 0; i < shape->rank; i++) {
        if (shape->sizes[i] == 0) {
            *ret = 0;
            return 0;
        }
    }
    for (unsigned i = 0; i < shape->rank; i++) {
        overflow |= __builtin_mul_overflow(count, shape->sizes[i], &count);
        if (i < shape->alloc_rank) {
            overflow |= __builtin_mul_overflow(shape->sizes[i] - 1, shape->strides[i], &step);
            overflow |= __builtin_add_overflow(last, step, &last);
        }
    }
    if (overflow || last == INT64_MAX)
        return error_set(error, STATUS_INVALID_LAUNCH, "a tensor's elements do not fit 64 bits");
    *ret = spanned ? last + 1 : count;
    return 0;
}

/* ---- a call ---- */

static int check_param(const struct param *param, const struct argument *argument, struct error *error)
{
    size_t size = dtype_size(param->dtype);
    if (param->kind == PARAM_KIND_SCALAR && (!argument->scalar || argument->scalar_size != size))
        return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: a scalar of %zu bytes; %s has %zu",
                         param->name.at, argument->scalar ? argument->scalar_size : 0, dtype_word((int)param->dtype),
                         size);
    if (is_tensor(param) && (param->rank > LIMIT_RANK || param->alloc_rank > LIMIT_RANK))
        return refuse(param, error, "its rank is above the limit");
    return 0;
}

static void add_scalar(struct call *call, const struct param *param, const struct argument *argument)
{
    struct scope_scalar *scalar = &call->scalars[call->scope.n_scalars++];
    *scalar = (struct scope_scalar){.name = param->name};
    if (dtype_is_integer(param->dtype))
        scalar->is_integer = read_integer(param->dtype, argument->scalar, &scalar->value);
}

static void add_tensor(struct call *call, const struct param *param, const struct shape *shape)
{
    call->tensors[call->scope.n_tensors++] = (struct scope_tensor){
        .name = param->name,
        .sizes = shape->sizes,
        .n_sizes = shape->rank,
        .strides = shape->strides,
        .n_strides = shape->alloc_rank,
    };
}

/* An output that is written in place, and of which nothing else is said, is as large as its tensor: 1, and *ret filled.
 * 0: it is none. */
static int aliased_shape(const struct fusion *fusion, const struct call *call, const struct param *param,
                         struct shape *ret, struct error *error)
{
    const struct output *output = param->kind == PARAM_KIND_OUTPUT ? fusion_output(fusion, param) : NULL;
    if (!output || !output->alias.at || output->n_sizes > 0)
        return 0;
    for (size_t i = 0; i < call->n; i++) {
        const struct shape *shape = &call->shapes[i];
        if (fusion->params[i].kind != PARAM_KIND_TENSOR || !text_is(fusion->params[i].name, output->alias.at))
            continue;
        if (shape->rank != ret->rank || shape->alloc_rank != ret->alloc_rank)
            return refuse(param, error, "it is written into a tensor of another rank");
        *ret = *shape;
        return 1;
    }
    return refuse(param, error, "the tensor that it is written into does not exist");
}

/* Everything given first, so that an output's expressions see all of it wherever they stand. */
static int fill_call(const struct fusion *fusion, const struct argument *arguments, struct call *call,
                     struct error *error)
{
    for (size_t i = 0; i < call->n; i++) {
        const struct param *param = &fusion->params[i];
        struct shape *shape = &call->shapes[i];
        if (check_param(param, &arguments[i], error) < 0)
            return -1;
        if (param->kind == PARAM_KIND_SCALAR)
            add_scalar(call, param, &arguments[i]);
        if (!is_tensor(param))
            continue;
        shape->rank = (unsigned)param->rank;
        shape->alloc_rank = (unsigned)(param->has_alloc_rank ? param->alloc_rank : param->rank);
        if (is_computed(param, &arguments[i]))
            continue;
        if (given_shape(param, &arguments[i], shape, error) < 0)
            return -1;
        add_tensor(call, param, shape);
    }
    for (size_t i = 0; i < call->n; i++) {
        const struct param *param = &fusion->params[i];
        if (!is_computed(param, &arguments[i]))
            continue;
        int result = aliased_shape(fusion, call, param, &call->shapes[i], error);
        if (result == 0)
            result = computed_shape(fusion, param, &call->scope, &call->shapes[i], error);
        if (result < 0)
            return -1;
        add_tensor(call, param, &call->shapes[i]);
    }
    return 0;
}

int call_init(const struct fusion *fusion, const struct argument *arguments, size_t n_arguments, struct call *ret,
              struct error *error)
{
    struct call call = {.n = fusion->n_params};
    if (n_arguments != fusion->n_params)
        return error_set(error, STATUS_INVALID_LAUNCH, "%zu arguments for %zu parameters", n_arguments,
                         fusion->n_params);
    call.shapes = calloc(call.n + 1, sizeof *call.shapes);
    call.tensors = calloc(call.n + 1, sizeof *call.tensors);
    call.scalars = calloc(call.n + 1, sizeof *call.scalars);
    if (!call.shapes || !call.tensors || !call.scalars) {
        call_finish(&call);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu arguments", n_arguments);
    }
    call.scope.tensors = call.tensors;
    call.scope.scalars = call.scalars;
    if (fill_call(fusion, arguments, &call, error) < 0) {
        call_finish(&call);
        return -1;
    }
    *ret = call;
    return 0;
}

void call_finish(struct call *call)
{
    free(call->shapes);
    free(call->tensors);
    free(call->scalars);
    *call = (struct call){0};
}

/* ---- bytes ---- */

/* B6.3: whether 32-bit indices reach every element, with room for an index that runs past the end. */
static int check_int32(const struct param *param, const struct shape *shape, struct error *error)
{
    unsigned n = shape->rank < shape->alloc_rank ? shape->rank : shape->alloc_rank;
    int64_t extent = 0;
    bool overflow = !extent_of(shape->sizes, shape->strides, n, &extent);
    for (unsigned i = 0; i < shape->rank; i++)
        overflow |= shape->sizes[i] > INT_MAX;
    for (unsigned i = 0; i < shape->alloc_rank; i++)
        overflow |= shape->strides[i] > INT_MAX;
    if (overflow || extent > EXTENT_INT32_MAX)
        return error_set(error, STATUS_INDEX_TYPE,
                         "parameter %s: its extent of %lld elements needs an int64 index; int32 reaches %d",
                         param->name.at, (long long)extent, EXTENT_INT32_MAX);
    return 0;
}

static size_t bytes_of(const struct param *param, const struct shape *shape, enum index_type index_type)
{
    size_t width = index_type == INDEX_TYPE_INT32 ? 4 : 8;
    if (param->kind == PARAM_KIND_SCALAR)
        return dtype_size(param->dtype);
    if (param->kind == PARAM_KIND_POINTER || shape->rank == 0)
        return 8;
    return (8 + width * (shape->rank + shape->alloc_rank) + 7) & ~(size_t)7;
}

static const char no_index_type[] = "the kernel has no index type, so the layout of its tensors is unknown";

static uint8_t *put_indices(uint8_t *at, const int64_t *values, unsigned n, bool narrow)
{
    for (unsigned i = 0; i < n; i++) {
        int32_t small = (int32_t)values[i];
        size_t width = narrow ? sizeof small : sizeof *values;
        memcpy(at, narrow ? (const void *)&small : &values[i], width);
        at += width;
    }
    return at;
}

static int put_argument(const struct param *param, const struct argument *argument, const struct shape *shape,
                        enum index_type index_type, uint8_t *at, struct error *error)
{
    if (param->kind == PARAM_KIND_SCALAR) {
        memcpy(at, argument->scalar, argument->scalar_size);
        return 0;
    }
    memcpy(at, &argument->address, sizeof argument->address);
    if (!is_tensor(param) || shape->rank == 0)
        return 0;
    if (index_type == index_type_absent)
        return refuse(param, error, no_index_type);
    if (index_type == INDEX_TYPE_INT32 && check_int32(param, shape, error) < 0)
        return -1;
    at = put_indices(at + 8, shape->sizes, shape->rank, index_type == INDEX_TYPE_INT32);
    put_indices(at, shape->strides, shape->alloc_rank, index_type == INDEX_TYPE_INT32);
    return 0;
}

int argument_bytes_init(const struct fusion *fusion, const struct argument *arguments, const struct call *call,
                        enum index_type index_type, struct argument_bytes *ret, struct error *error)
{
    struct argument_bytes bytes = {.n = call->n};
    size_t total = 0;
    bytes.sizes = calloc(call->n + 1, sizeof *bytes.sizes);
    bytes.pointers = calloc(call->n + 1, sizeof *bytes.pointers);
    if (!bytes.sizes || !bytes.pointers)
        goto no_memory;
    for (size_t i = 0; i < call->n; i++) {
        bytes.sizes[i] = bytes_of(&fusion->params[i], &call->shapes[i], index_type);
        total += (bytes.sizes[i] + 15) & ~(size_t)15;
    }
    bytes.bytes = calloc(total + 1, 1);
    if (!bytes.bytes)
        goto no_memory;
    uint8_t *at = bytes.bytes;
    for (size_t i = 0; i < call->n; i++) {
        bytes.pointers[i] = at;
        if (put_argument(&fusion->params[i], &arguments[i], &call->shapes[i], index_type, at, error) < 0) {
            argument_bytes_finish(&bytes);
            return -1;
        }
        at += (bytes.sizes[i] + 15) & ~(size_t)15;
    }
    *ret = bytes;
    return 0;
no_memory:
    argument_bytes_finish(&bytes);
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu arguments", call->n);
}

void argument_bytes_finish(struct argument_bytes *bytes)
{
    free(bytes->bytes);
    free(bytes->pointers);
    free(bytes->sizes);
    *bytes = (struct argument_bytes){0};
}

static int compare_count(size_t kernel, size_t ours, struct error *error)
{
    if (kernel == ours)
        return 0;
    return error_set(error, STATUS_INVALID_LAUNCH, "the kernel has %zu parameters and the fusion %zu", kernel, ours);
}

static int compare_size(const struct param *param, size_t kernel, size_t ours, struct error *error)
{
    if (kernel == ours)
        return 0;
    return error_set(error, STATUS_INVALID_LAUNCH,
                     "parameter %s: %zu bytes, but the kernel's has %zu (another index type or rank?)", param->name.at,
                     ours, kernel);
}

int argument_bytes_check(const struct driver *driver, void *function, const struct fusion *fusion,
                         const struct argument_bytes *bytes, struct error *error)
{
    size_t offset, size;
    if (!driver->function_get_param_info)
        return 0;
    for (size_t i = 0; i < bytes->n; i++) {
        if (driver->function_get_param_info(function, i, &offset, &size) != 0)
            return compare_count(i, bytes->n, error);
        if (compare_size(&fusion->params[i], size, bytes->sizes[i], error) < 0)
            return -1;
    }
    if (driver->function_get_param_info(function, bytes->n, &offset, &size) == 0)
        return error_set(error, STATUS_INVALID_LAUNCH, "the kernel has more parameters than the fusion's %zu",
                         bytes->n);
    return 0;
}

int argument_sizes_check(const struct fusion *fusion, enum index_type index_type, const size_t *sizes, size_t n,
                         struct error *error)
{
    if (compare_count(n, fusion->n_params, error) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct param *param = &fusion->params[i];
        struct shape shape = {0};
        if (is_tensor(param)) {
            shape.rank = (unsigned)param->rank;
            shape.alloc_rank = (unsigned)(param->has_alloc_rank ? param->alloc_rank : param->rank);
        }
        if (shape.rank > 0 && index_type == index_type_absent)
            return refuse(param, error, no_index_type);
        if (compare_size(param, sizes[i], bytes_of(param, &shape, index_type), error) < 0)
            return -1;
    }
    return 0;
}
