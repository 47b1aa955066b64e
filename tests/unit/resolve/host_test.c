/* Fusions for the host device: program, arguments, key, what means nothing there. */
#include <criterion/criterion.h>
#include <string.h>

#include "preamble/host/abi.h"
#include "preamble/preamble.h"
#include "tests/unit/resolve/fixture.h"

static struct request request;

static void start(void)
{
    request_init(&request);
    request.fusion.target = TEXT_OF("host");
    request.facts = (struct compiler_facts){.kind = COMPILER_HOST, .major = 12, .minor = 2, .build = {7}};
}

static void setup(void)
{
    start();
}

static void teardown(void)
{
    request_finish(&request);
}

TestSuite(host, .init = setup, .fini = teardown);

static void settle(void)
{
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
}

static void expect_program(const char *program)
{
    settle();
    cr_expect_str_eq(request.resolved.program.at, program);
    cr_expect_eq(request.resolved.program.size, strlen(program));
    cr_expect_eq(memcmp(request.resolved.program.at + request.resolved.code_at, request.fusion.code.at,
                        request.fusion.code.size),
                 0);
}

/* preamble/host/abi.h: the header first, the table last and outside of every namespace. */
Test(host, B4_3_program)
{
    request.fusion.code = TEXT_OF("__global__ void plain(float *x) { *x = 0; }");
    request.entries[0] = TEXT_OF("plain");
    expect_program("#include \"fusiond/host/cuda.cuh\"\n"
                   "namespace fusiond {\n"
                   "#line 1 \"fusion.cu\"\n"
                   "__global__ void plain(float *x) { *x = 0; }\n"
                   "}\n"
                   "#line 1 \"fusion.entries\"\n"
                   "FUSIOND_HOST_IMAGE_BEGIN\n"
                   "FUSIOND_HOST_ENTRY(\"fusiond::plain\", fusiond::plain)\n"
                   "FUSIOND_HOST_IMAGE_END\n");
    cr_expect_str_eq(request.resolved.target.at, "host");
    cr_expect_eq(request.resolved.image_kind, IMAGE_KIND_SHARED_OBJECT);
}

Test(host, B4_5_structured_program)
{
    request.fusion.structured = true;
    request.fusion.code = TEXT_OF("template <char C> __global__ void f() {} // the end");
    request.entries[0] = TEXT_OF("f<'a'>");
    request.entries[1] = TEXT_OF("f<(char)97>");
    request.fusion.n_entries = 2;
    expect_program("#include \"fusiond/host/cuda.cuh\"\n"
                   "#line 1 \"fusion.cu\"\n"
                   "template <char C> __global__ void f() {} // the end\n"
                   "#line 1 \"fusion.entries\"\n"
                   "FUSIOND_HOST_IMAGE_BEGIN\n"
                   "FUSIOND_HOST_ENTRY(\"f<'a'>\", f<'a'>)\n"
                   "FUSIOND_HOST_ENTRY(\"f<(char)97>\", f<(char)97>)\n"
                   "FUSIOND_HOST_IMAGE_END\n");
}

/* Header, index module, other modules, definitions, code. */
Test(host, B4_3_modules_and_definitions)
{
    static const char includes[] = "#include \"fusiond/host/cuda.cuh\"\n#include \"fusiond/index_int32.cuh\"\n";
    request.fusion.index_type = INDEX_TYPE_INT32;
    request.compile.defines = request.defines;
    request.compile.n_defines = 1;
    settle();
    const char *program = request.resolved.program.at;
    cr_expect_eq(strncmp(program, includes, strlen(includes)), 0, "%s", program);
    const char *tensor = strstr(program, "#include \"fusiond/tensor.cuh\"\n");
    const char *define = strstr(program, "#define WIDTH 4\n"), *space = strstr(program, "namespace fusiond {");
    cr_expect(tensor && define && space && tensor < define && define < space, "%s", program);
    cr_expect(!has_text(request.resolved.job_args, request.resolved.n_job_args, "-DWIDTH=4"));
    cr_expect(has_text(request.resolved.key_args, request.resolved.n_key_args, "-DWIDTH=4"));
    cr_expect_eq(request.resolved.index_type, INDEX_TYPE_INT32);
}

static void expect_args(const char *expected)
{
    char line[512] = "";
    settle();
    for (size_t i = 0; i < request.resolved.n_args; i++) {
        strcat(strcat(line, line[0] ? " " : ""), request.resolved.args[i].at);
        /* All of them can change the image. */
        cr_expect(has_text(request.resolved.key_args, request.resolved.n_key_args, request.resolved.args[i].at));
    }
    cr_expect_str_eq(line, expected);
}

Test(host, B2_1_arguments)
{
    expect_args("-DNDEBUG");
    request.compile = (struct compile_options){
        .no_fmad = true, .fast_math = true, .line_info = true, .asserts = true, .no_magic_zero = true};
    expect_args("-g1 -DFUSIOND_NO_MAGIC_ZERO");
    request.compile = (struct compile_options){.debug = true, .line_info = true};
    expect_args("-g -O0 -DNDEBUG");
    request.compile = (struct compile_options){
        .has_max_registers = true, .max_registers = 64, .has_block_size = true, .block_size = 1024};
    expect_args("-DNDEBUG");
    static const char *const levels[] = {"-DNDEBUG -O0", "-DNDEBUG -O1", "-DNDEBUG", "-DNDEBUG", "-DNDEBUG -O3"};
    request.compile = (struct compile_options){.has_opt_level = true};
    for (unsigned i = 0; i < 5; i++) {
        request.compile.opt_level = i;
        expect_args(levels[i]);
    }
}

