/* B7.2: which names a placeholder stands for, which stay, and that nothing else of a program changes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/resolve/placeholder.h"
#include "tests/unit/resolve/fixture.h"

#define FIRST PLACEHOLDER_STEM "00" PLACEHOLDER_TAIL
#define SECOND PLACEHOLDER_STEM "01" PLACEHOLDER_TAIL

static struct request request;
static struct renaming renaming;

static void setup(void)
{
    request_init(&request);
    request.fusion.structured = true;
    request.fusion.n_headers = 0;
}

static void teardown(void)
{
    request_finish(&request);
}

TestSuite(placeholder, .init = setup, .fini = teardown);

/* With one entry, or two. */
static void renamed(const char *code, const char *first, const char *second)
{
    struct error error;
    request.fusion.code = text_of(code);
    request.entries[0] = text_of(first);
    request.entries[1] = text_of(second);
    request.fusion.n_entries = second ? 2 : 1;
    cr_assert_eq(placeholder_rename(&request.fusion, NULL, &request.zone, &renaming, &error), 0);
    /* With the names put back, every byte is the client's. */
    char *back = msgpack_zone_malloc(&request.zone, renaming.code.size + 1);
    size_t size = entry_names_write(renaming.names, renaming.code, back);
    cr_assert(size == strlen(code) && memcmp(back, code, size) == 0, "%s\n%.*s", code, (int)size, back);
}

static void expect_kept(const char *code, const char *entry, const char *why)
{
    renamed(code, entry, NULL);
    cr_expect_eq(renaming.names.size, 0, "%s", code);
    cr_expect(renaming.kept.at && strstr(renaming.kept.at, why), "%s\n%s", code, renaming.kept.at);
    cr_expect_eq(renaming.code.at, code, "the code is the client's own");
    cr_expect_str_eq(renaming.entries[0].at, entry);
}

