#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "preamble/preamble.h"
#include "tests/unit/resolve/fixture.h"

/* ---- the program ---- */

/* What stands for the name of the first entry. */
#define FIRST PLACEHOLDER_STEM "00" PLACEHOLDER_TAIL

static const char plain[] = "__global__ void plain(float *x) { x[threadIdx.x] = 0; }";

static void expect_start(struct text program, const char *start)
{
    cr_expect(program.size >= strlen(start) && memcmp(program.at, start, strlen(start)) == 0, "%s", program.at);
}

Test(resolve, B4_3_only_what_is_needed)
{
    struct request request;
    request_init(&request);
    request.fusion.code = TEXT_OF(plain);
    request.entries[0] = TEXT_OF("plain");
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    cr_expect_str_eq(request.resolved.program.at, "namespace fusiond {\n#line 1 \"fusion.cu\"\n"
                                                  "__global__ void " FIRST "(float *x) { x[threadIdx.x] = 0; }\n}\n");
    cr_expect_eq(request.resolved.program.size, strlen(request.resolved.program.at));
    cr_expect_eq(request.resolved.n_modules, 0);
    cr_expect_eq(request.resolved.index_type, index_type_absent, "such code cannot depend on it");
    request_finish(&request);
}

Test(resolve, B4_3_index_module_alone)
{
    struct request request;
    request_init(&request);
    request.fusion.code = TEXT_OF("__global__ void scale(int *x) { nvfuser_index_t i = 0; x[i] = 0; }");
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    cr_assert_geq(request.resolved.n_modules, 1);
    cr_expect_str_eq(preamble_modules()[request.resolved.modules[0]].name, "index_int64");
    cr_expect_eq(request.resolved.index_type, INDEX_TYPE_INT64);
    request_finish(&request);
}

