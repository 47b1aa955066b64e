#include "daemon/executor/defined.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/launch/arguments.h"
#include "daemon/launch/expression.h"

/* ---- checks ---- */

static bool is_tensor(const struct param *param)
{
    return param->kind == PARAM_KIND_TENSOR || param->kind == PARAM_KIND_OUTPUT ||
           param->kind == PARAM_KIND_INTERMEDIATE;
}

static size_t alloc_rank(const struct param *param)
{
    return (size_t)(param->has_alloc_rank ? param->alloc_rank : param->rank);
}

static const struct param *find_param(const struct fusion *fusion, struct text name)
{
    for (size_t i = 0; i < fusion->n_params; i++) {
        if (text_is(fusion->params[i].name, name.at))
            return &fusion->params[i];
    }
    return NULL;
}

static int check_params(const struct fusion *fusion, struct error *error)
{
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        if (!is_tensor(param) && (param->rank || param->alloc_rank))
            return error_set(error, STATUS_INVALID_FIELD, "params[%zu].rank: a %s has none", i,
                             param_kind_word((int)param->kind));
        if (find_param(fusion, param->name) != param)
            return error_set(error, STATUS_INVALID_FIELD, "params[%zu].name: \"%.100s\" is there twice", i,
                             param->name.at);
        if (param->kind == PARAM_KIND_INTERMEDIATE && !fusion_intermediate(fusion, param))
            return error_set(error, STATUS_INVALID_FIELD, "params[%zu]: the intermediate \"%.100s\" is not described",
                             i, param->name.at);
    }
    return 0;
}

/* What is described by name must be a parameter of that kind, of that rank. */
static int check_description(const struct fusion *fusion, const char *where, size_t number, struct text name,
                             enum param_kind kind, size_t n_sizes, size_t n_strides, struct error *error)
{
    const struct param *param = find_param(fusion, name);
    if (!param || param->kind != kind)
        return error_set(error, STATUS_INVALID_FIELD, "%s[%zu].name: no parameter of kind %s is called \"%.100s\"",
                         where, number, param_kind_word((int)kind), name.at);
    if (n_sizes != param->rank && n_sizes)
        return error_set(error, STATUS_INVALID_FIELD, "%s[%zu].sizes: %zu, but parameter \"%.100s\" has rank %u", where,
                         number, n_sizes, name.at, (unsigned)param->rank);
    if (n_strides != alloc_rank(param) && n_strides)
        return error_set(error, STATUS_INVALID_FIELD,
                         "%s[%zu].strides: %zu, but parameter \"%.100s\" has an allocated rank of %zu", where, number,
                         n_strides, name.at, alloc_rank(param));
    return 0;
}

static int check_descriptions(const struct fusion *fusion, struct error *error)
{
    for (size_t i = 0; i < fusion->n_outputs; i++) {
        const struct output *output = &fusion->outputs[i];
        if (check_description(fusion, "outputs", i, output->name, PARAM_KIND_OUTPUT, output->n_sizes, output->n_strides,
                              error) < 0)
            return -1;
        const struct param *aliased = output->alias.at ? find_param(fusion, output->alias) : NULL;
        if (output->alias.at && (!aliased || aliased->kind != PARAM_KIND_TENSOR))
            return error_set(error, STATUS_INVALID_FIELD, "outputs[%zu].alias: no tensor is called \"%.100s\"", i,
                             output->alias.at);
    }
    for (size_t i = 0; i < fusion->n_intermediates; i++) {
        const struct intermediate *intermediate = &fusion->intermediates[i];
        if (check_description(fusion, "intermediates", i, intermediate->name, PARAM_KIND_INTERMEDIATE,
                              intermediate->n_sizes, intermediate->n_strides, error) < 0)
            return -1;
    }
    return 0;
}

/* ---- expressions ---- */

/* What expressions may name, without values. */
struct names {
    struct scope scope;
    size_t *scalars; /* the parameter of each scalar */
    bool *reads;     /* of each scalar: an expression names it */
};

