/* P9: a launch in the executor, until it is done, against a launch in this process and a bare round trip. */
#include <stdlib.h>
#include <string.h>

#include "daemon/launch/driver.h"
#include "tests/bench/bench.h"

#define PER_ROUND 500
#define ELEMENTS 1024
/* Frames of one launch with two tensors: what the client sends, and what the executor answers. */
#define REQUEST 150
#define REPLY 150

static struct fusiond_fusion *make_scale(const char *target)
{
    static const char code[] = "__global__ void scale(Tensor<float, 1, 1> x, Tensor<float, 1, 1> out) {\n"
                               "  nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                               "  if (i < x.logical_size[0]) out[i] = x[i] * 2.0f;\n}\n";
    static const char *const sizes[] = {"x.size[0]"}, *const grid[] = {"ceilDiv(x.size[0], 256)", NULL, NULL},
                             *const block[] = {"256", NULL, NULL};
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    if (!fusion || fusiond_fusion_set_code(fusion, code, sizeof code - 1, false, &error) < 0 ||
        fusiond_fusion_add_entry(fusion, "scale", &error) < 0 ||
        fusiond_fusion_set_target(fusion, target, &error) < 0 ||
        fusiond_fusion_set_option(fusion, "index_type", "int32", &error) < 0 ||
        fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 1, 1, &error) < 0 ||
        fusiond_fusion_add_param(fusion, "out", FUSIOND_OUTPUT, FUSIOND_FLOAT32, 1, 1, &error) < 0 ||
        fusiond_fusion_add_output(fusion, "out", sizes, 1, &error) < 0 ||
        fusiond_fusion_set_launch(fusion, grid, block, NULL, &error) < 0)
        die("building a fusion: %s", error.text);
    return fusion;
}

/* ---- in the executor ---- */

struct remote {
    struct fusiond_device *device;
    struct fusiond_defined *defined;
    struct fusiond_buffer *x, *out;
};

static void remote_open(struct fusiond_connection *connection, struct fusiond_fusion *fusion, const char *key,
                        struct fusiond_device *device, struct remote *ret)
{
    struct fusiond_error error;
    (void)connection;
    ret->device = device;
    if (fusiond_buffer_allocate(device, 4 * ELEMENTS, false, &ret->x, &error) < 0 ||
        fusiond_buffer_allocate(device, 4 * ELEMENTS, false, &ret->out, &error) < 0 ||
        fusiond_define(device, key, NULL, fusion, &ret->defined, &error) < 0)
        die("defining: %s", error.text);
}

static void remote_launch(struct remote *remote)
{
    static const int64_t size = ELEMENTS;
    const struct fusiond_device_argument arguments[] = {{.buffer = remote->x, .sizes = &size}, {.buffer = remote->out}};
    const struct fusiond_launch_options options = {.wait = true};
    struct fusiond_error error;
    if (fusiond_device_launch(remote->defined, arguments, 2, &options, NULL, &error) < 0)
        die("launching: %s", error.text);
}

/* ---- in this process ---- */

struct local {
    const struct driver *driver;
    void *function;
    uint64_t x, out;
};

static void local_open(const struct fusiond_kernel *kernel, struct local *ret)
{
    struct error error;
    const struct driver *driver = driver_get(&error);
    void *context, *module;
    int device;
    size_t size;
    if (!driver)
        die("%s", error.text);
    if (driver->device_get(&device, 0) != 0 || driver->primary_context_retain(&context, device) != 0 ||
        driver->context_push(context) != 0 ||
        driver->module_load(&module, fusiond_kernel_image(kernel, &size), 0, NULL, NULL) != 0 ||
        driver->module_get_function(&ret->function, module, fusiond_kernel_entry(kernel, 0).lowered) != 0 ||
        driver->memory_allocate(&ret->x, 4 * ELEMENTS) != 0 || driver->memory_allocate(&ret->out, 4 * ELEMENTS) != 0)
        die("the CUDA driver does not prepare a launch in this process");
    ret->driver = driver;
}

