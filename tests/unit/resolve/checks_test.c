#include <criterion/criterion.h>
#include <string.h>

#include "daemon/resolve/checks.h"
#include "tests/unit/resolve/fixture.h"

static void expect_error(struct request *request, enum status code, const char *names)
{
    struct resolved before;
    memset(&request->resolved, 0x5a, sizeof request->resolved);
    before = request->resolved;
    request->error = (struct error){0};
    cr_expect_eq(request_resolve(request), -1, "\"%s\" was expected", names);
    cr_expect_eq(request->error.code, code, "%s", request->error.text);
    cr_expect_neq(strstr(request->error.text, names), NULL, "\"%s\" does not name \"%s\"", request->error.text, names);
    cr_expect_eq(memcmp(&request->resolved, &before, sizeof before), 0, "ret was touched");
}

/* Every check of the list fails at once; each is repaired in turn, and the next one speaks. */
Test(checks, B1_2_order_of_checks)
{
    struct request request;
    request_init(&request);
    int64_t size = 1LL << 40;
    struct sample_tensor sample[2] = {{&size, 1, NULL, 0}, {&size, 1, NULL, 0}};
    request.fusion.n_outputs = 0;
    request.fusion.target = TEXT_OF("sm_70");
    request.requires = (struct requirements){.min_capability = 100,
                                             .has_min_capability = true,
                                             .reason = TEXT_OF("needs tensor memory"),
                                             .static_shared_memory = 1 << 20,
                                             .has_static_shared_memory = true};
    request.compile.has_block_size = true;
    request.compile.block_size = 0;
    request.compile.has_max_registers = true;
    request.compile.max_registers = 256;
    request.fusion.index_type = INDEX_TYPE_INT32;

    expect_error(&request, STATUS_NO_OUTPUTS, "fusion.outputs");
    request.fusion.n_outputs = 1;
    expect_error(&request, STATUS_UNSUPPORTED_TARGET, "sm_70");
    request.fusion.target = TEXT_OF("sm_90a");
    expect_error(&request, STATUS_UNSUPPORTED_TARGET, "needs tensor memory");
    request.requires.min_capability = 90;
    expect_error(&request, STATUS_SHARED_MEMORY_LIMIT, "fusion.requires.static_shared_memory: is 1048576 bytes");
    request.requires.static_shared_memory = 232448;
    expect_error(&request, STATUS_INVALID_BLOCK, "fusion.compile.block_size: is 0");
    request.compile.block_size = 1024;
    expect_error(&request, STATUS_INVALID_OPTION, "fusion.compile.max_registers");
    request.compile.max_registers = 255;
    cr_expect_eq(resolve(&request.fusion, sample, 2, &request.facts, &request.zone, &request.resolved, &request.error),
                 -1);
    cr_expect_eq(request.error.code, STATUS_INDEX_TYPE, "%s", request.error.text);
    size = 5;
    cr_expect_eq(resolve(&request.fusion, sample, 2, &request.facts, &request.zone, &request.resolved, &request.error),
                 0, "%s", request.error.text);
    request_finish(&request);
}

Test(checks, B1_2_no_outputs)
{
    struct request request;
    request_init(&request);
    request.fusion.n_outputs = 0;
    request.fusion.n_params = 1;
    expect_error(&request, STATUS_NO_OUTPUTS, "side_effects_only");
    request.fusion.side_effects_only = true;
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request_finish(&request);
}

Test(checks, B1_2_minimum_capability)
{
    struct request request;
    request_init(&request);
    request.requires = (struct requirements){.min_capability = 100, .has_min_capability = true};
    expect_error(&request, STATUS_UNSUPPORTED_TARGET, "the target sm_90a is below the 100");
    request.requires.reason = TEXT_OF("the kernel uses tensor memory");
    expect_error(&request, STATUS_UNSUPPORTED_TARGET, "the kernel uses tensor memory");
    /* What counts is what is compiled, not the device that it was clamped for. */
    request.fusion.target = TEXT_OF("cc_10.1");
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request.requires.min_capability = 101;
    expect_error(&request, STATUS_UNSUPPORTED_TARGET, "sm_100");
    /* A long reason is cut, not dropped. */
    char reason[600];
    memset(reason, 'r', sizeof reason);
    request.requires.reason = (struct text){reason, 512};
    expect_error(&request, STATUS_UNSUPPORTED_TARGET, "rrrrrrrr");
    request_finish(&request);
}

