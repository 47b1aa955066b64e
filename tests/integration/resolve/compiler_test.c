/* The tables of the resolve step against the real compiler: does it take, refuse and limit what they say? */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/resolve/checks.h"
#include "tests/support/compiler_process.h"
#include "tests/unit/resolve/fixture.h"

static msgpack_zone zone;
static struct compiler_process worker;
static struct worker_ready ready;
static struct request request;

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    compiler_process_start_or_skip(&worker, NULL, &zone, &ready);
    request_init(&request);
    request.facts = (struct compiler_facts){
        .major = (unsigned)ready.major, .minor = (unsigned)ready.minor, .archs = ready.archs, .n_archs = ready.n_archs};
    request.fusion.code = TEXT_OF("__global__ void scale(float *x, float y) { x[0] = x[1] * y + x[2] / y; }\n");
    request.fusion.side_effects_only = true;
    request.fusion.n_params = 0;
    request.fusion.n_outputs = 0;
}

static void teardown(void)
{
    request_finish(&request);
    compiler_process_finish(&worker);
    msgpack_zone_destroy(&zone);
}

TestSuite(compiler, .init = setup, .fini = teardown);

static struct worker_result compile(void)
{
    struct worker_result result = {0};
    struct error error = {0};
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    struct worker_job job = {
        .program = request.resolved.program,
        .args = request.resolved.job_args,
        .n_args = request.resolved.n_job_args,
        .names = request.resolved.names,
        .n_names = request.resolved.n_names,
        .image_kind = request.resolved.image_kind,
    };
    cr_assert_eq(compiler_process_compile(&worker, &job, &zone, &result, &error), 0, "%s", error.text);
    return result;
}

static void expect_compiled(const char *what)
{
    struct worker_result result = compile();
    cr_expect_eq(result.result, 0, "%s: %s", what, result.log.at);
    /* A conflict of options would show here. */
    cr_expect(result.log.at == NULL || strstr(result.log.at, "arning") == NULL, "%s: %s", what, result.log.at);
}

Test(compiler, B2_1_takes_every_option)
{
    request.compile = (struct compile_options){.no_fmad = true, .fast_math = true};
    expect_compiled("both kinds of arithmetic");
    request.compile = (struct compile_options){.debug = true, .line_info = true, .has_opt_level = true};
    expect_compiled("debug");
    request.compile = (struct compile_options){.line_info = true, .asserts = true, .no_magic_zero = true};
    expect_compiled("line info, asserts, magic zero");
    for (unsigned level = 0; level <= 4; level++) {
        request.compile = (struct compile_options){.has_opt_level = true, .opt_level = level};
        expect_compiled("a level");
    }
    for (int64_t threads = 256; threads <= 1024; threads += 128) {
        request.compile = (struct compile_options){.has_block_size = true, .block_size = threads};
        expect_compiled("a block");
    }
    request.compile.image = IMAGE_KIND_PTX;
    expect_compiled("PTX");
}

/* Names that the preamble's own text uses for parameters and the like must not change under a client's definitions. */
Test(compiler, B4_3_defines_do_not_reach_into_the_preamble)
{
    static const char *const names[] = {"A", "B", "N", "T", "U", "x", "y", "size", "value", "out", "in"};
    struct define defines[sizeof names / sizeof names[0]];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        defines[i] = (struct define){.name = text_of(names[i]), .value = TEXT_OF("7")};
    request.compile.defines = defines;
    request.compile.n_defines = sizeof names / sizeof names[0];
    request.fusion.code = TEXT_OF("__global__ void scale(Tensor<float, 1, 1> t) {\n"
                                  "  Array<float, 4, 4> r;\n  loadGlobalToLocal<float, 4, false, CacheOp::Streaming>"
                                  "(&r[0], &t[0]);\n  t[1] = clamp(r[0], 0.0f, (float)N) * A;\n}\n");
    expect_compiled("definitions of short names");
    cr_expect_gt(request.resolved.n_modules, 3);
}