static void local_launch(struct local *local)
{
    /* As Tensor<float, 1, 1> lies with 32-bit indices. */
    struct {
        uint64_t data;
        int32_t size, stride;
    } x = {local->x, ELEMENTS, 1}, out = {local->out, ELEMENTS, 1};
    void *arguments[] = {&x, &out};
    if (local->driver->launch_kernel(local->function, ELEMENTS / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL) != 0 ||
        local->driver->stream_synchronize(NULL) != 0)
        die("the CUDA driver does not launch in this process");
}

/* ---- the row ---- */

static double since(uint64_t start)
{
    return (double)(now_ns() - start) / 1e3;
}

static double *samples(size_t n)
{
    double *list = malloc(n * sizeof *list);
    if (!list)
        die("no memory for %zu samples", n);
    return list;
}

static void measure(const struct bench *bench, struct remote *remote, struct local *local, struct pingpong *pingpong)
{
    size_t n = (size_t)bench->rounds * PER_ROUND, at = 0;
    double *trip = samples(n), *here = samples(n), *there = samples(n);
    for (int i = 0; i < 100; i++) {
        remote_launch(remote);
        if (local)
            local_launch(local);
    }
    for (unsigned round = 0; round < bench->rounds; round++) {
        for (size_t i = 0; i < PER_ROUND; i++, at++) {
            uint64_t start = now_ns();
            pingpong_once(pingpong);
            trip[at] = since(start);
        }
        at -= PER_ROUND;
        for (size_t i = 0; i < PER_ROUND; i++, at++) {
            uint64_t start = now_ns();
            remote_launch(remote);
            there[at] = since(start);
        }
        at -= PER_ROUND;
        for (size_t i = 0; i < PER_ROUND; i++, at++) {
            uint64_t start = now_ns();
            if (local)
                local_launch(local);
            here[at] = since(start);
        }
    }
    double sum = percentile(trip, n, 0.5) + (local ? percentile(here, n, 0.5) : 0);
    print_row(stdout, "P9_ping_pong_p50", percentile(trip, n, 0.5), "us", 0, "-");
    if (local)
        print_row(stdout, "P9_in_process_p50", percentile(here, n, 0.5), "us", 0, "-");
    print_row(stdout, "P9_executor_p50", percentile(there, n, 0.5), "us", sum,
              local ? "ping_pong+in_process" : "ping_pong");
    print_row(stdout, "P9_executor_p99", percentile(there, n, 0.99), "us", sum,
              local ? "ping_pong+in_process" : "ping_pong");
    free(trip);
    free(here);
    free(there);
}

void bench_launch(const struct bench *bench)
{
    struct fusiond_connection *connection;
    struct fusiond_device *device;
    struct fusiond_error error;
    struct pingpong pingpong;
    struct remote remote;
    struct local local;
    /* Before the driver is opened: the other end is a forked child. */
    pingpong_start(&pingpong, REQUEST, REPLY, bench->spin_us);
    if (fusiond_connect(bench->socket, NULL, &connection, &error) < 0 ||
        fusiond_device_open(connection, NULL, NULL, &device, &error) < 0)
        die("opening a device: %s", error.text);
    bool cuda = strcmp(fusiond_device_info(device).kind, "cuda") == 0;
    struct fusiond_fusion *fusion = make_scale(fusiond_device_target(device));
    struct fusiond_kernel *kernel = get_kernel(connection, fusion, FUSIOND_IMAGE);
    remote_open(connection, fusion, fusiond_kernel_key(kernel), device, &remote);
    if (cuda)
        local_open(kernel, &local);
    else
        printf("# P9: no CUDA device; the host device's launches are no measure of the channel\n");
    measure(bench, &remote, cuda ? &local : NULL, &pingpong);
    fusiond_buffer_free(remote.x);
    fusiond_buffer_free(remote.out);
    fusiond_defined_destroy(remote.defined);
    fusiond_device_close(device);
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);
    fusiond_close(connection);
    pingpong_stop(&pingpong);
}
