#include "daemon/compile/pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels_db/kernel_key.h"
#include "proto/envelope.h"
#include "tests/unit/daemon/pump.h"

#define MAX_JOBS 16

struct test_job {
    struct pool_job job;
    uint8_t build[DIGEST_SIZE];
    int n_done;
    struct error error;
    uint64_t result;
    char image[256];
    uint64_t queue_ns, compile_ns;
};

static struct pool *pool;
static struct stats_reply stats;
static struct pool_options options;
static struct budget budget;
static struct test_job jobs[MAX_JOBS];
static int n_facts, n_closed, n_done;
static uint8_t build[DIGEST_SIZE];
static bool submitting;
static char script[512];

static void on_facts(void *owner)
{
    cr_assert_eq(owner, &n_facts);
    cr_assert_not_null(pool, "later, not from within pool_create");
    n_facts++;
}

static void on_closed(void *owner)
{
    cr_assert_eq(owner, &n_facts);
    n_closed++;
}

static void setup(void)
{
    folder_create();
    pump_start();
    for (size_t i = 0; i < MAX_JOBS; i++)
        msgpack_sbuffer_init(&jobs[i].job.frame);
    budget_init(&budget, 1);
    options = (struct pool_options){.compiler = FAKE_COMPILER,
                                    .budget = &budget,
                                    .deadline_ms = 20000,
                                    .queue = {{100, 1u << 30}, {100, 1u << 30}},
                                    .stats = &stats};
}

static void close_pool(void)
{
    pool_close(pool, on_closed);
    cr_assert_eq(n_closed, 0, "later");
    pump_until(n_closed == 1);
    pool = NULL;
}

static void teardown(void)
{
    if (pool)
        close_pool();
    for (size_t i = 0; i < MAX_JOBS; i++) {
        cr_assert_leq(jobs[i].n_done, 1);
        msgpack_sbuffer_destroy(&jobs[i].job.frame);
    }
    cr_assert_eq(stats.workers, 0);
    cr_assert_eq(stats.workers_busy, 0);
    cr_assert_eq(stats.queue_depth, 0);
    cr_assert_eq(budget.used, 0);
    cr_assert(list_empty(&budget.members));
    pump_finish();
    folder_remove();
}

TestSuite(pool, .init = setup, .fini = teardown, .timeout = 120);

/* Start a pool whose compiler follows the script. */
static void start(const char *behaviour, const char *file)
{
    struct error error;
    snprintf(script, sizeof script, "%s%s%s", behaviour, file ? ":" : "", file ? folder_path(file) : "");
    options.nvrtc = script;
    cr_assert_eq(pool_create(loop, &options, on_facts, &n_facts, &pool, &error), 0);
    cr_assert_null(pool_facts(pool));
}

static void start_ready(const char *behaviour, const char *file)
{
    start(behaviour, file);
    pump_until(n_facts == 1);
    cr_assert_not_null(pool_facts(pool), "%s", pool_problem(pool));
    memcpy(build, pool_facts(pool)->build, sizeof build);
}

static void done(struct pool_job *job, const struct pool_outcome *outcome)
{
    struct test_job *test = container_of(job, struct test_job, job);
    cr_assert_not(submitting, "later, not from within pool_submit");
    test->n_done++;
    n_done++;
    cr_assert_eq(test->n_done, 1, "exactly once");
    cr_assert((outcome->result == NULL) == (outcome->error.code != STATUS_OK));
    test->error = outcome->error;
    test->queue_ns = outcome->queue_ns;
    test->compile_ns = outcome->compile_ns;
    if (outcome->result) {
        test->result = outcome->result->result;
        snprintf(test->image, sizeof test->image, "%.*s", (int)outcome->result->image.size,
                 outcome->result->image.at ? (const char *)outcome->result->image.at : "");
    }
}

