#include <criterion/criterion.h>
#include <string.h>

#include "daemon/resolve/options.h"
#include "daemon/resolve/zone.h"
#include "tests/unit/resolve/fixture.h"

/* The arguments for a target, joined by blanks, into text. */
static void write_line(struct request *request, const char *target, unsigned max_registers, bool key, char text[1024])
{
    struct target settled;
    char name[TARGET_TEXT];
    cr_assert_eq(target_settle(text_of(target), request->compile.image, &request->facts, &settled, &request->error), 0);
    struct settings settings = {&request->compile, &request->facts, &settled, text_of(target_name(&settled, name)),
                                max_registers};
    cr_assert_eq(options_write(&settings, &request->zone, &request->resolved, &request->error), 0);
    const struct text *args = key ? request->resolved.key_args : request->resolved.args;
    size_t n = key ? request->resolved.n_key_args : request->resolved.n_args, used = 0;
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(args[i].at[args[i].size], 0, "an argument ends with a NUL");
        used += (size_t)snprintf(text + used, 1024 - used, "%s%s", i ? " " : "", args[i].at);
    }
}

static void expect_line(struct request *request, const char *target, unsigned max_registers, const char *args,
                        const char *key_args)
{
    char text[1024];
    write_line(request, target, max_registers, false, text);
    cr_expect_str_eq(text, args, "\n  got      %s\n  expected %s", text, args);
    write_line(request, target, max_registers, true, text);
    cr_expect_str_eq(text, key_args, "\n  got      %s\n  expected %s", text, key_args);
}

Test(options, B2_1_nothing_asked_for)
{
    struct request request;
    request_init(&request);
    expect_line(&request, "sm_90a", 0,
                "--std=c++17 --diag-suppress=177 --gpu-architecture=sm_90a -default-device --fmad=true -DNDEBUG "
                "--ptxas-options=--verbose --no-cache",
                "--std=c++17 --gpu-architecture=sm_90a -default-device --fmad=true -DNDEBUG");
    request_finish(&request);
}

static void ask_for_everything(struct request *request)
{
    request->compile = (struct compile_options){
        .no_fmad = true,
        .fast_math = true,
        .line_info = true,
        .asserts = true,
        .opt_level = 1,
        .has_opt_level = true,
        .no_magic_zero = true,
        .defines = request->defines,
        .n_defines = 2,
    };
}

Test(options, B2_1_canonical_order)
{
    struct request request;
    request_init(&request);
    ask_for_everything(&request);
    expect_line(&request, "sm_100f", 80,
                "--std=c++17 --diag-suppress=177 --gpu-architecture=sm_100f -default-device --fmad=false "
                "--use_fast_math -lineinfo --ptxas-options=--verbose --ptxas-options=-O1 --maxrregcount=80 "
                "-DFUSIOND_NO_MAGIC_ZERO -DWIDTH=4 -DFAST=1 --no-cache",
                "--std=c++17 --gpu-architecture=sm_100f -default-device --fmad=false --use_fast_math -lineinfo "
                "--ptxas-options=-O1 --maxrregcount=80 -DFUSIOND_NO_MAGIC_ZERO -DWIDTH=4 -DFAST=1");
    request_finish(&request);
}

Test(options, B2_3_ptx_leaves_limits_to_the_loader)
{
    struct request request;
    request_init(&request);
    ask_for_everything(&request);
    expect_line(&request, "compute_80", 80,
                "--std=c++17 --diag-suppress=177 --gpu-architecture=compute_80 -default-device --fmad=false "
                "--use_fast_math -lineinfo -DFUSIOND_NO_MAGIC_ZERO -DWIDTH=4 -DFAST=1 --no-cache",
                "--std=c++17 --gpu-architecture=compute_80 -default-device --fmad=false --use_fast_math -lineinfo "
                "-DFUSIOND_NO_MAGIC_ZERO -DWIDTH=4 -DFAST=1");
    request_finish(&request);
}

