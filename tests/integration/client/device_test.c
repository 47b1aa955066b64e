/* libfusiond on the host device of a real daemon: compiled for it, launched there, memory shared with it. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/fusiond.h"
#include "tests/integration/client/program.h"
#include "tests/support/daemon_process.h"

static struct daemon_process the_daemon;
static const struct daemon_options as_usual;
static struct fusiond_connection *connection;
static struct fusiond_device *device;

static void setup(void)
{
    struct fusiond_error error;
    daemon_start(&the_daemon, &as_usual);
    cr_assert_eq(fusiond_connect(the_daemon.socket, NULL, &connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_device_open(connection, "host", NULL, &device, &error), 0, "%s", error.text);
}

static void teardown(void)
{
    fusiond_device_close(device);
    fusiond_close(connection);
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
}

TestSuite(host_device, .init = setup, .fini = teardown, .timeout = 120);

#define OK(call) cr_assert_eq(call, 0, "%s: %s", error.name, error.text)

/* ---- a fusion: out[i] = x[i] * by + add ---- */

static const char scale_code[] =
    "__global__ void scale(Tensor<float, 1, 1> x, Tensor<float, 1, 1> out, float by, int64_t add)\n"
    "{\n"
    "    nvfuser_index_t i = (nvfuser_index_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < x.logical_size[0])\n"
    "        out[i] = x[i] * by + (float)add;\n"
    "}\n";

static struct fusiond_fusion *make_scale(void)
{
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    const char *sizes[] = {"x.size[0]"}, *grid[3] = {"ceilDiv(x.size[0], 64)"}, *block[3] = {"64"};
    OK(fusiond_fusion_set_code(fusion, scale_code, sizeof scale_code - 1, false, &error));
    OK(fusiond_fusion_add_entry(fusion, "scale", &error));
    OK(fusiond_fusion_set_target(fusion, fusiond_device_target(device), &error));
    OK(fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 1, 1, &error));
    OK(fusiond_fusion_add_param(fusion, "out", FUSIOND_OUTPUT, FUSIOND_FLOAT32, 1, 1, &error));
    OK(fusiond_fusion_add_param(fusion, "by", FUSIOND_SCALAR, FUSIOND_FLOAT32, 0, 0, &error));
    OK(fusiond_fusion_add_param(fusion, "add", FUSIOND_SCALAR, FUSIOND_INT64, 0, 0, &error));
    OK(fusiond_fusion_add_output(fusion, "out", sizes, 1, &error));
    OK(fusiond_fusion_set_launch(fusion, grid, block, NULL, &error));
    return fusion;
}

static struct fusiond_defined *define(struct fusiond_device *where, struct fusiond_fusion *fusion)
{
    struct fusiond_error error;
    struct fusiond_kernel *kernel;
    struct fusiond_defined *defined;
    struct fusiond_compile_options options = {0};
    OK(fusiond_compile(connection, fusion, &options, &kernel, &error));
    OK(fusiond_define(where, fusiond_kernel_key(kernel), NULL, fusion, &defined, &error));
    fusiond_kernel_destroy(kernel);
    return defined;
}

/* A mapped buffer of n floats, the i-th i. */
static struct fusiond_buffer *make_floats(size_t n, float **ret)
{
    struct fusiond_error error;
    struct fusiond_buffer *buffer;
    void *map;
    OK(fusiond_buffer_allocate(device, n * sizeof(float), true, &buffer, &error));
    OK(fusiond_buffer_map(buffer, &map, &error));
    *ret = map;
    for (size_t i = 0; i < n; i++)
        (*ret)[i] = (float)i;
    return buffer;
}

#define N 1000

/* x, out, by and add of a call. */
static void fill_arguments(struct fusiond_device_argument arguments[4], struct fusiond_buffer *x,
                           struct fusiond_buffer *out, const float *by, const int64_t *add)
{
    static const int64_t sizes[] = {N};
    arguments[0] = (struct fusiond_device_argument){.buffer = x, .sizes = sizes};
    arguments[1] = (struct fusiond_device_argument){.buffer = out};
    arguments[2] = (struct fusiond_device_argument){.scalar = by, .scalar_size = sizeof *by};
    arguments[3] = (struct fusiond_device_argument){.scalar = add, .scalar_size = sizeof *add};
}

