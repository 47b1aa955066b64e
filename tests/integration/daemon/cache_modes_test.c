/* B8.4: what a compile does with kernels that are there, with the real compiler; what was compiled is counted by stats.
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

TestSuite(cache_modes, .init = setup, .fini = teardown);
TestSuite(cache_modes_fake, .fini = teardown);

static struct compile_request *kernel_in_mode(struct sample *sample, unsigned number, enum cache_mode mode)
{
    sample_kernel(sample, number)->cache = mode;
    sample->request.with_image = true;
    return &sample->request;
}

static uint64_t compiles(void)
{
    return wire_stats(daemon_.socket).compiles_total;
}

Test(cache_modes, B8_4_require_is_a_hit_or_a_definite_error)
{
    struct sample sample;
    fail_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_REQUIRE), STATUS_CACHE_MISS,
                "would compile it for sm_90a");
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_total == 0 && stats.misses_total == 0 && stats.misses_refused_total == 1);
    cr_assert_eq(get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_USE)).outcome, OUTCOME_COMPILED);
    cr_assert_eq(get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_REQUIRE)).outcome, OUTCOME_HIT_MEMORY);
    cr_assert_eq(compiles(), 1);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);

    daemon_restart(&daemon_, &(struct daemon_options){0});
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
    cr_assert_eq(get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_REQUIRE)).outcome, OUTCOME_HIT_DATABASE);
    fail_kernel(&wire, kernel_in_mode(&sample, 2, CACHE_MODE_REQUIRE), STATUS_CACHE_MISS, NULL);
    stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_total == 0 && stats.misses_refused_total == 1);
    daemon_is_well();
}

Test(cache_modes, B8_4_bypass_compiles_and_keeps_nothing)
{
    struct sample sample;
    uint8_t image[16384];
    struct compile_reply reply = get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_BYPASS));
    cr_assert(reply.outcome == OUTCOME_COMPILED && !reply.stored && reply.kernel->image.size < sizeof image);
    size_t size = reply.kernel->image.size;
    memcpy(image, reply.kernel->image.at, size);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_total == 1 && stats.memory_kernels == 0 && stats.database_kernels == 0);

    /* What is there changes nothing, and is not changed. */
    get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_USE));
    reply = get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_BYPASS));
    cr_assert(reply.outcome == OUTCOME_COMPILED && !reply.stored);
    cr_assert(reply.kernel->image.size == size && memcmp(image, reply.kernel->image.at, size) == 0);
    reply = get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_BYPASS));
    cr_assert(reply.outcome == OUTCOME_COMPILED && reply.compile_ns > 0, "no memo answers it");
    stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_total == 4 && stats.database_commits_total == 1 && stats.memory_kernels == 1);
    daemon_is_well();
}

/* Too large to be inline: the descriptor is nobody's but the answer's. */
Test(cache_modes, B8_4_bypass_of_a_large_image)
{
    static const char code[] = "__device__ const unsigned char table[300000] = {1};\n"
                               "extern \"C\" __global__ void k(unsigned char *out, int i) { *out = table[i]; }\n";
    struct sample sample;
    for (int i = 0; i < 3; i++) {
        sample_code(&sample, code, "k")->cache = CACHE_MODE_BYPASS;
        sample.request.with_image = true;
        struct compile_reply reply = get_kernel(&wire, &sample.request);
        cr_assert(reply.fds == 1 && reply.kernel->has_image_fd && reply.kernel->image_size > 300000);
    }
    daemon_is_well();
}

Test(cache_modes, B8_4_refresh_replaces_the_row)
{
    struct sample sample;
    struct kernel_list_reply list;
    get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_USE));
    sample_kernel(&sample, 1)->cache = CACHE_MODE_REFRESH;
    sample.fusion.label = TEXT_OF("renewed");
    struct compile_reply reply = get_kernel(&wire, &sample.request);
    cr_assert(reply.outcome == OUTCOME_COMPILED && reply.stored);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_total == 2 && stats.database_kernels == 1 && stats.memory_kernels == 1);
    cr_assert_eq(wire_call(&wire, METHOD_KERNEL_LIST, &(struct kernel_list_request){0}, &list, NULL), 0);
    cr_assert(list.n_kernels == 1 && text_is(list.kernels[0].label, "renewed"));
    reply = get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_USE));
    cr_assert(reply.outcome == OUTCOME_HIT_MEMORY && text_is(reply.kernel->label, "renewed"));
    daemon_is_well();
}

