#include "client/fusionctl/run_check.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/elements.h"
#include "client/fusionctl/reference.h"

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

/* ---- walking a tensor in row-major order ---- */

struct walk {
    const struct shape *shape;
    int64_t index[LIMIT_RANK];
    int64_t offset; /* in elements */
};

static void step(struct walk *walk)
{
    for (unsigned i = walk->shape->rank; i-- > 0;) {
        int64_t stride = i < walk->shape->alloc_rank ? walk->shape->strides[i] : 0;
        walk->offset += stride;
        if (++walk->index[i] < walk->shape->sizes[i])
            return;
        walk->offset -= stride * walk->shape->sizes[i];
        walk->index[i] = 0;
    }
}

static void print_index(const struct walk *walk, char *room, size_t size)
{
    size_t used = 0;
    room[0] = '\0';
    for (unsigned i = 0; i < walk->shape->rank && used < size; i++)
        used += (size_t)snprintf(room + used, size - used, "%s%lld", i ? ", " : "", (long long)walk->index[i]);
}

/* ---- the reference ---- */

/* All tensors as doubles; outputs are NaN. */
static int convert(const struct run_call *run, const struct run_device *device, struct reference_tensor *tensors,
                   struct error *error)
{
    size_t at = 0;
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        const struct run_buffer *buffer = &device->buffers[i];
        if (param->kind != PARAM_KIND_TENSOR && param->kind != PARAM_KIND_OUTPUT)
            continue;
        struct walk walk = {.shape = &run->call.shapes[i]};
        unsigned parts = elements_parts(param->dtype);
        size_t n = (size_t)buffer->elements * parts;
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
            values[e] = elements_get(param->dtype, buffer->host, (size_t)walk.offset * parts + e % parts);
            if (e % parts + 1 == parts)
                step(&walk);
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

/* ---- comparing ---- */

static int compare_output(const struct run_call *run, const struct run_device *device, size_t i,
                          const struct reference_tensor *wanted, struct tolerance tolerance,
                          struct run_verdict *verdict, struct error *error)
{
    const struct param *param = &run->message->params[i];
    struct walk walk = {.shape = &run->call.shapes[i]};
    unsigned parts = elements_parts(param->dtype);
    size_t n = (size_t)device->buffers[i].elements * parts;
    char index[128];
    for (size_t e = 0; e < n; e++) {
        double want = wanted->values[e];
        double got = elements_get(param->dtype, device->buffers[i].host, (size_t)walk.offset * parts + e % parts);
        if (isnan(want)) {
            print_index(&walk, index, sizeof index);
            return error_set(error, STATUS_INVALID_FILE, "the reference gives no number for %s[%s]", param->name.at,
                             index);
        }
        double difference = got == want ? 0.0 : fabs(got - want);
        /* Written so that a NaN is a mismatch. */
        if (!(difference <= tolerance.absolute + tolerance.relative * fabs(want))) {
            print_index(&walk, index, sizeof index);
            if (verdict->mismatches++ == 0)
                snprintf(verdict->first, sizeof verdict->first, "%s[%s] is %.9g and should be %.9g", param->name.at,
                         index, got, want);
        }
        if (difference > verdict->worst || isnan(difference))
            verdict->worst = difference;
        if (e % parts + 1 == parts)
            step(&walk);
    }
    verdict->checked += n;
    return 0;
}

static int compare_all(const struct fusiond_fusion *fusion, const struct run_call *run, const struct run_device *device,
                       const struct reference_tensor *tensors, struct run_verdict *verdict, struct error *error)
{
    size_t at = 0;
    for (size_t i = 0; i < run->n; i++) {
        const struct param *param = &run->message->params[i];
        if (param->kind != PARAM_KIND_TENSOR && param->kind != PARAM_KIND_OUTPUT)
            continue;
        const struct reference_tensor *tensor = &tensors[at++];
        if (param->kind == PARAM_KIND_OUTPUT &&
            compare_output(run, device, i, tensor, tolerance_of(fusion, param->name.at), verdict, error) < 0)
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

int run_check(const char *reference, const struct fusiond_fusion *fusion, const struct run_call *run,
              const struct run_device *device, struct run_verdict *ret, struct error *error)
{
    struct run_verdict verdict = {0};
    int result = -1;
    reference_function *function = load_reference(reference, error);
    if (!function)
        return -1;
    struct reference_tensor *tensors = calloc(run->n + 1, sizeof *tensors);
    struct reference_scalar *scalars = calloc(run->n + 1, sizeof *scalars);
    if (!tensors || !scalars) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", run->n);
    } else if (convert(run, device, tensors, error) == 0) {
        struct reference_call call = {.tensors = tensors, .scalars = scalars};
        call.n_scalars = (unsigned)convert_scalars(run, scalars);
        while (tensors[call.n_tensors].name)
            call.n_tensors++;
        int refused = function(&call);
        if (refused)
            error_set(error, STATUS_INVALID_FILE, "%s returned %d", reference, refused);
        else
            result = compare_all(fusion, run, device, tensors, &verdict, error);
    }
    for (size_t i = 0; tensors && i < run->n; i++)
        free(tensors[i].values);
    free(tensors);
    free(scalars);
    if (result == 0)
        *ret = verdict;
    return result;
}
