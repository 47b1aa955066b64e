/* The modules: their tables, and that each compiles alone for each architecture. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preamble/preamble.h"
#include "tests/support/rtc.h"

static const char *const targets[] = {"sm_75", "sm_80", "sm_90a", "sm_100", "sm_120"};
#define N_TARGETS (sizeof(targets) / sizeof(targets[0]))

static void need_nvrtc(void)
{
    char why[256];
    if (!rtc_open(why))
        cr_skip_test("%s", why);
}

static bool lists(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* True if the name stands in the text as a whole identifier. */
static bool has_word(const char *text, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
        bool starts = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        bool ends = !(isalnum((unsigned char)at[size]) || at[size] == '_');
        if (starts && ends)
            return true;
    }
    return false;
}

Test(tables, B4_3_names_texts_and_digests_agree)
{
    cr_assert(preamble_count > 0 && preamble_count <= PREAMBLE_MAX);
    for (size_t i = 0; i < preamble_count; i++) {
        const struct preamble_module *module = &preamble_modules()[i];
        char include[64];
        snprintf(include, sizeof(include), "fusiond/%s.cuh", module->name);
        cr_expect_str_eq(module->include, include);
        cr_expect_eq(strlen(module->text), module->size);
        cr_expect_eq(preamble_find(module->name), (int)i);
        unsigned char digest[32];
        crypto_generichash(digest, sizeof(digest), (const unsigned char *)module->text, module->size, NULL, 0);
        cr_expect_arr_eq(module->digest, digest, sizeof(digest));
    }
    cr_expect_eq(preamble_find("tens"), -1);
    cr_expect_eq(preamble_find(""), -1);
}

/* What the embedded text is must be the file, byte for byte. */
Test(tables, B4_3_texts_are_the_files)
{
    for (size_t i = 0; i < preamble_count; i++) {
        const struct preamble_module *module = &preamble_modules()[i];
        char path[512];
        snprintf(path, sizeof(path), "%s/preamble/%s.cuh", SOURCE_ROOT, module->name);
        FILE *file = fopen(path, "rb");
        cr_assert(file, "%s", path);
        char *text = calloc(1, module->size + 2);
        cr_expect_eq(fread(text, 1, module->size + 1, file), module->size, "%s", path);
        cr_expect_str_eq(text, module->text, "%s", path);
        free(text);
        fclose(file);
    }
}

Test(tables, B4_3_each_needed_module_stands_before)
{
    for (size_t i = 0; i < preamble_count; i++)
        for (const char *const *need = preamble_modules()[i].needs; *need; need++) {
            int at = preamble_find(*need);
            cr_expect(at >= 0 && at < (int)i, "%s needs %s", preamble_modules()[i].name, *need);
        }
}

Test(tables, B4_3_provided_identifiers_are_in_the_text)
{
    for (size_t i = 0; i < preamble_count; i++) {
        const struct preamble_module *module = &preamble_modules()[i];
        for (const char *const *name = module->provides; *name; name++)
            cr_expect(has_word(module->text, *name), "%s provides %s", module->name, *name);
    }
}

static bool provided(const char *name)
{
    for (size_t i = 0; i < preamble_count; i++)
        if (lists(preamble_modules()[i].provides, name))
            return true;
    return false;
}

/* ---- What a module declares, read from its text by a small scanner that knows how these texts are written. */

