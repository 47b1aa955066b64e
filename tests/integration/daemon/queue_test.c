/* Many compiles and one worker: whose turn it is, and what becomes of those that nobody waits for any more. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/integration/daemon/fixture.h"

/* Enough that their compiles take far longer than anything that is waited for here. */
#define FLOOD 60

static struct daemon_process daemon_;
static struct base_line base;
static struct wire crowd, single;
static uint32_t hang, asked[FLOOD];

static bool is_busy(void *context)
{
    (void)context;
    return wire_stats(daemon_.socket).workers_busy == 1;
}

/* The only worker is busy for a while, with something that fails. */
static void setup(void)
{
    struct sample sample;
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.args = (const char *const[]){"--workers", "1", NULL}});
    base = base_line_take(&daemon_);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.workers_limit == 1 && stats.machine_cpus >= 1 && stats.machine_memory_bytes > 0);
    wire_open(&crowd, daemon_.socket);
    wire_open(&single, daemon_.socket);
    hang = wire_ask(&crowd, METHOD_COMPILE, sample_hang(&sample));
    cr_assert(becomes_true(is_busy, NULL, DAEMON_PATIENCE_MS));
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

static void daemon_is_well(void)
{
    wire_close(&crowd);
    wire_close(&single);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

TestSuite(queue, .init = setup, .fini = teardown);

static void ask_many(enum priority priority)
{
    for (unsigned i = 0; i < FLOOD; i++) {
        struct sample sample;
        sample_kernel(&sample, i)->priority = priority;
        asked[i] = wire_ask(&crowd, METHOD_COMPILE, &sample.request);
    }
    flights_become(&daemon_, 1 + FLOOD);
}

static void answers_come(struct wire *wire, uint32_t first, uint32_t last)
{
    cr_assert(wire_answer(wire, hang, METHOD_COMPILE, NULL, NULL) == STATUS_TIMEOUT);
    for (uint32_t id = first; id <= last; id++)
        cr_assert(wire_answer(wire, id, METHOD_COMPILE, NULL, NULL) == 0);
}

Test(queue, F18_a_client_with_many_kernels_does_not_hold_up_another_one_with_one)
{
    struct sample sample;
    ask_many(priority_absent);
    get_kernel(&single, sample_kernel(&sample, 1000));
    /* One of the other's was before it; another may have been compiled while the answer travelled. */
    uint64_t compiles = wire_stats(daemon_.socket).compiles_total;
    cr_assert(compiles >= 2 && compiles <= 6, "%llu compiles", (unsigned long long)compiles);
    answers_come(&crowd, asked[0], asked[FLOOD - 1]);
    daemon_is_well();
}

Test(queue, the_more_urgent_priority_comes_first)
{
    struct sample sample;
    ask_many(PRIORITY_BACKGROUND);
    sample_kernel(&sample, 1000)->priority = PRIORITY_NORMAL;
    uint32_t normal = wire_ask(&crowd, METHOD_COMPILE, &sample.request);
    uint32_t interactive = wire_ask(&crowd, METHOD_COMPILE, sample_kernel(&sample, 1001));
    cr_assert(wire_answer(&crowd, hang, METHOD_COMPILE, NULL, NULL) == STATUS_TIMEOUT);
    cr_assert(wire_answer(&crowd, interactive, METHOD_COMPILE, NULL, NULL) == 0);
    cr_assert(wire_answer(&crowd, normal, METHOD_COMPILE, NULL, NULL) == 0);
    cr_assert(wire_answer(&crowd, asked[0], METHOD_COMPILE, NULL, NULL) == 0);
    daemon_is_well();
}

Test(queue, F18_a_more_urgent_request_for_the_same_kernel_moves_it_up)
{
    struct sample sample;
    ask_many(PRIORITY_BACKGROUND);
    struct compile_reply reply = get_kernel(&single, sample_kernel(&sample, FLOOD - 1));
    cr_assert(reply.outcome == OUTCOME_JOINED);
    uint64_t compiles = wire_stats(daemon_.socket).compiles_total;
    cr_assert(compiles >= 1 && compiles <= 5, "%llu compiles", (unsigned long long)compiles);
    /* Both get it, and it is compiled once. */
    cr_assert(wire_answer(&crowd, hang, METHOD_COMPILE, NULL, NULL) == STATUS_TIMEOUT);
    cr_assert(wire_answer(&crowd, asked[FLOOD - 1], METHOD_COMPILE, NULL, NULL) == 0);
    cr_assert(wire_stats(daemon_.socket).joined_total == 1);
    daemon_is_well();
}

Test(queue, F17_what_nobody_waits_for_any_more_is_not_compiled)
{
    struct sample sample;
    ask_many(priority_absent);
    uint32_t shared = wire_ask(&single, METHOD_COMPILE, sample_kernel(&sample, FLOOD / 2));
    wire_close(&crowd);
    /* The compile that has begun goes on, and so does the one that somebody else waits for. */
    cr_assert(wire_answer(&single, shared, METHOD_COMPILE, NULL, NULL) == 0);
    flights_become(&daemon_, 0);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.compiles_total == 1, "%llu compiles", (unsigned long long)stats.compiles_total);
    cr_assert(stats.compiles_withdrawn_total == FLOOD - 1);
    cr_assert(stats.queue_depth == 0);
    wire_open(&crowd, daemon_.socket);
    daemon_is_well();
}

