#include "client/fusionctl/run_call.h"

#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/elements.h"

/* The value of NAME=VALUE for this name; the last one wins. NULL: none. */
static const char *find_override(const char *const *overrides, size_t n, struct text name)
{
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *equals = strchr(overrides[i], '=');
        if (equals && text_is((struct text){overrides[i], (size_t)(equals - overrides[i])}, name.at))
            found = equals + 1;
    }
    return found;
}

/* Every item must name a parameter of its kind, or it would be ignored in silence. */
static int check_names(const struct fusion *fusion, const char *const *items, size_t n, enum param_kind kind,
                       const char *option, const char *what, struct error *error)
{
    for (size_t i = 0; i < n; i++) {
        size_t size = strcspn(items[i], "=");
        bool found = false;
        for (size_t p = 0; p < fusion->n_params && items[i][size]; p++) {
            struct text name = {items[i], size};
            found |= fusion->params[p].kind == kind && text_is(name, fusion->params[p].name.at);
        }
        if (!found) {
            const char *word = kind == PARAM_KIND_OUTPUT   ? "an output"
                               : kind == PARAM_KIND_SCALAR ? "a scalar"
                                                           : "a tensor";
            return error_set(error, STATUS_INVALID_FIELD, "--%s %s: must be NAME=%s with the name of %s", option,
                             items[i], what, word);
        }
    }
    return 0;
}

const char *run_files_find(const struct run_files *files, struct text name)
{
    return find_override(files->items, files->n, name);
}

int run_files_check(const struct run_files *files, const struct fusion *fusion, enum param_kind kind,
                    const char *option, struct error *error)
{
    return check_names(fusion, files->items, files->n, kind, option, "FILE", error);
}

/* ---- scalars ---- */

static int settle_scalar(const json_t *section, const struct run_overrides *overrides, const struct param *param,
                         char *room, struct argument *ret, struct error *error)
{
    char text[64] = "";
    const json_t *given = json_object_get(section, param->name.at);
    const char *override = find_override(overrides->scalars, overrides->n_scalars, param->name);
    if (!override && json_is_integer(given))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(given));
    else if (!override && json_is_real(given))
        snprintf(text, sizeof text, "%.17g", json_real_value(given));
    else if (!override && json_is_boolean(given))
        snprintf(text, sizeof text, "%s", json_is_true(given) ? "true" : "false");
    else if (!override)
        return error_set(error, STATUS_INVALID_FIELD, "run.scalars.%s: absent or no number; or give --scalar %s=VALUE",
                         param->name.at, param->name.at);
    if (!elements_parse(param->dtype, override ? override : text, room))
        return error_set(error, STATUS_INVALID_FIELD, "scalar %s: \"%s\" is no %s", param->name.at,
                         override ? override : text, dtype_word((int)param->dtype));
    ret->scalar = room;
    ret->scalar_size = dtype_size(param->dtype);
    return 0;
}

/* ---- tensors ---- */

/* "8192x1024" */
static int parse_sizes(const struct param *param, const char *text, int64_t *ret, struct error *error)
{
    const char *at = text;
    for (uint64_t i = 0; i < param->rank; i++) {
        char *end;
        long long size = strtoll(at, &end, 10);
        bool last = i + 1 == param->rank;
        if (end == at || size < 0 || *end != (last ? '\0' : 'x'))
            return error_set(error, STATUS_INVALID_FIELD, "--tensor %s=%s: must be %llu sizes with x between them",
                             param->name.at, text, (unsigned long long)param->rank);
        ret[i] = size;
        at = end + 1;
    }
    return 0;
}

