#include "tests/integration/executor/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct daemon_process the_daemon;

static const struct daemon_options as_usual;

static const char *device_name(void)
{
    const char *name = getenv("FUSIOND_TEST_DEVICE");
    return name ? name : "host";
}

static bool is_host(void)
{
    return strcmp(device_name(), "host") == 0;
}

void executor_setup(void)
{
    if (is_host())
        daemon_start(&the_daemon, &as_usual);
    else
        daemon_start_or_skip(&the_daemon, &as_usual);
}

void executor_teardown(void)
{
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
}

void only_on_host(void)
{
    if (!is_host())
        cr_skip_test("only the host device does this");
}

/* ---- seats ---- */

static int open_device(struct seat *seat, bool isolated, struct fusiond_error *error)
{
    const struct fusiond_device_options options = {.isolation_session = isolated};
    return fusiond_device_open(seat->connection, device_name(), &options, &seat->device, error);
}

void seat_open(struct seat *ret, bool isolated)
{
    struct fusiond_error error;
    OK(fusiond_connect(the_daemon.socket, NULL, &ret->connection, &error));
    OK(open_device(ret, isolated, &error));
}

/* The daemon may hand out the dead executor once more, before it has seen its end. */
static bool reopens(void *context)
{
    struct seat *seat = context;
    struct fusiond_error error;
    if (open_device(seat, false, &error) < 0) {
        cr_assert(error.retryable, "%s: %s", error.name, error.text);
        seat->device = NULL;
        return false;
    }
    if (fusiond_device_synchronize(seat->device, NULL, &error) == 0)
        return true;
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET, "%s", error.text);
    fusiond_device_close(seat->device);
    seat->device = NULL;
    return false;
}

void seat_reopen(struct seat *seat)
{
    fusiond_device_close(seat->device);
    seat->device = NULL;
    cr_assert(becomes_true(reopens, seat, 20000), "the device is not there again");
}

void seat_close(struct seat *seat)
{
    fusiond_device_close(seat->device);
    fusiond_close(seat->connection);
}

pid_t seat_executor(const struct seat *seat)
{
    return (pid_t)fusiond_device_executor(seat->device);
}

/* ---- kernels ---- */

enum shape {
    X_OUT_N,
    X_N,
    OUT_W,
    OUT_N,
    X,
};

static const struct {
    const char *name;
    enum shape shape;
    const char *code;
} kernels[] = {
    {"add", X_OUT_N,
     "__global__ void add(Tensor<float, 1, 1> x, Tensor<float, 1, 1> out, long long n) {\n"
     "  nvfuser_index_t i = (nvfuser_index_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
     "  if (i < x.logical_size[0]) out[i] = x[i] + (float)n;\n}\n"},
    {"bump", X_N,
     "__global__ void bump(Tensor<float, 1, 1> x, Tensor<float, 1, 1> out, long long n) {\n"
     "  nvfuser_index_t i = (nvfuser_index_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
     "  if (i < x.logical_size[0]) out[i] = x[i] + (float)n;\n}\n"},
    {"count", OUT_W,
     "__global__ void count(Tensor<float, 1, 1> out, Tensor<float, 1, 1> w) {\n"
     "  nvfuser_index_t i = (nvfuser_index_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
     "  if (i < out.logical_size[0]) { out[i] = w[i]; w[i] += 1; }\n}\n"},
    {"wait", OUT_N,
     "__global__ void wait(Tensor<float, 1, 1> out, long long n) {\n"
     "  long long start = clock64();\n"
     "  while (clock64() - start < n * 1000000) ;\n"
     "  out[0] = 1;\n}\n"},
    {"poke", X_N,
     "__global__ void poke(Tensor<float, 1, 1> x, Tensor<float, 1, 1> out, long long n) {\n"
     "  if (n) *(volatile float *)n = 1;\n"
     "  if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = x[0] + 1;\n}\n"},
    {"trap", X,
     "__global__ void trap(Tensor<float, 1, 1> x) {\n"
     "  x[0] = 1;\n  __trap();\n}\n"},
};

static void add_params(struct fusiond_fusion *fusion, enum shape shape)
{
    struct fusiond_error error;
    const char *sizes[] = {shape == OUT_N ? "1" : shape == OUT_W ? "64" : "x.size[0]"};
    bool x = shape == X_OUT_N || shape == X_N || shape == X, out = shape != X;
    if (x)
        OK(fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 1, 1, &error));
    if (out)
        OK(fusiond_fusion_add_param(fusion, "out", FUSIOND_OUTPUT, FUSIOND_FLOAT32, 1, 1, &error));
    if (shape == OUT_W)
        OK(fusiond_fusion_add_param(fusion, "w", FUSIOND_INTERMEDIATE, FUSIOND_FLOAT32, 1, 1, &error));
    else if (shape != X)
        OK(fusiond_fusion_add_param(fusion, "n", FUSIOND_SCALAR, FUSIOND_INT64, 0, 0, &error));
    if (shape == X_N)
        OK(fusiond_fusion_add_alias(fusion, "out", "x", &error));
    else if (out)
        OK(fusiond_fusion_add_output(fusion, "out", sizes, 1, &error));
    else
        OK(fusiond_fusion_set_option(fusion, "side_effects_only", "true", &error));
    if (shape == OUT_W)
        OK(fusiond_fusion_add_intermediate(fusion, "w", sizes, 1, true, &error));
}

