#include "client/fusionctl/run_dump.h"

#include <string.h>

static json_t *numbers(const int64_t *values, unsigned n)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(array, json_integer(values[i]));
    return array;
}

static json_t *triple(const unsigned values[3])
{
    return numbers((const int64_t[]){values[0], values[1], values[2]}, 3);
}

/* The bytes of a scalar, as they lie in memory. */
static json_t *scalar(const struct argument *argument)
{
    char hex[2 * 16 + 1] = "";
    const unsigned char *bytes = argument->scalar;
    for (size_t i = 0; bytes && i < argument->scalar_size && i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    return json_string(hex);
}

static json_t *argument_of(const struct run_call *call, size_t i)
{
    const struct param *param = &call->message->params[i];
    const struct shape *shape = &call->call.shapes[i];
    json_t *row = json_object();
    json_object_set_new(row, "name", json_string(param->name.at));
    json_object_set_new(row, "kind", json_string(param_kind_word((int)param->kind)));
    json_object_set_new(row, "dtype", json_string(dtype_word((int)param->dtype)));
    if (param->kind == PARAM_KIND_SCALAR) {
        json_object_set_new(row, "bytes", scalar(&call->arguments[i]));
        return row;
    }
    json_object_set_new(row, "sizes", numbers(shape->sizes, shape->rank));
    json_object_set_new(row, "strides", numbers(shape->strides, shape->alloc_rank));
    return row;
}

json_t *run_dump_launch(const struct run_report *report)
{
    json_t *launch = json_object(), *arguments = json_array();
    json_object_set_new(launch, "key", json_string(fusiond_kernel_key(report->kernel)));
    json_object_set_new(launch, "device", json_string(report->device));
    json_object_set_new(launch, "index_type", json_string(fusiond_kernel_index_type(report->kernel)));
    json_object_set_new(launch, "grid", triple(report->launch.grid));
    json_object_set_new(launch, "block", triple(report->launch.block));
    json_object_set_new(launch, "dynamic_shared_memory", json_integer(report->launch.dynamic_shared_memory));
    for (size_t i = 0; i < report->call->n; i++)
        json_array_append_new(arguments, argument_of(report->call, i));
    json_object_set_new(launch, "arguments", arguments);
    json_object_set_new(launch, "launch_ns", json_integer((json_int_t)report->launch_ns));
    json_object_set_new(launch, "occupancy",
                        json_string("unknown: no device tells it yet, and the host device has none"));
    json_object_set_new(launch, "program_graph", json_string("none: this was one launch, not a program"));
    return launch;
}