static int submit_to(struct pool *to, int number, const char *program, struct error *error)
{
    struct test_job *test = &jobs[number];
    struct text name = TEXT_OF("f");
    struct worker_job job = {.program = text_of(program), .names = &name, .n_names = 1, .image_kind = IMAGE_KIND_CUBIN};
    cr_assert_eq(envelope_write_message(&test->job.frame, &worker_job_type, &job), 0);
    memcpy(test->build, build, sizeof build);
    test->job.build = test->build;
    test->job.done = done;
    submitting = true;
    int status = pool_submit(to, &test->job, error);
    submitting = false;
    return status;
}

static void submit(int number, const char *program)
{
    struct error error;
    cr_assert_eq(submit_to(pool, number, program, &error), 0, "%s", error.text);
}

static int pid_of(const struct test_job *job)
{
    int pid = 0;
    cr_assert_eq(sscanf(job->image, "image pid=%d", &pid), 1, "%s: %s", job->image, job->error.text);
    return pid;
}

/* ---- the compiler is known ---- */

Test(pool, the_probe_tells_what_the_compiler_is)
{
    uint8_t expected[DIGEST_SIZE];
    start_ready("normal", NULL);
    const struct compiler_facts *facts = pool_facts(pool);
    digest_of("library 1", 9, expected);
    cr_assert_eq(facts->major, 13);
    cr_assert_eq(facts->n_archs, 3);
    cr_assert_eq(facts->archs[2], 90);
    cr_assert_eq(memcmp(facts->build, expected, DIGEST_SIZE), 0);
    cr_assert_null(pool_problem(pool));
    cr_assert_eq(stats.worker_starts_total, 0, "a probe is no worker");
}

static void expect_no_compiler(const char *behaviour, const char *why)
{
    struct error error;
    start(behaviour, NULL);
    pump_until(n_facts == 1);
    cr_assert_null(pool_facts(pool));
    cr_assert_str_eq(pool_problem(pool), why);
    cr_assert_eq(submit_to(pool, 0, "", &error), -1);
    cr_assert_eq(error.code, STATUS_COMPILER_UNAVAILABLE);
    cr_assert_str_eq(error.text, why);
    cr_assert_eq(jobs[0].n_done, 0);
}

Test(pool, a_probe_with_an_error)
{
    expect_no_compiler("ready-error", "there is no NVRTC here");
}

Test(pool, a_probe_of_another_build)
{
    expect_no_compiler("wrong-protocol", "the compiler's probe failed: its protocol version is not the daemon's: the "
                                         "two executables are of different builds");
}

Test(pool, a_probe_that_tells_too_little)
{
    expect_no_compiler("says-little", "the compiler's probe told too little");
}

Test(pool, a_missing_executable)
{
    options.compiler = "/nonexistent/fusiond-compiler";
    expect_no_compiler("normal", "the compiler's probe failed: exit status 127: /nonexistent/fusiond-compiler: no such "
                                 "file or directory");
}

Test(pool, a_probe_that_sends_garbage)
{
    start("garbage-ready", NULL);
    pump_until(n_facts == 1);
    cr_assert_null(pool_facts(pool));
    cr_assert_not_null(pool_problem(pool));
}

Test(pool, a_probe_that_failed_is_tried_again)
{
    start("probe-once", "was-here");
    pump_until(n_facts == 1);
    cr_assert_null(pool_facts(pool));
    cr_assert_str_eq(pool_problem(pool), "the compiler's probe failed: exit status 1: no reason given");
    pump_until(n_facts == 2);
    cr_assert_not_null(pool_facts(pool));
    cr_assert_null(pool_problem(pool));
    memcpy(build, pool_facts(pool)->build, sizeof build);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_OK);
}

/* ---- jobs ---- */

Test(pool, a_job_is_compiled)
{
    start_ready("normal", NULL);
    submit(0, "__global__ void f() {}");
    cr_assert_eq(stats.workers, 1);
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_OK, "%s", jobs[0].error.text);
    cr_assert_eq(jobs[0].result, 0);
    cr_assert_gt(jobs[0].queue_ns, 0);
    cr_assert_gt(jobs[0].compile_ns, 0);
    cr_assert_eq(pool_sandbox(pool), SANDBOX_FULL);
    cr_assert_eq(stats.workers_busy, 0);
}