/* ---- the whole way ---- */

Test(host_device, compiles_launches_and_reads_back)
{
    struct fusiond_error error;
    struct fusiond_device_argument arguments[4];
    struct fusiond_launched *launched;
    struct fusiond_launch_options options = {.wait = true, .fill = FUSIOND_FILL_NAN};
    const float by = 3;
    const int64_t add = -7;
    float *x, out[N];
    struct fusiond_fusion *fusion = make_scale();
    struct fusiond_defined *defined = define(device, fusion);
    struct fusiond_buffer *buffer = make_floats(N, &x);
    fill_arguments(arguments, buffer, NULL, &by, &add);
    for (int cached = 0; cached < 2; cached++) {
        OK(fusiond_device_launch(defined, arguments, 4, &options, &launched, &error));
        cr_assert_eq(fusiond_launched_outputs(launched), 1);
        struct fusiond_output output = fusiond_launched_output(launched, 0);
        cr_assert(output.allocated && output.rank == 1 && output.sizes[0] == N && output.bytes == sizeof out);
        cr_assert_eq(fusiond_launched_cached(launched), cached);
        cr_assert_eq(fusiond_launched_params(launched).grid[0], (N + 63) / 64);
        OK(fusiond_buffer_read(output.buffer, output.offset, out, sizeof out, NULL, &error));
        for (int i = 0; i < N; i++)
            cr_assert_eq(out[i], (float)i * 3 - 7, "out[%d] is %g", i, (double)out[i]);
        fusiond_launched_destroy(launched);
    }
    fusiond_buffer_free(buffer);
    fusiond_defined_destroy(defined);
    fusiond_fusion_destroy(fusion);
}

Test(host_device, B6_12_a_pipeline_of_launches_keeps_its_order)
{
    struct fusiond_error error;
    struct fusiond_device_argument arguments[4];
    const float by = 1;
    const int64_t add = 1;
    float *x;
    struct fusiond_fusion *fusion = make_scale();
    struct fusiond_defined *defined = define(device, fusion);
    struct fusiond_buffer *buffer = make_floats(N, &x);
    fill_arguments(arguments, buffer, buffer, &by, &add);
    for (int i = 0; i < 3000; i++)
        OK(fusiond_device_submit(defined, arguments, 4, NULL, NULL, &error));
    OK(fusiond_device_synchronize(device, NULL, &error));
    for (int i = 0; i < N; i++)
        cr_assert_eq(x[i], (float)(i + 3000), "x[%d] is %g", i, (double)x[i]);
    fusiond_buffer_free(buffer);
    fusiond_defined_destroy(defined);
    fusiond_fusion_destroy(fusion);
}

Test(host_device, tickets_bring_the_outputs_of_each_launch)
{
    struct fusiond_error error;
    struct fusiond_device_argument arguments[4];
    struct fusiond_launched *launched;
    const float by = 1;
    uint64_t tickets[50];
    float *x, last;
    struct fusiond_fusion *fusion = make_scale();
    struct fusiond_defined *defined = define(device, fusion);
    struct fusiond_buffer *buffer = make_floats(N, &x);
    for (int64_t i = 0; i < 50; i++) {
        fill_arguments(arguments, buffer, NULL, &by, &i);
        OK(fusiond_device_submit(defined, arguments, 4, NULL, &tickets[i], &error));
    }
    for (int i = 49; i >= 0; i--) {
        OK(fusiond_device_collect(device, tickets[i], &launched, &error));
        OK(fusiond_buffer_read(fusiond_launched_output(launched, 0).buffer, (N - 1) * sizeof last, &last, sizeof last,
                               NULL, &error));
        cr_assert_eq(last, (float)(N - 1 + i));
        fusiond_launched_destroy(launched);
    }
    fusiond_buffer_free(buffer);
    fusiond_defined_destroy(defined);
    fusiond_fusion_destroy(fusion);
}

