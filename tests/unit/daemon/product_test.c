#include "daemon/compile/product.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/daemon/request_bytes.h"

static struct plan *plan;
static struct kernel_entry entry;
static struct phase phase;
static struct worker_result result;
static struct pool_outcome outcome;
static struct kernel_id id;
static struct error error;

static void setup(void)
{
    struct compiler_facts facts = wish_facts();
    struct wish wish = {.header = "#define A 1\n", .label = "a label"};
    plan = wish_plan(&wish, &facts);
    entry = (struct kernel_entry){
        .name = TEXT_OF("the compiler's"), .lowered = TEXT_OF("_Z1fv"), .registers = 40, .has_registers = true};
    phase = (struct phase){TEXT_OF("compile"), 5, true};
    result = (struct worker_result){.has_result = true,
                                    .result_name = TEXT_OF("NVRTC_SUCCESS"),
                                    .entries = &entry,
                                    .n_entries = 1,
                                    .phases = &phase,
                                    .n_phases = 1,
                                    .log = TEXT_OF("a log"),
                                    .image = {(const uint8_t *)"image", 5},
                                    .ptx = {(const uint8_t *)"ptx", 3}};
    outcome = (struct pool_outcome){.result = &result, .queue_ns = 3, .compile_ns = 4};
    id = (struct kernel_id){.owner = 1000};
    memcpy(id.key, plan->key, sizeof id.key);
}

static void teardown(void)
{
    plan_destroy(plan);
}

TestSuite(product, .init = setup, .fini = teardown);

static struct held_kernel *make(void)
{
    struct held_kernel *held = product_of(plan, &id, &outcome, &error);
    cr_assert_not_null(held, "%s", error.text);
    return held;
}

Test(product, B1_1_a_kernel_holds_what_it_was_made_from)
{
    struct held_kernel *held = make();
    const struct kernel *kernel = &held->kernel;
    /* It has copies of everything. */
    memset(&result, 0xff, sizeof result);
    entry.lowered = TEXT_OF("gone");
    cr_assert_eq(memcmp(&held->id, &id, sizeof id), 0);
    cr_assert_eq(memcmp(kernel->key, id.key, KEY_SIZE), 0);
    cr_assert(text_is(kernel->label, "a label"));
    cr_assert(text_is(kernel->target, "sm_90"));
    cr_assert_eq(kernel->image_kind, IMAGE_KIND_CUBIN);
    cr_assert(text_is(kernel->entries[0].name, "f"), "the client's name");
    cr_assert(text_is(kernel->entries[0].lowered, "_Z1fv"));
    cr_assert_eq(kernel->entries[0].registers, 40);
    cr_assert(kernel->image.size == 5 && memcmp(kernel->image.at, "image", 5) == 0);
    cr_assert_eq(kernel->image_size, 5);
    cr_assert_eq(kernel->ptx_size, 3);
    cr_assert(text_is(kernel->log, "a log"));
    cr_assert(text_is(kernel->compiler, "nvrtc 13.0"));
    cr_assert_eq(memcmp(kernel->build, plan->build, DIGEST_SIZE), 0);
    cr_assert_eq(kernel->n_headers, 1);
    cr_assert_eq(memcmp(kernel->headers[0].digest, plan->header_digests[0], DIGEST_SIZE), 0);
    cr_assert_eq(kernel->n_phases, 3);
    cr_assert(text_is(kernel->phases[0].name, "queue") && kernel->phases[0].ns == 3);
    cr_assert(text_is(kernel->phases[1].name, "worker") && kernel->phases[1].ns == 4);
    cr_assert(text_is(kernel->phases[2].name, "compile") && kernel->phases[2].ns == 5);
    cr_assert_eq(kernel->n_warnings, 0);
    cr_assert_not(kernel->irreproducible);
    held_kernel_destroy(held);
}

Test(product, B3_3_spills_are_a_warning)
{
    entry.spill_stores = 8;
    entry.spill_loads = 16;
    entry.has_spill_stores = entry.has_spill_loads = true;
    struct held_kernel *held = make();
    cr_assert_eq(held->kernel.n_warnings, 1);
    cr_assert(text_is(held->kernel.warnings[0], PLACEHOLDER_STEM
                      "00" PLACEHOLDER_TAIL " spills: 8 bytes stored, 16 bytes loaded at 40 registers"),
              "%s", held->kernel.warnings[0].at);
    cr_assert_eq(held->kernel.n_renamed, 1);
    cr_assert(text_is(held->kernel.renamed[0], "f"));
    held_kernel_destroy(held);
}

Test(product, B3_3_spills_up_to_the_threshold_are_none)
{
    struct fusion fusion = *plan->request.fusion;
    entry.spill_stores = 8;
    entry.spill_loads = 16;
    plan->request.fusion = &fusion;
    for (uint64_t threshold = 23; threshold <= 24; threshold++) {
        fusion.spill_threshold = threshold;
        struct held_kernel *held = make();
        cr_assert_eq(held->kernel.n_warnings, 24 - threshold);
        held_kernel_destroy(held);
    }
}

Test(product, B3_1_a_name_in_an_unnamed_namespace_is_not_reproducible)
{
    entry.lowered = TEXT_OF("_ZN52_GLOBAL__N__0a1b2c3d_9_fusion_cu_1234_56781fEv");
    struct held_kernel *held = make();
    cr_assert(held->kernel.irreproducible);
    held_kernel_destroy(held);
}

