/* Programs through the real worker: images, names, diagnostics, the assembler's report. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char two_kernels[] = "namespace fusiond {\n"
                                  "template <class T, int N> __global__ void f(T *p)\n"
                                  "{\n"
                                  "    __shared__ T s[N];\n"
                                  "    s[threadIdx.x] = p[threadIdx.x];\n"
                                  "    __syncthreads();\n"
                                  "    p[threadIdx.x] = s[(threadIdx.x + 1) % N];\n"
                                  "}\n"
                                  "__global__ void g(float *p, int n)\n"
                                  "{\n"
                                  "    float a[64];\n"
                                  "    for (int i = 0; i < 64; i++)\n"
                                  "        a[i] = p[i];\n"
                                  "    p[0] = a[n & 63];\n"
                                  "    a[n & 31] = 3;\n"
                                  "    p[1] = a[n >> 2 & 63];\n"
                                  "}\n"
                                  "}\n";

Test(compile, several_entries_in_the_order_of_the_names)
{
    struct text names[] = {TEXT_OF("fusiond::g"), TEXT_OF("fusiond::f<float, 32>"), TEXT_OF("fusiond::f<double, 16>")};
    struct worker_result result =
        compile_job((struct worker_job){.program = text_of(two_kernels), .names = names, .n_names = 3});
    cr_assert(result.result == 0, "%s", result.log.at);
    cr_assert(result.n_entries == 3);
    cr_assert_str_eq(result.entries[0].lowered.at, "_ZN7fusiond1gEPfi");
    cr_assert_str_eq(result.entries[1].lowered.at, "_ZN7fusiond1fIfLi32EEEvPT_");
    cr_assert_str_eq(result.entries[2].lowered.at, "_ZN7fusiond1fIdLi16EEEvPT_");
    cr_assert_str_eq(result.entries[1].name.at, "fusiond::f<float, 32>");
    cr_assert(result.entries[0].stack_frame == 256 && result.entries[0].shared_memory == 0);
    cr_assert(result.entries[1].shared_memory == 32 * 4);
    cr_assert(result.entries[2].shared_memory == 16 * 8);
    for (size_t i = 0; i < 3; i++)
        cr_assert(memmem(result.image.at, result.image.size, result.entries[i].lowered.at,
                         result.entries[i].lowered.size) != NULL,
                  "%s is not in the image", result.entries[i].lowered.at);
}

Test(compile, spills_are_counted)
{
    struct text args[] = {TEXT_OF("--std=c++17"), TEXT_OF("--gpu-architecture=sm_80"),
                          TEXT_OF("--ptxas-options=--verbose"), TEXT_OF("--maxrregcount=24"), TEXT_OF("--no-cache")};
    struct text names[] = {TEXT_OF("k")};
    struct worker_result result =
        compile_job((struct worker_job){.program = TEXT_OF("__global__ void k(float *p, int n) { float a[48];\n"
                                                           "#pragma unroll\n"
                                                           "for (int i = 0; i < 48; i++) a[i] = p[i * n];\n"
                                                           "__syncthreads();\n"
                                                           "#pragma unroll\n"
                                                           "for (int i = 0; i < 48; i++) p[i] = a[47 - i] * a[i]; }"),
                                        .names = names,
                                        .n_names = 1,
                                        .args = args,
                                        .n_args = 5});
    cr_assert(result.result == 0, "%s", result.log.at);
    cr_assert(result.entries[0].registers <= 24);
    cr_assert(result.entries[0].spill_stores > 0 && result.entries[0].spill_loads > 0, "%s", result.log.at);
}

/* A PTX image is the PTX with the NUL that the driver wants. */
Test(compile, ptx_image)
{
    struct text args[] = {TEXT_OF("--gpu-architecture=compute_90"), TEXT_OF("--ptxas-options=--verbose")};
    struct text names[] = {TEXT_OF("fusiond::g")};
    struct worker_result result = compile_job((struct worker_job){.program = text_of(two_kernels),
                                                                  .names = names,
                                                                  .n_names = 1,
                                                                  .args = args,
                                                                  .n_args = 2,
                                                                  .image_kind = IMAGE_KIND_PTX});
    cr_assert(result.result == 0, "%s", result.log.at);
    cr_assert(result.image.size == result.ptx.size + 1 && result.image.at[result.ptx.size] == '\0');
    cr_assert(memcmp(result.image.at, result.ptx.at, result.ptx.size) == 0);
    cr_assert(memmem(result.ptx.at, result.ptx.size, ".visible .entry _ZN7fusiond1gEPfi", 33) != NULL);
    cr_assert_str_eq(result.entries[0].lowered.at, "_ZN7fusiond1gEPfi");
    cr_assert(!result.entries[0].has_registers && !result.entries[0].has_spill_stores);
}