static void expect_warnings(size_t n, const char *words)
{
    settle();
    cr_assert_eq(request.resolved.n_warnings, n, "%zu warnings", request.resolved.n_warnings);
    if (n)
        cr_expect(strstr(request.resolved.warnings[0].at, words), "%s", request.resolved.warnings[0].at);
}

Test(host, B2_1_what_does_nothing_is_told_if_asked_for)
{
    expect_warnings(0, NULL);
    request.compile = (struct compile_options){.no_fmad = true, .has_block_size = true, .block_size = 256};
    expect_warnings(0, NULL);
    request.compile = (struct compile_options){.has_max_registers = true, .max_registers = 64};
    expect_warnings(1, "compile.max_registers does nothing on the host device");
    request.compile = (struct compile_options){.fast_math = true};
    expect_warnings(1, "compile.fast_math does nothing on the host device");
    request.compile = (struct compile_options){.has_opt_level = true, .opt_level = 2};
    expect_warnings(0, NULL);
    request.compile.opt_level = 1;
    expect_warnings(1, "compile.opt_level 1 is below the default of 2");
    /* Bounds override a limit that there is not. */
    request.compile = (struct compile_options){0};
    request.fusion.code = TEXT_OF("__global__ void __launch_bounds__(128) scale(float *x) {}");
    expect_warnings(0, NULL);
}

Test(host, B1_2_requirements)
{
    /* A CPU has no capability: what the code lacks is the compiler's finding. */
    request.requires = (struct requirements){.has_min_capability = true, .min_capability = 90};
    settle();
    request.requires =
        (struct requirements){.has_static_shared_memory = true, .static_shared_memory = FUSIOND_HOST_DYNAMIC_BYTES};
    settle();
    request.requires.static_shared_memory++;
    cr_assert_eq(request_resolve(&request), -1);
    cr_expect_eq(request.error.code, STATUS_SHARED_MEMORY_LIMIT);
    cr_expect(strstr(request.error.text, "is 232449 bytes; the limit of the host device is 232448"), "%s",
              request.error.text);
}

Test(host, B2_2_images_of_gpus_are_refused)
{
    request.compile.image = IMAGE_KIND_PTX;
    cr_assert_eq(request_resolve(&request), -1);
    cr_expect_eq(request.error.code, STATUS_INVALID_OPTION);
    request.compile.image = IMAGE_KIND_SHARED_OBJECT;
    settle();
}

static void key_after(void (*change)(void), uint8_t ret[KEY_SIZE])
{
    request_finish(&request);
    start();
    if (change)
        change();
    request_key(&request, ret);
}

#define CHANGE(name, ...)                                                                                              \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }
CHANGE(to_gpu, request.fusion.target = TEXT_OF("sm_90a"), request.facts = facts_of(13, 0), request.facts.build[0] = 7)
CHANGE(to_build, request.facts.build[31]++)
CHANGE(to_int32, request.fusion.index_type = INDEX_TYPE_INT32)
CHANGE(to_asserts, request.compile.asserts = true)
CHANGE(to_lines, request.compile.line_info = true)
CHANGE(to_debug, request.compile.debug = true)
CHANGE(to_level, request.compile.has_opt_level = true, request.compile.opt_level = 4)
CHANGE(to_define, request.compile.defines = request.defines, request.compile.n_defines = 1)
CHANGE(to_magic, request.compile.no_magic_zero = true)
CHANGE(to_header, request.fusion.n_headers = 1)
CHANGE(to_registers, request.compile.has_max_registers = true, request.compile.max_registers = 64)
CHANGE(to_block, request.compile.has_block_size = true, request.compile.block_size = 1024)
CHANGE(to_fast, request.compile.fast_math = true)
CHANGE(to_no_fmad, request.compile.no_fmad = true)
CHANGE(to_level_2, request.compile.has_opt_level = true, request.compile.opt_level = 2)
CHANGE(to_kind, request.compile.image = IMAGE_KIND_SHARED_OBJECT)

Test(host, F29_every_difference_of_the_image_changes_the_key)
{
    void (*const changes[])(void) = {NULL,     to_gpu,   to_build,  to_int32, to_asserts, to_lines,
                                     to_debug, to_level, to_define, to_magic, to_header};
    uint8_t keys[ARRAY_SIZE(changes)][KEY_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        key_after(changes[i], keys[i]);
        for (size_t k = 0; k < i; k++)
            cr_expect_neq(memcmp(keys[i], keys[k], KEY_SIZE), 0, "%zu and %zu", i, k);
    }
}

Test(host, B7_2_what_means_nothing_there_is_not_in_the_key)
{
    void (*const changes[])(void) = {to_registers, to_block, to_fast, to_no_fmad, to_level_2, to_kind};
    uint8_t plain[KEY_SIZE], key[KEY_SIZE];
    key_after(NULL, plain);
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        key_after(changes[i], key);
        cr_expect_eq(memcmp(key, plain, KEY_SIZE), 0, "change %zu", i);
    }
}