/* The reason for a row's rule: what is refused beforehand would have failed. */
Test(compiler, B2_1_debug_takes_no_level)
{
    struct error error = {0};
    struct worker_result result;
    request.compile.debug = true;
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    struct text args[32];
    memcpy(args, request.resolved.args, request.resolved.n_args * sizeof *args);
    args[request.resolved.n_args] = TEXT_OF("--ptxas-options=-O1");
    struct worker_job job = {.program = request.resolved.program,
                             .args = args,
                             .n_args = request.resolved.n_args + 1,
                             .image_kind = IMAGE_KIND_CUBIN};
    cr_assert_eq(compiler_process_compile(&worker, &job, &zone, &result, &error), 0, "%s", error.text);
    cr_expect_neq(result.result, 0);
    request.compile.has_opt_level = true;
    request.compile.opt_level = 1;
    cr_expect_eq(request_resolve(&request), -1);
}

/* Each form of each target that the compiler lists, and the static shared memory that it really takes. */
Test(compiler, B1_2_targets_and_their_shared_memory)
{
    static const char suffixes[] = {0, 'a', 'f'};
    char code[256], target[TARGET_TEXT];
    request.fusion.code = (struct text){code, 0};
    request.fusion.target.at = target;
    for (size_t i = 0; i < ready.n_archs; i++) {
        for (size_t k = 0; k < sizeof suffixes; k++) {
            struct target form = {(unsigned)ready.archs[i], suffixes[k], IMAGE_KIND_CUBIN, 0};
            struct target settled;
            target_name(&form, target);
            request.fusion.target.size = strlen(target);
            if (target_settle(request.fusion.target, 0, &request.facts, &settled, &request.error)) {
                cr_expect(suffixes[k], "%s", request.error.text);
                continue;
            }
            unsigned limit = shared_memory_limit(&settled, &request.facts);
            for (unsigned above = 0; above < 2; above++) {
                int size = snprintf(code, sizeof code,
                                    "__global__ void scale(int *x) { __shared__ volatile char s[%u]; "
                                    "s[threadIdx.x] = x[1]; s[%u] = 1; x[0] = s[threadIdx.x + 1]; }\n",
                                    limit + above, limit + above - 1);
                request.fusion.code.size = (size_t)size;
                struct worker_result result = compile();
                /* An older compiler may take more than it is given. */
                if (!above || request.facts.major >= 13)
                    cr_expect_eq(result.result == 0, !above, "%s, %u bytes: %s", target, limit + above, result.log.at);
            }
        }
    }
}

Test(compiler, B2_2_target_of_a_device)
{
    request.fusion.target = TEXT_OF("cc_9.0");
    expect_compiled("cc_9.0");
    request.fusion.target = TEXT_OF("cc_99.0");
    struct worker_result result = compile();
    cr_expect_eq(result.result, 0, "%s", result.log.at);
    cr_expect_eq(request.resolved.image_kind, IMAGE_KIND_PTX);
}

/* Every compute capability from below the oldest to above the newest: refused or compiled for what the rule says. */
Test(compiler, B2_2_every_device_is_clamped_to_what_compiles)
{
    char text[16];
    unsigned oldest = (unsigned)ready.archs[0], newest = (unsigned)ready.archs[ready.n_archs - 1];
    request.fusion.target.at = text;
    for (unsigned device = oldest - 1; device <= newest + 9; device++) {
        unsigned lower = 0;
        for (size_t i = 0; i < ready.n_archs; i++)
            if (ready.archs[i] <= (int64_t)device)
                lower = (unsigned)ready.archs[i];
        request.fusion.target.size = (size_t)snprintf(text, sizeof text, "cc_%u.%u", device / 10, device % 10);
        if (!lower) {
            cr_expect_eq(request_resolve(&request), -1, "%s", text);
            cr_expect_eq(request.error.code, STATUS_UNSUPPORTED_TARGET);
            continue;
        }
        bool ptx = lower != device && (lower == newest || lower / 10 != device / 10);
        bool suffix = lower == device && device >= 90 && request.facts.major >= 12;
        char expected[TARGET_TEXT];
        snprintf(expected, sizeof expected, "%s_%u%s", ptx ? "compute" : "sm", lower, suffix ? "a" : "");
        struct worker_result result = compile();
        cr_expect_eq(result.result, 0, "%s: %s", text, result.log.at);
        cr_expect_str_eq(request.resolved.target.at, expected, "%s", text);
        cr_expect_eq(request.resolved.n_warnings, lower != device, "%s", text);
    }
}