Test(resolve, B4_3_index_module_first_then_the_closure)
{
    static const struct {
        enum index_type type;
        const char *name, *start;
    } cases[] = {
        {INDEX_TYPE_INT32, "index_int32", "#include \"fusiond/index_int32.cuh\"\n#include \"fusiond/"},
        {INDEX_TYPE_INT64, "index_int64", "#include \"fusiond/index_int64.cuh\"\n#include \"fusiond/"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct request request;
        request_init(&request);
        request.fusion.index_type = cases[i].type;
        cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
        const struct resolved *resolved = &request.resolved;
        cr_expect_eq(resolved->index_type, cases[i].type);
        cr_expect_str_eq(preamble_modules()[resolved->modules[0]].name, cases[i].name);
        expect_start(resolved->program, cases[i].start);

        uint8_t closure[PREAMBLE_MAX];
        size_t n = preamble_closure(request.fusion.code.at, request.fusion.code.size, closure);
        cr_expect_eq(resolved->n_modules, n + 1);
        cr_expect_eq(memcmp(resolved->modules + 1, closure, n), 0);
        /* Each is included once, in this order, and the code follows as it was given, but for names. */
        const char *at = resolved->program.at;
        for (size_t k = 0; k < resolved->n_modules; k++) {
            char line[128];
            snprintf(line, sizeof line, "#include \"%s\"\n", preamble_modules()[resolved->modules[k]].include);
            cr_assert_eq(strncmp(at, line, strlen(line)), 0, "%s", at);
            at += strlen(line);
        }
        static const char frame[] = "namespace fusiond {\n#line 1 \"fusion.cu\"\n";
        cr_assert_eq(strncmp(at, frame, strlen(frame)), 0, "%s", at);
        at += strlen(frame);
        cr_expect_eq(at, resolved->program.at + resolved->code_at);
        cr_assert_eq(memcmp(at, resolved->code.at, resolved->code.size), 0);
        cr_assert_eq(strncmp(at, "__global__ void " FIRST "(", strlen("__global__ void " FIRST "(")), 0);
        cr_expect_str_eq(at + resolved->code.size, "\n}\n");
        request_finish(&request);
    }
}

Test(resolve, B4_5_structured_code_stands_alone)
{
    struct request request;
    request_init(&request);
    struct text code = request.fusion.code;
    request.fusion.structured = true;
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    expect_start(request.resolved.program, "#line 1 \"fusion.cu\"\n__global__ void " FIRST "(");
    cr_expect_eq(request.resolved.program.size,
                 strlen("#line 1 \"fusion.cu\"\n") + code.size + PLACEHOLDER_SIZE - strlen("scale"));
    cr_expect_eq(request.resolved.n_modules, 0);
    cr_expect_eq(request.resolved.index_type, index_type_absent);
    cr_expect(text_is(request.resolved.names[0], FIRST));
    request_finish(&request);
}

Test(resolve, B3_1_name_expressions)
{
    struct request request;
    request_init(&request);
    request.entries[1] = TEXT_OF("nvf::f<float, 4>");
    request.fusion.n_entries = 2;
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    cr_assert_eq(request.resolved.n_names, 2);
    cr_expect(text_is(request.resolved.names[0], "fusiond::" FIRST));
    cr_expect(text_is(request.resolved.names[1], "fusiond::nvf::f<float, 4>"), "which the code does not declare");
    request_finish(&request);
}

/* ---- warnings ---- */

static void expect_warning(struct request *request, const char *start)
{
    cr_assert_eq(request_resolve(request), 0, "%s", request->error.text);
    if (!start) {
        cr_expect_eq(request->resolved.n_warnings, 0, "%s", request->resolved.warnings[0].at);
        return;
    }
    cr_assert_eq(request->resolved.n_warnings, 1, "%zu warnings, not \"%s\"", request->resolved.n_warnings, start);
    cr_expect_neq(strstr(request->resolved.warnings[0].at, start), NULL, "%s", request->resolved.warnings[0].at);
}

Test(resolve, B2_1_warnings_of_options)
{
    struct request request;
    request_init(&request);
    expect_warning(&request, NULL);
    request.compile.debug = true;
    expect_warning(&request, NULL);
    request.compile.line_info = true;
    expect_warning(&request, "line_info");
    request.compile = (struct compile_options){.has_opt_level = true, .opt_level = 2};
    expect_warning(&request, "compile.opt_level 2 is below the default of 3");
    request.compile.opt_level = 3;
    expect_warning(&request, NULL);
    request.compile.opt_level = 4;
    expect_warning(&request, NULL);
    request_finish(&request);
}

Test(resolve, P8_quick_compiles_may_change_bits)
{
    struct request request;
    request_init(&request);
    request.compile.quick = QUICK_LEVEL_MID;
    expect_warning(&request, "compile.quick mid fuses products and sums otherwise");
    request.compile.no_fmad = true;
    expect_warning(&request, NULL);
    request_finish(&request);
}

Test(resolve, B2_3_launch_bounds_override_the_limit)
{
    struct request request;
    request_init(&request);
    request.fusion.code = TEXT_OF("__global__ void __launch_bounds__(512) scale(float *x) { x[0] = 1; }");
    expect_warning(&request, NULL);
    request.compile.has_block_size = true;
    request.compile.block_size = 256;
    expect_warning(&request, NULL);
    request.compile.block_size = 512;
    expect_warning(&request, "__launch_bounds__, which overrides the limit of 128 registers");
    request.fusion.target = TEXT_OF("compute_90");
    expect_warning(&request, "128 registers");
    request.fusion.code = TEXT_OF("/* __launch_bounds__ */ __global__ void scale(float *x) { x[0] = 1; }");
    expect_warning(&request, NULL);
    request_finish(&request);
}

Test(resolve, B2_2_clamped_target_is_told)
{
    struct request request;
    request_init(&request);
    request.fusion.target = TEXT_OF("cc_9.0");
    expect_warning(&request, NULL);
    cr_expect(text_is(request.resolved.target, "sm_90a"));
    request.fusion.target = TEXT_OF("cc_13.0");
    expect_warning(&request, "13.0; compiled for compute_121");
    cr_expect_eq(request.resolved.image_kind, IMAGE_KIND_PTX);
    request_finish(&request);
}

Test(resolve, B6_3_short_sample_is_told)
{
    struct request request;
    int64_t size = 8;
    struct sample_tensor sample = {&size, 1, NULL, 0};
    request_init(&request);
    cr_assert_eq(resolve(&request.fusion, &sample, 1, &request.facts, &request.zone, &request.resolved, &request.error),
                 0);
    cr_expect_eq(request.resolved.index_type, INDEX_TYPE_INT64);
    cr_assert_eq(request.resolved.n_warnings, 1);
    cr_expect_neq(strstr(request.resolved.warnings[0].at, "leaves out 1"), NULL);
    request_finish(&request);
}

Test(resolve, B2_3_ptx_limits_are_load_options)
{
    struct request request;
    request_init(&request);
    request.compile = (struct compile_options){
        .image = IMAGE_KIND_PTX, .has_block_size = true, .block_size = 512, .has_opt_level = true, .opt_level = 4};
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    cr_expect(text_is(request.resolved.target, "compute_90a"));
    cr_expect_eq(request.resolved.max_registers, 0);
    cr_expect_eq(request.resolved.load_max_registers, 128);
    cr_expect_eq(request.resolved.load_opt_level, 4);
    request.compile.image = image_kind_absent;
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    cr_expect_eq(request.resolved.max_registers, 128);
    cr_expect_eq(request.resolved.load_max_registers, 0);
    cr_expect_eq(request.resolved.load_opt_level, -1);
    request_finish(&request);
}

/* ---- the key ---- */

/* One change to a request. */
typedef void (*change_fn)(struct request *request);

#define CHANGE(name, ...)                                                                                              \
    static void name(struct request *request)                                                                          \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }

CHANGE(change_nothing, (void)request)
CHANGE(change_build, request->facts.build[31] ^= 1)
CHANGE(change_code, request->fusion.code.size--)
CHANGE(change_entry, request->entries[0] = TEXT_OF("other"))
CHANGE(change_more_entries, request->fusion.n_entries = 2)
CHANGE(change_structured, request->fusion.structured = true)
CHANGE(change_target, request->fusion.target = TEXT_OF("sm_90"))
CHANGE(change_arch, request->fusion.target = TEXT_OF("sm_80"))
CHANGE(change_ptx, request->compile.image = IMAGE_KIND_PTX)
CHANGE(change_ptx_target, request->fusion.target = TEXT_OF("compute_90"))
CHANGE(change_index_type, request->fusion.index_type = INDEX_TYPE_INT32)
CHANGE(change_fmad, request->compile.no_fmad = true)
CHANGE(change_fast_math, request->compile.fast_math = true)
CHANGE(change_line_info, request->compile.line_info = true)
CHANGE(change_debug, request->compile.debug = true)
CHANGE(change_asserts, request->compile.asserts = true)
CHANGE(change_magic_zero, request->compile.no_magic_zero = true)
CHANGE(change_level_0, request->compile.has_opt_level = true, request->compile.opt_level = 0)
CHANGE(change_level_4, request->compile.has_opt_level = true, request->compile.opt_level = 4)
CHANGE(change_registers, request->compile.has_max_registers = true, request->compile.max_registers = 64)
CHANGE(change_block_512, request->compile.has_block_size = true, request->compile.block_size = 512)
CHANGE(change_block_1024, request->compile.has_block_size = true, request->compile.block_size = 1000)
CHANGE(change_define, request->compile.defines = request->defines, request->compile.n_defines = 1)
CHANGE(change_define_value, request->compile.defines = request->defines, request->compile.n_defines = 1,
       request->defines[0].value = TEXT_OF("8"))
