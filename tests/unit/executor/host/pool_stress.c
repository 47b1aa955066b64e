/*
 * Many launches at once in pools of many sizes, launches from callbacks, failing ones beside good ones, cooperative
 * grids, pools that end while they run. A plain program that reports in TAP, so that it runs under ThreadSanitizer too
 * (Criterion does not): meson setup build-tsan -Db_sanitize=thread && build-tsan/…/executor_host_pool_stress
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/require.h"
#include "tests/support/host_kernel.h"

#define LAUNCHES 24
#define ROUNDS 12

static struct host_image *image;

/* The dynamic linker frees a thread's storage of images by calls that ThreadSanitizer sees, after others that it does
 * not. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:_dl_deallocate_tls\n";
}

/* One launch and what must come of it. */
struct launch {
    struct host_pool *pool;
    unsigned blocks, threads;
    bool cooperative;
    int traps_at; /* block; -1: none */
    unsigned *count, *wrong;
    int chain; /* so many more from the callback */
    atomic_int ended;
    atomic_int *open;
};

static void start(struct launch *launch);

static void on_done(void *context, const char *why)
{
    struct launch *launch = context;
    bool fails = launch->traps_at >= 0;
    require(fails == (why != NULL));
    require(!fails || strstr(why, "__trap() was called"));
    for (unsigned i = 0; i < launch->blocks && !fails; i++)
        require(launch->count[i] == 1);
    require(*launch->wrong == 0);
    if (launch->chain > 0) {
        launch->chain--;
        start(launch);
        return;
    }
    require(atomic_fetch_add(&launch->ended, 1) == 0);
    atomic_fetch_sub(launch->open, 1);
}

static void start(struct launch *launch)
{
    const char *name = launch->traps_at >= 0 ? "traps" : launch->cooperative ? "grid_counts" : "blocks_once";
    struct error error;
    int block = launch->traps_at;
    const void *const numbers[] = {&launch->count, &launch->wrong}, *const trap[] = {&block};
    memset(launch->count, 0, launch->blocks * sizeof *launch->count);
    struct host_launch how = {
        .image = image,
        .entry = host_image_find(image, name, strlen(name)),
        .grid = {launch->blocks, 1, 1},
        .block = {launch->threads, 1, 1},
        .cooperative = launch->cooperative,
        .arguments = launch->traps_at >= 0 ? trap : numbers,
        .done = on_done,
        .context = launch,
    };
    require(host_grid_run(launch->pool, &how, &error) == 0);
}

static unsigned random_number(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void run_round(unsigned threads, unsigned seed)
{
    struct host_pool *pool;
    struct error error;
    static struct launch launches[LAUNCHES];
    atomic_int open = LAUNCHES;
    require(host_pool_create(&(struct host_pool_options){.threads = threads}, &pool, &error) == 0);
    for (unsigned i = 0; i < LAUNCHES; i++) {
        struct launch *launch = &launches[i];
        *launch = (struct launch){
            .pool = pool,
            .blocks = 1 + random_number(&seed) % 40,
            .threads = 1 + random_number(&seed) % 64,
            .cooperative = i % 6 == 5,
            .traps_at = -1,
            .chain = i % 3 == 0 ? 5 : 0,
            .open = &open,
        };
        if (launch->cooperative)
            launch->blocks = 1 + launch->blocks % 8;
        if (i % 5 == 4 && launch->threads > 2)
            launch->traps_at = (int)(random_number(&seed) % launch->blocks);
        launch->count = calloc(launch->blocks, sizeof *launch->count);
        launch->wrong = calloc(1, sizeof *launch->wrong);
        require(launch->count && launch->wrong);
        start(launch);
    }
    host_pool_destroy(pool); /* waits for all of them, and for what their callbacks start */
    require(atomic_load(&open) == 0);
    for (unsigned i = 0; i < LAUNCHES; i++) {
        require(atomic_load(&launches[i].ended) == 1);
        free(launches[i].count);
        free(launches[i].wrong);
    }
}

int main(void)
{
    static const char *const entries[] = {"blocks_once", "traps", "grid_counts", NULL};
    static const char more[] = "\n__global__ void grid_counts(unsigned *count, unsigned *wrong)\n"
                               "{\n"
                               "    if (threadIdx.x == 0)\n"
                               "        atomicAdd(&count[blockIdx.x], 1);\n"
                               "    cooperative_groups::this_grid().sync();\n"
                               "    if (atomicAdd(&count[(blockIdx.x + 1) % gridDim.x], 0) != 1)\n"
                               "        atomicAdd(wrong, 1);\n"
                               "}\n";
    char log[HOST_KERNEL_LOG], why[256], *code;
    puts("1..1");
    if (host_kernel_is_missing(why)) {
        printf("ok 1 - pool # SKIP %s\n", why);
        return 0;
    }
    char *kernels = host_kernel_read("tests/fusions/host/runtime.cu");
    require(asprintf(&code, "%s%s", kernels, more) > 0);
    image = host_kernel_build(&(struct host_kernel_source){.code = code, .entries = entries}, log);
    if (!image) {
        printf("not ok 1 - pool\n%s\n", log);
        return 1;
    }
    free(code);
    free(kernels);
    for (unsigned round = 0; round < ROUNDS; round++)
        run_round(1 + round % 6, round * 7919);
    puts("ok 1 - pool");
    return 0;
}
