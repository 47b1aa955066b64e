/*
 * Speeds of the host device's runtime: what a switch, a barrier, a shuffle, a block and an element cost. Times are of
 * the CPU, all threads together, so that other work on the machine disturbs them little: with N CPUs elements per
 * second are up to N times as many. Run it at the root of the source tree's build: tests/bench/host-device-bench
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/executor/host/fiber.h"
#include "tests/support/host_kernel.h"

#define ROUNDS 5
#define STACK (64u << 10)

static const char kernels[] =
    "__global__ void barriers(int n) { for (int i = 0; i < n; i++) __syncthreads(); }\n"
    "__global__ void shuffles(int n) { float x = threadIdx.x; for (int i = 0; i < n; i++)\n"
    "    x += __shfl_xor_sync(~0u, x, 1); if (x == -1) printf(\"never\"); }\n"
    "__global__ void empty(int) {}\n"
    "__global__ void axpy(const float *x, float *y, float a, int n) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }\n"
    "__global__ void relu4(const float4 *x, float4 *y, int n) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float4 v = x[i];\n"
    "    y[i] = make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0)); }\n";

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The best of some runs, in seconds. */
static double measure(const struct host_kernel_run *run)
{
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double started = cpu_seconds();
        const char *why = host_kernel_run(run);
        double took = cpu_seconds() - started;
        if (why) {
            fprintf(stderr, "%s: %s\n", run->entry, why);
            exit(1);
        }
        best = took < best ? took : best;
    }
    return best;
}

static struct host_image *build(const char *code, int index_bits, const char *const *entries)
{
    char log[HOST_KERNEL_LOG];
    struct host_image *image = host_kernel_build(
        &(struct host_kernel_source){.code = code, .index_bits = index_bits, .entries = entries}, log);
    if (!image) {
        fputs(log, stderr);
        exit(1);
    }
    return image;
}

/* ---- fibers ---- */

static struct fiber own, other;

static void back_and_forth(void *data)
{
    (void)data;
    for (;;)
        fiber_switch(&other, &own);
}

static void measure_fibers(void)
{
    enum { SWITCHES = 1000000 };
    void *stack = malloc(STACK);
    double best = 1e9;
    if (!stack)
        exit(1);
    fiber_init_thread(&own);
    fiber_init(&other, stack, STACK, back_and_forth, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        double started = cpu_seconds();
        for (int k = 0; k < SWITCHES; k++)
            fiber_switch(&own, &other);
        double took = cpu_seconds() - started;
        best = took < best ? took : best;
    }
    fiber_finish(&other);
    free(stack);
    printf("fiber switch                     %8.1f ns\n", best * 1e9 / 2 / SWITCHES);
}

/* ---- kernels ---- */

static void measure_waits(struct host_image *image)
{
    int n = 500;
    for (unsigned threads = 32; threads <= 1024; threads *= threads == 32 ? 8 : 4) {
        struct host_kernel_run run = {image, "barriers", {1}, {threads}, 0, false, (const void *[]){&n}};
        double barrier = measure(&run) * 1e9 / n / threads;
        run.entry = "shuffles";
        printf("barrier, %4u threads            %8.1f ns per thread\n", threads, barrier);
        printf("shuffle, %4u threads            %8.1f ns per thread\n", threads, measure(&run) * 1e9 / n / threads);
    }
}

static void measure_elements(struct host_image *image)
{
    int n = 1 << 22, quarter = n / 4, zero = 0;
    float *x = calloc((size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y), a = 2;
    if (!x || !y)
        exit(1);
    struct host_kernel_run run = {image, "empty", {20000}, {32}, 0, false, (const void *[]){&zero}};
    printf("empty block of 32 threads        %8.1f ns\n", measure(&run) * 1e9 / 20000);
    run =
        (struct host_kernel_run){image, "axpy", {(unsigned)n / 256}, {256}, 0, false, (const void *[]){&x, &y, &a, &n}};
    printf("y += a x, float                  %8.1f million elements/s\n", n / measure(&run) / 1e6);
    run = (struct host_kernel_run){
        image, "relu4", {(unsigned)n / 1024}, {256}, 0, false, (const void *[]){&x, &y, &quarter}};
    printf("relu, float4                     %8.1f million elements/s\n", n / measure(&run) / 1e6);

    static const char *const entries[] = {"row_softmax", NULL};
    struct {
        float *data;
        int numbers[4];
    } in = {x, {512, 1024, 1024, 1}}, out = {y, {512, 1024, 1024, 1}};
    char *code = host_kernel_read("tests/fusions/row_softmax/row_softmax.cu");
    struct host_image *softmax = build(code, 32, entries);
    free(code);
    run =
        (struct host_kernel_run){softmax, "row_softmax", {512}, {256}, 1024 + 4096, false, (const void *[]){&in, &out}};
    printf("row softmax of 1024, 256 threads %8.1f million elements/s\n", 512 * 1024 / measure(&run) / 1e6);
    free(x);
    free(y);
}

int main(void)
{
    static const char *const entries[] = {"barriers", "shuffles", "empty", "axpy", "relu4", NULL};
    struct host_image *image = build(kernels, 0, entries);
    measure_fibers();
    measure_waits(image);
    measure_elements(image);
    return 0;
}