CHANGE(change_define_name, request->compile.defines = request->defines, request->compile.n_defines = 1,
       request->defines[0].name = TEXT_OF("DEPTH"))
CHANGE(change_defines, request->compile.defines = request->defines, request->compile.n_defines = 2)
CHANGE(change_header, request->fusion.n_headers = 1)
CHANGE(change_headers, request->fusion.n_headers = 2)
CHANGE(change_header_name, request->fusion.n_headers = 1, request->headers[0].name = TEXT_OF("lib/c.h"))
CHANGE(change_header_digest, request->fusion.n_headers = 1, request->digests[0][0] ^= 1)

Test(resolve, F29_every_difference_of_the_image_changes_the_key)
{
    static const struct {
        const char *name;
        change_fn change;
    } changes[] = {
        {"nothing", change_nothing},
        {"build", change_build},
        {"code", change_code},
        {"entry", change_entry},
        {"more_entries", change_more_entries},
        {"structured", change_structured},
        {"target", change_target},
        {"arch", change_arch},
        {"ptx", change_ptx},
        {"ptx_target", change_ptx_target},
        {"index_type", change_index_type},
        {"fmad", change_fmad},
        {"fast_math", change_fast_math},
        {"line_info", change_line_info},
        {"debug", change_debug},
        {"asserts", change_asserts},
        {"magic_zero", change_magic_zero},
        {"level_0", change_level_0},
        {"level_4", change_level_4},
        {"registers", change_registers},
        {"block_512", change_block_512},
        {"define", change_define},
        {"define_value", change_define_value},
        {"define_name", change_define_name},
        {"defines", change_defines},
        {"header", change_header},
        {"headers", change_headers},
        {"header_name", change_header_name},
        {"header_digest", change_header_digest},
    };
    uint8_t keys[ARRAY_SIZE(changes)][KEY_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        struct request request;
        request_init(&request);
        changes[i].change(&request);
        request_key(&request, keys[i]);
        request_finish(&request);
        for (size_t k = 0; k < i; k++)
            cr_expect_neq(memcmp(keys[i], keys[k], KEY_SIZE), 0, "%s and %s", changes[i].name, changes[k].name);
    }
}

static void expect_same_key(change_fn one, change_fn other, const char *what)
{
    struct request a, b;
    uint8_t key_a[KEY_SIZE], key_b[KEY_SIZE];
    request_init(&a);
    request_init(&b);
    one(&a);
    other(&b);
    request_key(&a, key_a);
    request_key(&b, key_b);
    cr_expect_eq(memcmp(key_a, key_b, KEY_SIZE), 0, "%s", what);
    request_finish(&a);
    request_finish(&b);
}

CHANGE(same_label, request->fusion.label = TEXT_OF("softmax of layer 3"))
CHANGE(same_scheduler, request->fusion.scheduler = TEXT_OF("reduction"))
CHANGE(same_params, request->params[0].name = TEXT_OF("y"), request->params[1].name = TEXT_OF("z"),
       request->outputs[0].name = TEXT_OF("z"))
CHANGE(same_requirements, request->requires.has_min_capability = true, request->requires.min_capability = 80)
CHANGE(same_block, request->compile.has_block_size = true, request->compile.block_size = 128)
CHANGE(same_block_class, request->compile.has_block_size = true, request->compile.block_size = 500)
CHANGE(same_registers, request->compile.has_max_registers = true, request->compile.max_registers = 255)
CHANGE(same_level, request->compile.has_opt_level = true, request->compile.opt_level = 3)
CHANGE(same_debug, request->compile.debug = true, request->compile.line_info = true)
CHANGE(same_define, request->compile.defines = request->defines, request->compile.n_defines = 2,
       request->defines[1].value = TEXT_OF("1"))
