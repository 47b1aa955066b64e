/* F19, first form: a kernel that touches what it must not takes its executor with it, and nothing else. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/fusiond.h"
#include "tests/support/daemon_process.h"

#define CYCLES 100

static struct daemon_process the_daemon;
static const struct daemon_options as_usual;

static void setup(void)
{
    daemon_start_or_skip(&the_daemon, &as_usual);
}

static void teardown(void)
{
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
}

TestSuite(faults, .init = setup, .fini = teardown, .timeout = 400);

/* ---- a kernel that is good, or not, as its argument says ---- */

struct poke {
    struct fusiond_connection *connection;
    struct fusiond_fusion *fusion;
    struct fusiond_kernel *kernel;
    struct fusiond_device *device;
    struct fusiond_buffer *x;
    struct fusiond_defined *defined;
};

static void make(struct poke *poke)
{
    static const char code[] = "__global__ void poke(Tensor<float, 1, 1> x, long long where) {\n"
                               "  if (where) *(volatile float *)where = 1.0f;\n"
                               "  x[threadIdx.x] = 2.0f * threadIdx.x;\n}\n";
    static const char *const grid[] = {"1", NULL, NULL}, *const block[] = {"x.size[0]", NULL, NULL};
    struct fusiond_error error;
    poke->fusion = fusiond_fusion_create();
    cr_assert(poke->fusion && fusiond_fusion_set_code(poke->fusion, code, sizeof code - 1, false, &error) == 0 &&
                  fusiond_fusion_add_entry(poke->fusion, "poke", &error) == 0 &&
                  fusiond_fusion_set_option(poke->fusion, "side_effects_only", "true", &error) == 0 &&
                  fusiond_fusion_set_option(poke->fusion, "label", "poke", &error) == 0 &&
                  fusiond_fusion_set_option(poke->fusion, "index_type", "int32", &error) == 0 &&
                  fusiond_fusion_add_param(poke->fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 1, 1, &error) == 0 &&
                  fusiond_fusion_add_param(poke->fusion, "where", FUSIOND_SCALAR, FUSIOND_INT64, 0, 0, &error) == 0 &&
                  fusiond_fusion_set_launch(poke->fusion, grid, block, NULL, &error) == 0,
              "%s", error.text);
    cr_assert_eq(fusiond_connect(the_daemon.socket, NULL, &poke->connection, &error), 0, "%s", error.text);
}

static void open_device(struct poke *poke)
{
    struct fusiond_error error;
    cr_assert_eq(fusiond_device_open(poke->connection, NULL, NULL, &poke->device, &error), 0, "%s", error.text);
    if (strcmp(fusiond_device_info(poke->device).kind, "cuda") != 0)
        cr_skip_test("there is no CUDA device");
    if (!poke->kernel) {
        cr_assert_eq(fusiond_fusion_set_target(poke->fusion, fusiond_device_target(poke->device), &error), 0);
        cr_assert_eq(fusiond_compile(poke->connection, poke->fusion, NULL, &poke->kernel, &error), 0, "%s", error.text);
    }
    cr_assert_eq(fusiond_buffer_allocate(poke->device, 1024, false, &poke->x, &error), 0, "%s", error.text);
    cr_assert_eq(
        fusiond_define(poke->device, fusiond_kernel_key(poke->kernel), NULL, poke->fusion, &poke->defined, &error), 0,
        "%s", error.text);
}

static void close_device(struct poke *poke)
{
    fusiond_defined_destroy(poke->defined);
    fusiond_buffer_free(poke->x);
    fusiond_device_close(poke->device);
}

static int launch(struct poke *poke, int64_t where, struct fusiond_error *error)
{
    static const int64_t size = 256;
    const struct fusiond_device_argument arguments[] = {{.buffer = poke->x, .sizes = &size},
                                                        {.scalar = &where, .scalar_size = sizeof where}};
    const struct fusiond_launch_options options = {.wait = true};
    return fusiond_device_launch(poke->defined, arguments, 2, &options, NULL, error);
}

/* The canary: it runs, and what it wrote is there. */
static void expect_good(struct poke *poke)
{
    struct fusiond_error error;
    float numbers[256];
    cr_assert_eq(launch(poke, 0, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_read(poke->x, 0, numbers, sizeof numbers, NULL, &error), 0, "%s", error.text);
    for (int i = 0; i < 256; i++)
        cr_assert_eq(numbers[i], 2.0f * (float)i);
}

static int compare(const void *a, const void *b)
{
    return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b);
}

static uint64_t stat_of(struct poke *poke, const char *name)
{
    struct fusiond_stats *stats;
    struct fusiond_error error;
    uint64_t value = 0;
    cr_assert_eq(fusiond_stats(poke->connection, &stats, &error), 0, "%s", error.text);
    cr_assert(fusiond_stats_get(stats, name, &value), "%s", name);
    fusiond_stats_destroy(stats);
    return value;
}

