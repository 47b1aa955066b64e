#include "daemon/compile/compilers.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "kernels_db/kernel_key.h"
#include "tests/unit/daemon/pump.h"

static struct compilers compilers;
static struct budget budget;
static struct stats_reply stats;
static int n_facts, n_closed;

static void on_facts(void *owner)
{
    cr_assert_eq(owner, &n_facts);
    n_facts++;
}

static void on_closed(void *owner)
{
    (void)owner;
    n_closed++;
}

static void setup(void)
{
    log_set_level(LOG_ERROR);
    folder_create();
    pump_start();
}

static void close_all(void)
{
    compilers_close(&compilers, on_closed);
    pump_until(n_closed == 1);
    cr_assert(compilers_are_closed(&compilers));
}

static void teardown(void)
{
    if (!compilers_are_closed(&compilers))
        close_all();
    pump_finish();
    folder_remove();
}

TestSuite(compilers, .init = setup, .fini = teardown, .timeout = 60);

static bool all_are_known(void)
{
    for (size_t i = 0; i < compilers.n; i++) {
        const struct pool *pool = compilers.pools[i];
        if (compilers.slots[i].kind != COMPILER_TOOLKIT && !pool_facts(pool) && !pool_problem(pool))
            return false;
    }
    return true;
}

/* Fake libraries with these behaviours; NULL ends them. */
static void start(const char *one, const char *two, const char *three)
{
    const char *libraries[] = {one, two, three};
    struct pool_options options = {.compiler = FAKE_COMPILER,
                                   .budget = &budget,
                                   .deadline_ms = 20000,
                                   .queue = {{8, 1u << 20}, {8, 1u << 20}},
                                   .host_cc = "g++",
                                   .work_dir = folder,
                                   .stats = &stats};
    struct error error;
    size_t n = two ? 2 + (size_t)(three != NULL) : 1;
    budget_init(&budget, 2);
    cr_assert_eq(compilers_create(&compilers, loop, &options, libraries, n, on_facts, &n_facts, &error), 0);
    cr_assert_eq(compilers.n, 2 * n + 1);
}

static size_t choose(enum compiler_kind kind, const char *wanted)
{
    size_t at = SIZE_MAX;
    struct error error = {0};
    struct text text = {0};
    if (wanted)
        text = text_of(wanted);
    cr_assert_eq(compilers_choose(&compilers, kind, text, &at, &error), COMPILERS_CHOSEN, "%s", error.text);
    cr_assert_lt(at, compilers.n);
    cr_assert_eq(compilers.slots[at].kind, kind);
    return at;
}

static void refused(enum compiler_kind kind, const char *wanted, enum status code, const char *expected)
{
    size_t at = SIZE_MAX;
    struct error error = {0};
    cr_assert_eq(compilers_choose(&compilers, kind, text_of(wanted), &at, &error), COMPILERS_NONE);
    cr_assert_eq(error.code, code, "%s", error.text);
    cr_assert_str_eq(error.text, expected);
    cr_assert_eq(at, SIZE_MAX);
}

/* The first digits of a fake library's build. */
static const char *build_of(const char *identity, size_t digits)
{
    static char texts[4][KEY_HEX];
    static unsigned next;
    uint8_t build[DIGEST_SIZE];
    char *text = texts[next++ % 4];
    digest_of(identity, strlen(identity), build);
    key_to_hex(build, text);
    text[digits] = '\0';
    return text;
}

Test(compilers, the_first_is_the_default)
{
    start("minor-8", "minor-9", NULL);
    cr_assert_eq(choose(COMPILER_NVRTC, NULL), 0, "before anything is known");
    pump_until(all_are_known());
    cr_assert_eq(choose(COMPILER_NVRTC, NULL), 0);
    cr_assert_eq(choose(COMPILER_TOOLKIT, NULL), 1);
    cr_assert_eq(choose(COMPILER_HOST, NULL), 4);
}

Test(compilers, by_version_and_by_build)
{
    start("minor-8", "minor-9", NULL);
    pump_until(all_are_known());
    cr_assert_eq(choose(COMPILER_NVRTC, "13.8"), 0);
    cr_assert_eq(choose(COMPILER_NVRTC, "13.9"), 2);
    cr_assert_eq(choose(COMPILER_NVRTC, build_of("library of minor version 9", 8)), 2);
    cr_assert_eq(choose(COMPILER_NVRTC, build_of("library of minor version 9", 64)), 2);
    cr_assert_neq(memcmp(pool_facts(compilers.pools[0])->build, pool_facts(compilers.pools[2])->build, DIGEST_SIZE), 0);
}