Test(options, B2_1_debug_drops_line_info_and_level)
{
    struct request request;
    request_init(&request);
    request.compile = (struct compile_options){.debug = true, .line_info = true, .has_opt_level = true};
    expect_line(&request, "sm_90", 0,
                "--std=c++17 -G --diag-suppress=177 --gpu-architecture=sm_90 -default-device --fmad=true -DNDEBUG "
                "--ptxas-options=--verbose --no-cache",
                "--std=c++17 -G --gpu-architecture=sm_90 -default-device --fmad=true -DNDEBUG");
    request_finish(&request);
}

Test(options, B2_1_default_level_is_not_sent)
{
    struct request request;
    char plain[1024], text[1024];
    request_init(&request);
    write_line(&request, "sm_90", 0, true, plain);
    request.compile.has_opt_level = true;
    for (unsigned level = 0; level <= OPT_LEVEL_MAX; level++) {
        request.compile.opt_level = level;
        write_line(&request, "sm_90", 0, true, text);
        cr_expect_eq(strcmp(text, plain) == 0, level == OPT_LEVEL_DEFAULT, "level %u: %s", level, text);
    }
    request_finish(&request);
}

Test(options, B2_1_first_nvrtc_of_a_row)
{
    static const struct {
        unsigned major, minor;
        bool has;
    } cases[] = {{11, 2, false}, {12, 0, false}, {12, 8, false}, {12, 9, true}, {13, 0, true}, {14, 1, true}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct request request;
        char text[1024];
        request_init(&request);
        request.facts = facts_of(cases[i].major, cases[i].minor);
        write_line(&request, "sm_75", 0, false, text);
        cr_expect_eq(strstr(text, "--no-cache") != NULL, cases[i].has, "NVRTC %u.%u: %s", cases[i].major,
                     cases[i].minor, text);
        request_finish(&request);
    }
}

Test(options, B2_1_table)
{
    size_t n;
    const struct option_row *rows = option_rows(&n);
    cr_assert_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        cr_expect(rows[i].sass && rows[i].sass[0] == '-', "%s", rows[i].name);
        cr_expect(!rows[i].ptx || rows[i].ptx[0] == '-', "%s", rows[i].name);
        /* What a client sets either reaches the compiler or, for PTX, the driver. */
        if (rows[i].field[0])
            cr_expect(rows[i].ptx || rows[i].load, "%s", rows[i].name);
        /* All that a client sets changes the image. */
        if (rows[i].field[0])
            cr_expect(rows[i].in_key && rows[i].values[0], "%s", rows[i].name);
        for (size_t k = 0; k < i; k++)
            cr_expect_str_neq(rows[i].name, rows[k].name);
    }
}

struct refusal {
    struct compile_options compile;
    const char *names;
};

static void expect_refusal(const struct refusal *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct request request;
        request_init(&request);
        cr_expect_eq(options_check(&cases[i].compile, &request.zone, &request.error), -1, "case %zu", i);
        cr_expect_eq(request.error.code, STATUS_INVALID_OPTION, "case %zu: %s", i, request.error.text);
        cr_expect_neq(strstr(request.error.text, cases[i].names), NULL, "case %zu: %s", i, request.error.text);
        request_finish(&request);
    }
}

Test(options, B2_1_out_of_range)
{
    static const struct refusal cases[] = {
        {{.has_opt_level = true, .opt_level = 5}, "compile.opt_level: is 5; the limits are 0 and 4"},
        {{.has_opt_level = true, .opt_level = 0xffffffffu}, "is 4294967295; the limits are 0 and 4"},
        {{.has_opt_level = true, .opt_level = 3, .debug = true}, "compile.opt_level: is 3"},
        {{.has_max_registers = true, .max_registers = 0}, "compile.max_registers: is 0; the limits are 1 and 255"},
        {{.has_max_registers = true, .max_registers = 256}, "compile.max_registers: is 256; the limits are 1 and 255"},
    };
    expect_refusal(cases, ARRAY_SIZE(cases));

    struct request request;
    request_init(&request);
    request.compile = (struct compile_options){
        .has_opt_level = true, .opt_level = 4, .has_max_registers = true, .max_registers = 255};
    cr_expect_eq(options_check(&request.compile, &request.zone, &request.error), 0, "%s", request.error.text);
    request_finish(&request);
}