/* The text without comments, string contents and preprocessor lines. */
static char *bare_text(const char *text)
{
    char *bare = calloc(1, strlen(text) + 1);
    char *to = bare;
    bool fresh = true; /* only blanks on this line so far */
    for (const char *at = text; *at;) {
        if (fresh && *at == '#') {
            while (*at && !(*at == '\n' && at[-1] != '\\'))
                at++;
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (*at == '"') {
            for (at++; *at != '"'; at++)
                at += *at == '\\';
            at++;
        } else {
            fresh = *at == '\n' || (fresh && *at == ' ');
            *to++ = *at++;
        }
    }
    return bare;
}

static size_t word_size(const char *at)
{
    size_t size = 0;
    while (isalnum((unsigned char)at[size]) || at[size] == '_')
        size++;
    return size;
}

/* The identifier that ends just before `end`. */
static void word_before(const char *start, const char *end, char ret[64])
{
    while (end > start && isspace((unsigned char)end[-1]))
        end--;
    const char *from = end;
    while (from > start && (isalnum((unsigned char)from[-1]) || from[-1] == '_'))
        from--;
    snprintf(ret, 64, "%.*s", (int)(end - from), from);
}

/* Past <…> or (…) that starts here. */
static const char *past_brackets(const char *at, char open, char close)
{
    int depth = 0;
    do {
        if (*at == '(' && open != '(')
            at = past_brackets(at, '(', ')');
        depth += (*at == open) - (*at == close);
        at++;
    } while (depth > 0);
    return at;
}

/* The name that a declaration declares; empty for those that declare none for kernels. `statement` ends before its
 * '{' or ';'. */
static void declared_name(const char *statement, char ret[64])
{
    const char *at = statement + strspn(statement, " \n");
    while (strncmp(at, "template", 8) == 0) {
        at = past_brackets(at + 8 + strspn(at + 8, " \n"), '<', '>');
        at += strspn(at, " \n");
    }
    ret[0] = '\0';
    if (!*at || strncmp(at, "static_assert", 13) == 0 || strstr(at, "operator"))
        return;
    if (strncmp(at, "typedef", 7) == 0) {
        word_before(at, at + strlen(at), ret);
        return;
    }
    static const char *const keywords[] = {"using ", "struct ", "enum ", "class ", "alignas"};
    bool type = false;
    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        if (strncmp(at, keywords[i], strlen(keywords[i])) == 0) {
            type = true;
            at += strlen(keywords[i]);
            if (*at == '(')
                at = past_brackets(at, '(', ')');
            at += strspn(at, " ");
        }
    }
    if (type) {
        snprintf(ret, 64, "%.*s", (int)word_size(at), at);
        return;
    }
    size_t head = strcspn(at, "(=");
    if (strncmp(at, "FUSIOND_", 8) == 0)
        snprintf(ret, 64, "%.*s", (int)word_size(at + head + 1), at + head + 1);
    else if (!memchr(at, ':', head) || strstr(at, "std::") || strstr(at, "_impl::"))
        word_before(at, at + head, ret);
}

struct scan {
    const struct preamble_module *module;
    const char *at;
};

/* One namespace, from behind its '{' to its '}'. */
static void check_namespace(struct scan *scan)
{
    char statement[2048];
    size_t size = 0;
    char name[64];
    for (; *scan->at && *scan->at != '}'; scan->at++) {
        bool invoked = *scan->at == ')' && strncmp(statement + strspn(statement, " \n"), "FUSIOND_", 8) == 0;
        if (*scan->at != '{' && *scan->at != ';' && !(size > 0 && invoked)) {
            cr_assert_lt(size, sizeof(statement) - 1, "%s: a long declaration", scan->module->name);
            statement[size++] = *scan->at;
            statement[size] = '\0';
            continue;
        }
        statement[size] = '\0';
        size = 0;
        const char *start = statement + strspn(statement, " \n");
        if (strncmp(start, "namespace ", 10) == 0) {
            snprintf(name, sizeof(name), "%.*s", (int)word_size(start + 10), start + 10);
            bool hidden = strlen(name) > 5 && strcmp(name + strlen(name) - 5, "_impl") == 0;
            bool std = strcmp(name, "std") == 0 && !lists(scan->module->provides, "std");
            cr_expect(hidden || std || lists(scan->module->provides, name), "%s: namespace %s is not in provides",
                      scan->module->name, name);
            if (std) {
                scan->at++;
                check_namespace(scan);
            } else {
                scan->at = past_brackets(scan->at, '{', '}') - 1;
            }
            continue;
        }
        declared_name(statement, name);
        if (name[0])
            cr_expect(provided(name), "%s: %s is in no module's provides", scan->module->name, name);
        if (*scan->at == '{')
            scan->at = past_brackets(scan->at, '{', '}') - 1;
    }
}

Test(tables, B4_3_everything_that_a_module_declares_is_provided)
{
    for (size_t i = 0; i < preamble_count; i++) {
        char *bare = bare_text(preamble_modules()[i].text);
        struct scan scan = {&preamble_modules()[i], strstr(bare, "namespace fusiond")};
        if (scan.at) {
            scan.at = strchr(scan.at, '{') + 1;
            check_namespace(&scan);
        }
        free(bare);
    }
}