Test(compilers, one_that_is_not_there_is_told_with_those_that_are)
{
    char text[ERROR_TEXT];
    start("minor-8", "minor-9", NULL);
    pump_until(all_are_known());
    snprintf(text, sizeof text,
             "compiler: \"12.0\" is none of what this daemon has of nvrtc: 13.8 (build %s), 13.9 (build %s)",
             build_of("library of minor version 8", 12), build_of("library of minor version 9", 12));
    refused(COMPILER_NVRTC, "12.0", STATUS_INVALID_FIELD, text);
    /* Too few digits are no build, nor is a beginning a version. */
    size_t at;
    struct error error;
    cr_assert_eq(
        compilers_choose(&compilers, COMPILER_NVRTC, text_of(build_of("library of minor version 9", 7)), &at, &error),
        COMPILERS_NONE);
    cr_assert_eq(compilers_choose(&compilers, COMPILER_NVRTC, text_of("13"), &at, &error), COMPILERS_NONE);
    cr_assert_eq(compilers_choose(&compilers, COMPILER_NVRTC, text_of(""), &at, &error), COMPILERS_NONE);
}

Test(compilers, a_version_that_two_builds_have_is_not_settled_by_their_order)
{
    char one[128], two[128], text[ERROR_TEXT];
    file_write(folder_path("one"), "first build");
    file_write(folder_path("two"), "second build");
    snprintf(one, sizeof one, "identity:%s", folder_path("one"));
    snprintf(two, sizeof two, "identity:%s", folder_path("two"));
    start(one, two, NULL);
    pump_until(all_are_known());
    snprintf(text, sizeof text,
             "compiler: \"13.0\" is more than one of what this daemon has of nvrtc: 13.0 (build %s), 13.0 (build %s)",
             build_of("first build", 12), build_of("second build", 12));
    refused(COMPILER_NVRTC, "13.0", STATUS_INVALID_FIELD, text);
    cr_assert_eq(choose(COMPILER_NVRTC, build_of("second build", 10)), 2);
}

Test(compilers, the_same_library_in_two_places_is_one_compiler)
{
    start("minor-8", "minor-8", NULL);
    pump_until(all_are_known());
    cr_assert_eq(choose(COMPILER_NVRTC, "13.8"), 0);
    cr_assert_eq(choose(COMPILER_NVRTC, build_of("library of minor version 8", 16)), 0);
}

Test(compilers, nothing_is_said_before_all_are_known)
{
    size_t at = SIZE_MAX;
    struct error error;
    start("minor-8", "minor-9", NULL);
    cr_assert_eq(compilers_choose(&compilers, COMPILER_NVRTC, text_of("13.9"), &at, &error), COMPILERS_NOT_KNOWN_YET);
    cr_assert_eq(compilers_choose(&compilers, COMPILER_TOOLKIT, text_of("13.9"), &at, &error), COMPILERS_NOT_KNOWN_YET);
    /* Asking has started the probes of those that are made on demand. */
    pump_until(pool_facts(compilers.pools[1]) && pool_facts(compilers.pools[3]));
    cr_assert_eq(choose(COMPILER_TOOLKIT, "13.9"), 3);
}

Test(compilers, one_that_does_not_work_leaves_the_others)
{
    char text[ERROR_TEXT];
    start("ready-error", "minor-9", NULL);
    pump_until(all_are_known());
    cr_assert_eq(choose(COMPILER_NVRTC, NULL), 0, "no other is taken instead");
    cr_assert_eq(choose(COMPILER_NVRTC, "13.9"), 2);
    snprintf(text, sizeof text,
             "compiler: \"13.0\" is none of what this daemon has of nvrtc: one that does not work, 13.9 (build %s)",
             build_of("library of minor version 9", 12));
    refused(COMPILER_NVRTC, "13.0", STATUS_COMPILER_UNAVAILABLE, text);
}

Test(compilers, when_they_are_closed)
{
    start("minor-8", NULL, NULL);
    pump_until(all_are_known());
    close_all();
    refused(COMPILER_NVRTC, "13.8", STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    cr_assert_eq(choose(COMPILER_NVRTC, NULL), 0);
}