CHANGE(same_index_type, request->fusion.index_type = INDEX_TYPE_INT64)
CHANGE(same_device, request->fusion.target = TEXT_OF("cc_9.0"))
CHANGE(same_no_options, request->fusion.compile = NULL, request->fusion.requires = NULL)
CHANGE(same_header_order, request->fusion.n_headers = 2; struct header first = request->headers[0];
       request->headers[0] = request->headers[1]; request->headers[1] = first;
       memset(request->digests[0], 2, DIGEST_SIZE); memset(request->digests[1], 1, DIGEST_SIZE))
CHANGE(ptx_registers, change_ptx(request), change_registers(request))
CHANGE(ptx_level, change_ptx(request), change_level_0(request))

static void plain_with(struct request *request, enum index_type type)
{
    request->fusion.code = TEXT_OF(plain);
    request->fusion.index_type = type;
}

CHANGE(plain_32, plain_with(request, INDEX_TYPE_INT32))
CHANGE(plain_64, plain_with(request, INDEX_TYPE_INT64))

static void plain_called_another(struct request *request)
{
    request->fusion.code = TEXT_OF("__global__ void another(float *x) { x[threadIdx.x] = 0; }");
    request->entries[0] = TEXT_OF("another");
}

CHANGE(plain_again, plain_with(request, INDEX_TYPE_INT64), request->entries[0] = TEXT_OF("plain"))
CHANGE(same_but_its_name, plain_called_another(request))

Test(resolve, B7_2_what_does_not_change_the_image_does_not_change_the_key)
{
    expect_same_key(plain_again, same_but_its_name, "the name of a kernel");
    expect_same_key(change_nothing, same_label, "label");
    expect_same_key(change_nothing, same_scheduler, "scheduler");
    expect_same_key(change_nothing, same_params, "names of parameters");
    expect_same_key(change_nothing, same_requirements, "requirements");
    expect_same_key(change_nothing, same_block, "a block that needs no limit");
    expect_same_key(change_block_512, same_block_class, "two blocks of one class");
    expect_same_key(change_registers, change_block_1024, "a limit and the class that gives it");
    expect_same_key(change_nothing, same_registers, "a limit that is none");
    expect_same_key(change_nothing, same_level, "the default level");
    expect_same_key(change_debug, same_debug, "line info beside debug");
    expect_same_key(change_defines, same_define, "a define without value is 1");
    expect_same_key(change_nothing, same_index_type, "the index type that it would have anyway");
    expect_same_key(change_nothing, same_device, "the device whose target it is");
    expect_same_key(change_nothing, same_no_options, "no options");
    expect_same_key(change_headers, same_header_order, "headers are a set");
    expect_same_key(change_ptx, ptx_registers, "in PTX a limit acts at load");
    expect_same_key(change_ptx, ptx_level, "in PTX the level acts at load");
    expect_same_key(plain_32, plain_64, "code without the preamble has no index type");
}

Test(resolve, B2_3_two_blocks_of_one_class_have_equal_args)
{
    unsigned ends[] = {256, 384, 512, 640, 768, 896, 1024};
    unsigned from = 1;
    for (size_t i = 0; i < ARRAY_SIZE(ends); from = ends[i++] + 1) {
        struct request a, b;
        request_init(&a);
        request_init(&b);
        a.compile.has_block_size = b.compile.has_block_size = true;
        a.compile.block_size = from;
        b.compile.block_size = ends[i];
        cr_assert_eq(request_resolve(&a), 0, "%s", a.error.text);
        cr_assert_eq(request_resolve(&b), 0, "%s", b.error.text);
        cr_assert_eq(a.resolved.n_args, b.resolved.n_args);
        for (size_t k = 0; k < a.resolved.n_args; k++)
            cr_expect_str_eq(a.resolved.args[k].at, b.resolved.args[k].at);
        request_finish(&a);
        request_finish(&b);
    }
}

/* ---- purity ---- */

static void append(char *all, size_t size, size_t *used, const struct text *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *used += (size_t)snprintf(all + *used, size - *used, "%s|", texts[i].at);
}