Test(queue, a_cancelled_compile_that_has_not_begun_never_does)
{
    struct sample sample;
    struct cancel_reply reply;
    uint32_t waiting = wire_ask(&single, METHOD_COMPILE, sample_kernel(&sample, 1));
    flights_become(&daemon_, 2);
    struct cancel_request cancel = {.request = waiting, .has_request = true};
    uint32_t id = wire_ask(&single, METHOD_CANCEL, &cancel);
    cr_assert(wire_answer(&single, waiting, METHOD_COMPILE, NULL, NULL) == STATUS_CANCELLED);
    cr_assert(wire_answer(&single, id, METHOD_CANCEL, &reply, NULL) == 0 && reply.cancelled);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(stats.flights == 1 && stats.compiles_withdrawn_total == 1);
    cr_assert(wire_answer(&crowd, hang, METHOD_COMPILE, NULL, NULL) == STATUS_TIMEOUT);
    /* Asked for again it is compiled. */
    cr_assert(get_kernel(&single, sample_kernel(&sample, 1)).outcome == OUTCOME_COMPILED);
    daemon_is_well();
}

/* ---- progress ---- */

/* The next frame is this notification. Returns how many are ahead. */
static uint64_t told(struct wire *wire, uint32_t id, enum compile_state state)
{
    struct envelope envelope;
    struct compile_progress progress;
    struct error error;
    cr_assert(wire_read(wire, WIRE_PATIENCE_MS, &envelope) == WIRE_FRAME);
    cr_assert(envelope.kind == ENVELOPE_NOTIFICATION && text_is(envelope.name, "compile.progress"), "kind %d",
              (int)envelope.kind);
    cr_assert(message_parse(&compile_progress_type, envelope.body.at, envelope.body.size, &wire->zone, &progress,
                            &error) == 0,
              "%s", error.text);
    cr_assert(progress.request == id && progress.state == state, "request %llu is %s",
              (unsigned long long)progress.request, compile_state_word((int)progress.state));
    cr_assert(progress.has_ahead == (state == COMPILE_STATE_QUEUED));
    return progress.ahead;
}