Test(faults, F19_illegal_access)
{
    struct poke poke = {0};
    struct fusiond_error error;
    long seen[CYCLES], back[CYCLES];
    make(&poke);
    open_device(&poke);
    expect_good(&poke);
    size_t descriptors = 0;
    for (int i = 0; i < CYCLES; i++) {
        unsigned executor = fusiond_device_executor(poke.device);
        long start = clock_ms();
        cr_assert_eq(launch(&poke, 0x10, &error), -1, "cycle %d: a bad address was written to", i);
        seen[i] = clock_ms() - start;
        /* Exactly one launch was under way, so it is named. */
        cr_assert_eq(error.code, 74, "cycle %d: %s: %s", i, error.name, error.text);
        cr_assert(strstr(error.text, "poke") && strstr(error.text, "ILLEGAL_ADDRESS"), "%s", error.text);
        start = clock_ms();
        cr_assert_eq(launch(&poke, 0, &error), -1);
        cr_assert_eq(error.code, 72, "cycle %d: %s: %s", i, error.name, error.text);
        close_device(&poke);
        open_device(&poke);
        expect_good(&poke);
        back[i] = clock_ms() - start;
        cr_assert_neq(fusiond_device_executor(poke.device), executor);
        if (i == 4)
            descriptors = process_descriptors(the_daemon.pid);
    }
    cr_assert_eq(stat_of(&poke, "executor_faults_total"), CYCLES);
    cr_assert_eq(stat_of(&poke, "pid"), (uint64_t)the_daemon.pid);
    cr_assert_leq(process_descriptors(the_daemon.pid), descriptors + 2);
    qsort(seen, CYCLES, sizeof seen[0], compare);
    qsort(back, CYCLES, sizeof back[0], compare);
    fprintf(stderr, "# F19: seen after %ld ms (at most %ld), serving again after %ld ms (at most %ld)\n",
            seen[CYCLES / 2], seen[CYCLES - 1], back[CYCLES / 2], back[CYCLES - 1]);
    close_device(&poke);
    fusiond_kernel_destroy(poke.kernel);
    fusiond_fusion_destroy(poke.fusion);
    fusiond_close(poke.connection);
}

/* Who shares the executor, and has nothing under way, loses its device but not its daemon. */
Test(faults, F19_others_are_told_to_open_again)
{
    struct poke guilty = {0}, innocent = {0};
    struct fusiond_error error;
    make(&guilty);
    make(&innocent);
    open_device(&guilty);
    open_device(&innocent);
    cr_assert_eq(fusiond_device_executor(guilty.device), fusiond_device_executor(innocent.device));
    expect_good(&innocent);
    cr_assert_eq(launch(&guilty, 0x10, &error), -1);
    cr_assert_eq(error.code, 74, "%s: %s", error.name, error.text);
    cr_assert_eq(launch(&innocent, 0, &error), -1);
    cr_assert_eq(error.code, 72, "%s: %s", error.name, error.text);
    cr_assert(error.retryable);
    close_device(&innocent);
    open_device(&innocent);
    expect_good(&innocent);
    close_device(&innocent);
    close_device(&guilty);
    for (int i = 0; i < 2; i++) {
        struct poke *poke = i ? &guilty : &innocent;
        fusiond_kernel_destroy(poke->kernel);
        fusiond_fusion_destroy(poke->fusion);
        fusiond_close(poke->connection);
    }
}

/* With an executor of its own, a client is not touched by another's fault. */
Test(faults, F19_a_session_of_its_own_is_not_touched)
{
    struct poke guilty = {0}, alone = {0};
    struct fusiond_error error;
    const struct fusiond_device_options own = {.isolation_session = true};
    make(&guilty);
    make(&alone);
    open_device(&guilty);
    open_device(&alone);
    close_device(&alone);
    cr_assert_eq(fusiond_device_open(alone.connection, NULL, &own, &alone.device, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_allocate(alone.device, 1024, false, &alone.x, &error), 0, "%s", error.text);
    cr_assert_eq(
        fusiond_define(alone.device, fusiond_kernel_key(alone.kernel), NULL, alone.fusion, &alone.defined, &error), 0,
        "%s", error.text);
    cr_assert_neq(fusiond_device_executor(guilty.device), fusiond_device_executor(alone.device));
    expect_good(&alone);
    cr_assert_eq(launch(&guilty, 0x10, &error), -1);
    expect_good(&alone);
    close_device(&alone);
    close_device(&guilty);
    for (int i = 0; i < 2; i++) {
        struct poke *poke = i ? &guilty : &alone;
        fusiond_kernel_destroy(poke->kernel);
        fusiond_fusion_destroy(poke->fusion);
        fusiond_close(poke->connection);
    }
}