/* Everything that was settled, as text. */
static size_t write_all(struct request *request, char *all, size_t size)
{
    uint8_t key[KEY_SIZE];
    char hex[KEY_HEX];
    size_t used = 0;
    request_key(request, key);
    key_to_hex(key, hex);
    const struct resolved *r = &request->resolved;
    struct text texts[] = {r->target, r->program, text_of(hex)};
    append(all, size, &used, texts, ARRAY_SIZE(texts));
    append(all, size, &used, r->args, r->n_args);
    append(all, size, &used, r->key_args, r->n_key_args);
    append(all, size, &used, r->names, r->n_names);
    append(all, size, &used, r->warnings, r->n_warnings);
    used += (size_t)snprintf(all + used, size - used, "%d %d %u %u %u %d %zu %zu", (int)r->image_kind,
                             (int)r->index_type, r->max_registers, r->block_size, r->load_max_registers,
                             r->load_opt_level, r->n_modules, r->code_at);
    cr_assert_lt(used, size);
    return used;
}

Test(resolve, F29_same_input_same_bytes)
{
    enum { SIZE = 65536 };
    char *first = calloc(1, SIZE), *second = calloc(1, SIZE);
    cr_assert(first && second);
    for (int round = 0; round < 2; round++) {
        struct request request;
        request_init(&request);
        request.fusion.target = TEXT_OF("cc_10.1");
        request.fusion.n_headers = 2;
        change_defines(&request);
        change_block_512(&request);
        change_level_0(&request);
        /* Nothing of the place where it happens may show. */
        setenv("NVRTC_APPEND_FLAGS", round ? "-G" : "", 1);
        size_t n = write_all(&request, round ? second : first, SIZE);
        cr_assert_gt(n, 0);
        request_finish(&request);
    }
    cr_expect_str_eq(first, second);
    free(first);
    free(second);
}

Test(resolve, F29_most_of_everything)
{
    struct request request;
    request_init(&request);
    /* As many headers and defines as the protocol lets in. */
    struct header *headers = calloc(LIMIT_HEADERS, sizeof *headers);
    struct define *defines = calloc(LIMIT_DEFINES, sizeof *defines);
    uint8_t(*digests)[DIGEST_SIZE] = calloc(LIMIT_HEADERS, sizeof *digests);
    char(*names)[16] = calloc(LIMIT_HEADERS, sizeof *names);
    cr_assert(headers && defines && digests && names);
    for (size_t i = 0; i < LIMIT_HEADERS; i++) {
        snprintf(names[i], sizeof names[i], "h%zu", LIMIT_HEADERS - i);
        headers[i] = (struct header){.name = text_of(names[i]), .has_digest = true};
    }
    for (size_t i = 0; i < LIMIT_DEFINES; i++)
        defines[i].name = text_of(names[i]);
    request.fusion.headers = headers;
    request.fusion.n_headers = LIMIT_HEADERS;
    request.compile.defines = defines;
    request.compile.n_defines = LIMIT_DEFINES;
    cr_assert_eq(request_resolve(&request), 0, "%s", request.error.text);
    uint8_t key[KEY_SIZE], other[KEY_SIZE];
    resolved_key(&request.fusion, &request.resolved, &request.facts, (const uint8_t(*)[DIGEST_SIZE])digests, key);
    digests[LIMIT_HEADERS - 1][31] = 1;
    resolved_key(&request.fusion, &request.resolved, &request.facts, (const uint8_t(*)[DIGEST_SIZE])digests, other);
    cr_expect_neq(memcmp(key, other, KEY_SIZE), 0);

    headers[0].name = headers[LIMIT_HEADERS - 1].name;
    cr_expect_eq(request_resolve(&request), -1);
    cr_expect_neq(strstr(request.error.text, "headers[16383].name"), NULL, "%s", request.error.text);
    free(headers);
    free(defines);
    free(digests);
    free(names);
    request_finish(&request);
}