Test(compiler, F28_a_define_stays_a_define)
{
    static const char *const values[] = {
        "1 -DLEAKED",     "1\" -DLEAKED \"",
        "1' -DLEAKED '",  "1 --include=/etc/hostname",
        "@/etc/hostname", "-DLEAKED",
        "1\\ 2",          "1 // x",
        "$(LEAKED)",      "\"",
        "1\t-DLEAKED",    "1;-DLEAKED",
        "1,-DLEAKED",     "\\\" -DLEAKED",
    };
    request.fusion.code = TEXT_OF("#if defined LEAKED || !defined A || !defined LAST\n#error leaked\n#endif\n"
                                  "__global__ void scale(float *x) { x[0] = LAST; }\n");
    request.compile.defines = request.defines;
    request.compile.n_defines = 2;
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        request.defines[0] = (struct define){.name = TEXT_OF("A"), .value = text_of(values[i])};
        request.defines[1] = (struct define){.name = TEXT_OF("LAST"), .value = TEXT_OF("7")};
        struct worker_result result = compile();
        cr_expect_eq(result.result, 0, "%s: %s", values[i], result.log.at);
    }
}

Test(compiler, B3_1_name_expressions)
{
    static const char *const entries[] = {"f<float, (4 > 2)>", "in::g<'a'>", "f<const int *, true>", "in::h<in::T>"};
    request.fusion.code = TEXT_OF("template <class T, bool B> __global__ void f(T *x) { x[B] = T(); }\n"
                                  "namespace in {\n"
                                  "struct T {};\n"
                                  "template <char C> __global__ void g(char *x) { *x = C; }\n"
                                  "template <class T> __global__ void h(T *x) { *x = T(); }\n"
                                  "}");
    request.fusion.n_entries = 3;
    for (size_t i = 0; i < 3; i++)
        request.entries[i] = text_of(entries[i]);
    struct worker_result result = compile();
    cr_assert_eq(result.result, 0, "%s", result.log.at);
    cr_assert_eq(result.n_entries, 3);
    /* The compiler is given a placeholder for the name, which delivery replaces. */
    const char *lowered = result.entries[1].lowered.at;
    cr_expect(strncmp(lowered, "_ZN7fusiond2in64fusiond_entry_01_", 33) == 0 && strstr(lowered, "ILc97EEEvPc"), "%s",
              lowered);
    /* Types of the fusion in template arguments are seen from outside of the namespace around it. */
    request.entries[0] = text_of(entries[3]);
    request.fusion.n_entries = 1;
    result = compile();
    cr_expect_neq(result.result, 0);
    request.entries[0] = TEXT_OF("in::h<fusiond::in::T>");
    result = compile();
    cr_expect_eq(result.result, 0, "%s", result.log.at);
}

Test(compiler, B3_2_lines_are_the_clients)
{
    request.fusion.code = TEXT_OF("// one\n__global__ void scale(float *x)\n{\n    oops;\n}");
    struct worker_result result = compile();
    cr_assert_neq(result.result, 0);
    cr_assert_geq(result.n_diagnostics, 1);
    cr_expect(text_is(result.diagnostics[0].file, "fusion.cu"), "%s", result.log.at);
    cr_expect_eq(result.diagnostics[0].line, 4);

    request.fusion.structured = true;
    result = compile();
    cr_assert_geq(result.n_diagnostics, 1);
    cr_expect_eq(result.diagnostics[0].line, 4);
}

/* An attribute beats the limit: the reason for the warning. */
Test(compiler, B2_3_launch_bounds_win)
{
    request.fusion.code = TEXT_OF("__global__ void __launch_bounds__(128, 1) scale(float *x)\n"
                                  "{\n"
                                  "    float a[96];\n"
                                  "#pragma unroll\n"
                                  "    for (int i = 0; i < 96; i++) a[i] = x[i * 7];\n"
                                  "#pragma unroll\n"
                                  "    for (int i = 0; i < 96; i++) x[i * 5] = a[95 - i] * a[i];\n"
                                  "}\n");
    request.compile.has_max_registers = true;
    request.compile.max_registers = 32;
    struct worker_result result = compile();
    cr_assert_eq(result.result, 0, "%s", result.log.at);
    cr_expect_gt(result.entries[0].registers, 32);
    cr_expect_eq(request.resolved.n_warnings, 1);
}
