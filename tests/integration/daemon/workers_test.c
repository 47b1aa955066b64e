/* Compiler workers that die, hang, or run out of something: the request gets an honest answer, others do not notice. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/under_asan.h"
#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct base_line base;
static struct wire wire, other;

static void setup(void)
{
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.args = (const char *const[]){"--workers", "2", NULL}});
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
    wire_open(&other, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

/* At the end of every test: the two connections were never closed, nothing has leaked, the daemon ends in order. */
static void daemon_is_well(void)
{
    struct sample sample;
    get_kernel(&wire, sample_kernel(&sample, 990));
    get_kernel(&other, sample_kernel(&sample, 991));
    wire_close(&wire);
    wire_close(&other);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

TestSuite(workers, .init = setup, .fini = teardown);

static bool is_busy(void *context)
{
    (void)context;
    return wire_stats(daemon_.socket).workers_busy == 1;
}

/* Kill the worker that compiles: the only child once one is busy. */
static void kill_worker(void)
{
    pid_t children[8];
    cr_assert(becomes_true(is_busy, NULL, DAEMON_PATIENCE_MS));
    size_t n = process_children(daemon_.pid, children, 8);
    cr_assert(n == 1, "%zu children", n);
    cr_assert(kill(children[0], SIGKILL) == 0);
}

static bool is_retried(void *context)
{
    (void)context;
    return wire_stats(daemon_.socket).worker_retries_total == 1;
}

/* A kernel that compiles for about a second. */
static struct compile_request *slow(struct sample *ret)
{
    static const char code[] = "extern \"C\" __global__ void k(double *p) {\n  double v = *p;\n"
                               "#pragma unroll\n  for (int i = 0; i < 10; i++) v = sin(v) + pow(v, cos(v));\n"
                               "  *p = v;\n}\n";
    return sample_code(ret, code, "k");
}

Test(workers, F2_a_worker_killed_once)
{
    struct sample sample;
    struct compile_reply reply, joined;
    uint32_t id = wire_ask(&wire, METHOD_COMPILE, slow(&sample));
    flights_become(&daemon_, 1);
    uint32_t second = wire_ask(&other, METHOD_COMPILE, &sample.request);
    kill_worker();
    cr_assert(wire_answer(&wire, id, METHOD_COMPILE, &reply, NULL) == 0);
    cr_assert(wire_answer(&other, second, METHOD_COMPILE, &joined, NULL) == 0);
    cr_assert(reply.outcome == OUTCOME_COMPILED && joined.outcome == OUTCOME_JOINED);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.worker_crashes_total == 1 && stats.worker_retries_total == 1 && stats.compiles_total == 1);
    cr_assert(daemon_log_count(&daemon_, "worker.died") == 1);
    daemon_is_well();
}

Test(workers, F2_a_worker_killed_twice)
{
    struct sample sample;
    struct failure failure;
    uint32_t id = wire_ask(&wire, METHOD_COMPILE, slow(&sample));
    uint32_t second = wire_ask(&other, METHOD_COMPILE, &sample.request);
    kill_worker();
    cr_assert(becomes_true(is_retried, NULL, DAEMON_PATIENCE_MS));
    kill_worker();
    cr_assert(wire_answer(&wire, id, METHOD_COMPILE, NULL, &failure) == STATUS_WORKER_DIED);
    cr_assert(failure.retryable && strstr(failure.text.at, "SIGKILL"), "%s", failure.text.at);
    cr_assert(wire_answer(&other, second, METHOD_COMPILE, NULL, &failure) == STATUS_WORKER_DIED);
    cr_assert(get_kernel(&wire, &sample.request).outcome == OUTCOME_COMPILED);
    daemon_is_well();
}

Test(workers, F3_compiler_hang)
{
    struct sample hang, sample;
    struct failure failure;
    get_kernel(&other, sample_kernel(&sample, 1)); /* a worker is there */
    get_kernel(&other, sample_kernel(&sample, 2));
    long begin = clock_ms();
    uint32_t id = wire_ask(&wire, METHOD_COMPILE, sample_hang(&hang));
    /* Others are served meanwhile: hits at once, and a compile too. */
    cr_assert(get_kernel(&other, sample_kernel(&sample, 1)).outcome == OUTCOME_HIT_MEMORY);
    cr_assert(get_kernel(&other, sample_kernel(&sample, 3)).outcome == OUTCOME_COMPILED);
    cr_assert(wire_answer(&wire, id, METHOD_COMPILE, NULL, &failure) == STATUS_TIMEOUT);
    long took = clock_ms() - begin;
    cr_assert(took >= 600 && took < 600 + 2000, "%ld ms", took);
    cr_assert(strstr(failure.text.at, "600 ms"), "%s", failure.text.at);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.worker_timeouts_total == 1 && stats.worker_retries_total == 0 && stats.worker_crashes_total == 0);
    cr_assert(daemon_log_count(&daemon_, "worker.timeout") == 1);
    daemon_is_well();
}