Test(host_device, B6_9_a_run_is_timed)
{
    struct fusiond_error error;
    struct fusiond_device_argument arguments[4];
    struct fusiond_launched *launched;
    const uint64_t *times;
    const float by = 1;
    const int64_t add = 0;
    float *x;
    struct fusiond_fusion *fusion = make_scale();
    struct fusiond_defined *defined = define(device, fusion);
    struct fusiond_buffer *buffer = make_floats(N, &x);
    fill_arguments(arguments, buffer, NULL, &by, &add);
    OK(fusiond_device_run(defined, arguments, 4, NULL, 2, 5, &launched, &error));
    cr_assert_eq(fusiond_launched_times(launched, &times), 5);
    for (int i = 0; i < 5; i++)
        cr_assert_gt(times[i], 0);
    cr_assert_eq(fusiond_launched_bytes(launched), 2 * N * sizeof(float));
    fusiond_launched_destroy(launched);
    fusiond_buffer_free(buffer);
    fusiond_defined_destroy(defined);
    fusiond_fusion_destroy(fusion);
}

Test(host_device, the_readmes_example_runs)
{
    static struct program_output output;
    const char *const none[] = {NULL};
    char socket[128];
    snprintf(socket, sizeof socket, "FUSIOND_SOCKET=%s", the_daemon.socket);
    for (int i = 0; i < 2; i++) {
        program_run(FIRST_EXAMPLE_PATH, socket, none, &output);
        cr_assert_eq(output.status, 0, "%s%s", output.out, output.err);
        cr_assert(strstr(output.out, i ? "hit_memory, on " : "compiled, on "), "%s", output.out);
        cr_assert(strstr(output.out, ": 3 * 999 = 2997\n"), "%s", output.out);
    }
}

/* ---- memory ---- */

Test(host_device, memory_of_the_client_is_used_in_place)
{
    struct fusiond_error error;
    struct fusiond_device_argument arguments[4];
    struct fusiond_buffer *x, *out;
    struct fusiond_launch_options options = {.wait = true};
    const float by = 2;
    const int64_t add = 0;
    size_t size = 2 * N * sizeof(float);
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    float *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq((void *)map, MAP_FAILED);
    for (int i = 0; i < N; i++)
        map[i] = (float)i;
    struct fusiond_memory memory = {.kind = FUSIOND_MEMFD, .fd = fd, .size = N * sizeof(float)};
    OK(fusiond_buffer_import(device, &memory, &x, &error));
    memory.offset = N * sizeof(float);
    OK(fusiond_buffer_import(device, &memory, &out, &error));
    close(fd);
    struct fusiond_fusion *fusion = make_scale();
    struct fusiond_defined *defined = define(device, fusion);
    fill_arguments(arguments, x, out, &by, &add);
    OK(fusiond_device_launch(defined, arguments, 4, &options, NULL, &error));
    for (int i = 0; i < N; i++)
        cr_assert_eq(map[N + i], 2 * (float)i);
    munmap(map, size);
    fusiond_buffer_free(x);
    fusiond_buffer_free(out);
    fusiond_defined_destroy(defined);
    fusiond_fusion_destroy(fusion);
}

Test(host_device, memory_that_could_shrink_is_refused)
{
    struct fusiond_error error;
    struct fusiond_buffer *buffer;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    struct fusiond_memory memory = {.kind = FUSIOND_MEMFD, .fd = fd, .size = 4096};
    cr_assert_eq(fusiond_buffer_import(device, &memory, &buffer, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER, "%s", error.text);
    memory.size = 8192;
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    cr_assert_eq(fusiond_buffer_import(device, &memory, &buffer, &error), -1, "larger than the file");
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER, "%s", error.text);
    close(fd);
}

