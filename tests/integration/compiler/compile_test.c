/* Programs through the real worker: images, names, diagnostics, the assembler's report. */
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

#include "tests/support/compiler_process.h"

static msgpack_zone zone;
static struct compiler_process worker;
static struct worker_ready ready;

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    compiler_process_start_or_skip(&worker, NULL, &zone, &ready);
}

static void teardown(void)
{
    compiler_process_finish(&worker);
    msgpack_zone_destroy(&zone);
}

TestSuite(compile, .init = setup, .fini = teardown);

static struct text default_args[] = {
    {"--std=c++17", 11}, {"--gpu-architecture=sm_90a", 25}, {"--ptxas-options=--verbose", 25}, {"--no-cache", 10}};

static struct worker_result compile_job(struct worker_job job)
{
    struct worker_result result;
    struct error error = {0};
    if (job.args == NULL) {
        job.args = default_args;
        job.n_args = 4;
    }
    if (job.image_kind == 0)
        job.image_kind = IMAGE_KIND_CUBIN;
    int failed = compiler_process_compile(&worker, &job, &zone, &result, &error);
    cr_assert(failed == 0, "%s", error.text);
    return result;
}

static struct worker_result compile(const char *program, const char *name)
{
    struct text names[1] = {text_of(name)};
    return compile_job((struct worker_job){.program = text_of(program), .names = names, .n_names = name != NULL});
}

/* A 64-bit little-endian ELF file for machine 190, EM_CUDA. */
static bool is_cubin(struct bytes image)
{
    return image.size > 64 && memcmp(image.at, "\177ELF\2\1", 6) == 0 && image.at[18] == 190 && image.at[19] == 0;
}

Test(compile, trivial_kernel)
{
    struct worker_result result =
        compile("namespace fusiond { __global__ void k(float *p) { *p = 1; } }", "fusiond::k");
    cr_assert(result.result == 0, "%s: %s", result.result_name.at, result.log.at);
    cr_assert_str_eq(result.result_name.at, "NVRTC_SUCCESS");
    cr_assert(is_cubin(result.image));
    cr_assert(result.n_entries == 1);
    cr_assert_str_eq(result.entries[0].name.at, "fusiond::k");
    cr_assert_str_eq(result.entries[0].lowered.at, "_ZN7fusiond1kEPf");
    cr_assert(result.entries[0].has_registers && result.entries[0].registers > 0);
    cr_assert(memmem(result.ptx.at, result.ptx.size, ".target sm_90a", 14) != NULL);
    cr_assert(memchr(result.ptx.at, '\0', result.ptx.size) == NULL);
    cr_assert(result.n_diagnostics == 0);
    cr_assert(result.n_phases == 3);
    cr_assert_str_eq(result.phases[1].name.at, "compile");
    cr_assert(result.phases[1].ns > 0);
}