Test(placeholder, B7_2_declarations_and_comments)
{
    static const struct {
        const char *code, *renamed;
    } cases[] = {
        {"__global__ void k() {}", "__global__ void " FIRST "() {}"},
        {"void __global__ k(int k2) {}", "void __global__ " FIRST "(int k2) {}"},
        {"// k, k2 and\\\nk\n/* k*/__global__ void/*k*/k() {}",
         "// " FIRST ", k2 and\\\n" FIRST "\n/* " FIRST "*/__global__ void/*" FIRST "*/" FIRST "() {}"},
        {"__global__ void __launch_bounds__(2 * (3), 1)\nk(int n);\n__global__ void k(int n) {}",
         "__global__ void __launch_bounds__(2 * (3), 1)\n" FIRST "(int n);\n__global__ void " FIRST "(int n) {}"},
        {"template <class T> __global__ void k(T a[2]) { a.kk = ak + 1'0k; }\ntemplate __global__ void k<int>(int "
         "*);",
         "template <class T> __global__ void " FIRST "(T a[2]) { a.kk = ak + 1'0k; }\ntemplate __global__ void " FIRST
         "<int>(int *);"},
        {"namespace n { __global__ void k() { char c = '\"'; } }",
         "namespace n { __global__ void " FIRST "() { char c = '\"'; } }"},
        {"const char *s = R\"x(a \"kk\" )x\"; __global__ void k() {}",
         "const char *s = R\"x(a \"kk\" )x\"; __global__ void " FIRST "() {}"},
        {"#define N(x) \\\n ((x) + 1)\n#pragma unroll\n__global__ auto k() -> void {}",
         "#define N(x) \\\n ((x) + 1)\n#pragma unroll\n__global__ auto " FIRST "() -> void {}"},
        {"#if 0\ndon't\n#endif\n__global__ void k() {}", "#if 0\ndon't\n#endif\n__global__ void " FIRST "() {}"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        renamed(cases[i].code, "k", NULL);
        cr_expect_eq(entry_names_count(renaming.names), 1, "%s: %s", cases[i].code, renaming.kept.at);
        cr_expect(text_is(renaming.code, cases[i].renamed), "%.*s", (int)renaming.code.size, renaming.code.at);
    }
}

Test(placeholder, B7_2_entries_of_every_form)
{
    renamed("template <int N> __global__ void a() {}\nnamespace n { __global__ void b() {} }", "a<3>", "n::b");
    cr_expect_str_eq(renaming.entries[0].at, FIRST "<3>");
    cr_expect_str_eq(renaming.entries[1].at, "n::" SECOND);
    cr_expect(text_is(entry_name(renaming.names, 0), "a") && text_is(entry_name(renaming.names, 1), "b"));
    renamed("template <int N> __global__ void a() {}", "a<3>", "a<4>");
    cr_expect_str_eq(renaming.entries[1].at, FIRST "<4>");
    cr_expect_eq(entry_names_count(renaming.names), 1);
    /* One stays, the other does not. */
    renamed("__global__ void a() {}\n__global__ void b() { a<<<1, 1>>>(); }", "a", "b");
    cr_expect_str_eq(renaming.entries[0].at, "a");
    cr_expect_str_eq(renaming.entries[1].at, FIRST);
    cr_expect_neq(strstr(renaming.kept.at, "a keeps its name: line 2"), NULL, "%s", renaming.kept.at);
}

Test(placeholder, B7_2_a_name_that_means_more_stays)
{
    static const struct {
        const char *code, *why;
    } cases[] = {
        {"__global__ void k() { k<<<1, 1>>>(); }", "line 1 of the code uses it"},
        {"__global__ void k();\nvoid *p = (void *)&k;", "line 2 of the code uses it"},
        {"__global__ void k(int k) {}", "uses it"},
        {"struct k {}; __global__ void k() {}", "uses it"},
        {"__global__ void a(), k();", "uses it"},
        {"__global__ void (k)() {}", "uses it"},
        {"__global__ void k {}", "uses it"},
        {"__device__ void k() {}", "uses it"},
        {"KERNEL void k() {}", "uses it"},
        {"KERNEL(k) { }", "uses it"},
        {"__global__ void other() {}", "declares no __global__ function"},
        {"// __global__ void k() {}", "declares no __global__ function"},
        {"#define CALL k\n__global__ void k() {}", "preprocessor line"},
        {"#undef k\n__global__ void k() {}", "preprocessor line"},
        {"#pragma nv_something k\n__global__ void k() {}", "preprocessor line"},
        {"const char *s = \"k\"; __global__ void k() {}", "string"},
        {"const char *s = R\"(\n k )\"; __global__ void k() {}", "line 1 of the code has it in a string"},
        {"__global__ void k() { asm(\"call _Z1kv;\"); }", "string"},
        {"#define S(x) #x\n__global__ void k() { S(k); }", "uses it"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        expect_kept(cases[i].code, "k", cases[i].why);
}

Test(placeholder, B7_2_programs_that_can_see_names_keep_them)
{
    static const struct {
        const char *code, *why;
    } cases[] = {
        {"#define J(a, b) a##b\n__global__ void k() {}", "##"},
        {"#define J(a, b) a%:%:b\n__global__ void k() {}", "%:%:"},
        {"#define J(a, b) a#\\\n#b\n__global__ void k() {}", "ends within a word"},
        {"__global__ void k() { f(__func__); }", "__func__"},
        {"__global__ void k() { f(__PRETTY_FUNCTION__); }", "__PRETTY_FUNCTION__"},
        {"__global__ void k() { f(__FUNCTION__); }", "__FUNCTION__"},
        {"__global__ void k() { f(std::source_location::current()); }", "source_location"},
        {"#undef NDEBUG\n__global__ void k() {}", "NDEBUG"},
        {"#include \"assert.h\"\n__global__ void k() {}", "includes"},
        {"#include <a.h>\n__global__ void k() {}", "includes"},
        {"#include NAME\n__global__ void k() {}", "includes"},
        {"# /* */ include \"x\"\n__global__ void k() {}", "includes"},
        {"%:include \"x\"\n__global__ void k() {}", "includes"},
        {"__global__ void \\u006b() {}\n__global__ void k() {}", "backslash"},
        {"__global__ void k\\\nk() {}\n__global__ void k() {}", "ends within a word"},
        {"/\\\n/ __global__ void k() {\n__global__ void k() {}", "ends within a word"},
        {"#define OPEN S(\n#define CLOSE )\n__global__ void OPEN k CLOSE () {}", "not in pairs"},
        {"#define CLOSE )\n__global__ void f( CLOSE k() {}", "not in pairs"},
        {"__global__ void k() {} )", "not in pairs"},
        {"int fusiond_entry_x; __global__ void k() {}", "placeholders"},
        {"__global__ void k() {} // " FIRST, "placeholders"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        renamed(cases[i].code, "k", NULL);
        cr_expect_eq(renaming.names.size, 0, "%s", cases[i].code);
        cr_expect(renaming.kept.at && strstr(renaming.kept.at, cases[i].why), "%s\n%s", cases[i].code,
                  renaming.kept.at);
    }
}

Test(placeholder, B7_2_names_of_the_language_and_long_ones_stay)
{
    static const char *const names[] = {"int", "main", "memcpy", "__k", "_K", "vprintf", "operator"};
    char code[256], name[80];
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(code, sizeof code, "__global__ void %s() {}", names[i]);
        expect_kept(code, names[i], "a name of the language or of its runtime");
    }
    memset(name, 'n', sizeof name);
    name[65] = '\0';
    snprintf(code, sizeof code, "__global__ void %s() {}", name);
    expect_kept(code, name, "longer than 64 bytes");
    name[64] = '\0';
    snprintf(code, sizeof code, "__global__ void %s() {}", name);
    renamed(code, name, NULL);
    cr_expect_eq(entry_names_count(renaming.names), 1);
    expect_kept("template <class T> __global__ void k() {}", "k<k>", "an entry uses it for something else");
    expect_kept("namespace k { __global__ void k() {} }", "k::k", "an entry uses it for something else");
}

Test(placeholder, B7_2_headers_definitions_and_the_preamble_are_looked_at)
{
    static const char code[] = "#include \"lib/a.h\"\n__global__ void k() {}";
    static const struct {
        const char *header, *why;
    } headers[] = {
        {"#pragma once\ntemplate <class T> struct kk { T x; }; // k2", NULL},
        {"void f() { k(); }", "header lib/a.h has it, too"},
        {"// k", "header lib/a.h has it, too"},
        {"#define J(a, b) a ## b", "##"},
        {"#define S __func__", "__func__"},
        {"#include \"lib/b.h\"", "includes"},
        {"#include \"lib/a.h\"", NULL},
        {"#define OPEN (", "not in pairs"},
    };
    request.fusion.n_headers = 1;
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
        request.headers[0] = (struct header){.name = TEXT_OF("lib/a.h"),
                                             .bytes = {(const uint8_t *)headers[i].header, strlen(headers[i].header)}};
        if (headers[i].why)
            expect_kept(code, "k", headers[i].why);
        else
            renamed(code, "k", NULL);
        cr_expect_eq(renaming.names.size > 0, headers[i].why == NULL, "%s: %s", headers[i].header, renaming.kept.at);
    }
    request.headers[0] = (struct header){.name = TEXT_OF("lib/a.h"), .has_digest = true};
    expect_kept(code, "k", "given by its digest");

    static const char plain[] = "__global__ void k() {}";
    static const struct {
        const char *name, *value, *why;
    } defines[] = {
        {"k", "2", "define k has it, too"},
        {"A", "k()", "define A has it, too"},
        {"A(x)", "#x", NULL},
        {"A", "(", "define A has a preprocessor line"},
        {"A", "a ## b", "##"},
        {"A", "\"kk\" + (1)", NULL},
        {"A", "__func__", "define A has __func__"},
    };
    request.fusion.n_headers = 0;
    request.compile.defines = request.defines;
    request.compile.n_defines = 1;
    for (size_t i = 0; i < ARRAY_SIZE(defines); i++) {
        request.defines[0] = (struct define){text_of(defines[i].name), text_of(defines[i].value)};
        if (defines[i].why)
            expect_kept(plain, "k", defines[i].why);
        else
            renamed(plain, "k", NULL);
        cr_expect_eq(renaming.names.size > 0, defines[i].why == NULL, "%s: %s", defines[i].name, renaming.kept.at);
    }
    request.compile.n_defines = 0;
    request.fusion.structured = false;
    expect_kept("__global__ void blockReduce(Tensor<float, 1, 1> T0) { }", "blockReduce", "the preamble has it, too");
    renamed("__global__ void nvf_reduce(Tensor<float, 1, 1> T0) { T0[0] = 0; }", "nvf_reduce", NULL);
    cr_expect_gt(renaming.names.size, 0, "%s", renaming.kept.at);
}

Test(placeholder, B7_2_settings_that_keep_names)
{
    static const char code[] = "__global__ void k() {}";
    request.compile.debug = true;
    expect_kept(code, "k", "compile.debug");
    request.compile.debug = false;
    request.compile.asserts = true;
    expect_kept(code, "k", "compile.asserts");
    request.compile.asserts = false;
    request.fusion.target = TEXT_OF("host");
    request.facts.kind = COMPILER_HOST;
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    cr_expect_eq(request.resolved.entry_names.size, 0);
    cr_expect_neq(strstr(request.resolved.names_kept.at, "host"), NULL);
}

/* Pieces of programs in any order: whatever becomes of a name, with it put back the code is what it was, every word of
 * it is replaced or none is, and no line moves. */
Test(placeholder, B7_2_any_code_comes_back_as_it_was)
{
    static const char *const pieces[] = {
        "__global__ void k",
        "(float *x)",
        "{",
        "}",
        ";",
        "\n",
        "k",
        " ",
        "// k\n",
        "/* k",
        "*/",
        "\"",
        "'",
        "(",
        ")",
        "#define ",
        "##",
        "\\\n",
        "R\"(",
        ")\"",
        "k2",
        "_k",
        "64",
        "<",
        "1'k",
        "\t^\n",
        "k(x)",
        "template <int N> ",
        "__func__",
        "$k",
    };
    uint32_t random = 12345;
    char code[512];
    for (int round = 0; round < 20000; round++) {
        size_t size = 0;
        if (round % 2)
            size = (size_t)sprintf(code, "__global__ void k(int n) {}\n");
        for (int i = 0; i < 12; i++) {
            random = random * 1664525u + 1013904223u;
            const char *piece = pieces[(random >> 16) % ARRAY_SIZE(pieces)];
            size += (size_t)snprintf(code + size, sizeof code - size, "%s", piece);
        }
        renamed(code, "k", NULL);
        if (renaming.names.size == 0)
            continue;
        size_t lines = 0, lines_renamed = 0;
        for (const char *at = code; (at = strchr(at, '\n')); at++)
            lines++;
        for (size_t i = 0; i < renaming.code.size; i++)
            lines_renamed += renaming.code.at[i] == '\n';
        cr_assert_eq(lines, lines_renamed, "%s", code);
        cr_assert_null(memmem(renaming.code.at, renaming.code.size, " k(", 3), "%s", code);
    }
}