Test(host_device, large_buffers_are_written_and_read)
{
    struct fusiond_error error;
    struct fusiond_buffer *buffer;
    size_t size = (40u << 20) + 5;
    unsigned char *in = malloc(size), *out = malloc(size);
    for (size_t i = 0; i < size; i++)
        in[i] = (unsigned char)(i * 2654435761u >> 13);
    OK(fusiond_buffer_allocate(device, size, false, &buffer, &error));
    OK(fusiond_buffer_write(buffer, 0, in, size, NULL, &error));
    OK(fusiond_buffer_read(buffer, 0, out, size, NULL, &error));
    cr_assert_eq(memcmp(in, out, size), 0);
    OK(fusiond_buffer_read(buffer, size - 3, out, 3, NULL, &error));
    cr_assert_eq(memcmp(in + size - 3, out, 3), 0);
    cr_assert_eq(fusiond_buffer_export(buffer, &(struct fusiond_memory){0}, &error), -1, "it was not made for that");
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER, "%s", error.text);
    fusiond_buffer_free(buffer);
    free(in);
    free(out);
}

/* ---- mistakes ---- */

Test(host_device, B6_4_mistakes_are_named)
{
    struct fusiond_error error;
    struct fusiond_device_argument arguments[4];
    const int64_t too_many[] = {N + 1}, add = 0;
    const float by = 1;
    float *x;
    struct fusiond_launch given = {{1, 1, 1}, {4096, 1, 1}, 0};
    struct fusiond_launch_options options = {.launch = &given};
    struct fusiond_fusion *fusion = make_scale();
    struct fusiond_defined *defined = define(device, fusion);
    struct fusiond_buffer *buffer = make_floats(N, &x);
    fill_arguments(arguments, buffer, NULL, &by, &add);
    arguments[0].sizes = too_many;
    cr_assert_eq(fusiond_device_launch(defined, arguments, 4, NULL, NULL, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER, "%s", error.text);
    cr_assert(strstr(error.text, "parameter x") && strstr(error.text, "4004"), "%s", error.text);
    fill_arguments(arguments, buffer, NULL, &by, &add);
    cr_assert_eq(fusiond_device_launch(defined, arguments, 4, &options, NULL, &error), -1, "it disagrees");
    cr_assert_eq(error.code, FUSIOND_INVALID_LAUNCH, "%s", error.text);
    options.force = true;
    cr_assert_eq(fusiond_device_launch(defined, arguments, 4, &options, NULL, &error), -1, "too large");
    cr_assert(strstr(error.text, "4096"), "%s", error.text);
    given.block[0] = 256;
    given.grid[0] = 4;
    OK(fusiond_device_launch(defined, arguments, 4, &options, NULL, &error));
    /* Nobody waits for this one. */
    fill_arguments(arguments, buffer, buffer, &by, &add);
    arguments[0].sizes = too_many;
    OK(fusiond_device_submit(defined, arguments, 4, NULL, NULL, &error));
    cr_assert_eq(fusiond_device_synchronize(device, NULL, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER, "%s", error.text);
    OK(fusiond_device_synchronize(device, NULL, &error));
    fusiond_buffer_free(buffer);
    fusiond_defined_destroy(defined);
    fusiond_fusion_destroy(fusion);
}

Test(host_device, a_kernel_that_is_not_there)
{
    struct fusiond_error error;
    struct fusiond_defined *defined;
    struct fusiond_fusion *fusion = make_scale();
    cr_assert_eq(fusiond_define(device, "00000000000000000000000000000000000000000000000000000000000000ff", NULL,
                                fusion, &defined, &error),
                 -1);
    cr_assert_eq(error.code, FUSIOND_NOT_FOUND, "%s", error.text);
    fusiond_fusion_destroy(fusion);
}

Test(host_device, a_device_that_is_not_there)
{
    struct fusiond_error error;
    struct fusiond_device *none;
    cr_assert_eq(fusiond_device_open(connection, "GPU-00000000-0000-0000-0000-000000000000", NULL, &none, &error), -1);
    cr_assert_eq(error.code, FUSIOND_NO_DEVICE, "%s", error.text);
    cr_assert_eq(fusiond_device_open(connection, "toaster", NULL, &none, &error), -1);
    cr_assert_eq(error.code, FUSIOND_NO_DEVICE, "%s", error.text);
}

/* ---- executors ---- */

Test(host_device, executors_are_shared_unless_a_session_wants_its_own)
{
    struct fusiond_error error;
    struct fusiond_device *same, *own;
    struct fusiond_device_options options = {.isolation_session = true};
    OK(fusiond_device_open(connection, "host", NULL, &same, &error));
    OK(fusiond_device_open(connection, "host", &options, &own, &error));
    cr_assert_neq(fusiond_device_executor(device), 0);
    cr_assert_eq(fusiond_device_executor(same), fusiond_device_executor(device));
    cr_assert_neq(fusiond_device_executor(own), fusiond_device_executor(device));
    OK(fusiond_device_synchronize(own, NULL, &error));
    fusiond_device_close(own);
    fusiond_device_close(same);
}

/* The daemon may hand out the dead executor once more, before it has seen its end. */
static bool reopens(void *context)
{
    struct fusiond_error error;
    (void)context;
    OK(fusiond_device_open(connection, "host", NULL, &device, &error));
    if (fusiond_device_synchronize(device, NULL, &error) == 0)
        return true;
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET, "%s", error.text);
    fusiond_device_close(device);
    device = NULL;
    return false;
}

Test(host_device, F21_a_killed_executor_is_replaced)
{
    struct fusiond_error error;
    struct fusiond_device_argument arguments[4];
    struct fusiond_launch_options options = {.wait = true};
    const float by = 1;
    const int64_t add = 5;
    float *x;
    struct fusiond_fusion *fusion = make_scale();
    struct fusiond_defined *defined = define(device, fusion);
    struct fusiond_buffer *buffer = make_floats(N, &x);
    cr_assert_eq(kill((pid_t)fusiond_device_executor(device), SIGKILL), 0);
    fill_arguments(arguments, buffer, NULL, &by, &add);
    cr_assert_eq(fusiond_device_launch(defined, arguments, 4, &options, NULL, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET, "%s", error.text);
    cr_assert(error.retryable);
    x[0] = 1; /* the mapping is still good */
    fusiond_buffer_free(buffer);
    fusiond_defined_destroy(defined);
    fusiond_device_close(device);

    device = NULL;
    cr_assert(becomes_true(reopens, NULL, 10000));
    defined = define(device, fusion);
    buffer = make_floats(N, &x);
    fill_arguments(arguments, buffer, buffer, &by, &add);
    OK(fusiond_device_launch(defined, arguments, 4, &options, NULL, &error));
    cr_assert_eq(x[0], 5);
    fusiond_buffer_free(buffer);
    fusiond_defined_destroy(defined);
    fusiond_fusion_destroy(fusion);
}

static int launch_in_child(void)
{
    struct fusiond_error error;
    struct fusiond_buffer *buffer;
    struct fusiond_device *own;
    if (fusiond_buffer_allocate(device, 64, false, &buffer, &error) == 0 || error.code != FUSIOND_EXECUTOR_RESET)
        return 1;
    if (fusiond_device_open(connection, "host", NULL, &own, &error) < 0)
        return 2;
    if (fusiond_buffer_allocate(own, 64, false, &buffer, &error) < 0)
        return 3;
    fusiond_buffer_free(buffer);
    fusiond_device_close(own);
    fusiond_device_close(device);
    return 0;
}

Test(host_device, a_forked_child_opens_its_own)
{
    struct fusiond_error error;
    int status;
    pid_t child = fork_apart(NULL);
    if (child == 0)
        _exit(launch_in_child());
    cr_assert(process_ends(child, 60000, &status));
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
    OK(fusiond_device_synchronize(device, NULL, &error));
}
