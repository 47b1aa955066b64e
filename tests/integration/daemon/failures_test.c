/* A compile that failed is answered from memory for a while, and a compiler that ran out of it gets a second chance. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/under_asan.h"
#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct wire wire;

static void start_real(const char *const *args)
{
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.args = args});
    wire_open(&wire, daemon_.socket);
}

/* A compiler that does as it is told. */
static void start_fake(const char *behaviour)
{
    daemon_start(&daemon_, &(struct daemon_options){
                               .args = (const char *const[]){"--compiler", FAKE_COMPILER, "--nvrtc", behaviour, NULL}});
    wire_open(&wire, daemon_.socket);
}

static void finish(void)
{
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(failures, .fini = teardown);

/* Fails in line 2. */
static struct compile_request *wrong(struct sample *ret)
{
    return sample_code(ret, "extern \"C\" __global__ void k(int *p) {\n  *p = missing;\n}\n", "k");
}

Test(failures, B3_4_a_rejection_is_remembered)
{
    struct sample sample, right;
    start_real(NULL);
    struct failure first = fail_kernel(&wire, wrong(&sample), STATUS_COMPILE_FAILED, "missing");
    cr_assert(!first.remembered);
    struct failure again = fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, "missing");
    cr_assert(again.remembered);
    cr_assert(again.n_diagnostics > 0 && again.diagnostics[0].line == 2);
    cr_assert(again.log.size > 0 && strstr(again.log.at, "missing"));
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_failed_total == 1 && stats.failures_answered_total == 1 && stats.failures_remembered == 1);
    cr_assert(get_kernel(&wire, sample_kernel(&right, 1)).outcome == OUTCOME_COMPILED, "other keys are unaffected");
    finish();
}

Test(failures, B3_4_only_for_a_while)
{
    struct sample sample;
    start_real((const char *const[]){"--remember-failures-ms", "0", NULL});
    for (int i = 0; i < 2; i++)
        cr_assert(!fail_kernel(&wire, wrong(&sample), STATUS_COMPILE_FAILED, "missing").remembered);
    cr_assert(wire_stats(daemon_.socket).compiles_failed_total == 2);
    finish();
}

Test(failures, F5_code_that_crashes_the_compiler_is_quarantined)
{
    struct sample sample, other;
    start_fake("/dies-on-job");
    struct failure failure = fail_kernel(&wire, sample_kernel(&sample, 1), STATUS_COMPILER_CRASHED, "2 times");
    cr_assert(!failure.retryable && !failure.remembered);
    uint64_t crashes = wire_stats(daemon_.socket).worker_crashes_total;
    cr_assert(crashes == 2);
    for (int i = 0; i < 20; i++)
        cr_assert(fail_kernel(&wire, &sample.request, STATUS_COMPILER_CRASHED, NULL).remembered);
    cr_assert(wire_stats(daemon_.socket).worker_crashes_total == 2, "no worker was started for it again");
    /* Another key is tried. */
    cr_assert(!fail_kernel(&wire, sample_kernel(&other, 2), STATUS_COMPILER_CRASHED, NULL).remembered);
    cr_assert(wire_stats(daemon_.socket).worker_crashes_total == 4);
    finish();
}

/* 200,000 nested parentheses. */
static char *nested(void)
{
    enum { DEPTH = 200000 };
    char *code = malloc(2 * DEPTH + 200);
    cr_assert(code);
    size_t used = (size_t)snprintf(code, 100, "__device__ int a = ");
    memset(code + used, '(', DEPTH);
    used += DEPTH;
    code[used++] = '1';
    memset(code + used, ')', DEPTH);
    used += DEPTH;
    snprintf(code + used, 100, ";\nextern \"C\" __global__ void k() {}\n");
    return code;
}

Test(failures, F5_a_limit_is_remembered_from_the_second_time_on)
{
    struct sample sample;
    if (UNDER_ASAN)
        cr_skip("AddressSanitizer reports stack overflows itself");
    start_real(NULL);
    char *code = nested();
    sample_code(&sample, code, "k");
    for (int i = 0; i < 2; i++)
        cr_assert(!fail_kernel(&wire, &sample.request, STATUS_RESOURCE_LIMIT, "stack").remembered);
    cr_assert(fail_kernel(&wire, &sample.request, STATUS_RESOURCE_LIMIT, "stack").remembered);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.worker_limits_total == 2 && stats.worker_retries_total == 0);
    free(code);
    finish();
}

/* A second of the compiler's time does not do; but more might. */
Test(failures, F3_a_deadline_is_remembered_for_no_longer_ones)
{
    struct sample hang;
    start_real(NULL);
    sample_hang(&hang)->deadline_ms = 100;
    for (int i = 0; i < 2; i++)
        cr_assert(!fail_kernel(&wire, &hang.request, STATUS_TIMEOUT, "100 ms").remembered);
    cr_assert(fail_kernel(&wire, &hang.request, STATUS_TIMEOUT, "100 ms").remembered);
    hang.request.deadline_ms = 150;
    cr_assert(!fail_kernel(&wire, &hang.request, STATUS_TIMEOUT, "150 ms").remembered);
    finish();
}

/* As many complaints about one long line, each of which holds that line: 8,000 × 180 KB. */
Test(failures, F6_complaints_about_one_line_get_a_second_chance)
{
    enum { STATEMENTS = 8000 };
    struct sample sample;
    if (UNDER_ASAN)
        cr_skip("memory is not limited under AddressSanitizer");
    start_real(NULL);
    char *code = malloc(STATEMENTS * 40 + 200);
    cr_assert(code);
    size_t used = (size_t)snprintf(code, 100, "extern \"C\" __global__ void k() {");
    for (int i = 0; i < STATEMENTS; i++)
        used += (size_t)snprintf(code + used, 40, " { int x%d; x%d == 1; }", i, i);
    snprintf(code + used, 100, "}\n");
    sample_code(&sample, code, "k")->with_log = true;
    struct compile_reply reply = get_kernel(&wire, &sample.request);
    cr_assert(reply.outcome == OUTCOME_COMPILED);
    cr_assert(reply.kernel->log.size > 1000 && reply.kernel->log.size < 2 * LIMIT_LOG);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.worker_brief_retries_total == 1 && stats.worker_crashes_total == 1 &&
              stats.worker_limits_total == 1);
    free(code);
    finish();
}