Test(cache_modes, B8_4_a_refresh_that_fails_leaves_what_is_there)
{
    struct sample sample;
    get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_USE));
    kernel_in_mode(&sample, 1, CACHE_MODE_REFRESH)->deadline_ms = 1;
    sample.request.has_deadline_ms = true;
    fail_kernel(&wire, &sample.request, STATUS_TIMEOUT, NULL);
    cr_assert_eq(get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_REQUIRE)).outcome, OUTCOME_HIT_MEMORY);
    daemon_is_well();
}

Test(cache_modes, B8_4_failures_are_remembered_of_use_and_for_use)
{
    static const enum cache_mode others[] = {CACHE_MODE_BYPASS, CACHE_MODE_REFRESH};
    struct sample sample;
    for (size_t i = 0; i < 2; i++) {
        sample_code(&sample, "extern \"C\" __global__ void k() { missing; }\n", "k")->cache = others[i];
        cr_assert(!fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, "missing").remembered);
    }
    sample.request.cache = CACHE_MODE_USE;
    cr_assert(!fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, "missing").remembered);
    cr_assert(fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, "missing").remembered);
    for (size_t i = 0; i < 2; i++) {
        sample.request.cache = others[i];
        cr_assert(!fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, "missing").remembered);
    }
    sample.request.cache = CACHE_MODE_REQUIRE;
    fail_kernel(&wire, &sample.request, STATUS_CACHE_MISS, NULL);
    cr_assert_eq(wire_stats(daemon_.socket).compiles_failed_total, 5);
    daemon_is_well();
}

/* Two keys were looked for: the one without names, and the one with them, which is for code that shows its names. */
Test(cache_modes, B8_4_a_miss_names_the_key_that_a_compile_would_have)
{
    struct sample sample;
    char key[KEY_HEX], text[ERROR_TEXT];
    struct failure failure =
        fail_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_REQUIRE), STATUS_CACHE_MISS, NULL);
    snprintf(text, sizeof text, "%s", failure.text.at);
    struct compile_reply reply = get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_USE));
    cr_assert_eq(reply.kernel->n_renamed, 1, "or this tests nothing");
    key_to_hex(reply.kernel->key, key);
    cr_assert(strstr(text, key), "%s is not in \"%s\"", key, text);
    daemon_is_well();
}

Test(cache_modes, B8_4_a_daemon_that_compiles_nothing)
{
    struct sample sample;
    get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_USE));
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, &(struct daemon_options){.args = (const char *const[]){"--require-cached", NULL}});
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
    cr_assert_eq(get_kernel(&wire, kernel_in_mode(&sample, 1, cache_mode_absent)).outcome, OUTCOME_HIT_DATABASE);
    fail_kernel(&wire, kernel_in_mode(&sample, 2, CACHE_MODE_USE), STATUS_CACHE_MISS, NULL);
    fail_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_BYPASS), STATUS_FORBIDDEN, "--require-cached");
    fail_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_REFRESH), STATUS_FORBIDDEN, "--require-cached");
    cr_assert_eq(compiles(), 0);
    daemon_is_well();
}

/* Which kernels show their names only a compile finds out, and the daemon that did is gone: the one that must not
 * compile looks for both keys. */
Test(cache_modes_fake, B8_4_require_finds_a_kernel_whose_image_shows_names)
{
    const struct daemon_options options = {
        .args = (const char *const[]){"--compiler", FAKE_COMPILER, "--nvrtc", "/shows-names", "--workers", "1", NULL}};
    struct sample sample;
    daemon_start(&daemon_, &options);
    wire_open(&wire, daemon_.socket);
    struct compile_reply reply = get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_USE));
    cr_assert(reply.outcome == OUTCOME_COMPILED && reply.kernel->n_renamed == 0);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, &options);
    wire_open(&wire, daemon_.socket);
    cr_assert_eq(get_kernel(&wire, kernel_in_mode(&sample, 1, CACHE_MODE_REQUIRE)).outcome, OUTCOME_HIT_DATABASE);
    fail_kernel(&wire, kernel_in_mode(&sample, 2, CACHE_MODE_REQUIRE), STATUS_CACHE_MISS, NULL);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_total == 0 && stats.misses_refused_total == 1);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}
