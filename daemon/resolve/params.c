#include "daemon/resolve/params.h"

#include <string.h>

#include "daemon/resolve/sorted.h"
#include "daemon/resolve/zone.h"

static int check_rank(const struct param *param, size_t i, struct error *error)
{
    bool ranked =
        param->kind == PARAM_KIND_TENSOR || param->kind == PARAM_KIND_OUTPUT || param->kind == PARAM_KIND_INTERMEDIATE;
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

/* ---- descriptions: outputs, and intermediates in the same way ---- */

/* One of the fusion's outputs or intermediates. */
struct description {
    struct text name, alias;
    size_t n_sizes, n_strides;
};

/* All of one kind. */
struct descriptions {
    const char *field; /* "outputs" */
    enum param_kind kind;
    size_t n;
    struct description *items;
};

/* Shape of one description against its parameter. An alias without sizes is as large as its tensor. */
static int check_shape(const struct descriptions *all, size_t i, const struct param *param, struct error *error)
{
    const struct description *one = &all->items[i];
    bool as_tensor = one->alias.at && one->n_sizes == 0;
    if (as_tensor && one->n_strides)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.%s[%zu].strides: are given, but sizes are not",
                         all->field, i);
    if (param->has_rank && !as_tensor && one->n_sizes != param->rank)
        return error_set(error, STATUS_INVALID_FIELD,
                         "fusion.%s[%zu].sizes: has %zu values, but the parameter has rank %llu", all->field, i,
                         one->n_sizes, (unsigned long long)param->rank);
    uint64_t dims = param->has_alloc_rank ? param->alloc_rank : one->n_sizes;
    if (one->n_strides && one->n_strides != dims)
        return error_set(error, STATUS_INVALID_FIELD,
                         "fusion.%s[%zu].strides: has %zu values, but the parameter has %llu allocated dimensions",
                         all->field, i, one->n_strides, (unsigned long long)dims);
    return 0;
}

static bool same(struct text a, struct text b)
{
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/* What an alias is written into must be a tensor, of the same rank and type. */
static int check_alias(const struct fusion *fusion, const struct descriptions *all, size_t i, const struct param *param,
                       struct error *error)
{
    char printable[PRINTABLE];
    struct text alias = all->items[i].alias;
    for (size_t j = 0; j < fusion->n_params; j++) {
        const struct param *tensor = &fusion->params[j];
        if (tensor->kind != PARAM_KIND_TENSOR || !same(tensor->name, alias))
            continue;
        if (tensor->dtype != param->dtype || tensor->rank != param->rank)
            return error_set(error, STATUS_INVALID_FIELD,
                             "fusion.%s[%zu].alias: \"%s\" has another type or rank than the output", all->field, i,
                             text_printable(alias, printable));
        return 0;
    }
    return error_set(error, STATUS_INVALID_FIELD, "fusion.%s[%zu].alias: \"%s\" is no parameter of the kind tensor",
                     all->field, i, text_printable(alias, printable));
}

/* Every description has its parameter of that kind, and every such parameter one description. */
static int check_descriptions(const struct fusion *fusion, const struct descriptions *all, msgpack_zone *zone,
                              struct error *error)
{
    char printable[PRINTABLE];
    size_t n_wanted = 0;
    struct numbered *wanted = zone_array(zone, fusion->n_params, sizeof *wanted, error);
    struct numbered *given = zone_array(zone, all->n, sizeof *given, error);
    if (!wanted || !given)
        return -1;
    for (size_t i = 0; i < fusion->n_params; i++)
        if (fusion->params[i].kind == all->kind)
            wanted[n_wanted++] = (struct numbered){fusion->params[i].name, i};
    sorted_sort(wanted, n_wanted);

    for (size_t i = 0; i < all->n; i++) {
        struct text name = all->items[i].name;
        const struct numbered *param = sorted_find(wanted, n_wanted, name);
        if (!param)
            return error_set(error, STATUS_INVALID_FIELD, "fusion.%s[%zu].name: \"%s\" is no parameter of the kind %s",
                             all->field, i, text_printable(name, printable), param_kind_word((int)all->kind));
        if (check_shape(all, i, &fusion->params[param->number], error) < 0 ||
            (all->items[i].alias.at && check_alias(fusion, all, i, &fusion->params[param->number], error) < 0))
            return -1;
        given[i] = (struct numbered){name, i};
    }
    sorted_sort(given, all->n);
    const struct numbered *twice = sorted_twice(given, all->n);
    if (twice)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.%s[%zu].name: \"%s\" is given twice", all->field,
                         twice->number, text_printable(twice->name, printable));
    for (size_t i = 0; i < n_wanted; i++)
        if (!sorted_find(given, all->n, wanted[i].name))
            return error_set(error, STATUS_MISSING_FIELD, "fusion.%s: none describes params[%zu] \"%s\"", all->field,
                             wanted[i].number, text_printable(wanted[i].name, printable));
    return 0;
}

int outputs_check(const struct fusion *fusion, msgpack_zone *zone, struct error *error)
{
    struct descriptions all = {"outputs", PARAM_KIND_OUTPUT, fusion->n_outputs, NULL};
    all.items = zone_array(zone, all.n, sizeof *all.items, error);
    if (!all.items)
        return -1;
    for (size_t i = 0; i < all.n; i++) {
        const struct output *output = &fusion->outputs[i];
        all.items[i] = (struct description){output->name, output->alias, output->n_sizes, output->n_strides};
    }
    return check_descriptions(fusion, &all, zone, error);
}

int intermediates_check(const struct fusion *fusion, msgpack_zone *zone, struct error *error)
{
    struct descriptions all = {"intermediates", PARAM_KIND_INTERMEDIATE, fusion->n_intermediates, NULL};
    all.items = zone_array(zone, all.n, sizeof *all.items, error);
    if (!all.items)
        return -1;
    for (size_t i = 0; i < all.n; i++) {
        const struct intermediate *one = &fusion->intermediates[i];
        all.items[i] = (struct description){.name = one->name, .n_sizes = one->n_sizes, .n_strides = one->n_strides};
    }
    return check_descriptions(fusion, &all, zone, error);
}