Test(tables, B4_2_no_macro_stays_that_is_not_interface)
{
    for (size_t i = 0; i < preamble_count; i++) {
        const struct preamble_module *module = &preamble_modules()[i];
        for (const char *at = strstr(module->text, "#define "); at; at = strstr(at + 1, "#define ")) {
            char name[64];
            snprintf(name, sizeof(name), "%.*s", (int)word_size(at + 8), at + 8);
            char guard[64] = "FUSIOND_";
            for (size_t k = 0; k < strlen(module->name) && k < 40; k++)
                guard[8 + k] = (char)toupper(module->name[k]);
            strcat(guard, "_CUH");
            char undef[80];
            snprintf(undef, sizeof(undef), "#undef %s\n", name);
            cr_expect(strcmp(name, guard) == 0 || lists(module->provides, name) || strstr(module->text, undef),
                      "%s leaves the macro %s", module->name, name);
        }
    }
}

/* ---- With NVRTC. */

static bool is_index_module(const struct preamble_module *module)
{
    return strncmp(module->name, "index_int", 9) == 0;
}

static void expect_compiles(const char *source, const char *target, const char *const *defines, const char *what)
{
    struct rtc_result result = rtc_compile(source, target, defines, NULL);
    cr_expect(result.ok && result.log[0] == '\0', "%s for %s: %s", what, target, result.log);
    rtc_result_finish(&result);
}

static bool skipped(const char *target)
{
    if (rtc_supports(atoi(target + 3)))
        return false;
    cr_log_warn("this NVRTC does not know %s\n", target);
    return true;
}

Test(modules, B4_4_each_compiles_alone_for_each_architecture)
{
    need_nvrtc();
    for (size_t t = 0; t < N_TARGETS; t++) {
        if (skipped(targets[t]))
            continue;
        for (size_t i = 0; i < preamble_count; i++) {
            const struct preamble_module *module = &preamble_modules()[i];
            char source[256];
            snprintf(source, sizeof(source), "#include \"fusiond/index_int%d.cuh\"\n#include \"%s\"\n#include \"%s\"\n",
                     t % 2 ? 64 : 32, module->include, module->include);
            const char *alone = strchr(source, '\n') + 1;
            expect_compiles(is_index_module(module) ? alone : source, targets[t], NULL, module->name);
        }
    }
}

Test(modules, B4_3_all_together_compile)
{
    need_nvrtc();
    static const char *const defines[] = {"-DFUSIOND_NO_MAGIC_ZERO", "-DFUSIOND_FMAX_IGNORES_NAN", NULL};
    static const char *const annotated[] = {RTC_ANNOTATED_ONLY, NULL};
    for (int bits = 32; bits <= 64; bits += 32) {
        char source[8192];
        int size = snprintf(source, sizeof(source), "#include \"fusiond/index_int%d.cuh\"\n", bits);
        for (size_t i = 0; i < preamble_count; i++)
            if (!is_index_module(&preamble_modules()[i]))
                size += snprintf(source + size, sizeof(source) - (size_t)size, "#include \"%s\"\n",
                                 preamble_modules()[i].include);
        expect_compiles(source, "sm_90", NULL, "all");
        expect_compiles(source, "sm_90", defines, "all");
        /* A call of every kind of function: without its annotation it would be a host function, and refused. */
        strcat(source,
               "namespace fusiond { struct Sum { __device__ void operator()(float &a, float b) { a += b; } };\n"
               "__global__ void k(float *p, Array<float, 2, 2> a) { NVFUSER_DEFINE_MAGIC_ZERO\n"
               "blockReduce<true, false, false, true>(p[0], p[1], Sum(), p, true, 0.f, DefaultBlockDim());\n"
               "broadcast::blockBroadcast<true, true, true>(p[0], p[1], p, true); a.set(sigmoid(p[1]));\n"
               "p[2] = max(p[1], __half2float(__float2half(a))[0]) + __to_float(ceilDiv(3, 2)) + pow(p[1], 2);\n"
               "loadGlobalToLocal<float, 2, false>(&a[0], p); p[3] = std::bit_cast<float>(clamp(3, 0, 2)); } }");
        expect_compiles(source, "sm_90", annotated, "all, annotated");
    }
}

static void expect_refused(const char *source, const char *message)
{
    struct rtc_result result = rtc_compile(source, "sm_90", NULL, NULL);
    cr_expect(!result.ok, "compiles: %s", source);
    cr_expect(strstr(result.log, message), "%s: %s", source, result.log);
    rtc_result_finish(&result);
}