Test(product, a_log_that_is_absent_is_empty)
{
    result.log = (struct text){NULL, 0};
    result.ptx = (struct bytes){NULL, 0};
    struct held_kernel *held = make();
    cr_assert(text_is(held->kernel.log, ""));
    cr_assert_not(held->kernel.has_ptx_size);
    held_kernel_destroy(held);
}

Test(product, an_answer_without_an_image_is_an_internal_error)
{
    result.image = (struct bytes){NULL, 0};
    cr_assert_null(product_of(plan, &id, &outcome, &error));
    cr_assert_eq(error.code, STATUS_INTERNAL);
    cr_assert_str_eq(error.text, "the worker returned no cubin");
    result.image = (struct bytes){(const uint8_t *)"", 0};
    cr_assert_null(product_of(plan, &id, &outcome, &error));
    cr_assert_eq(error.code, STATUS_INTERNAL);
}

Test(product, an_answer_for_other_entries_is_an_internal_error)
{
    result.n_entries = 0;
    cr_assert_null(product_of(plan, &id, &outcome, &error));
    cr_assert_eq(error.code, STATUS_INTERNAL);
    cr_assert_str_eq(error.text, "the worker described 0 of 1 entries");
}

/* ---- failures ---- */

Test(product, B3_2_a_failure_names_the_first_error)
{
    struct diagnostic diagnostics[3] = {
        {.severity = SEVERITY_WARNING, .file = TEXT_OF("fusion.cu"), .line = 1, .text = TEXT_OF("a warning")},
        {.severity = SEVERITY_ERROR, .file = TEXT_OF("fusion.cu"), .line = 7, .text = TEXT_OF("first\nsecond line")},
        {.severity = SEVERITY_ERROR, .file = TEXT_OF("fusion.cu"), .line = 9, .text = TEXT_OF("another")},
    };
    result.diagnostics = diagnostics;
    result.n_diagnostics = 3;
    struct failure failure = product_failure(plan, &result, &error);
    cr_assert_eq(error.code, STATUS_COMPILE_FAILED);
    cr_assert_str_eq(error.text, "fusion.cu:7: first (2 errors)");
    cr_assert_eq(failure.code, STATUS_COMPILE_FAILED);
    cr_assert_eq(failure.n_diagnostics, 3);
    cr_assert(text_is(failure.log, "a log"));
    diagnostics[1].file = (struct text){NULL, 0};
    product_failure(plan, &result, &error);
    cr_assert_str_eq(error.text, "first");
}

Test(product, a_header_that_is_missing_says_how_to_ask_for_it)
{
    struct diagnostic diagnostic = {.severity = SEVERITY_ERROR,
                                    .file = TEXT_OF("fusion.cu"),
                                    .line = 1,
                                    .text = TEXT_OF("could not open source file \"cuda_fp16.h\"")};
    result.diagnostics = &diagnostic;
    result.n_diagnostics = 1;
    product_failure(plan, &result, &error);
    cr_assert_not_null(strstr(error.text, "fusion.headers"), "%s", error.text);
    cr_assert_not_null(strstr(error.text, "compile.toolkit_headers"), "%s", error.text);
    plan->compiler = COMPILER_TOOLKIT;
    product_failure(plan, &result, &error);
    cr_assert_not_null(strstr(error.text, "fusion.headers"), "%s", error.text);
    cr_assert_null(strstr(error.text, "toolkit_headers"), "%s", error.text);
}

Test(product, B2_2_an_instruction_that_the_target_lacks_is_an_unsupported_target)
{
    struct diagnostic diagnostics[2] = {
        {.severity = SEVERITY_ERROR, .text = TEXT_OF("Instruction 'wgmma.fence' not supported on .target 'sm_90'")},
        {.severity = SEVERITY_ERROR, .text = TEXT_OF("Ptx assembly aborted due to errors")},
    };
    result.diagnostics = diagnostics;
    result.n_diagnostics = 2;
    struct failure failure = product_failure(plan, &result, &error);
    cr_assert_eq(failure.code, STATUS_UNSUPPORTED_TARGET);
    cr_assert_not_null(strstr(error.text, "sm_90: Instruction 'wgmma.fence'"), "%s", error.text);
    cr_assert_eq(failure.n_diagnostics, 2);
    diagnostics[0].text = TEXT_OF("Feature 'cp.async.bulk' requires .target sm_90 or higher");
    product_failure(plan, &result, &error);
    cr_assert_eq(error.code, STATUS_UNSUPPORTED_TARGET);
    diagnostics[0].severity = SEVERITY_WARNING;
    product_failure(plan, &result, &error);
    cr_assert_eq(error.code, STATUS_COMPILE_FAILED);
}

Test(product, B3_2_a_failure_without_a_diagnostic_names_the_result)
{
    result.result_name = TEXT_OF("NVRTC_ERROR_INVALID_OPTION");
    struct failure failure = product_failure(plan, &result, &error);
    cr_assert_str_eq(error.text, "NVRTC_ERROR_INVALID_OPTION: the log says why");
    cr_assert_not(failure.retryable);
}