Test(pool, a_rejected_program_is_a_result)
{
    start_ready("normal", NULL);
    submit(0, "#error");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_OK);
    cr_assert_eq(jobs[0].result, 6);
}

Test(pool, an_idle_worker_is_used_again)
{
    start_ready("normal", NULL);
    for (int i = 0; i < 3; i++) {
        submit(i, "");
        pump_until(n_done == i + 1);
    }
    cr_assert_eq(pid_of(&jobs[0]), pid_of(&jobs[1]));
    cr_assert_eq(pid_of(&jobs[0]), pid_of(&jobs[2]));
    cr_assert_eq(stats.worker_starts_total, 1);
}

Test(pool, jobs_run_side_by_side_up_to_the_limit)
{
    budget.limit = 2;
    cr_assert_eq(mkfifo(folder_path("gate"), 0600), 0);
    int gate = open(folder_path("gate"), O_RDWR | O_CLOEXEC);
    start_ready("waits", "gate");
    for (int i = 0; i < 4; i++)
        submit(i, "");
    pump_until(stats.workers_busy == 2);
    cr_assert_eq(stats.workers, 2);
    cr_assert_eq(stats.queue_depth, 2);
    cr_assert_eq(write(gate, "1234", 4), 4);
    pump_until(n_done == 4);
    cr_assert_eq(stats.worker_starts_total, 2);
    close(gate);
}

static void done_and_submit_next(struct pool_job *job, const struct pool_outcome *outcome)
{
    done(job, outcome);
    if (n_done < 5) {
        submit(n_done, "");
        jobs[n_done].job.done = done_and_submit_next;
    }
}

Test(pool, a_job_submitted_from_done_gets_the_same_worker)
{
    start_ready("normal", NULL);
    submit(0, "");
    jobs[0].job.done = done_and_submit_next;
    pump_until(n_done == 5);
    cr_assert_eq(stats.worker_starts_total, 1);
    cr_assert_eq(pid_of(&jobs[0]), pid_of(&jobs[4]));
}

Test(pool, a_full_queue_is_busy)
{
    struct error error;
    options.queue.all.n = 2;
    start_ready("hangs", NULL);
    submit(0, "");
    pump_until(stats.workers_busy == 1);
    submit(1, "");
    submit(2, "");
    cr_assert_eq(submit_to(pool, 3, "", &error), -1);
    cr_assert_eq(error.code, STATUS_BUSY);
    cr_assert_str_eq(error.text, "2 compiles wait already, the limit is 2 (--queue-jobs); try again in 100 ms");
    close_pool();
    cr_assert_eq(n_done, 3);
    cr_assert_eq(jobs[3].n_done, 0);
}

/* A worker is replaced after 500 jobs. */
static int many_left;
static int pids_seen[8], n_pids;

static void done_and_again(struct pool_job *job, const struct pool_outcome *outcome)
{
    struct test_job *test = container_of(job, struct test_job, job);
    cr_assert_eq(outcome->error.code, STATUS_OK, "%s", outcome->error.text);
    snprintf(test->image, sizeof test->image, "%.*s", (int)outcome->result->image.size,
             (const char *)outcome->result->image.at);
    int pid = pid_of(test);
    if (n_pids == 0 || pids_seen[n_pids - 1] != pid)
        pids_seen[n_pids++] = pid;
    if (--many_left > 0) {
        struct error error;
        cr_assert_eq(pool_submit(pool, job, &error), 0);
    }
}

Test(pool, a_worker_is_recycled)
{
    start_ready("normal", NULL);
    many_left = 1001;
    submit(0, "");
    jobs[0].job.done = done_and_again;
    pump_until(many_left == 0);
    cr_assert_eq(n_pids, 3);
    cr_assert_eq(stats.worker_crashes_total, 0, "on purpose");
}

/* ---- deaths ---- */

Test(pool, F2_a_crash_is_retried_once)
{
    start_ready("crash-once", "was-here");
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_OK, "%s", jobs[0].error.text);
    cr_assert_eq(stats.worker_retries_total, 1);
    cr_assert_eq(stats.worker_crashes_total, 1);
}