Test(checks, B1_2_static_shared_memory)
{
    static const struct {
        unsigned major, minor;
        const char *target;
        unsigned limit;
    } cases[] = {
        {13, 0, "sm_75", 49152},    {13, 0, "sm_80", 49152},   {13, 0, "sm_89", 49152},
        {13, 0, "sm_90", 49152},    {13, 0, "sm_90a", 232448}, {13, 0, "compute_90a", 232448},
        {13, 0, "sm_100a", 232448}, {13, 0, "sm_100f", 49152}, {13, 0, "sm_120", 49152},
        {13, 0, "sm_120a", 101376}, {12, 9, "sm_90a", 49152},  {11, 8, "sm_90", 49152},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct request request;
        char limit[32];
        request_init(&request);
        request.facts = facts_of(cases[i].major, cases[i].minor);
        request.fusion.target = text_of(cases[i].target);
        request.requires.has_static_shared_memory = true;
        request.requires.static_shared_memory = cases[i].limit;
        cr_expect_eq(request_resolve(&request), 0, "%s: %s", cases[i].target, request.error.text);
        request.requires.static_shared_memory = cases[i].limit + 1;
        snprintf(limit, sizeof limit, "is %u", cases[i].limit);
        expect_error(&request, STATUS_SHARED_MEMORY_LIMIT, limit);
        request_finish(&request);
    }
}

Test(checks, B1_2_block_size)
{
    static const int64_t bad[] = {0, -1, INT64_MIN, 1025, INT64_MAX};
    struct request request;
    request_init(&request);
    request.compile.has_block_size = true;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char value[64];
        request.compile.block_size = bad[i];
        snprintf(value, sizeof value, "is %lld threads; the limits are 1 and 1024", (long long)bad[i]);
        expect_error(&request, STATUS_INVALID_BLOCK, value);
    }
    for (int64_t size = 1; size <= 1024; size += 1023) {
        request.compile.block_size = size;
        cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
        cr_expect_eq(request.resolved.block_size, (unsigned)size);
    }
    request_finish(&request);
}

Test(checks, B1_2_code_and_entries)
{
    struct request request;
    request_init(&request);
    struct text code = request.fusion.code;
    request.fusion.code = (struct text){0};
    expect_error(&request, STATUS_MISSING_FIELD, "fusion.code");
    request.fusion.code = TEXT_OF("");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.code: is empty");
    request.fusion.code = TEXT_OF("a\0b");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.code: has a NUL at byte 1");
    request.fusion.code = code;

    request.fusion.n_entries = 0;
    expect_error(&request, STATUS_MISSING_FIELD, "fusion.entries");
    request.fusion.n_entries = 2;
    request.entries[1] = TEXT_OF("scale;");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.entries[1]: \"scale;\" holds the character 0x3b");
    request.entries[1] = TEXT_OF("scale");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.entries[1]: \"scale\" is given twice");
    char longest[LIMIT_NAME];
    memset(longest, 'a', sizeof longest);
    request.entries[1] = (struct text){longest, 503};
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request.entries[1].size++;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.entries[1]: has 504 bytes; the limit is 503");
    request.fusion.structured = true;
    request.entries[1].size = LIMIT_NAME;
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request.fusion.structured = false;
    request.entries[1] = TEXT_OF("scal");
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request_finish(&request);
}

Test(checks, B1_2_headers)
{
    struct request request;
    request_init(&request);
    request.fusion.n_headers = 2;
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request.headers[1].name = TEXT_OF("../b.h");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.headers[1].name: \"../b.h\"");
    request.headers[1].name = TEXT_OF("lib/a.h");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.headers[1].name: \"lib/a.h\" is given twice");
    request.headers[1].name = TEXT_OF("lib/b.h");
    request.headers[1].has_digest = false;
    expect_error(&request, STATUS_MISSING_FIELD, "fusion.headers[1]");
    request.headers[1].bytes = (struct bytes){(const uint8_t *)"int x;", 6};
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request.headers[1].has_digest = true;
    expect_error(&request, STATUS_INVALID_FIELD, "both");
    request.headers[1].has_digest = false;
    request.headers[1].bytes = (struct bytes){(const uint8_t *)"a\0b", 3};
    expect_error(&request, STATUS_INVALID_FIELD, "NUL");
    request_finish(&request);
}

