/* Programs for the host device through the real worker: images that load, tables, diagnostics. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preamble/host/abi.h"
#include "tests/support/host_worker.h"

static struct host_worker worker;

static void setup(void)
{
    host_worker_start_or_skip(&worker);
}

static void teardown(void)
{
    host_worker_finish(&worker);
}

TestSuite(host_compile, .init = setup, .fini = teardown);

static struct worker_result compile(const char *code, const char *entry)
{
    return host_worker_compile(&worker, code, entry);
}

static void expect_good(const struct worker_result *result)
{
    cr_assert(result->result == 0, "%s: %s", result->result_name.at, result->log.at);
}

/* Load an image into this process, as an executor would. It stays loaded. */
static const struct fusiond_host_image *load(struct bytes image)
{
    char path[64];
    int fd = memfd_create("image", MFD_CLOEXEC);
    cr_assert(fd >= 0 && write(fd, image.at, image.size) == (ssize_t)image.size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert(library != NULL, "%s", dlerror());
    close(fd);
    const struct fusiond_host_image *table = dlsym(library, FUSIOND_HOST_SYMBOL);
    cr_assert(table != NULL && table->abi == FUSIOND_HOST_ABI);
    return table;
}

Test(host_compile, trivial_kernel)
{
    struct worker_result result = compile("__global__ void k(float *p, int n) { p[n] = 2; }", "k");
    expect_good(&result);
    cr_assert(result.image.size > 64 && memcmp(result.image.at, "\177ELF\2\1", 6) == 0);
    cr_assert(result.ptx.at == NULL);
    cr_assert(result.n_entries == 1);
    cr_assert_str_eq(result.entries[0].name.at, "k");
    cr_assert_str_eq(result.entries[0].lowered.at, "k");
    cr_assert(!result.entries[0].has_registers && !result.entries[0].has_spill_loads);
    cr_assert(result.n_diagnostics == 0 && result.log.size == 0, "%s", result.log.at);
    cr_assert(result.n_phases == 3);
    cr_assert_str_eq(result.phases[1].name.at, "compile");
    cr_assert_str_eq(result.phases[2].name.at, "link");
}

/* The image loads and its table leads to the kernel, with the sizes of its parameters. */
Test(host_compile, the_image_runs)
{
    struct worker_result result = compile("__global__ void k(float *p, char c, double d) { p[c] = (float)d; }", "k");
    expect_good(&result);
    const struct fusiond_host_image *image = load(result.image);
    cr_assert(image->n_entries == 1);
    const struct fusiond_host_entry *entry = image->entries;
    cr_assert_str_eq(entry->name, "k");
    cr_assert(entry->n_parameters == 3 && entry->parameters[0].size == 8 && entry->parameters[1].size == 1 &&
              entry->parameters[2].size == 8);
    float numbers[4] = {0}, *at = numbers;
    char c = 2;
    double d = 1.5;
    entry->call((void *[]){&at, &c, &d});
    cr_assert(numbers[2] == 1.5f && numbers[1] == 0 && numbers[3] == 0);
}

/* All `extern __shared__` arrays are one block, aligned, as large as a GPU's, and the thread's own. */
Test(host_compile, dynamic_shared_memory)
{
    static const char code[] = "namespace n { alignas(16) extern __shared__ char array[]; }\n"
                               "extern __shared__ float other[];\n"
                               "__global__ void k(void **p, int last)\n"
                               "{\n"
                               "    n::array[last] = 7;\n"
                               "    p[0] = n::array;\n"
                               "    p[1] = other;\n"
                               "}\n";
    struct worker_result result = compile(code, "k");
    expect_good(&result);
    void *places[2] = {NULL}, **at = places;
    int last = FUSIOND_HOST_DYNAMIC_BYTES - 1;
    load(result.image)->entries[0].call((void *[]){&at, &last});
    cr_assert(places[0] != NULL && places[0] == places[1] && (size_t)places[0] % FUSIOND_HOST_DYNAMIC_ALIGNMENT == 0);
}

/* Template arguments with commas, several entries. */
Test(host_compile, name_expressions)
{
    struct text program = host_program(&worker,
                                       "template <typename T, int N> __global__ void f(T *p) { p[N] = N; }\n"
                                       "__global__ void g() {}\n"
                                       "FUSIOND_HOST_IMAGE_BEGIN\n"
                                       "FUSIOND_HOST_ENTRY(\"f<float, 2>\", f<float, 2>)\n"
                                       "FUSIOND_HOST_ENTRY(\"g\", g)\n"
                                       "FUSIOND_HOST_IMAGE_END\n",
                                       NULL);
    struct text names[] = {TEXT_OF("f<float, 2>"), TEXT_OF("g")};
    struct worker_job job = {.program = program, .names = names, .n_names = 2, .image_kind = IMAGE_KIND_SHARED_OBJECT};
    struct worker_result result;
    struct error error = {0};
    cr_assert(compiler_process_compile(&worker.process, &job, &worker.zone, &result, &error) == 0, "%s", error.text);
    expect_good(&result);
    cr_assert(result.n_entries == 2);
    const struct fusiond_host_image *image = load(result.image);
    cr_assert(image->n_entries == 2);
    cr_assert_str_eq(image->entries[0].name, "f<float, 2>");
    float numbers[3] = {0}, *at = numbers;
    image->entries[0].call((void *[]){&at});
    cr_assert(numbers[2] == 2);
}

Test(host_compile, headers_of_the_client)
{
    struct job_header headers[] = {
        {.name = TEXT_OF("lib/a.h"), .bytes = {(const uint8_t *)"#include \"../b.h\"\n", 18}},
        {.name = TEXT_OF("b.h"), .bytes = {(const uint8_t *)"#define VALUE 42\n", 17}},
        {.name = TEXT_OF("with space.h"), .bytes = {(const uint8_t *)"\n", 1}},
    };
    struct text names[] = {TEXT_OF("k")};
    struct worker_job job = {
        .program = host_program(&worker,
                                "#include <lib/a.h>\n#include \"with space.h\"\n"
                                "__global__ void k(int *p) { *p = VALUE; }\n",
                                "k"),
        .headers = headers,
        .n_headers = 3,
        .names = names,
        .n_names = 1,
        .image_kind = IMAGE_KIND_SHARED_OBJECT,
    };
    struct worker_result result;
    struct error error = {0};
    cr_assert(compiler_process_compile(&worker.process, &job, &worker.zone, &result, &error) == 0, "%s", error.text);
    expect_good(&result);
    int number = 0, *at = &number;
    load(result.image)->entries[0].call((void *[]){&at});
    cr_assert(number == 42);
}

/* Names that cannot be files beside each other are a finding, and the worker goes on. */
Test(host_compile, headers_that_are_no_files)
{
    char longest[301];
    memset(longest, 'x', 300);
    longest[300] = '\0';
    const char *names[][2] = {{"a", "a/b"}, {"a/b", "a"}, {longest, "b"}, {"same", "same"}};
    for (int i = 0; i < 4; i++) {
        struct job_header headers[2];
        for (int j = 0; j < 2; j++)
            headers[j] = (struct job_header){.name = text_of(names[i][j]), .bytes = {(const uint8_t *)"\n", 1}};
        struct worker_job job = {
            .program = TEXT_OF("int x;\n"), .headers = headers, .n_headers = 2, .image_kind = IMAGE_KIND_SHARED_OBJECT};
        struct worker_result result;
        struct error error = {0};
        cr_assert(compiler_process_compile(&worker.process, &job, &worker.zone, &result, &error) == 0, "%s",
                  error.text);
        cr_assert(result.result != 0 && result.n_diagnostics == 1 && strstr(result.log.at, "cannot be a file"),
                  "%d: %s", i, result.log.at);
    }
    struct worker_result result = compile("__global__ void k() {}", "k");
    expect_good(&result);
}

/* The same program gives the same bytes, in this worker and in another one, with line tables too. */
Test(host_compile, I1_images_are_reproducible)
{
    const char *lines[] = {"-g1", NULL};
    struct text program =
        host_program(&worker, "__global__ void k(float *p) { __shared__ float s[8]; s[1] = *p; *p = s[1]; }", "k");
    struct worker_result results[2];
    struct error error = {0};
    cr_assert(host_worker_try(&worker, program, lines, &results[0], &error), "%s", error.text);
    expect_good(&results[0]);
    uint8_t *copy = msgpack_zone_malloc(&worker.zone, results[0].image.size);
    memcpy(copy, results[0].image.at, results[0].image.size);
    size_t size = results[0].image.size;
    for (int i = 0; i < 2; i++) {
        cr_assert(host_worker_try(&worker, program, lines, &results[1], &error), "%s", error.text);
        expect_good(&results[1]);
        cr_assert(results[1].image.size == size && memcmp(results[1].image.at, copy, size) == 0);
        if (i == 0)
            host_worker_restart(&worker);
    }
}

static const struct diagnostic *first_error(const struct worker_result *result)
{
    for (size_t i = 0; i < result->n_diagnostics; i++)
        if (result->diagnostics[i].severity == SEVERITY_ERROR)
            return &result->diagnostics[i];
    return NULL;
}

/* The first error is this one; line 0: on any line. */
static void expect_error(const char *code, const char *entry, const char *file, uint64_t line, const char *words)
{
    struct worker_result result = compile(code, entry);
    cr_assert(result.result != 0 && result.image.at == NULL);
    const struct diagnostic *error = first_error(&result);
    cr_assert(error != NULL && error->file.at != NULL, "%s", result.log.at);
    cr_assert_str_eq(error->file.at, file);
    cr_assert((line == 0 || error->line == line) && strstr(error->text.at, words), "%s:%llu: %s", error->file.at,
              (unsigned long long)error->line, error->text.at);
    cr_assert(strstr(result.log.at, words), "%s", result.log.at);
}

Test(host_compile, B3_2_diagnostics_point_into_the_code)
{
    expect_error("__global__ void k(float *p)\n{\n    *p = undefined_thing;\n}\n", "k", "fusion.cu", 3,
                 "'undefined_thing' was not declared");
    expect_error("__global__ void k(float *p) {}\n", "absent", "fusion.entries", 2, "'absent' was not declared");
    expect_error("__global__ int k(float *p) { return 1; }\n", "k", "fusiond/host/entry.cuh", 0,
                 "must be a __global__ function that returns void");
    expect_error("#include \"absent.h\"\n", NULL, "fusion.cu", 1, "absent.h: No such file or directory");
}

/* The worker goes on after an error. */
Test(host_compile, errors_end_no_worker)
{
    for (int i = 0; i < 3; i++) {
        struct worker_result result = compile("#error this\n", NULL);
        cr_assert(result.result != 0 && result.n_diagnostics > 0);
        result = compile("__global__ void k(float *p) { *p = 2; }", "k");
        expect_good(&result);
    }
}

Test(host_compile, inline_ptx_says_so)
{
    expect_error("__global__ void k(unsigned *p)\n{\n    asm(\"mov.u32 %0, %laneid;\" : \"=r\"(*p));\n}\n", "k",
                 "fusion.cu", 3, "inline PTX (asm) cannot run on the host device");
}

/* Undefined functions are errors now, not when the image is loaded. */
Test(host_compile, undefined_symbols)
{
    struct worker_result result =
        compile("__device__ int missing(int);\n__global__ void k(int *p) { *p = missing(*p); }\n", "k");
    cr_assert(result.result != 0 && strstr(result.log.at, "undefined reference to `missing(int)'"), "%s",
              result.log.at);
    cr_assert(first_error(&result) != NULL);
    /* Nothing of the machine's libraries but mathematics. */
    result =
        compile("extern \"C\" int system(const char *);\n__global__ void k(int *p) { *p = system(\"true\"); }\n", "k");
    cr_assert(result.result == 0 || strstr(result.log.at, "system"), "%s", result.log.at);
}

Test(host_compile, a_frame_beyond_the_stack_is_an_error)
{
    struct worker_result result =
        compile("__global__ void k(float *p, int n) { volatile float a[20000]; a[n] = 1; *p = a[n / 2]; }\n", "k");
    cr_assert(result.result != 0 && strstr(result.log.at, "frame size"), "%s", result.log.at);
}

Test(host_compile, F6_log_bomb)
{
    char *code = malloc(4 << 20), *at = code;
    for (int i = 0; i < 50000; i++)
        at += sprintf(at, "#error number %d is here and its text takes some room\n", i);
    struct worker_result result = compile(code, NULL);
    cr_assert(result.result != 0 && result.log.size <= LIMIT_LOG && result.n_diagnostics <= LIMIT_DIAGNOSTICS);
    /* Lines that are long. */
    at = code;
    for (int i = 0; i < 70; i++) {
        at = stpcpy(at, "#error ");
        memset(at, 'x', 40000);
        at += 40000;
        *at++ = '\n';
    }
    *at = '\0';
    result = compile(code, NULL);
    cr_assert(result.result != 0 && result.log_cut && result.log.size <= LIMIT_LOG);
    cr_assert(strstr(result.log.at, "log cut here"), "%s", result.log.at + result.log.size - 200);
    free(code);
}
