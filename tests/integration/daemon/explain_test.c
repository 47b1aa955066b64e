/* B8.4: `explain` through the daemon, with the real compiler: what a key is made of, where a kernel is, what is near.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "kernels_db/kernel_key.h"
#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct base_line base;
static struct wire wire;

static void setup(void)
{
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.args = (const char *const[]){"--workers", "1", NULL}});
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

static void daemon_is_well(void)
{
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

TestSuite(explain, .init = setup, .fini = teardown);

static struct explain_reply ask(const struct compile_request *request)
{
    struct explain_reply reply;
    struct failure failure = {0};
    unsigned code = wire_call(&wire, METHOD_EXPLAIN, request, &reply, &failure);
    cr_assert(code == 0, "%s: %s", failure.name.at, failure.text.at);
    return reply;
}

/* The only one of this field, or of the ones with this value on either side. */
static const struct difference *difference(const struct nearest_kernel *nearest, const char *field, const char *value)
{
    for (size_t i = 0; i < nearest->n_differences; i++) {
        const struct difference *at = &nearest->differences[i];
        if (text_is(at->field, field) && (!value || text_is(at->wanted, value) || text_is(at->stored, value)))
            return at;
    }
    cr_assert_fail("no difference of %s %s", field, value ? value : "");
    return NULL;
}

Test(explain, B8_4_a_hit_tells_where)
{
    struct sample sample;
    sample_kernel(&sample, 1);
    struct explain_reply reply = ask(&sample.request);
    cr_assert(reply.found == tier_absent && reply.nearest == NULL && reply.failure == NULL);
    struct compile_reply compiled = get_kernel(&wire, &sample.request);
    cr_assert_arr_eq(compiled.kernel->key, reply.key, DIGEST_SIZE);
    cr_assert(text_is(reply.target, "sm_90a") && reply.image_kind == IMAGE_KIND_CUBIN && reply.structured);
    cr_assert(reply.renamed == 1 && reply.n_entries == 1 && text_is(reply.entries[0], "k"));
    cr_assert(reply.n_modules == 2 && text_is(reply.modules[0].name, "before the code"));
    cr_assert_eq(ask(&sample.request).found, TIER_MEMORY);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, &(struct daemon_options){0});
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
    cr_assert_eq(ask(&sample.request).found, TIER_DATABASE);
    cr_assert_eq(ask(&sample.request).found, TIER_DATABASE, "nothing was taken into memory");
    daemon_is_well();
}

Test(explain, B8_4_explaining_changes_nothing)
{
    struct sample sample;
    struct kernel_list_reply list;
    get_kernel(&wire, sample_kernel(&sample, 1));
    for (unsigned i = 0; i < 5; i++)
        ask(sample_kernel(&sample, i));
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_total == 1 && stats.misses_total == 1 && stats.hits_memory_total == 0);
    cr_assert(stats.memory_kernels == 1 && stats.database_kernels == 1 && stats.flights == 0);
    cr_assert_eq(wire_call(&wire, METHOD_KERNEL_LIST, &(struct kernel_list_request){0}, &list, NULL), 0);
    cr_assert_eq(list.n_kernels, 1);
    daemon_is_well();
}

Test(explain, B8_4_a_miss_tells_the_nearest_field_by_field)
{
    struct sample sample;
    struct define define = {.name = TEXT_OF("UNUSED"), .value = TEXT_OF("3")};
    struct header header = {.name = TEXT_OF("a.h"), .bytes = {(const uint8_t *)"// 1\n", 5}};
    sample_kernel(&sample, 1);
    sample.fusion.headers = &header;
    sample.fusion.n_headers = 1;
    struct compile_reply compiled = get_kernel(&wire, &sample.request);

    sample.options.defines = &define;
    sample.options.n_defines = 1;
    sample.options.max_registers = 40;
    sample.options.has_max_registers = true;
    header.bytes.at = (const uint8_t *)"// 2\n";
    sample.fusion.target = TEXT_OF("sm_80");
    const struct nearest_kernel *nearest = ask(&sample.request).nearest;
    cr_assert_not_null(nearest);
    cr_assert_arr_eq(nearest->key, compiled.kernel->key, DIGEST_SIZE);
    cr_assert_eq(nearest->kinship, KINSHIP_CODE);
    cr_assert(text_is(difference(nearest, "target", NULL)->wanted, "sm_80"));
    cr_assert(text_is(difference(nearest, "target", NULL)->stored, "sm_90a"));
    cr_assert_null(difference(nearest, "args", "-DUNUSED=3")->stored.at);
    cr_assert_null(difference(nearest, "args", "--maxrregcount=40")->stored.at);
    cr_assert_null(difference(nearest, "args", "--gpu-architecture=sm_90a")->wanted.at);
    const struct difference *of_header = difference(nearest, "header a.h", NULL);
    cr_assert(of_header->wanted.size == 16 && of_header->stored.size == 16);
    cr_assert_eq(nearest->n_differences, 6, "and no other");
    daemon_is_well();
}