static int collect_names(const struct fusion *fusion, msgpack_zone *zone, struct names *ret, struct error *error)
{
    static const int64_t unknown[LIMIT_RANK];
    size_t n = fusion->n_params + 1;
    struct scope_tensor *tensors = msgpack_zone_malloc(zone, n * sizeof *tensors);
    struct scope_scalar *scalars = msgpack_zone_malloc(zone, n * sizeof *scalars);
    ret->scalars = msgpack_zone_malloc(zone, n * sizeof *ret->scalars);
    ret->reads = msgpack_zone_malloc(zone, n);
    if (!tensors || !scalars || !ret->scalars || !ret->reads)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", fusion->n_params);
    memset(ret->reads, 0, n);
    ret->scope = (struct scope){.tensors = tensors, .scalars = scalars};
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        if (is_tensor(param)) {
            tensors[ret->scope.n_tensors++] =
                (struct scope_tensor){param->name, unknown, param->rank, unknown, alloc_rank(param)};
        } else if (param->kind == PARAM_KIND_SCALAR) {
            ret->scalars[ret->scope.n_scalars] = i;
            scalars[ret->scope.n_scalars++] = (struct scope_scalar){param->name, dtype_is_integer(param->dtype), 0};
        }
    }
    return 0;
}

static int check_all(const struct text *texts, size_t n, const struct names *names, const char *what, const char *of,
                     struct error *error)
{
    for (size_t i = 0; i < n; i++) {
        if (expression_check(texts[i], &names->scope, names->reads, error) < 0)
            return error_wrap(error, "%s%s[%zu]", of, what, i);
    }
    return 0;
}

static int check_expressions(const struct fusion *fusion, const struct names *names, struct error *error)
{
    char of[160];
    for (size_t i = 0; i < fusion->n_outputs; i++) {
        const struct output *one = &fusion->outputs[i];
        snprintf(of, sizeof of, "output %.100s: ", one->name.at);
        if (check_all(one->sizes, one->n_sizes, names, "sizes", of, error) < 0 ||
            check_all(one->strides, one->n_strides, names, "strides", of, error) < 0)
            return -1;
    }
    for (size_t i = 0; i < fusion->n_intermediates; i++) {
        const struct intermediate *one = &fusion->intermediates[i];
        snprintf(of, sizeof of, "intermediate %.100s: ", one->name.at);
        if (check_all(one->sizes, one->n_sizes, names, "sizes", of, error) < 0 ||
            check_all(one->strides, one->n_strides, names, "strides", of, error) < 0)
            return -1;
    }
    const struct launch *launch = fusion->launch;
    if (!launch)
        return 0;
    if (check_all(launch->grid, launch->n_grid, names, "grid", "launch.", error) < 0 ||
        check_all(launch->block, launch->n_block, names, "block", "launch.", error) < 0)
        return -1;
    if (launch->dynamic_shared_memory.at &&
        expression_check(launch->dynamic_shared_memory, &names->scope, names->reads, error) < 0)
        return error_wrap(error, "launch.dynamic_shared_memory");
    return 0;
}

/* ---- what launches need to know ---- */

static int describe_params(struct defined *defined, struct error *error)
{
    const struct fusion *fusion = &defined->fusion;
    struct names names = {0};
    defined->params = msgpack_zone_malloc(&defined->zone, (fusion->n_params + 1) * sizeof *defined->params);
    if (!defined->params)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", fusion->n_params);
    if (collect_names(fusion, &defined->zone, &names, error) < 0 || check_expressions(fusion, &names, error) < 0)
        return -1;
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        struct defined_param *ours = &defined->params[i];
        *ours = (struct defined_param){.alias = fusion->n_params};
        if (param->kind == PARAM_KIND_INTERMEDIATE)
            ours->zero = fusion_intermediate(fusion, param)->zero;
        if (param->kind != PARAM_KIND_OUTPUT)
            continue;
        defined->n_shapes += param->rank + alloc_rank(param);
        const struct output *output = fusion_output(fusion, param);
        if (output && output->alias.at)
            ours->alias = (size_t)(find_param(fusion, output->alias) - fusion->params);
    }
    for (size_t i = 0; i < names.scope.n_scalars; i++)
        defined->params[names.scalars[i]].read = names.reads[i];
    return 0;
}

