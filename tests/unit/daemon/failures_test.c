/* What failed a short while ago: for how long, for whom, and how much of it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compile/failures.h"
#include "proto/envelope.h"

#define KEEP_MS 60000u
#define MS 1000000u

static struct failures failures;

static void setup(void)
{
    failures_init(&failures, KEEP_MS);
}

static void teardown(void)
{
    failures_finish(&failures);
    cr_expect_eq(failures.n, 0);
    cr_expect_eq(failures.bytes, 0);
}

TestSuite(failures, .init = setup, .fini = teardown);

static struct kernel_id id_of(uint64_t owner, unsigned key)
{
    struct kernel_id id = {.owner = owner};
    memcpy(id.key, &key, sizeof key);
    return id;
}

static void add(unsigned key, enum status code, enum cause cause, unsigned strikes, uint64_t deadline_ms, uint64_t ms)
{
    struct kernel_id id = id_of(1, key);
    struct error error;
    error_set(&error, code, "failure %u", key);
    struct failure failure = failure_of(&error);
    failures_add(&failures, &id, &failure, cause, strikes, deadline_ms, ms * MS);
}

static const struct failure *find(unsigned key, uint64_t deadline_ms, uint64_t ms)
{
    struct kernel_id id = id_of(1, key);
    return failures_find(&failures, &id, deadline_ms, ms * MS);
}

Test(failures, B3_4_a_rejection_is_answered_as_remembered)
{
    struct diagnostic diagnostic = {SEVERITY_ERROR, TEXT_OF("fusion.cu"), 3, true, 5, true, TEXT_OF("no")};
    struct kernel_id id = id_of(1, 7), other = id_of(2, 7);
    struct error error;
    error_set(&error, STATUS_COMPILE_FAILED, "fusion.cu:3: no");
    struct failure failure = failure_of(&error);
    char *log = strdup("the whole log");
    failure.log = text_of(log);
    failure.diagnostics = &diagnostic;
    failure.n_diagnostics = 1;
    failures_add(&failures, &id, &failure, CAUSE_NONE, 0, 1000, 0);
    memset(log, 'x', strlen(log)); /* a copy is kept */
    free(log);
    const struct failure *found = failures_find(&failures, &id, 1000, 59999 * (uint64_t)MS);
    cr_assert(found);
    cr_expect(found->remembered);
    cr_expect_eq(found->code, STATUS_COMPILE_FAILED);
    cr_expect_str_eq(found->text.at, "fusion.cu:3: no");
    cr_expect_str_eq(found->log.at, "the whole log");
    cr_assert_eq(found->n_diagnostics, 1);
    cr_expect_eq(found->diagnostics[0].line, 3);
    cr_expect(!failures_find(&failures, &other, 1000, 0), "another user's");
    cr_expect(!failures_find(&failures, &id, 1000, KEEP_MS * (uint64_t)MS), "for a while only");
    cr_expect_eq(failures.n, 0);
}

Test(failures, F5_a_crash_counts_from_the_second_one_on)
{
    add(1, STATUS_COMPILER_CRASHED, CAUSE_CRASH, 1, 1000, 0);
    cr_expect(!find(1, 1000, 10));
    add(1, STATUS_COMPILER_CRASHED, CAUSE_CRASH, 1, 1000, 20);
    cr_expect(find(1, 1000, 30));
    cr_expect(find(1, 1000000, 30), "time does not help");
    cr_expect(!find(2, 1000, 30), "another key");
    /* A retried one costs two workers at once. */
    add(3, STATUS_COMPILER_CRASHED, CAUSE_CRASH, 2, 1000, 30);
    cr_expect(find(3, 1000, 30));
}

Test(failures, F5_old_strikes_and_other_causes_do_not_count)
{
    add(1, STATUS_RESOURCE_LIMIT, CAUSE_MEMORY, 1, 1000, 0);
    add(1, STATUS_RESOURCE_LIMIT, CAUSE_MEMORY, 1, 1000, KEEP_MS + 1);
    cr_expect(!find(1, 1000, KEEP_MS + 2), "the first one is too long ago");
    add(2, STATUS_RESOURCE_LIMIT, CAUSE_STACK, 1, 1000, 0);
    add(2, STATUS_COMPILER_CRASHED, CAUSE_CRASH, 1, 1000, 1);
    cr_expect(!find(2, 1000, 2));
}

Test(failures, F3_a_deadline_holds_for_no_longer_ones)
{
    add(1, STATUS_TIMEOUT, CAUSE_DEADLINE, 1, 500, 0);
    add(1, STATUS_TIMEOUT, CAUSE_DEADLINE, 1, 200, 1);
    cr_expect(find(1, 200, 2));
    cr_expect(find(1, 500, 2));
    cr_expect(!find(1, 501, 2), "more time may be enough");
}

Test(failures, what_compiles_is_forgotten)
{
    struct kernel_id id = id_of(1, 4);
    add(4, STATUS_COMPILER_CRASHED, CAUSE_CRASH, 2, 1000, 0);
    failures_forget(&failures, &id);
    failures_forget(&failures, &id);
    cr_expect(!find(4, 1000, 1));
}

Test(failures, bounded_in_number)
{
    for (unsigned key = 0; key < 3 * FAILURES_MAX; key++)
        add(key, STATUS_COMPILE_FAILED, CAUSE_NONE, 0, 1000, key);
    cr_expect_eq(failures.n, FAILURES_MAX);
    cr_expect(!find(2 * FAILURES_MAX - 1, 1000, 3 * FAILURES_MAX), "the oldest are gone");
    cr_expect(find(2 * FAILURES_MAX, 1000, 3 * FAILURES_MAX));
}

Test(failures, bounded_in_bytes)
{
    enum { LOG = 64 << 10 };
    char *log = calloc(1, LOG + 1);
    cr_assert(log);
    memset(log, 'l', LOG);
    for (unsigned key = 0; key < 400; key++) {
        struct kernel_id id = id_of(1, key);
        struct error error;
        error_set(&error, STATUS_COMPILE_FAILED, "failure");
        struct failure failure = failure_of(&error);
        failure.log = text_of(log);
        failures_add(&failures, &id, &failure, CAUSE_NONE, 0, 1000, key);
        cr_assert_leq(failures.bytes, FAILURES_MAX_BYTES);
    }
    cr_expect_gt(failures.n, 100);
    cr_expect(find(399, 1000, 400));
    free(log);
}

Test(failures, none_where_none_are_kept)
{
    failures_finish(&failures);
    failures_init(&failures, 0);
    add(1, STATUS_COMPILE_FAILED, CAUSE_NONE, 0, 1000, 0);
    cr_expect(!find(1, 1000, 0));
}