Test(options, F28_defines_stay_one_definition)
{
    static const char *const names[] = {
        "",
        "9A",
        "A B",
        "A=B",
        "A-B",
        "-I/etc",
        "A\n",
        "A(x)",
        "NDEBUG",
        "FUSIOND_X",
        "fusiond",
        "__CUDACC__",
        "__CUDA_ARCH__",
        "__CUDACC_RTC__",
        "defined",
        "__cplusplus",
        "__LINE__",
        "A\"",
        "FUSIOND_NO_MAGIC_ZERO",
        "\xc3\xa9",
        "include",
    };
    static const char *const values[] = {"1\n-I/etc", "1\r", "\x01", "\x7f", "a\vb", "1 \\", "1 /* ", "R\"("};
    struct request request;
    request_init(&request);
    request.compile.defines = request.defines;
    request.compile.n_defines = 1;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        request.defines[0] = (struct define){.name = text_of(names[i])};
        cr_expect_eq(options_check(&request.compile, &request.zone, &request.error), -1, "\"%s\"", names[i]);
        cr_expect_eq(request.error.code, STATUS_INVALID_OPTION);
        cr_expect_neq(strstr(request.error.text, "compile.defines[0].name"), NULL, "%s", request.error.text);
    }
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        request.defines[0] = (struct define){.name = TEXT_OF("A"), .value = text_of(values[i])};
        cr_expect_eq(options_check(&request.compile, &request.zone, &request.error), -1, "value %zu", i);
        cr_expect_neq(strstr(request.error.text, "compile.defines[0].value"), NULL, "%s", request.error.text);
    }
    request.defines[0] = (struct define){.name = TEXT_OF("A"), .value = {"1\0002", 3}};
    cr_expect_eq(options_check(&request.compile, &request.zone, &request.error), -1, "a NUL");
    request_finish(&request);
}

Test(options, B2_1_defines)
{
    struct request request;
    request_init(&request);
    request.compile.defines = request.defines;
    request.compile.n_defines = 4;
    request.defines[0] = (struct define){.name = TEXT_OF("A"), .value = TEXT_OF("1 -I/etc --include=x \"q\" \\ //")};
    request.defines[1] = (struct define){.name = TEXT_OF("__CUDA_NO_HALF_OPERATORS__")};
    request.defines[2] = (struct define){.name = TEXT_OF("EMPTY"), .value = TEXT_OF("")};
    request.defines[3] = (struct define){.name = TEXT_OF("B"), .value = TEXT_OF("a=\tb")};
    cr_assert_eq(options_check(&request.compile, &request.zone, &request.error), 0, "%s", request.error.text);
    char text[1024];
    write_line(&request, "sm_90", 0, false, text);
    const struct text *args = request.resolved.args;
    size_t n = request.resolved.n_args;
    cr_expect(has_text(args, n, "-DA=1 -I/etc --include=x \"q\" \\ //"));
    cr_expect(has_text(args, n, "-D__CUDA_NO_HALF_OPERATORS__=1"));
    cr_expect(has_text(args, n, "-DEMPTY="));
    cr_expect(has_text(args, n, "-DB=a=\tb"));

    request.defines[3].name = TEXT_OF("A");
    cr_expect_eq(options_check(&request.compile, &request.zone, &request.error), -1);
    cr_expect_neq(strstr(request.error.text, "compile.defines[3].name: \"A\" is given twice"), NULL, "%s",
                  request.error.text);
    request_finish(&request);
}