/* Also after other work: nothing of an earlier job is in a later one. */
Test(compile, equal_jobs_give_equal_bytes)
{
    struct compiler_process first = worker;
    struct worker_result a = compile(two_kernels, "fusiond::g");
    cr_assert(a.result == 0);
    struct bytes image = {memcpy(malloc(a.image.size), a.image.at, a.image.size), a.image.size};

    compiler_process_start_or_skip(&worker, NULL, &zone, &ready);
    cr_assert(compile("__global__ void broken(", NULL).result != 0);
    cr_assert(compile("#define g h\n__global__ void other(int *p) { *p = 2; }", "other").result == 0);
    struct worker_result b = compile(two_kernels, "fusiond::g");
    cr_assert(b.result == 0);
    cr_assert(image.size == b.image.size && memcmp(image.at, b.image.at, image.size) == 0);
    cr_assert_str_eq(a.entries[0].lowered.at, b.entries[0].lowered.at);
    free((void *)image.at);
    compiler_process_finish(&first);
}

Test(compile, one_worker_serves_many)
{
    struct compiler_process *one = &worker;
    pid_t pid = one->pid;
    char program[128];
    for (int i = 0; i < 20; i++) {
        snprintf(program, sizeof program, "__global__ void k%d(int *p) { *p = %d; }", i, i);
        struct worker_result result = compile(program, NULL);
        cr_assert(result.result == 0 && is_cubin(result.image));
        msgpack_zone_clear(&zone);
    }
    cr_assert(worker.pid == pid);
}

/* The assembled program says with #line whose lines these are. */
Test(compile, lines_are_the_clients_own)
{
    struct worker_result result = compile("namespace fusiond {\n"
                                          "int helper_of_the_preamble;\n"
                                          "#line 1 \"fusion.cu\"\n"
                                          "__global__ void k(float *p)\n"
                                          "{\n"
                                          "    int unused = 3;\n"
                                          "    p[0] = nothing;\n"
                                          "}\n"
                                          "#line 1 \"end of fusion\"\n"
                                          "}\n",
                                          NULL);
    cr_assert(result.result == 6);
    cr_assert_str_eq(result.result_name.at, "NVRTC_ERROR_COMPILATION");
    cr_assert(result.image.at == NULL && result.ptx.at == NULL && result.n_entries == 0);
    bool error = false, warning = false;
    for (size_t i = 0; i < result.n_diagnostics; i++) {
        const struct diagnostic *at = &result.diagnostics[i];
        if (!text_is(at->file, "fusion.cu"))
            continue;
        error |= at->severity == SEVERITY_ERROR && at->line == 4 && at->column == 12 &&
                 strstr(at->text.at, "\"nothing\" is undefined") != NULL;
        warning |= at->severity == SEVERITY_WARNING && at->line == 3 && at->column == 9;
    }
    cr_assert(error, "%s", result.log.at);
    cr_assert(warning, "%s", result.log.at);
}

Test(compile, headers_come_from_memory)
{
    struct job_header headers[] = {
        {.name = TEXT_OF("mine/ops.h"), .bytes = {(const uint8_t *)"#define TWICE(x) ((x) * 2)\n", 27}},
        {.name = TEXT_OF("mine/bad.h"), .bytes = {(const uint8_t *)"\n#error stop here\n", 18}},
    };
    struct worker_job job = {.program = TEXT_OF("#include <mine/ops.h>\n__global__ void k(int *p) { *p = TWICE(*p); }"),
                             .headers = headers,
                             .n_headers = 2};
    struct worker_result result = compile_job(job);
    cr_assert(result.result == 0, "%s", result.log.at);

    job.program = TEXT_OF("#include \"mine/bad.h\"\n__global__ void k() {}");
    result = compile_job(job);
    cr_assert(result.result == 6 && result.n_diagnostics >= 1);
    cr_assert_str_eq(result.diagnostics[0].file.at, "mine/bad.h");
    cr_assert(result.diagnostics[0].line == 2);
}

/* A module is included by name, and a mistake in the use of it is told with its name and line. */
Test(compile, modules_of_the_preamble)
{
    struct text args[] = {TEXT_OF("--std=c++17"), TEXT_OF("--gpu-architecture=sm_90a"), TEXT_OF("-default-device")};
    struct worker_result result = compile_job((struct worker_job){
        .program = TEXT_OF("#include \"fusiond/index_int64.cuh\"\n"
                           "#include \"fusiond/warp.cuh\"\n"
                           "#line 1 \"fusion.cu\"\n"
                           "__global__ void k(float *p) { *p = fusiond::warp::shfl_xor(*p, 1); }\n"),
        .args = args,
        .n_args = 3});
    cr_assert(result.result == 0, "%s", result.log.at);
    cr_assert(result.n_diagnostics == 0, "%s", result.log.at);

    result = compile("#include \"fusiond/index_int64.cuh\"\n"
                     "#include \"fusiond/index_int32.cuh\"\n",
                     NULL);
    cr_assert(result.result == 6 && result.n_diagnostics >= 1);
    cr_assert_str_eq(result.diagnostics[0].file.at, "fusiond/index_int32.cuh");
    cr_assert(result.diagnostics[0].has_line);
}

