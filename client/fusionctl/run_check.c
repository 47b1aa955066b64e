#include "client/fusionctl/run_check.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/data_file.h"
#include "client/fusionctl/elements.h"
#include "client/fusionctl/reference.h"
#include "client/fusionctl/walk.h"

typedef int reference_function(const struct reference_call *call);

struct tolerance {
    double absolute, relative;
};

/* What is taken when the file states nothing. */
static const struct tolerance default_tolerance = {1e-6, 1e-5};

static void read_tolerance(const json_t *from, struct tolerance *ret)
{
    const json_t *absolute = json_object_get(from, "absolute"), *relative = json_object_get(from, "relative");
    if (json_is_number(absolute))
        ret->absolute = json_number_value(absolute);
    if (json_is_number(relative))
        ret->relative = json_number_value(relative);
}

/* run.tolerance, and on top of it run.tolerance.<output>. */
static struct tolerance tolerance_of(const struct fusiond_fusion *fusion, const char *output)
{
    struct tolerance tolerance = default_tolerance;
    const json_t *section = json_object_get(fusion->run, "tolerance");
    read_tolerance(section, &tolerance);
    read_tolerance(json_object_get(section, output), &tolerance);
    return tolerance;
}

/* ---- comparing ---- */

/* What an output should be: numbers in row-major order, or, when `shape` is there, as its strides say. */
struct wanted {
    enum dtype dtype;
    const void *elements;
    const struct shape *shape;
    const char *who; /* whose NaN is an error; NULL: nobody's */
};

/* 0 when both are the same, be they infinite or NaN; NaN when one of them is. */
static double difference_of(double got, double want)
{
    return got == want || (isnan(got) && isnan(want)) ? 0.0 : fabs(got - want);
}

static int compare_output(const struct run_call *run, const struct run_data *data, size_t i,
                          const struct wanted *wanted, struct tolerance tolerance, struct run_verdict *verdict,
                          struct error *error)
{
    const struct param *param = &run->message->params[i];
    struct walk walk = {.shape = &run->call.shapes[i]};
    unsigned parts = elements_parts(param->dtype);
    size_t n = (size_t)data->tensors[i].elements * parts;
    char index[128];
    for (size_t e = 0; e < n; e++) {
        size_t at = (size_t)walk.offset * parts + e % parts;
        double got = elements_get(param->dtype, data->tensors[i].bytes, at);
        double want = elements_get(wanted->dtype, wanted->elements, wanted->shape ? at : e);
        if (isnan(want) && wanted->who) {
            walk_print(&walk, index, sizeof index);
            return error_set(error, STATUS_INVALID_FILE, "%s gives no number for %s[%s]", wanted->who, param->name.at,
                             index);
        }
        double difference = difference_of(got, want);
        double allowed = isfinite(want) ? tolerance.absolute + tolerance.relative * fabs(want) : 0.0;
        /* Written so that a NaN is a mismatch. */
        if (!(difference <= allowed)) {
            walk_print(&walk, index, sizeof index);
            if (verdict->mismatches++ == 0)
                snprintf(verdict->first, sizeof verdict->first, "%s[%s] is %.9g and should be %.9g", param->name.at,
                         index, got, want);
        }
        if (difference > verdict->worst || isnan(difference))
            verdict->worst = difference;
        if (e % parts + 1 == parts)
            walk_step(&walk);
    }
    verdict->checked += n;
    return 0;
}

/* ---- the reference ---- */

/* All tensors as doubles; outputs are NaN. */
static int convert(const struct run_call *run, const struct run_data *data, struct reference_tensor *tensors,
                   struct error *error)
{
    size_t at = 0;
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        const struct run_tensor *tensor = &data->tensors[i];
        if (param->kind != PARAM_KIND_TENSOR && param->kind != PARAM_KIND_OUTPUT)
            continue;
        struct walk walk = {.shape = &run->call.shapes[i]};
        unsigned parts = elements_parts(param->dtype);
        size_t n = (size_t)tensor->elements * parts;
        double *values = malloc((n + 1) * sizeof *values);
        if (!values)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu numbers", n);
        tensors[at++] = (struct reference_tensor){
            .name = param->name.at, .rank = walk.shape->rank, .sizes = walk.shape->sizes, .values = values};
        for (size_t e = 0; e < n; e++) {
            if (param->kind == PARAM_KIND_OUTPUT) {
                values[e] = (double)NAN;
                continue;
            }
            values[e] = elements_get(param->dtype, tensor->bytes, (size_t)walk.offset * parts + e % parts);
            if (e % parts + 1 == parts)
                walk_step(&walk);
        }
    }
    return 0;
}