Test(pool, F2_a_second_crash_is_told)
{
    start_ready("dies-on-job", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_COMPILER_CRASHED);
    cr_assert_str_eq(jobs[0].error.text, "this code crashes the compiler, 2 times: killed by SIGABRT");
    cr_assert_eq(stats.worker_crashes_total, 2);
    cr_assert_eq(stats.worker_retries_total, 1);
}

Test(pool, a_worker_that_sends_garbage_is_ended)
{
    start_ready("garbage", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_WORKER_DIED);
}

Test(pool, a_result_that_nobody_asked_for_ends_the_worker_only)
{
    start_ready("unasked", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_OK);
    pump_until(stats.worker_crashes_total == 1);
    cr_assert_eq(stats.workers, 0);
}

Test(pool, F3_a_hang_is_killed_at_the_deadline_and_not_retried)
{
    start_ready("hangs", NULL);
    jobs[0].job.deadline_ms = 50;
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_TIMEOUT);
    cr_assert_str_eq(jobs[0].error.text, "the compile was killed after its deadline of 50 ms");
    /* The loop counts whole milliseconds, so its timers end up to one early. */
    cr_assert_geq(jobs[0].compile_ns, 49000000);
    cr_assert_eq(stats.worker_timeouts_total, 1);
    cr_assert_eq(stats.worker_crashes_total, 0);
    cr_assert_eq(stats.worker_retries_total, 0);
}

Test(pool, F3_the_deadline_of_a_job_that_names_none)
{
    options.deadline_ms = 40;
    start_ready("hangs", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_str_eq(jobs[0].error.text, "the compile was killed after its deadline of 40 ms");
}

static void expect_limit(const char *behaviour, const char *text)
{
    start_ready(behaviour, NULL);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_RESOURCE_LIMIT, "%s", jobs[0].error.text);
    cr_assert_str_eq(jobs[0].error.text, text);
    cr_assert_eq(stats.worker_retries_total, 0);
}

Test(pool, F4_out_of_memory)
{
    expect_limit("no-memory", "the compile ran out of memory");
}

Test(pool, F4_out_of_stack)
{
    expect_limit("no-stack", "the compile ran out of stack");
}

Test(pool, F4_out_of_time)
{
    expect_limit("no-time", "the compile used up its CPU time");
}

Test(pool, F4_what_an_earlier_job_said_explains_nothing)
{
    start_ready("chatters", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_OK);
    submit(1, "");
    pump_until(n_done == 2);
    /* It dies on its second job; the retry is the first one of another worker. */
    cr_assert_eq(jobs[1].error.code, STATUS_OK, "%s", jobs[1].error.text);
    cr_assert_eq(stats.worker_retries_total, 1);
}

/* ---- workers that do not start ---- */

Test(pool, workers_that_die_at_their_start_are_told_of_after_three)
{
    start_ready("dies-at-start", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_COMPILER_UNAVAILABLE);
    cr_assert_str_eq(jobs[0].error.text, "compiler workers cannot be started: exit status 1: no reason given");
    cr_assert_eq(stats.worker_starts_total, 3);
    /* The next one is told after one more try, which waits. */
    submit(1, "");
    pump_until(n_done == 2);
    cr_assert_eq(jobs[1].error.code, STATUS_COMPILER_UNAVAILABLE);
    cr_assert_eq(stats.worker_starts_total, 4);
}

Test(pool, workers_that_start_again_recover)
{
    start_ready("starts-late", "may-start");
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_COMPILER_UNAVAILABLE);
    file_write(folder_path("may-start"), "");
    submit(1, "");
    pump_until(n_done == 2);
    cr_assert_eq(jobs[1].error.code, STATUS_OK, "%s", jobs[1].error.text);
}

Test(pool, F16_a_worker_that_cannot_be_started_for_want_of_descriptors)
{
    struct rlimit limit;
    start_ready("normal", NULL);
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 4;
    setrlimit(RLIMIT_NOFILE, &limit);
    submit(0, "");
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    cr_assert_eq(stats.workers, 0);
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_OK, "%s", jobs[0].error.text);
}