/* Numbers, or expressions over what is settled already. */
static int read_sizes(const json_t *given, const struct param *param, const struct scope *scope, int64_t *ret,
                      struct error *error)
{
    if (!json_is_array(given) || json_array_size(given) != param->rank)
        return error_set(error, STATUS_INVALID_FIELD, "run.sizes.%s: must be an array of %llu sizes", param->name.at,
                         (unsigned long long)param->rank);
    for (size_t i = 0; i < param->rank; i++) {
        const json_t *size = json_array_get(given, i);
        if (json_is_integer(size))
            ret[i] = json_integer_value(size);
        else if (!json_is_string(size))
            return error_set(error, STATUS_INVALID_FIELD, "run.sizes.%s[%zu]: must be a number or an expression",
                             param->name.at, i);
        else if (expression_evaluate(text_of(json_string_value(size)), scope, &ret[i], error) < 0)
            return error_wrap(error, "run.sizes.%s[%zu]", param->name.at, i);
    }
    return 0;
}

/* Settle the inputs; `tensors` and `scalars` grow into what later expressions can name. */
static int settle_inputs(const json_t *section, const struct run_overrides *overrides, struct run_call *run,
                         struct scope_tensor *tensors, struct scope_scalar *scalars, struct error *error)
{
    struct scope scope = {.tensors = tensors, .scalars = scalars};
    const json_t *sizes = json_object_get(section, "sizes"), *values = json_object_get(section, "scalars");
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        if (param->kind != PARAM_KIND_SCALAR)
            continue;
        if (settle_scalar(values, overrides, param, run->scalars[i], &run->arguments[i], error) < 0)
            return -1;
        scalars[scope.n_scalars] = (struct scope_scalar){.name = param->name};
        if (dtype_is_integer(param->dtype)) {
            scalars[scope.n_scalars].is_integer = true;
            scalars[scope.n_scalars].value = (int64_t)elements_get(param->dtype, run->scalars[i], 0);
        }
        scope.n_scalars++;
    }
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        if (param->kind == PARAM_KIND_POINTER)
            return error_set(error, STATUS_UNSUPPORTED, "parameter %s: run can't make up a pointer", param->name.at);
        if (param->kind != PARAM_KIND_TENSOR)
            continue;
        const char *override = find_override(overrides->tensors, overrides->n_tensors, param->name);
        int result = override ? parse_sizes(param, override, run->sizes[i], error)
                              : read_sizes(json_object_get(sizes, param->name.at), param, &scope, run->sizes[i], error);
        if (result < 0)
            return -1;
        run->arguments[i].sizes = run->sizes[i];
        tensors[scope.n_tensors++] =
            (struct scope_tensor){.name = param->name, .sizes = run->sizes[i], .n_sizes = param->rank};
    }
    return 0;
}

int run_call_init(struct fusiond_fusion *fusion, const struct run_overrides *overrides, struct run_call *ret,
                  struct error *error)
{
    struct run_call run = {.message = fusion_message(fusion, error)};
    struct scope_tensor *tensors = NULL;
    struct scope_scalar *scalars = NULL;
    int result = -1;
    if (!run.message ||
        check_names(run.message, overrides->tensors, overrides->n_tensors, PARAM_KIND_TENSOR, "tensor", "SIZES",
                    error) < 0 ||
        check_names(run.message, overrides->scalars, overrides->n_scalars, PARAM_KIND_SCALAR, "scalar", "VALUE",
                    error) < 0)
        return -1;
    run.n = run.message->n_params;
    run.arguments = calloc(run.n + 1, sizeof *run.arguments);
    run.sizes = calloc(run.n + 1, sizeof *run.sizes);
    run.scalars = calloc(run.n + 1, sizeof *run.scalars);
    tensors = calloc(run.n + 1, sizeof *tensors);
    scalars = calloc(run.n + 1, sizeof *scalars);
    if (!run.arguments || !run.sizes || !run.scalars || !tensors || !scalars)
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", run.n);
    else if (settle_inputs(fusion->run, overrides, &run, tensors, scalars, error) == 0)
        result = call_init(run.message, run.arguments, run.n, &run.call, error);
    free(tensors);
    free(scalars);
    if (result < 0)
        run_call_finish(&run);
    else
        *ret = run;
    return result;
}

void run_call_finish(struct run_call *run)
{
    call_finish(&run->call);
    free(run->arguments);
    free(run->sizes);
    free(run->scalars);
    *run = (struct run_call){0};
}