Test(explain, B8_4_nearest_is_what_differs_least)
{
    struct sample sample;
    uint8_t near[DIGEST_SIZE];
    sample_kernel(&sample, 1);
    sample.fusion.label = TEXT_OF("mine");
    sample.fusion.target = TEXT_OF("sm_80");
    get_kernel(&wire, &sample.request);
    /* Other code under the same label, and all else the same: fewer differences than another target. */
    sample_kernel(&sample, 2);
    sample.fusion.label = TEXT_OF("mine");
    memcpy(near, get_kernel(&wire, &sample.request).kernel->key, sizeof near);
    sample_kernel(&sample, 1);
    sample.fusion.label = TEXT_OF("mine");
    const struct nearest_kernel *nearest = ask(&sample.request).nearest;
    cr_assert_arr_eq(nearest->key, near, DIGEST_SIZE);
    cr_assert(nearest->kinship == KINSHIP_LABEL && nearest->n_differences == 1);
    difference(nearest, "code", NULL);

    /* Without the label only the code is left in common. */
    sample.fusion.label = (struct text){0};
    nearest = ask(&sample.request).nearest;
    cr_assert_eq(nearest->kinship, KINSHIP_CODE);
    cr_assert_eq(nearest->n_differences, 3, "the target, and an argument for each");
    daemon_is_well();
}

/* Names are not in the key, template arguments are. */
Test(explain, B8_4_entries_differ_by_what_the_key_has_of_them)
{
    static const char one[] = "template <int N> __global__ void f(int *p) { *p = N; }\n",
                      two[] = "template <int N> __global__ void g(int *p) { *p = N; }\n";
    struct sample sample;
    get_kernel(&wire, sample_code(&sample, one, "f<1>"));
    cr_assert_eq(ask(sample_code(&sample, two, "g<1>")).found, TIER_MEMORY);
    const struct nearest_kernel *nearest = ask(sample_code(&sample, two, "g<2>")).nearest;
    cr_assert_eq(nearest->n_differences, 1);
    cr_assert(text_is(difference(nearest, "entry", NULL)->wanted, "(name 0)<2>"));
    cr_assert(text_is(nearest->differences[0].stored, "(name 0)<1>"));
    daemon_is_well();
}

Test(explain, B8_4_a_remembered_failure_is_told)
{
    struct sample sample;
    sample_code(&sample, "extern \"C\" __global__ void k() { missing; }\n", "k");
    fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, "missing");
    struct explain_reply reply = ask(&sample.request);
    cr_assert_not_null(reply.failure);
    cr_assert(reply.failure->code == STATUS_COMPILE_FAILED && reply.failure->remembered && !reply.failure->log.at);
    cr_assert_eq(wire_stats(daemon_.socket).failures_answered_total, 0);
    daemon_is_well();
}

Test(explain, what_a_compile_refuses_is_refused_alike)
{
    struct sample sample;
    struct explain_reply reply;
    struct failure failure;
    sample_kernel(&sample, 1);
    sample.fusion.side_effects_only = false;
    cr_assert_eq(wire_call(&wire, METHOD_EXPLAIN, &sample.request, &reply, &failure), STATUS_NO_OUTPUTS);
    daemon_is_well();
}

Test(explain, who_asks_and_leaves_harms_nobody)
{
    struct sample sample;
    for (unsigned i = 0; i < 20; i++)
        wire_ask(&wire, METHOD_EXPLAIN, sample_kernel(&sample, i));
    daemon_is_well();
}
