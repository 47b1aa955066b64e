/* B2.3: what the compiler is not told for PTX is told to the driver, and makes executables of one image. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "client/fusiond.h"
#include "tests/support/daemon_process.h"

#define N 4096

static struct daemon_process the_daemon;
static struct fusiond_connection *connection;
static struct fusiond_device *device;

static void setup(void)
{
    static const struct daemon_options as_usual;
    struct fusiond_error error;
    daemon_start_or_skip(&the_daemon, &as_usual);
    cr_assert_eq(fusiond_connect(the_daemon.socket, NULL, &connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_device_open(connection, NULL, NULL, &device, &error), 0, "%s", error.text);
    if (strcmp(fusiond_device_info(device).kind, "cuda") != 0)
        cr_skip_test("there is no CUDA device");
}

static void teardown(void)
{
    fusiond_device_close(device);
    fusiond_close(connection);
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
}

TestSuite(ptx, .init = setup, .fini = teardown, .timeout = 120);

/* Many values that live at once: far more registers than 32, unless it is told. */
static struct fusiond_fusion *hungry(void)
{
    static const char code[] = "__global__ void hungry(Tensor<float, 1, 1> x, Tensor<float, 1, 1> out) {\n"
                               "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                               "  float a[64];\n"
                               "#pragma unroll\n"
                               "  for (int k = 0; k < 64; k++) a[k] = x[(i + 61 * k) % x.logical_size[0]];\n"
                               "  float sum = 0;\n"
                               "#pragma unroll\n"
                               "  for (int k = 0; k < 64; k++) sum += a[k] * a[63 - k];\n"
                               "  if (i < x.logical_size[0]) out[i] = sum;\n"
                               "}\n";
    static const char *const sizes[] = {"x.size[0]"};
    static const char *const grid[] = {"ceilDiv(x.size[0], 128)", NULL, NULL}, *const block[] = {"128", NULL, NULL};
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    cr_assert(fusiond_fusion_set_code(fusion, code, sizeof code - 1, false, &error) == 0 &&
                  fusiond_fusion_add_entry(fusion, "hungry", &error) == 0 &&
                  fusiond_fusion_set_target(fusion, fusiond_device_target(device), &error) == 0 &&
                  fusiond_fusion_set_option(fusion, "index_type", "int32", &error) == 0 &&
                  fusiond_fusion_set_option(fusion, "compile.image", "ptx", &error) == 0 &&
                  fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 1, 1, &error) == 0 &&
                  fusiond_fusion_add_param(fusion, "out", FUSIOND_OUTPUT, FUSIOND_FLOAT32, 1, 1, &error) == 0 &&
                  fusiond_fusion_add_output(fusion, "out", sizes, 1, &error) == 0 &&
                  fusiond_fusion_set_launch(fusion, grid, block, NULL, &error) == 0,
              "%s", error.text);
    return fusion;
}

/* Compile, define, launch; the registers that the loader gave it. ret: what it computed. */
static unsigned run_with(const char *field, const char *value, char ret_key[65], float *ret)
{
    static float x[N];
    const int64_t size = N;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = hungry();
    struct fusiond_kernel *kernel;
    struct fusiond_defined *defined;
    struct fusiond_buffer *in, *out;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 13);
    if (field)
        cr_assert_eq(fusiond_fusion_set_option(fusion, field, value, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), 0, "%s", error.text);
    cr_assert_str_eq(fusiond_kernel_image_kind(kernel), "ptx");
    snprintf(ret_key, 65, "%s", fusiond_kernel_key(kernel));
    cr_assert_eq(fusiond_define(device, ret_key, NULL, fusion, &defined, &error), 0, "%s", error.text);
    cr_assert(fusiond_buffer_allocate(device, sizeof x, false, &in, &error) == 0 &&
                  fusiond_buffer_allocate(device, sizeof x, false, &out, &error) == 0 &&
                  fusiond_buffer_write(in, 0, x, sizeof x, NULL, &error) == 0,
              "%s", error.text);
    const struct fusiond_device_argument arguments[] = {{.buffer = in, .sizes = &size}, {.buffer = out}};
    const struct fusiond_launch_options options = {.wait = true};
    cr_assert_eq(fusiond_device_launch(defined, arguments, 2, &options, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_read(out, 0, ret, sizeof x, NULL, &error), 0, "%s", error.text);
    unsigned registers = fusiond_defined_info(defined).registers;
    fusiond_defined_destroy(defined);
    fusiond_buffer_free(in);
    fusiond_buffer_free(out);
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);
    return registers;
}

Test(ptx, B2_3_one_image_many_executables)
{
    static float free_run[N], limited_run[N], slow_run[N];
    char free_key[65], limited_key[65], class_key[65], slow_key[65];
    unsigned without = run_with(NULL, NULL, free_key, free_run);
    unsigned limited = run_with("compile.max_registers", "32", limited_key, limited_run);
    unsigned of_class = run_with("compile.block_size", "1024", class_key, limited_run);
    run_with("compile.opt_level", "0", slow_key, slow_run);
    cr_assert_str_eq(free_key, limited_key);
    cr_assert_str_eq(free_key, class_key);
    cr_assert_str_eq(free_key, slow_key);
    cr_assert_gt(without, 64, "%u registers", without);
    cr_assert_leq(limited, 32, "%u registers", limited);
    cr_assert_leq(of_class, 64, "%u registers", of_class);
    cr_assert_arr_eq(free_run, limited_run, sizeof free_run);
}