Test(modules, B4_1_misuse_is_refused_with_a_reason)
{
    need_nvrtc();
    expect_refused("#include \"fusiond/tensor.cuh\"\n", "include fusiond/index_int32.cuh or");
    expect_refused("#include \"fusiond/index_int32.cuh\"\n#include \"fusiond/index_int64.cuh\"\n",
                   "the index type is already int32");
    static const struct {
        const char *code, *message;
    } cases[] = {
        {"__global__ void k(float *a) { loadGeneric<float, 5>(a, a); }", "loadGeneric moves 1, 2, 4"},
        {"__global__ void k(float *a) { float b[3]; loadGlobalToLocal<char, 3, false>((char *)b, (char *)a); }",
         "loadGlobalToLocal moves 1, 2, 4"},
        {"__global__ void k(float *a) { a[0] = std::bit_cast<float>(1.0); }", "the types differ in size"},
        {"__global__ void k(float *a) { blockIterGroupedYdimReduce<true, 3>(a, a, [](float &x, float y) { x += y; }, a,"
         " true, 0.f); }",
         "N is 2, 4, 8 or 16"},
        {"__global__ void k(Tensor<float, 0, 2> a) { a[0] = 1; }", "give both ranks as 0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *program = rtc_program(cases[i].code, 32);
        expect_refused(program, cases[i].message);
        free(program);
    }
}

Test(modules, B4_2_sizes_are_those_of_the_interface)
{
    need_nvrtc();
    static const char common[] =
        "static_assert(sizeof(Tensor<double, 0, 0>) == 8 && alignof(Tensor<double, 0, 0>) == 8, \"\");\n"
        "static_assert(sizeof(Array<float, 3, 4>) == 16 && alignof(Array<float, 3, 4>) == 16, \"\");\n"
        "static_assert(sizeof(Array<float, 3, 1>) == 12 && alignof(Array<float, 3, 1>) == 4, \"\");\n"
        "static_assert(sizeof(Array<float, 3>) == 12 && alignof(Array<float, 1LL, 1>) == 4, \"\");\n"
        "static_assert(sizeof(Array<__half, 8, 8>) == 16 && alignof(Array<__half, 8, 8>) == 16, \"\");\n"
        "static_assert(sizeof(__half) == 2 && alignof(__half) == 2, \"\");\n"
        "static_assert(sizeof(__bfloat) == 2 && alignof(__bfloat) == 2, \"\");\n"
        "static_assert(sizeof(CpuScalarTensor<double>) == 8 && sizeof(CpuScalarTensor<__half>) == 2, \"\");\n"
        "static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, \"\");\n"
        "static_assert(sizeof(DefaultBlockDim) == 12 && alignof(DefaultBlockDim) == 4, \"\");\n"
        "static_assert(std::is_same_v<int64_t, long long> && std::is_same_v<uint64_t, unsigned long long>, \"\");\n";
    static const struct {
        const char *type;
        int size32, size64;
    } tensors[] = {
        {"Tensor<float, 1, 1>", 16, 24}, {"Tensor<float, 1, 2>", 24, 32}, {"Tensor<float, 2, 2>", 24, 40},
        {"Tensor<float, 2, 3>", 32, 48}, {"Tensor<char, 3, 3>", 32, 56},  {"Tensor<float, 4, 4>", 40, 72},
        {"Tensor<float, 2>", 24, 40},    {"Tensor<float, 4, 5>", 48, 80}, {"Tensor<long, 1>", 16, 24},
        {"Tensor<float, 2, 1>", 24, 32},
    };
    for (int bits = 32; bits <= 64; bits += 32) {
        char code[8192];
        int size =
            snprintf(code, sizeof(code), "%sstatic_assert(sizeof(nvfuser_index_t) == %d, \"\");\n", common, bits / 8);
        for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++)
            size += snprintf(code + size, sizeof(code) - (size_t)size,
                             "static_assert(sizeof(%s) == %d && alignof(%s) == 8, \"\");\n", tensors[i].type,
                             bits == 32 ? tensors[i].size32 : tensors[i].size64, tensors[i].type);
        char *program = rtc_program(code, bits);
        expect_compiles(program, "sm_90", NULL, "sizes");
        free(program);
    }
}
