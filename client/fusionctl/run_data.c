#include "client/fusionctl/run_data.h"

#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/data_file.h"
#include "client/fusionctl/elements.h"
#include "client/fusionctl/walk.h"

static bool is_input(const struct param *param)
{
    return param->kind == PARAM_KIND_TENSOR;
}

/* From the file's row-major order to where the strides say. */
static int fill_from_file(const struct param *param, const struct shape *shape, const char *path,
                          struct run_tensor *tensor, struct error *error)
{
    struct data_file file;
    size_t size = dtype_size(param->dtype);
    struct walk walk = {.shape = shape};
    if (data_file_read(path, param->dtype, shape->sizes, shape->rank, &file, error) < 0)
        return -1;
    if (file.dtype != param->dtype) {
        enum dtype found = file.dtype;
        data_file_finish(&file);
        return error_set(error, STATUS_INVALID_FILE, "%s: its elements are %s, the parameter's %s", path,
                         dtype_word((int)found), dtype_word((int)param->dtype));
    }
    for (int64_t i = 0; i < tensor->elements; i++, walk_step(&walk))
        memcpy(tensor->bytes + (size_t)walk.offset * size, (const char *)file.elements + (size_t)i * size, size);
    data_file_finish(&file);
    return 0;
}

static int fill_tensor(const struct param *param, const struct shape *shape, uint64_t seed, const char *file,
                       struct run_tensor *tensor, struct error *error)
{
    int64_t spanned;
    if (shape_elements(shape, false, &tensor->elements, error) < 0 || shape_elements(shape, true, &spanned, error) < 0)
        return -1;
    size_t element = dtype_size(param->dtype);
    if ((uint64_t)spanned > SIZE_MAX / 2 / element)
        return error_set(error, STATUS_INVALID_LAUNCH, "%lld elements are too many", (long long)spanned);
    tensor->size = (size_t)spanned * element;
    tensor->bytes = malloc(tensor->size + 1);
    if (!tensor->bytes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu bytes", tensor->size);
    memset(tensor->bytes, 0xff, tensor->size);
    if (!is_input(param))
        return 0;
    if (file)
        return fill_from_file(param, shape, file, tensor, error);
    elements_fill(param->dtype, tensor->bytes, (size_t)spanned * elements_parts(param->dtype), seed);
    return 0;
}

int run_data_init(const struct run_call *call, uint64_t seed, const struct run_files *inputs, struct run_data *ret,
                  struct error *error)
{
    struct run_data data = {.n = call->n, .tensors = calloc(call->n + 1, sizeof *data.tensors)};
    if (!data.tensors)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", call->n);
    for (size_t i = 0; i < call->n; i++) {
        const struct param *param = &call->message->params[i];
        if (!is_input(param) && param->kind != PARAM_KIND_OUTPUT)
            continue;
        const char *file = is_input(param) ? run_files_find(inputs, param->name) : NULL;
        if (fill_tensor(param, &call->call.shapes[i], seed * 1000003u + i, file, &data.tensors[i], error) < 0) {
            run_data_finish(&data);
            return error_wrap(error, "tensor %s", param->name.at);
        }
    }
    *ret = data;
    return 0;
}

void run_data_finish(struct run_data *data)
{
    for (size_t i = 0; data->tensors && i < data->n; i++)
        free(data->tensors[i].bytes);
    free(data->tensors);
    *data = (struct run_data){0};
}

uint64_t run_data_bytes(const struct run_data *data)
{
    uint64_t total = 0;
    for (size_t i = 0; i < data->n; i++)
        total += data->tensors[i].size;
    return total;
}