Test(queue, who_asks_is_told_how_far_its_compile_is)
{
    struct sample sample;
    for (unsigned i = 0; i < 3; i++)
        asked[i] = wire_ask(&crowd, METHOD_COMPILE, sample_kernel(&sample, i));
    flights_become(&daemon_, 4);
    sample_kernel(&sample, 1000)->progress = true;
    sample.request.priority = PRIORITY_NORMAL;
    uint32_t id = wire_ask(&single, METHOD_COMPILE, &sample.request);
    cr_assert(told(&single, id, COMPILE_STATE_QUEUED) == 3);
    cr_assert(wire_answer(&crowd, hang, METHOD_COMPILE, NULL, NULL) == STATUS_TIMEOUT);
    for (unsigned i = 0; i < 3; i++) /* nobody else is told anything */
        cr_assert(wire_answer(&crowd, asked[i], METHOD_COMPILE, NULL, NULL) == 0);
    /* The hang has kept it waiting for longer than news are apart. */
    uint64_t ahead = told(&single, id, COMPILE_STATE_QUEUED);
    cr_assert(ahead < 3, "%llu are ahead", (unsigned long long)ahead);
    struct envelope envelope;
    enum compile_state state = COMPILE_STATE_QUEUED;
    while (state != COMPILE_STATE_DONE) { /* slow compiles make for more news */
        struct compile_progress progress;
        struct error error;
        cr_assert(wire_read(&single, WIRE_PATIENCE_MS, &envelope) == WIRE_FRAME);
        cr_assert(envelope.kind == ENVELOPE_NOTIFICATION);
        cr_assert(message_parse(&compile_progress_type, envelope.body.at, envelope.body.size, &single.zone, &progress,
                                &error) == 0);
        cr_assert(progress.state == state || progress.state == state + 1u, "%s after %s",
                  compile_state_word((int)progress.state), compile_state_word((int)state));
        state = progress.state;
    }
    cr_assert(wire_answer(&single, id, METHOD_COMPILE, NULL, NULL) == 0);
    /* What is found causes none. */
    cr_assert(get_kernel(&single, &sample.request).outcome == OUTCOME_HIT_MEMORY);
    daemon_is_well();
}

/* ---- too much ---- */

/* A daemon with these limits instead of the one that `setup` started. */
static void start_again(const char *const *args)
{
    wire_close(&crowd);
    wire_close(&single);
    daemon_finish(&daemon_);
    daemon_start(&daemon_, &(struct daemon_options){.args = args});
    wire_open(&crowd, daemon_.socket);
    wire_open(&single, daemon_.socket);
    struct sample sample;
    hang = wire_ask(&crowd, METHOD_COMPILE, sample_hang(&sample));
    cr_assert(becomes_true(is_busy, NULL, DAEMON_PATIENCE_MS));
}

/* A kernel whose job has a little more than 10,000 bytes. */
static struct compile_request *large_kernel(struct sample *ret, unsigned number)
{
    static char code[10100];
    memset(code, ' ', sizeof code);
    snprintf(code + 10000, 100, "\nextern \"C\" __global__ void k(unsigned *out) { *out = %uu; }\n", number);
    return sample_code(ret, code, "k");
}

static void expect_busy(const char *words)
{
    struct sample sample;
    struct failure failure = fail_kernel(&single, large_kernel(&sample, 1000), STATUS_BUSY, words);
    cr_assert(failure.retryable);
    cr_assert(failure.has_retry_after_ms && failure.retry_after_ms >= 100, "%llu ms",
              (unsigned long long)failure.retry_after_ms);
    /* Who joins a compile that waits needs no room. */
    cr_assert(get_kernel(&single, large_kernel(&sample, 1)).outcome == OUTCOME_JOINED);
}

Test(queue, F18_a_full_queue_names_its_limit_and_loses_nothing)
{
    static const char *const kinds[] = {"--queue-jobs", "--queue-jobs-per-user", "--queue-bytes",
                                        "--queue-bytes-per-user"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct sample sample;
        char words[64];
        const char *limit = i < 2 ? "2" : "25000";
        uint32_t ids[2];
        start_again((const char *const[]){"--workers", "1", kinds[i], limit, NULL});
        for (unsigned j = 0; j < 2; j++)
            ids[j] = wire_ask(&crowd, METHOD_COMPILE, large_kernel(&sample, j));
        flights_become(&daemon_, 3);
        snprintf(words, sizeof words, "the limit is %s (%s); try again in ", limit, kinds[i]);
        expect_busy(words);
        cr_assert(wire_answer(&crowd, hang, METHOD_COMPILE, NULL, NULL) == STATUS_TIMEOUT);
        for (unsigned j = 0; j < 2; j++)
            cr_assert(wire_answer(&crowd, ids[j], METHOD_COMPILE, NULL, NULL) == 0);
        get_kernel(&single, large_kernel(&sample, 1000));
    }
    wire_close(&crowd);
    wire_close(&single);
    daemon_stop_in_order(&daemon_);
}