static struct fusiond_fusion *make_fusion(struct seat *seat, size_t which)
{
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    enum shape shape = kernels[which].shape;
    bool single = shape == OUT_N || shape == X;
    const char *grid[3] = {single           ? "1"
                           : shape == OUT_W ? "1"
                                            : "ceilDiv(x.size[0], 64)"},
               *block[3] = {single ? "1" : "64"};
    OK(fusiond_fusion_set_code(fusion, kernels[which].code, strlen(kernels[which].code), false, &error));
    OK(fusiond_fusion_add_entry(fusion, kernels[which].name, &error));
    OK(fusiond_fusion_set_target(fusion, fusiond_device_target(seat->device), &error));
    OK(fusiond_fusion_set_option(fusion, "label", kernels[which].name, &error));
    OK(fusiond_fusion_set_option(fusion, "index_type", "int32", &error));
    add_params(fusion, shape);
    OK(fusiond_fusion_set_launch(fusion, grid, block, NULL, &error));
    return fusion;
}

struct fusiond_defined *define(struct seat *seat, const char *name)
{
    struct fusiond_error error;
    struct fusiond_kernel *kernel;
    struct fusiond_defined *defined;
    size_t which = 0;
    while (strcmp(kernels[which].name, name) != 0)
        cr_assert_lt(++which, sizeof kernels / sizeof kernels[0], "no kernel %s", name);
    struct fusiond_fusion *fusion = make_fusion(seat, which);
    OK(fusiond_compile(seat->connection, fusion, NULL, &kernel, &error));
    OK(fusiond_define(seat->device, fusiond_kernel_key(kernel), NULL, fusion, &defined, &error));
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);
    return defined;
}

/* ---- buffers and launches ---- */

struct fusiond_buffer *floats(struct seat *seat, size_t n)
{
    struct fusiond_error error;
    struct fusiond_buffer *buffer;
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)i;
    OK(fusiond_buffer_allocate(seat->device, n * sizeof *values, false, &buffer, &error));
    OK(fusiond_buffer_write(buffer, 0, values, n * sizeof *values, NULL, &error));
    free(values);
    return buffer;
}

float read_float(struct seat *seat, struct fusiond_buffer *buffer, size_t index)
{
    struct fusiond_error error;
    float value;
    (void)seat;
    OK(fusiond_buffer_read(buffer, index * sizeof value, &value, sizeof value, NULL, &error));
    return value;
}

int launch_add(struct fusiond_defined *defined, struct fusiond_buffer *x, struct fusiond_buffer *out, int64_t size,
               int64_t n, const struct fusiond_launch_options *options, struct fusiond_error *error)
{
    struct fusiond_device_argument arguments[] = {
        {.buffer = x, .sizes = &size}, {.buffer = out}, {.scalar = &n, .scalar_size = sizeof n}};
    return fusiond_device_launch(defined, arguments, 3, options, NULL, error);
}

int launch_wait(struct fusiond_defined *defined, struct fusiond_buffer *out, int64_t ms,
                const struct fusiond_launch_options *options, struct fusiond_error *error)
{
    struct fusiond_device_argument arguments[] = {{.buffer = out}, {.scalar = &ms, .scalar_size = sizeof ms}};
    return fusiond_device_launch(defined, arguments, 2, options, NULL, error);
}

int launch_count(struct fusiond_defined *defined, struct fusiond_buffer *out,
                 const struct fusiond_launch_options *options, struct fusiond_error *error)
{
    struct fusiond_device_argument arguments[] = {{.buffer = out}, {0}};
    return fusiond_device_launch(defined, arguments, 2, options, NULL, error);
}

int launch_trap(struct fusiond_defined *defined, struct fusiond_buffer *x, const struct fusiond_launch_options *options,
                struct fusiond_error *error)
{
    static const int64_t one = 1;
    struct fusiond_device_argument arguments[] = {{.buffer = x, .sizes = &one}};
    return fusiond_device_launch(defined, arguments, 1, options, NULL, error);
}

size_t shared_mappings(pid_t pid)
{
    char path[64], line[512];
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        /* Images are mapped for as long as the process lives, privately. */
        if (strstr(line, "/memfd:") && strstr(line, "rw-s"))
            n++;
    }
    fclose(file);
    return n;
}
