/* B7.2 on a real device: an image with a client's name put in loads, gives the right numbers, and the driver and
 * profilers call its kernel by that name. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fusiond.h"
#include "tests/gpu/client/launch_trace.h"
#include "tests/support/daemon_process.h"
#include "tests/support/gpu.h"

#define N 32

static struct daemon_process the_daemon;
static struct fusiond_connection *connection;
static bool traced;

static void setup(void)
{
    struct fusiond_error error = {0};
    char why[256];
    traced = launch_trace_open(why);
    if (!traced)
        fprintf(stderr, "names are not looked for where profilers see them: %s\n", why);
    if (!gpu_open(why))
        cr_skip_test("%s", why);
    daemon_start_or_skip(&the_daemon, &(struct daemon_options){0});
    cr_assert(fusiond_connect(the_daemon.socket, NULL, &connection, &error) == 0, "%s", error.text);
}

static void teardown(void)
{
    fusiond_close(connection);
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
}

TestSuite(names, .init = setup, .fini = teardown);

static float twice(int i)
{
    return 2 * (float)i;
}

static float reversed(int i)
{
    return (float)(N - 1 - i);
}

static float square_and_one(int i)
{
    return (float)(i * i + 1);
}

static float plus_three(int i)
{
    return (float)(i + 3);
}

/* Kernels called @, of N threads; what becomes of element i, which begins as i. */
static const struct {
    const char *entry, *code;
    float (*expected)(int i);
} kernels[] = {
    {"@", "extern \"C\" __global__ void @(float *x) { x[threadIdx.x] *= 2; }", twice},
    {"@",
     "__global__ void @(float *x)\n{ __shared__ float s[32]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads();\n"
     "x[threadIdx.x] = s[31 - threadIdx.x]; }",
     reversed},
    {"@",
     "namespace n { __device__ __noinline__ float f(float x) { return x * x + 1; } }\n"
     "__global__ void __launch_bounds__(64) @(float *x) { x[threadIdx.x] = n::f(x[threadIdx.x]); }",
     square_and_one},
    {"@<float, 3>", "template <class T, int I> __global__ void @(T *x) { x[threadIdx.x] += I; }", plus_three},
    {"a::@",
     "__constant__ float three = 3;\n__device__ float zero[4];\n"
     "namespace a { __global__ void @(float *x) { x[threadIdx.x] += three + zero[threadIdx.x & 3]; } }",
     plus_three},
};

/* The text with the name for every @; free it. */
static char *called(const char *text, const char *name)
{
    char *ret = malloc(strlen(text) * (strlen(name) + 1) + 1), *at = ret;
    for (; *text; text++) {
        if (*text == '@')
            at = stpcpy(at, name);
        else
            *at++ = *text;
    }
    *at = '\0';
    return ret;
}

static struct fusiond_kernel *compile(size_t i, const char *name, const char *target, const char *line_info)
{
    struct fusiond_compile_options options = {.parts = FUSIOND_IMAGE};
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    struct fusiond_kernel *kernel = NULL;
    struct fusiond_error error = {0};
    char *code = called(kernels[i].code, name), *entry = called(kernels[i].entry, name);
    cr_assert(fusiond_fusion_set_code(fusion, code, strlen(code), true, &error) == 0, "%s", error.text);
    cr_assert(fusiond_fusion_add_entry(fusion, entry, &error) == 0, "%s", error.text);
    cr_assert(fusiond_fusion_set_target(fusion, target, &error) == 0, "%s", error.text);
    cr_assert(fusiond_fusion_set_option(fusion, "side_effects_only", "true", &error) == 0, "%s", error.text);
    cr_assert(fusiond_fusion_set_option(fusion, "compile.line_info", line_info, &error) == 0, "%s", error.text);
    cr_assert(fusiond_compile(connection, fusion, &options, &kernel, &error) == 0, "%s: %s", error.text,
              fusiond_failure_log(connection));
    fusiond_fusion_destroy(fusion);
    free(code);
    free(entry);
    return kernel;
}

static void run(size_t i, const struct fusiond_kernel *kernel, const char *name)
{
    size_t size;
    const char *image = fusiond_kernel_image(kernel, &size), *symbol = fusiond_kernel_entry(kernel, 0).lowered;
    char *copy = malloc(size + 1); /* PTX must end with a NUL */
    memcpy(copy, image, size);
    copy[size] = '\0';
    cr_assert(strstr(symbol, name), "%s", symbol);
    const struct gpu_kernel *loaded = gpu_load(copy, symbol);
    const char *driver_name = gpu_kernel_name(loaded);
    if (driver_name)
        cr_expect_str_eq(driver_name, symbol);
    float values[N];
    for (int at = 0; at < N; at++)
        values[at] = (float)at;
    gpu_pointer x = gpu_alloc(sizeof values);
    gpu_write(x, values, sizeof values);
    launch_trace_take();
    gpu_run(loaded, (const unsigned[3]){1, 1, 1}, (const unsigned[3]){N, 1, 1}, 0, (void *[]){&x});
    if (traced)
        cr_expect_str_eq(launch_trace_take(), symbol);
    gpu_read(values, x, sizeof values);
    for (int at = 0; at < N; at++)
        cr_expect(values[at] == kernels[i].expected(at), "%s: element %d is %f", symbol, at, (double)values[at]);
    gpu_free(x);
    free(copy);
}

/* Every kernel under three names, of which the first one is compiled. */
static void run_all(const char *target, const char *line_info)
{
    static const char *const names[] = {"k", "softmax_bwd",
                                        "nvfuser_pointwise_f12_c1_r0_g0_of_a_long_name_that_fits_64_byte"};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        char key[80] = "";
        for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
            struct fusiond_kernel *kernel = compile(i, names[n], target, line_info);
            cr_expect_str_eq(fusiond_kernel_outcome(kernel), n ? "hit_memory" : "compiled");
            if (n == 0)
                snprintf(key, sizeof key, "%s", fusiond_kernel_key(kernel));
            cr_expect_str_eq(fusiond_kernel_key(kernel), key);
            run(i, kernel, names[n]);
            fusiond_kernel_destroy(kernel);
        }
    }
}

Test(names, B7_2_cubins_with_names)
{
    run_all(gpu_target(), "false");
}

Test(names, B7_2_cubins_with_names_and_line_information)
{
    run_all(gpu_target(), "true");
}

Test(names, B7_2_ptx_with_names)
{
    char target[32];
    snprintf(target, sizeof target, "compute_%.*s", (int)strcspn(gpu_target() + 3, "af"), gpu_target() + 3);
    run_all(target, "false");
    run_all(target, "true");
}