/* ---- life ---- */

/* Values above the limit are refused where the message is read. */
static int check_option(const char *name, bool is_set, uint64_t value, unsigned limit, struct error *error)
{
    if (!is_set || value > 0)
        return 0;
    return error_set(error, STATUS_INVALID_FIELD, "%s: is 0; the limits are 1 and %u", name, limit);
}

static int fill(struct defined *defined, struct bytes params, struct module_wish *ret_wish, struct error *error)
{
    struct fusion_define_request define;
    if (message_parse(&fusion_define_request_type, params.at, params.size, &defined->zone, &define, error) < 0)
        return -1;
    struct fusion *fusion = &defined->fusion;
    fusion->params = define.params;
    fusion->n_params = define.n_params;
    fusion->outputs = define.outputs;
    fusion->n_outputs = define.n_outputs;
    fusion->intermediates = define.intermediates;
    fusion->n_intermediates = define.n_intermediates;
    fusion->launch = define.launch;
    defined->entry = define.entry;
    defined->label = define.label;
    defined->options = (struct load_wish){.max_registers = (unsigned)define.max_registers,
                                          .block_size = (unsigned)define.block_size,
                                          .has_opt_level = define.has_opt_level,
                                          .opt_level = (unsigned)define.opt_level};
    if (check_option("max_registers", define.has_max_registers, define.max_registers, 255, error) < 0 ||
        check_option("block_size", define.has_block_size, define.block_size, 1024, error) < 0)
        return -1;
    if (check_params(fusion, error) < 0 || check_descriptions(fusion, error) < 0 || describe_params(defined, error) < 0)
        return -1;
    return module_wish_make(define.key, define.entries, define.n_entries, &defined->zone, ret_wish, error);
}

int defined_create(struct bytes params, struct defined **ret, struct module_wish *ret_wish, struct error *error)
{
    struct defined *defined = calloc(1, sizeof *defined);
    if (!defined || !msgpack_zone_init(&defined->zone, 4096)) {
        free(defined);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a fusion");
    }
    if (fill(defined, params, ret_wish, error) < 0) {
        defined_destroy(defined);
        return -1;
    }
    *ret = defined;
    return 0;
}

void defined_destroy(struct defined *defined)
{
    if (!defined)
        return;
    if (defined->module)
        module_release(defined->module);
    msgpack_zone_destroy(&defined->zone);
    free(defined);
}

int defined_bind(struct defined *defined, struct module *module, struct error *error)
{
    const struct kernel *kernel = &module->kernel;
    const struct kernel_entry *entry = NULL;
    struct device_function function = {0};
    for (size_t i = 0; i < kernel->n_entries && !entry; i++) {
        if (!defined->entry.at || text_is(kernel->entries[i].name, defined->entry.at) ||
            text_is(kernel->entries[i].lowered, defined->entry.at))
            entry = &kernel->entries[i];
    }
    if (!entry)
        return error_set(error, STATUS_NOT_FOUND,
                         "entry: the kernel has none called \"%.200s\"; a name that it was not compiled under needs "
                         "the fusion's `entries`",
                         defined->entry.at ? defined->entry.at : "");
    if (module->modules->backend->ops->find(module->device, entry->lowered.at, entry->name.at, &function, error) < 0)
        return -1;
    if (function.has_params &&
        argument_sizes_check(&defined->fusion, kernel->index_type, function.param_sizes, function.n_params, error) < 0)
        return -1;
    defined->function = function;
    defined->module = module;
    if (!defined->label.at)
        defined->label = kernel->label.at ? kernel->label : entry->name;
    return 0;
}

const char *defined_show(const struct defined *defined, char *ret, size_t room)
{
    char label[128], key[17] = "";
    for (int i = 0; defined->module && i < 8; i++)
        snprintf(key + 2 * i, 3, "%02x", defined->module->key[i]);
    snprintf(ret, room, "%s (%s)", text_show(defined->label, label, sizeof label), key);
    return ret;
}
