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
        .quick = QUICK_LEVEL_MID,
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
                "--use_fast_math -lineinfo --ptxas-options=--verbose --ptxas-options=-O1 --Ofast-compile=mid "
                "--maxrregcount=80 -DFUSIOND_NO_MAGIC_ZERO -DWIDTH=4 -DFAST=1 --no-cache",
                "--std=c++17 --gpu-architecture=sm_100f -default-device --fmad=false --use_fast_math -lineinfo "
                "--ptxas-options=-O1 --Ofast-compile=mid --maxrregcount=80 -DFUSIOND_NO_MAGIC_ZERO -DWIDTH=4 "
                "-DFAST=1");
    request_finish(&request);
}

Test(options, B2_3_ptx_leaves_limits_to_the_loader)
{
    struct request request;
    request_init(&request);
    ask_for_everything(&request);
    expect_line(&request, "compute_80", 80,
                "--std=c++17 --diag-suppress=177 --gpu-architecture=compute_80 -default-device --fmad=false "
                "--use_fast_math -lineinfo --Ofast-compile=mid -DFUSIOND_NO_MAGIC_ZERO -DWIDTH=4 -DFAST=1 "
                "--no-cache",
                "--std=c++17 --gpu-architecture=compute_80 -default-device --fmad=false --use_fast_math -lineinfo "
                "--Ofast-compile=mid -DFUSIOND_NO_MAGIC_ZERO -DWIDTH=4 -DFAST=1");
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

Test(options, P8_quick_levels)
{
    for (unsigned level = QUICK_LEVEL_MIN; level <= QUICK_LEVEL_MAX; level++) {
        struct request request;
        char text[1024], wanted[64];
        request_init(&request);
        request.compile.quick = level;
        snprintf(wanted, sizeof wanted, " --Ofast-compile=%s ", quick_level_word((int)level));
        write_line(&request, "sm_90", 0, false, text);
        cr_expect(strstr(text, wanted), "%s", text);
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

/* ---- one case per row ---- */

static struct define one_define = {.name = TEXT_OF("WIDTH"), .value = TEXT_OF("4")};

/* What a row sends when its field is set (or always), and what when it is not; NULL: nothing. */
struct row_case {
    const char *name;
    struct compile_options compile;
    unsigned max_registers;
    const char *sass, *ptx, *host;
    const char *sass_unset;
};

static const struct row_case row_cases[] = {
    {"std", {0}, 0, "--std=c++17", "--std=c++17", NULL, "--std=c++17"},
    {"debug", {.debug = true}, 0, "-G", "-G", "-g", NULL},
    {"unused_variables", {0}, 0, "--diag-suppress=177", "--diag-suppress=177", NULL, "--diag-suppress=177"},
    {"architecture",
     {0},
     0,
     "--gpu-architecture=sm_90",
     "--gpu-architecture=compute_90",
     NULL,
     "--gpu-architecture=sm_90"},
    {"default_device", {0}, 0, "-default-device", "-default-device", NULL, "-default-device"},
    {"fmad", {.no_fmad = true}, 0, "--fmad=false", "--fmad=false", NULL, "--fmad=true"},
    {"fast_math", {.fast_math = true}, 0, "--use_fast_math", "--use_fast_math", NULL, NULL},
    {"line_info", {.line_info = true}, 0, "-lineinfo", "-lineinfo", "-g1", NULL},
    {"asserts", {.asserts = true}, 0, NULL, NULL, NULL, "-DNDEBUG"},
    {"verbose", {0}, 0, "--ptxas-options=--verbose", NULL, NULL, "--ptxas-options=--verbose"},
    {"opt_level", {.has_opt_level = true, .opt_level = 1}, 0, "--ptxas-options=-O1", NULL, "-O1", NULL},
    {"quick", {.quick = QUICK_LEVEL_MID}, 0, "--Ofast-compile=mid", "--Ofast-compile=mid", NULL, NULL},
    {"max_registers", {0}, 80, "--maxrregcount=80", NULL, NULL, NULL},
    {"magic_zero",
     {.no_magic_zero = true},
     0,
     "-DFUSIOND_NO_MAGIC_ZERO",
     "-DFUSIOND_NO_MAGIC_ZERO",
     "-DFUSIOND_NO_MAGIC_ZERO",
     NULL},
    {"defines", {.defines = &one_define, .n_defines = 1}, 0, "-DWIDTH=4", "-DWIDTH=4", "-DWIDTH=4", NULL},
    {"toolkit_headers", {.toolkit_headers = true}, 0, NULL, NULL, NULL, NULL}, /* the worker's to write */
    {"no_cache", {0}, 0, "--no-cache", "--no-cache", NULL, "--no-cache"},
};

/* The arguments that begin with the row's form, joined. */
static void write_row(const struct option_row *row, const struct compile_options *compile, unsigned max_registers,
                      const char *word, bool key, char ret[256])
{
    struct request request;
    struct target target;
    char name[TARGET_TEXT];
    request_init(&request);
    request.facts.kind = strcmp(word, "host") == 0 ? COMPILER_HOST : COMPILER_NVRTC;
    cr_assert_eq(target_settle(text_of(word), 0, &request.facts, &target, &request.error), 0);
    struct settings settings = {compile, &request.facts, &target, text_of(target_name(&target, name)), max_registers,
                                true};
    cr_assert_eq(options_write(&settings, &request.zone, &request.resolved, &request.error), 0);
    const char *form = strcmp(word, "host") == 0 ? row->host : word[0] == 's' ? row->sass : row->ptx;
    const struct text *args = key ? request.resolved.key_args : request.resolved.args;
    size_t n = key ? request.resolved.n_key_args : request.resolved.n_args;
    ret[0] = 0;
    for (size_t i = 0; form && i < n; i++) {
        bool has_value = strcmp(row->name, "defines") == 0 || form[strlen(form) - 1] == '=' || form[1] == 'O' ||
                         strcmp(row->name, "opt_level") == 0;
        if (has_value ? strncmp(args[i].at, form, strlen(form)) != 0 : strcmp(args[i].at, form) != 0)
            continue;
        /* -D of other rows, and the host's -g of a row whose form is a single hyphen. */
        if (strcmp(row->name, "defines") == 0 && !strstr(args[i].at, "WIDTH"))
            continue;
        if (strcmp(row->name, "opt_level") == 0 && strstr(args[i].at, "verbose"))
            continue;
        strcat(strcat(ret, ret[0] ? " " : ""), args[i].at);
    }
    /* The host's debugger is told in two words. */
    if (strcmp(row->name, "debug") == 0 && strcmp(word, "host") == 0 && has_text(args, n, "-g"))
        snprintf(ret, 256, "-g");
    request_finish(&request);
}

Test(options, B2_1_every_row_by_itself)
{
    static const struct compile_options nothing;
    size_t n;
    const struct option_row *rows = option_rows(&n);
    cr_assert_eq(n, ARRAY_SIZE(row_cases), "every row has a case here");
    for (size_t i = 0; i < n; i++) {
        const struct row_case *c = &row_cases[i];
        char text[256];
        cr_assert_str_eq(rows[i].name, c->name, "the order is the canonical one");
        const struct {
            const char *target, *expected;
        } forms[] = {{"sm_90", c->sass}, {"compute_90", c->ptx}, {"host", c->host}};
        for (size_t k = 0; k < ARRAY_SIZE(forms); k++) {
            const char *expected = forms[k].expected ? forms[k].expected : "";
            write_row(&rows[i], &c->compile, c->max_registers, forms[k].target, false, text);
            cr_expect_str_eq(text, expected, "%s for %s: \"%s\"", c->name, forms[k].target, text);
            write_row(&rows[i], &c->compile, c->max_registers, forms[k].target, true, text);
            cr_expect_str_eq(text, rows[i].in_key ? expected : "", "the key's %s for %s: \"%s\"", c->name,
                             forms[k].target, text);
        }
        write_row(&rows[i], &nothing, 0, "sm_90", false, text);
        cr_expect_str_eq(text, c->sass_unset ? c->sass_unset : "", "%s, not set: \"%s\"", c->name, text);
    }
}

/* No row of a client's needs a newer NVRTC than the oldest that is used; the rule stands for the first that will. */
Test(options, B2_1_a_compiler_that_is_too_old_for_an_option_is_named)
{
    const struct option_row row = {.name = "new", .field = "compile.new", .major = 12, .minor = 9};
    struct compiler_facts old = facts_of(12, 8), good = facts_of(12, 9);
    struct compiler_facts host = {.kind = COMPILER_HOST, .major = 12, .minor = 2};
    struct error error = {0};
    cr_expect_eq(option_check_compiler(&row, &old, &error), -1);
    cr_expect_eq(error.code, STATUS_INVALID_OPTION);
    cr_expect_str_eq(error.text, "fusion.compile.new: needs NVRTC 12.9; this daemon's is 12.8");
    cr_expect_eq(option_check_compiler(&row, &good, &error), 0);
    cr_expect_eq(option_check_compiler(&row, &host, &error), 0, "another compiler's versions");
}

/* ---- the documentation ---- */

static void code(char *line, size_t size, const char *text)
{
    size_t used = strlen(line);
    snprintf(line + used, size - used, text && text[0] ? " `%s` |" : " – |", text);
}

/* The row of docs/options.md. */
static void write_documentation(const struct option_row *row, char ret[512])
{
    snprintf(ret, 512, "|");
    code(ret, 512, row->name);
    code(ret, 512, row->field);
    size_t used = strlen(ret);
    snprintf(ret + used, 512 - used, " %s | %s |", row->values[0] ? row->values : "–", row->in_key ? "yes" : "no");
    code(ret, 512, row->sass);
    code(ret, 512, row->ptx);
    code(ret, 512, row->load);
    code(ret, 512, row->host);
    used = strlen(ret);
    if (row->major)
        snprintf(ret + used, 512 - used, " %u.%u |\n", row->major, row->minor);
    else
        snprintf(ret + used, 512 - used, " 11.2 |\n");
}

Test(options, B2_1_the_documentation_has_the_table)
{
    static char text[65536];
    FILE *file = fopen(SOURCE_ROOT "/docs/options.md", "re");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    size_t n;
    const struct option_row *rows = option_rows(&n);
    const char *at = strstr(text, "| --- |");
    cr_assert_not_null(at);
    at = strchr(at, '\n') + 1;
    for (size_t i = 0; i < n; i++) {
        char line[512];
        write_documentation(&rows[i], line);
        cr_assert(strncmp(at, line, strlen(line)) == 0, "docs/options.md lacks, in this place: %s", line);
        at += strlen(line);
    }
    cr_assert_eq(*at, '\n', "docs/options.md has a row too many: %.100s", at);
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
        {{.quick = QUICK_LEVEL_MIN, .debug = true}, "compile.quick: is \"min\""},
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
