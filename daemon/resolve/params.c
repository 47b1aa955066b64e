#include "daemon/resolve/params.h"

#include "daemon/resolve/sorted.h"
#include "daemon/resolve/zone.h"

static int check_rank(const struct param *param, size_t i, struct error *error)
{
    bool ranked = param->kind == PARAM_KIND_TENSOR || param->kind == PARAM_KIND_OUTPUT;
    if (!param->has_rank && param->has_alloc_rank)
        return error_set(error, STATUS_MISSING_FIELD, "fusion.params[%zu].rank: is absent, but alloc_rank is given", i);
    if (param->has_rank && !ranked)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.params[%zu].rank: is %llu, but a %s has none", i,
                         (unsigned long long)param->rank, param_kind_word((int)param->kind));
    if (param->has_rank && param->rank > LIMIT_RANK)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.params[%zu].rank: is %llu; the limit is %u", i,
                         (unsigned long long)param->rank, LIMIT_RANK);
    if (param->has_alloc_rank && param->alloc_rank > LIMIT_RANK)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.params[%zu].alloc_rank: is %llu; the limit is %u", i,
                         (unsigned long long)param->alloc_rank, LIMIT_RANK);
    return 0;
}

int params_check(const struct fusion *fusion, msgpack_zone *zone, struct error *error)
{
    struct numbered *names = zone_array(zone, fusion->n_params, sizeof *names, error);
    if (!names)
        return -1;
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        if (param->name.size == 0)
            return error_set(error, STATUS_INVALID_FIELD, "fusion.params[%zu].name: is empty", i);
        if (!param_kind_word((int)param->kind))
            return error_set(error, STATUS_MISSING_FIELD, "fusion.params[%zu].kind: is absent", i);
        if (check_rank(param, i, error))
            return -1;
        names[i] = (struct numbered){param->name, i};
    }
    sorted_sort(names, fusion->n_params);
    const struct numbered *twice = sorted_twice(names, fusion->n_params);
    char printable[PRINTABLE];
    if (twice)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.params[%zu].name: \"%s\" is given twice", twice->number,
                         text_printable(twice->name, printable));
    return 0;
}

/* Shape of one output against its parameter. */
static int check_shape(const struct output *output, size_t i, const struct param *param, struct error *error)
{
    if (param->has_rank && output->n_sizes != param->rank)
        return error_set(error, STATUS_INVALID_FIELD,
                         "fusion.outputs[%zu].sizes: has %zu values, but the parameter has rank %llu", i,
                         output->n_sizes, (unsigned long long)param->rank);
    uint64_t dims = param->has_alloc_rank ? param->alloc_rank : output->n_sizes;
    if (output->n_strides && output->n_strides != dims)
        return error_set(error, STATUS_INVALID_FIELD,
                         "fusion.outputs[%zu].strides: has %zu values, but the parameter has %llu allocated dimensions",
                         i, output->n_strides, (unsigned long long)dims);
    return 0;
}

int outputs_check(const struct fusion *fusion, msgpack_zone *zone, struct error *error)
{
    char printable[PRINTABLE];
    size_t n_wanted = 0;
    struct numbered *wanted = zone_array(zone, fusion->n_params, sizeof *wanted, error);
    struct numbered *given = zone_array(zone, fusion->n_outputs, sizeof *given, error);
    if (!wanted || !given)
        return -1;
    for (size_t i = 0; i < fusion->n_params; i++)
        if (fusion->params[i].kind == PARAM_KIND_OUTPUT)
            wanted[n_wanted++] = (struct numbered){fusion->params[i].name, i};
    sorted_sort(wanted, n_wanted);

    for (size_t i = 0; i < fusion->n_outputs; i++) {
        struct text name = fusion->outputs[i].name;
        const struct numbered *param = sorted_find(wanted, n_wanted, name);
        if (!param)
            return error_set(error, STATUS_INVALID_FIELD,
                             "fusion.outputs[%zu].name: \"%s\" is no parameter of the kind output", i,
                             text_printable(name, printable));
        if (check_shape(&fusion->outputs[i], i, &fusion->params[param->number], error))
            return -1;
        given[i] = (struct numbered){name, i};
    }
    sorted_sort(given, fusion->n_outputs);
    const struct numbered *twice = sorted_twice(given, fusion->n_outputs);
    if (twice)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.outputs[%zu].name: \"%s\" is given twice", twice->number,
                         text_printable(twice->name, printable));
    for (size_t i = 0; i < n_wanted; i++)
        if (!sorted_find(given, fusion->n_outputs, wanted[i].name))
            return error_set(error, STATUS_MISSING_FIELD, "fusion.outputs: none describes params[%zu] \"%s\"",
                             wanted[i].number, text_printable(wanted[i].name, printable));
    return 0;
}