/* ---- another compiler ---- */

Test(pool, a_worker_with_another_library_than_the_probe)
{
    start_ready("other-identity", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(jobs[0].error.code, STATUS_COMPILER_UNAVAILABLE);
    cr_assert_str_eq(jobs[0].error.text, "the compiler library was replaced; try again");
    cr_assert_null(pool_facts(pool));
    cr_assert_eq(n_facts, 2, "what is known has changed");
    pump_until(n_facts == 3);
    cr_assert_not_null(pool_facts(pool), "it was probed again");
    cr_assert_eq(stats.worker_crashes_total, 0);
}

Test(pool, F29_a_replaced_compiler_never_compiles_for_an_old_key_nor_the_old_one_for_a_new)
{
    struct error error;
    budget.limit = 2;
    file_write(folder_path("library"), "old");
    start_ready("identity", "library");
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_not_null(strstr(jobs[0].image, "library=old"));
    /* One idle worker has the old library. It is replaced; a second worker shows that. */
    file_write(folder_path("library"), "new");
    submit(1, "");
    submit(2, "");
    pump_until(n_facts == 3);
    pump_until(n_done == 3);
    for (int i = 1; i < 3; i++)
        if (jobs[i].error.code == STATUS_OK)
            cr_assert_not_null(strstr(jobs[i].image, "library=old"), "%s", jobs[i].image);
        else
            cr_assert_eq(jobs[i].error.code, STATUS_COMPILER_UNAVAILABLE, "%s", jobs[i].error.text);
    /* A job that was made with the old facts is refused. */
    cr_assert_eq(submit_to(pool, 3, "", &error), -1);
    cr_assert_eq(error.code, STATUS_COMPILER_UNAVAILABLE);
    /* And one that was made with the new ones gets a new worker. */
    cr_assert_neq(memcmp(build, pool_facts(pool)->build, sizeof build), 0);
    memcpy(build, pool_facts(pool)->build, sizeof build);
    msgpack_sbuffer_clear(&jobs[4].job.frame);
    submit(4, "");
    pump_until(jobs[4].n_done == 1);
    cr_assert_eq(jobs[4].error.code, STATUS_OK, "%s", jobs[4].error.text);
    cr_assert_not_null(strstr(jobs[4].image, "library=new"));
    cr_assert_eq(stats.worker_crashes_total, 0);
}

/* ---- two pools, one machine ---- */

static struct pool *second;
static int n_second_closed;

static void on_second_closed(void *owner)
{
    (void)owner;
    n_second_closed++;
}

static void on_second_facts(void *owner)
{
    (void)owner;
}

/* Another pool over the same budget, of the same compiler. */
static void start_second(void)
{
    struct error error;
    cr_assert_eq(pool_create(loop, &options, on_second_facts, NULL, &second, &error), 0);
    pump_until(pool_facts(second));
}

static void close_second(void)
{
    pool_close(second, on_second_closed);
    pump_until(n_second_closed == 1);
}

Test(pool, an_idle_worker_makes_room_for_another_pools)
{
    struct error error;
    start_ready("normal", NULL);
    start_second();
    submit(0, "");
    pump_until(n_done == 1);
    cr_assert_eq(stats.workers, 1);
    cr_assert_eq(submit_to(second, 1, "", &error), 0);
    pump_until(n_done == 2);
    cr_assert_eq(jobs[1].error.code, STATUS_OK, "%s", jobs[1].error.text);
    cr_assert_eq(stats.workers, 1);
    cr_assert_eq(stats.worker_starts_total, 2);
    cr_assert_eq(stats.worker_crashes_total, 0);
    close_second();
}

Test(pool, a_pool_without_a_worker_gets_the_next_one_of_a_busy_pool)
{
    struct error error;
    start_ready("normal", NULL);
    start_second();
    for (int i = 0; i < 6; i++)
        submit(i, "");
    cr_assert_eq(submit_to(second, 6, "", &error), 0);
    pump_until(jobs[6].n_done == 1);
    cr_assert_eq(n_done, 2, "%d jobs were before it", n_done - 1);
    pump_until(n_done == 7);
    for (int i = 0; i < 7; i++)
        cr_assert_eq(jobs[i].error.code, STATUS_OK, "%s", jobs[i].error.text);
    cr_assert_eq(stats.worker_crashes_total, 0);
    close_second();
}

/* ---- closing ---- */

Test(pool, closing_while_probing)
{
    start("normal", NULL);
    close_pool();
    cr_assert_eq(n_facts, 0);
}

Test(pool, closing_when_the_compiler_is_missing)
{
    start("ready-error", NULL);
    pump_until(n_facts == 1);
    close_pool();
}

Test(pool, closing_without_a_worker)
{
    start_ready("normal", NULL);
    close_pool();
}

static void expect_shut_down(int n)
{
    close_pool();
    cr_assert_eq(n_done, n);
    for (int i = 0; i < n; i++) {
        cr_assert_eq(jobs[i].n_done, 1);
        cr_assert_eq(jobs[i].error.code, STATUS_SHUTTING_DOWN, "%s", jobs[i].error.text);
    }
    cr_assert_eq(stats.worker_crashes_total, 0);
    cr_assert_eq(stats.worker_retries_total, 0);
}

Test(pool, closing_while_a_worker_starts)
{
    start_ready("silent", NULL);
    submit(0, "");
    submit(1, "");
    pump_settle();
    expect_shut_down(2);
}

Test(pool, closing_while_workers_are_busy)
{
    budget.limit = 2;
    start_ready("hangs", NULL);
    for (int i = 0; i < 4; i++)
        submit(i, "");
    pump_until(stats.workers_busy == 2);
    expect_shut_down(4);
}

Test(pool, closing_while_workers_are_idle)
{
    start_ready("normal", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    close_pool();
    cr_assert_eq(jobs[0].n_done, 1);
}

Test(pool, closing_while_backing_off)
{
    start_ready("dies-at-start", NULL);
    submit(0, "");
    pump_until(n_done == 1);
    submit(1, "");
    close_pool();
    cr_assert_eq(jobs[1].error.code, STATUS_SHUTTING_DOWN);
}

Test(pool, nothing_is_taken_while_closing)
{
    struct error error;
    start_ready("hangs", NULL);
    submit(0, "");
    pump_until(stats.workers_busy == 1);
    pool_close(pool, on_closed);
    cr_assert_eq(submit_to(pool, 1, "", &error), -1);
    cr_assert_eq(error.code, STATUS_SHUTTING_DOWN);
    pump_until(n_closed == 1);
    pool = NULL;
    cr_assert_eq(n_done, 1);
}

Test(pool, a_closed_pool_knows_nothing)
{
    cr_assert_null(pool_facts(NULL));
    cr_assert_null(pool_problem(NULL));
    cr_assert_eq(pool_sandbox(NULL), sandbox_absent);
}

/* ---- how it is shut in ---- */

Test(pool, F28_the_probe_tells_how_its_workers_are_shut_in)
{
    start_ready("no-walls", NULL);
    cr_assert_eq(pool_sandbox(pool), SANDBOX_NONE);
    close_pool();
    n_facts = n_closed = 0;
    start_ready("seccomp-alone", NULL);
    cr_assert_eq(pool_sandbox(pool), SANDBOX_SECCOMP);
}

/* ---- a compiler that few ask for ---- */

Test(pool, a_probe_on_demand_waits_for_it)
{
    options.on_demand = true;
    start("normal", NULL);
    struct error error;
    cr_assert_lt(submit_to(pool, 0, "a", &error), 0, "nothing is known of the compiler");
    pool_want(pool);
    pool_want(pool);
    pump_until(n_facts == 1);
    cr_assert_not_null(pool_facts(pool));
    pool_want(pool);
    cr_assert_not_null(pool_facts(pool), "it is there already");
}

Test(pool, a_pool_that_nobody_wanted_closes)
{
    options.on_demand = true;
    start("normal", NULL);
    close_pool();
    pool_want(NULL);
}