static void limit_met(const struct sample *sample, const char *which)
{
    uint64_t before = wire_stats(daemon_.socket).resident_bytes;
    struct failure failure = fail_kernel(&wire, &sample->request, STATUS_RESOURCE_LIMIT, which);
    cr_assert(!failure.retryable);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.worker_retries_total == 0, "a limit is no reason for a second try");
    cr_assert(stats.worker_brief_retries_total == 0, "nor for brief diagnostics, where no line is long");
    cr_assert(getenv("ASAN_OPTIONS") || stats.resident_bytes < before + (16u << 20));
}

Test(workers, F4_memory)
{
    struct sample sample;
    if (UNDER_ASAN)
        cr_skip("memory is not limited under AddressSanitizer");
    sample_code(&sample, "__device__ int a[1 << 30] = {1};\nextern \"C\" __global__ void k(int *p) { *p = a[0]; }\n",
                "k");
    limit_met(&sample, "memory");
    daemon_is_well();
}

Test(workers, F4_stack)
{
    enum { OPERATORS = 300000 };
    struct sample sample;
    if (UNDER_ASAN)
        cr_skip("AddressSanitizer reports stack overflows itself");
    char *code = malloc(OPERATORS + 200);
    cr_assert(code);
    size_t used = (size_t)snprintf(code, 100, "__device__ int a = ");
    for (size_t i = 0; i < OPERATORS / 2; i++, used += 2)
        memcpy(code + used, "- ", 2);
    snprintf(code + used, 100, "1;\nextern \"C\" __global__ void k() {}\n");
    sample_code(&sample, code, "k");
    limit_met(&sample, "stack");
    free(code);
    daemon_is_well();
}

/* One warning or one error a line, 20,000 of them. */
static char *many_lines(const char *format)
{
    enum { LINES = 20000 };
    char *code = malloc(LINES * 40 + 200);
    cr_assert(code);
    size_t used = (size_t)snprintf(code, 100, "extern \"C\" __global__ void k() {\n");
    for (int i = 0; i < LINES; i++)
        used += (size_t)snprintf(code + used, 40, format, i);
    snprintf(code + used, 100, "}\n");
    return code;
}

Test(workers, F6_log_bomb)
{
    struct sample sample;
    char *code = many_lines("1 + %d;\n");
    sample_code(&sample, code, "k")->with_log = true;
    struct kernel *kernel = get_kernel(&wire, &sample.request).kernel;
    cr_assert(kernel->log.size > 1000 && kernel->log.size < 2 * LIMIT_LOG, "%zu bytes", kernel->log.size);
    free(code);
    code = many_lines("x%d = 1;\n");
    sample_code(&sample, code, "k");
    struct failure failure = fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, NULL);
    cr_assert(failure.log.size > 1000 && failure.log.size < 2 * LIMIT_LOG, "%zu bytes", failure.log.size);
    cr_assert(failure.n_diagnostics > 0 && failure.n_diagnostics <= LIMIT_DIAGNOSTICS);
    free(code);
    cr_assert(wire_stats(daemon_.socket).worker_crashes_total == 0);
    daemon_is_well();
}

static bool has_failed(void *context)
{
    (void)context;
    return wire_stats(daemon_.socket).compiles_failed_total > 0;
}

/* Who asks for a hanging compile and leaves does not hold anybody up for longer than its deadline. */
Test(workers, F17_who_leaves_a_hanging_compile)
{
    struct sample hang;
    struct wire leaving;
    wire_open(&leaving, daemon_.socket);
    wire_ask(&leaving, METHOD_COMPILE, sample_hang(&hang));
    cr_assert(becomes_true(is_busy, NULL, DAEMON_PATIENCE_MS));
    wire_close(&leaving);
    cr_assert(becomes_true(has_failed, NULL, 5000));
    cr_assert(wire_stats(daemon_.socket).flights == 0);
    daemon_is_well();
}