Test(compile, F28_header_with_a_nul_is_refused)
{
    struct job_header headers[] = {{.name = TEXT_OF("nul.h"), .bytes = {(const uint8_t *)"int a;\0int b;", 13}}};
    struct worker_result result = compile_job((struct worker_job){
        .program = TEXT_OF("#include \"nul.h\"\n__global__ void k() {}"), .headers = headers, .n_headers = 1});
    cr_assert(result.result == 3 && result.image.at == NULL);
    cr_assert(result.n_diagnostics == 1 && strstr(result.diagnostics[0].text.at, "nul.h") != NULL);
}

/* Every failure has an error among its diagnostics, the silent ones too. */
Test(compile, failures_say_why)
{
    struct text unknown[] = {TEXT_OF("--gpu-architecture=sm_90a"), TEXT_OF("--no-such-option")};
    struct text old[] = {TEXT_OF("--gpu-architecture=sm_17")};
    struct text name[] = {TEXT_OF("nosuch<3>")};
    struct text kernel = TEXT_OF("__global__ void k(float *p) { *p = 1; }");
    const struct worker_job jobs[] = {
        {.program = kernel, .args = unknown, .n_args = 2},
        {.program = kernel, .args = old, .n_args = 1},
        {.program = kernel, .names = name, .n_names = 1},
        {.program = TEXT_OF("__global__ void k(float *p) { __shared__ float s[100000]; s[threadIdx.x] = *p; "
                            "__syncthreads(); *p = s[5]; }")},
        {.program = TEXT_OF("__global__ void k(float *p) { asm volatile(\"bogus.instr %r1;\"); }")},
        {.program = TEXT_OF("extern __device__ int ext(int); __global__ void k(int *p) { *p = ext(1); }")},
        {.program = TEXT_OF("#include \"nowhere.h\"\n")},
    };
    const char *words[] = {"--no-such-option", "gpu-architecture", "nosuch",   "shared memory",
                           ".instr",           "_Z3exti",          "nowhere.h"};
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct worker_result result = compile_job(jobs[i]);
        cr_assert(result.result != 0 && result.image.at == NULL, "job %zu compiled", i);
        bool said = false;
        for (size_t j = 0; j < result.n_diagnostics; j++)
            said |= result.diagnostics[j].severity == SEVERITY_ERROR &&
                    strstr(result.diagnostics[j].text.at, words[i]) != NULL;
        cr_assert(said, "job %zu: no error says %s; log: %s", i, words[i], result.log.at);
    }
}

Test(compile, threads_of_the_compiler_work_inside)
{
    struct text args[] = {TEXT_OF("--gpu-architecture=sm_90a"), TEXT_OF("-split-compile=2")};
    struct worker_result result =
        compile_job((struct worker_job){.program = text_of(two_kernels), .args = args, .n_args = 2});
    cr_assert(result.result == 0, "%s", result.log.at);
}

/* 50,000 warnings, 5 MB: the log is cut at 64 KiB and says so, and the kernel is still there. */
Test(compile, F6_log_bomb)
{
    enum { VARIABLES = 50000 };
    char *program = malloc(VARIABLES * 24 + 64);
    size_t size = (size_t)sprintf(program, "__global__ void k()\n{\n");
    for (int i = 0; i < VARIABLES; i++)
        size += (size_t)sprintf(program + size, "int v%d = 1;\n", i);
    size += (size_t)sprintf(program + size, "}\n");
    struct text names[] = {TEXT_OF("k")};
    struct worker_result result =
        compile_job((struct worker_job){.program = {program, size}, .names = names, .n_names = 1});
    cr_assert(result.result == 0 && is_cubin(result.image));
    cr_assert(result.log_cut && result.log.size <= LIMIT_LOG && result.log.size > LIMIT_LOG - 512);
    cr_assert(strstr(result.log.at, "[fusiond: log cut here, ") != NULL);
    cr_assert(result.n_diagnostics == LIMIT_DIAGNOSTICS);
    cr_assert(result.diagnostics[0].severity == SEVERITY_WARNING && result.diagnostics[0].line == 3);
    /* The assembler's report stands behind the cut. */
    cr_assert(result.entries[0].has_registers);
    free(program);
}