static size_t convert_scalars(const struct run_call *run, struct reference_scalar *scalars)
{
    size_t n = 0;
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        if (param->kind == PARAM_KIND_SCALAR)
            scalars[n++] = (struct reference_scalar){param->name.at, elements_get(param->dtype, run->scalars[i], 0)};
    }
    return n;
}

static int compare_with_reference(const struct fusiond_fusion *fusion, const struct run_call *run,
                                  const struct run_data *data, const struct reference_tensor *tensors,
                                  struct run_verdict *verdict, struct error *error)
{
    size_t at = 0;
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        if (param->kind != PARAM_KIND_TENSOR && param->kind != PARAM_KIND_OUTPUT)
            continue;
        const struct wanted wanted = {.dtype = DTYPE_FLOAT64, .elements = tensors[at++].values, .who = "the reference"};
        if (param->kind == PARAM_KIND_OUTPUT &&
            compare_output(run, data, i, &wanted, tolerance_of(fusion, param->name.at), verdict, error) < 0)
            return -1;
    }
    return 0;
}

/* The function stays loaded: the process ends soon. */
static reference_function *load_reference(const char *path, struct error *error)
{
    char full[4096];
    reference_function *function = NULL;
    /* Without a slash the loader would search its own folders. */
    snprintf(full, sizeof full, "%s%s", strchr(path, '/') ? "" : "./", path);
    void *library = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "fusiond_reference") : NULL;
    if (!symbol) {
        error_set(error, STATUS_INVALID_FILE, "reference: %s", dlerror());
        return NULL;
    }
    memcpy(&function, &symbol, sizeof function);
    return function;
}

int run_check_reference(const char *path, const struct fusiond_fusion *fusion, const struct run_call *run,
                        const struct run_data *data, struct run_verdict *verdict, struct error *error)
{
    int result = -1;
    reference_function *function = load_reference(path, error);
    if (!function)
        return -1;
    struct reference_tensor *tensors = calloc(run->n + 1, sizeof *tensors);
    struct reference_scalar *scalars = calloc(run->n + 1, sizeof *scalars);
    if (!tensors || !scalars) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", run->n);
    } else if (convert(run, data, tensors, error) == 0) {
        struct reference_call call = {.tensors = tensors, .scalars = scalars};
        call.n_scalars = (unsigned)convert_scalars(run, scalars);
        while (tensors[call.n_tensors].name)
            call.n_tensors++;
        int refused = function(&call);
        if (refused)
            error_set(error, STATUS_INVALID_FILE, "%s returned %d", path, refused);
        else
            result = compare_with_reference(fusion, run, data, tensors, verdict, error);
    }
    for (size_t i = 0; tensors && i < run->n; i++)
        free(tensors[i].values);
    free(tensors);
    free(scalars);
    return result;
}

/* ---- against files, and another device ---- */

int run_check_files(const struct run_files *files, const struct fusiond_fusion *fusion, const struct run_call *run,
                    const struct run_data *data, struct run_verdict *verdict, struct error *error)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        const struct shape *shape = &run->call.shapes[i];
        const char *path = param->kind == PARAM_KIND_OUTPUT ? run_files_find(files, param->name) : NULL;
        struct data_file file;
        if (!path)
            continue;
        if (data_file_read(path, param->dtype, shape->sizes, shape->rank, &file, error) < 0)
            return error_wrap(error, "output %s", param->name.at);
        const struct wanted wanted = {.dtype = file.dtype, .elements = file.elements};
        if (elements_parts(file.dtype) != elements_parts(param->dtype))
            result = error_set(error, STATUS_INVALID_FILE, "%s: its elements are %s, output %s's %s", path,
                               dtype_word((int)file.dtype), param->name.at, dtype_word((int)param->dtype));
        else
            result = compare_output(run, data, i, &wanted, tolerance_of(fusion, param->name.at), verdict, error);
        data_file_finish(&file);
    }
    return result;
}

int run_check_data(const struct fusiond_fusion *fusion, const struct run_call *run, const struct run_data *data,
                   const struct run_data *other, struct run_verdict *verdict, struct error *error)
{
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        const struct wanted wanted = {
            .dtype = param->dtype, .elements = other->tensors[i].bytes, .shape = &run->call.shapes[i]};
        if (param->kind == PARAM_KIND_OUTPUT &&
            compare_output(run, data, i, &wanted, tolerance_of(fusion, param->name.at), verdict, error) < 0)
            return -1;
    }
    return 0;
}