Test(checks, B1_2_parameters)
{
    struct request request;
    request_init(&request);
    request.params[0].name = TEXT_OF("out");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.params[1].name: \"out\" is given twice");
    request.params[0].name = TEXT_OF("");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.params[0].name");
    request.params[0].name = TEXT_OF("x");
    request.params[0].kind = PARAM_KIND_SCALAR;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.params[0].rank: is 1, but a scalar has none");
    request.params[0].kind = param_kind_absent;
    expect_error(&request, STATUS_MISSING_FIELD, "fusion.params[0].kind");
    request.params[0].kind = PARAM_KIND_TENSOR;
    request.params[0].rank = LIMIT_RANK + 1;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.params[0].rank: is 33; the limit is 32");
    request.params[0].rank = LIMIT_RANK;
    request.params[0].has_alloc_rank = true;
    request.params[0].alloc_rank = 33;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.params[0].alloc_rank: is 33; the limit is 32");
    request.params[0].alloc_rank = 5;
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request.params[0].has_rank = false;
    expect_error(&request, STATUS_MISSING_FIELD, "fusion.params[0].rank");
    request_finish(&request);
}

Test(checks, B1_2_outputs_and_parameters_agree)
{
    struct request request;
    request_init(&request);
    request.fusion.n_outputs = 2;
    request.outputs[1] = request.outputs[0];
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.outputs[1].name: \"out\" is given twice");
    request.outputs[1].name = TEXT_OF("x");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.outputs[1].name: \"x\" is no parameter of the kind output");
    request.fusion.n_outputs = 1;
    request.params[2] = request.params[1];
    request.params[2].name = TEXT_OF("more");
    request.fusion.n_params = 3;
    expect_error(&request, STATUS_MISSING_FIELD, "fusion.outputs: none describes params[2] \"more\"");
    request.fusion.n_params = 2;
    request.outputs[0].n_sizes = 2;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.outputs[0].sizes: has 2 values, but the parameter has rank 1");
    request.outputs[0].n_sizes = 1;
    request.outputs[0].strides = request.sizes;
    request.outputs[0].n_strides = 2;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.outputs[0].strides: has 2 values");
    request.params[1].has_alloc_rank = true;
    request.params[1].alloc_rank = 2;
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request_finish(&request);
}

Test(checks, B1_2_aliases_name_a_tensor_of_the_same_kind)
{
    struct request request;
    request_init(&request);
    request.outputs[0].alias = TEXT_OF("x");
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    request.outputs[0].n_sizes = 0;
    cr_expect_eq(request_resolve(&request), 0, "it is as large as the tensor: %s", request.error.text);
    request.outputs[0].strides = request.sizes;
    request.outputs[0].n_strides = 1;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.outputs[0].strides: are given, but sizes are not");
    request.outputs[0].n_strides = 0;
    request.params[0].dtype = DTYPE_INT32;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.outputs[0].alias: \"x\" has another type or rank");
    request.params[0].dtype = DTYPE_FLOAT32;
    request.outputs[0].alias = TEXT_OF("out");
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.outputs[0].alias: \"out\" is no parameter of the kind tensor");
    request_finish(&request);
}

Test(checks, B1_2_intermediates_and_parameters_agree)
{
    struct request request;
    struct intermediate intermediates[2];
    request_init(&request);
    request.params[2] = request.params[1];
    request.params[2].name = TEXT_OF("work");
    request.params[2].kind = PARAM_KIND_INTERMEDIATE;
    request.fusion.n_params = 3;
    expect_error(&request, STATUS_MISSING_FIELD, "fusion.intermediates: none describes params[2] \"work\"");
    intermediates[0] = (struct intermediate){.name = TEXT_OF("work"), .sizes = request.sizes, .n_sizes = 1};
    request.fusion.intermediates = intermediates;
    request.fusion.n_intermediates = 1;
    cr_expect_eq(request_resolve(&request), 0, "%s", request.error.text);
    intermediates[0].n_sizes = 2;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.intermediates[0].sizes: has 2 values, but the parameter has");
    intermediates[0].n_sizes = 1;
    intermediates[1] = intermediates[0];
    request.fusion.n_intermediates = 2;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.intermediates[1].name: \"work\" is given twice");
    intermediates[1].name = TEXT_OF("out");
    expect_error(&request, STATUS_INVALID_FIELD,
                 "fusion.intermediates[1].name: \"out\" is no parameter of the kind intermediate");
    request_finish(&request);
}

/* Side effects only, and yet an output parameter that nothing describes. */
Test(checks, B1_2_side_effects_do_not_hide_an_output)
{
    struct request request;
    request_init(&request);
    request.fusion.n_outputs = 0;
    request.fusion.side_effects_only = true;
    expect_error(&request, STATUS_MISSING_FIELD, "fusion.outputs: none describes params[1] \"out\"");
    request_finish(&request);
}

Test(checks, B6_3_structured_code_has_its_own_index_type)
{
    struct request request;
    request_init(&request);
    request.fusion.structured = true;
    request.fusion.index_type = INDEX_TYPE_INT32;
    expect_error(&request, STATUS_INVALID_FIELD, "fusion.index_type: is int32");
    request_finish(&request);
}
