#include "daemon/compile/flight.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "tests/unit/daemon/pump.h"
#include "tests/unit/daemon/request_bytes.h"

struct rider {
    struct passenger passenger;
    int number;
    int n_landings;
    enum outcome outcome;
    bool stored;
    enum status failed;
    char image[128];
    char text[ERROR_TEXT];
    size_t n_missing;
};

static struct kernel_store *store;
static struct pool *pool, *pools[COMPILER_KINDS];
static struct blob_store blobs;
static struct flights flights;
static struct stats_reply stats;
static int n_facts, n_landed, n_closed, gate;
static bool boarding;
static size_t max_queue = 8;

static void on_facts(void *owner)
{
    (void)owner;
    n_facts++;
}

static void on_landed(void *owner)
{
    cr_assert_eq(owner, &n_landed);
    n_landed++;
}

static void on_closed(void *owner)
{
    (void)owner;
    n_closed++;
}

static void start(const char *behaviour)
{
    static char script[256];
    static struct budget budget;
    struct error error;
    struct kernel_store_options store_options = {folder, 1u << 20, &stats};
    struct pool_options pool_options = {.compiler = FAKE_COMPILER,
                                        .nvrtc = script,
                                        .budget = &budget,
                                        .deadline_ms = 20000,
                                        .queue = {.user = {8, 1u << 20}, .all = {max_queue, 1u << 20}},
                                        .stats = &stats};
    budget_init(&budget, 1);
    snprintf(script, sizeof script, "%s:%s", behaviour, folder_path("gate"));
    cr_assert_eq(mkfifo(folder_path("gate"), 0600), 0);
    gate = open(folder_path("gate"), O_RDWR | O_CLOEXEC);
    blob_store_init(&blobs, 1000, &stats);
    cr_assert_eq(kernel_store_create(loop, &store_options, &store, &error), 0);
    cr_assert_eq(pool_create(loop, &pool_options, on_facts, NULL, &pool, &error), 0);
    pump_until(n_facts == 1);
    cr_assert_not_null(pool_facts(pool));
    pools[COMPILER_NVRTC] = pool;
    flights_init(&flights, store, pools, &blobs, &stats, 60000, on_landed, &n_landed);
}

static void close_pool(void)
{
    n_closed = 0;
    pool_close(pool, on_closed);
    pump_until(n_closed == 1);
    pool = pools[COMPILER_NVRTC] = NULL;
}

static void setup(void)
{
    log_set_level(LOG_ERROR);
    folder_create();
    pump_start();
}

static void teardown(void)
{
    if (pool)
        close_pool();
    pump_until(flights_count(&flights) == 0);
    n_closed = 0;
    kernel_store_close(store, on_closed, NULL);
    pump_until(n_closed == 1);
    blob_store_finish(&blobs);
    close(gate);
    cr_assert_eq(stats.flights, 0);
    pump_finish();
    folder_remove();
}

TestSuite(flight, .init = setup, .fini = teardown, .timeout = 60);

static void on_landing(struct passenger *passenger, const struct landing *landing)
{
    struct rider *rider = container_of(passenger, struct rider, passenger);
    cr_assert_not(boarding, "later");
    cr_assert_null(passenger->flight);
    cr_assert((landing->kernel == NULL) == (landing->failure != NULL));
    rider->n_landings++;
    rider->outcome = landing->outcome;
    rider->stored = landing->stored;
    if (landing->kernel) {
        snprintf(rider->image, sizeof rider->image, "%.*s", (int)landing->kernel->kernel.image.size,
                 (const char *)landing->kernel->kernel.image.at);
    } else {
        rider->failed = (enum status)landing->failure->code;
        rider->n_missing = landing->failure->n_missing;
        snprintf(rider->text, sizeof rider->text, "%s", landing->failure->text.at);
    }
}

static void board_for(struct queue_owner owner, struct rider *rider, struct wish wish)
{
    struct compiler_facts facts = wish_facts();
    struct error error;
    *rider = (struct rider){.passenger.on_landing = on_landing, .passenger.owner = owner};
    boarding = true;
    cr_assert_eq(flights_board(&flights, wish_plan(&wish, &facts), &rider->passenger, &error), 0);
    boarding = false;
}

static void board_as(uint64_t uid, struct rider *rider, struct wish wish)
{
    board_for((struct queue_owner){.uid = uid}, rider, wish);
}

static void board(struct rider *rider, struct wish wish)
{
    board_as(1000, rider, wish);
}

static void open_gate(void)
{
    cr_assert_eq(write(gate, "x", 1), 1);
}

Test(flight, F18_who_asks_for_the_same_joins)
{
    struct rider riders[10];
    start("waits");
    for (int i = 0; i < 10; i++)
        board(&riders[i], (struct wish){.label = i % 2 ? "one name" : "another"});
    cr_assert_eq(flights_count(&flights), 1);
    pump_until(stats.workers_busy == 1);
    open_gate();
    pump_until(n_landed == 1);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(riders[i].n_landings, 1);
        cr_assert_eq(riders[i].outcome, i == 0 ? OUTCOME_COMPILED : OUTCOME_JOINED);
        cr_assert(riders[i].stored);
        cr_assert_str_eq(riders[i].image, riders[0].image);
    }
    cr_assert_eq(stats.compiles_total, 1);
    cr_assert_eq(stats.joined_total, 9);
    cr_assert_eq(stats.misses_total, 1);
    cr_assert_eq(stats.database_commits_total, 1);
}

Test(flight, another_uid_flies_alone)
{
    struct rider one, two;
    start("normal");
    board_as(1000, &one, (struct wish){0});
    board_as(1001, &two, (struct wish){0});
    cr_assert_eq(flights_count(&flights), 2);
    pump_until(n_landed == 2);
    cr_assert_eq(one.outcome, OUTCOME_COMPILED);
    cr_assert_eq(two.outcome, OUTCOME_COMPILED);
}

Test(flight, what_is_in_the_database_is_not_compiled)
{
    struct rider first, again[3];
    start("normal");
    board(&first, (struct wish){0});
    pump_until(n_landed == 1);
    for (int i = 0; i < 3; i++)
        board(&again[i], (struct wish){0});
    pump_until(n_landed == 2);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(again[i].outcome, OUTCOME_HIT_DATABASE);
        cr_assert_str_eq(again[i].image, first.image);
    }
    cr_assert_eq(stats.hits_database_total, 3);
    cr_assert_eq(stats.compiles_total, 1);
    cr_assert_eq(stats.joined_total, 0);
}

Test(flight, F17_when_the_leader_leaves_the_others_get_theirs)
{
    struct rider leader, other;
    start("waits");
    board(&leader, (struct wish){0});
    board(&other, (struct wish){0});
    pump_until(stats.workers_busy == 1);
    passenger_leave(&leader.passenger);
    passenger_leave(&leader.passenger);
    open_gate();
    pump_until(n_landed == 1);
    cr_assert_eq(leader.n_landings, 0);
    cr_assert_eq(other.n_landings, 1);
    cr_assert_eq(other.outcome, OUTCOME_JOINED);
}

Test(flight, F17_when_everybody_leaves_the_kernel_is_stored_all_the_same)
{
    struct rider riders[2], later;
    start("waits");
    for (int i = 0; i < 2; i++)
        board(&riders[i], (struct wish){0});
    pump_until(stats.workers_busy == 1);
    for (int i = 0; i < 2; i++)
        passenger_leave(&riders[i].passenger);
    open_gate();
    pump_until(n_landed == 1);
    cr_assert_eq(stats.database_commits_total, 1);
    board(&later, (struct wish){0});
    pump_until(n_landed == 2);
    cr_assert_eq(later.outcome, OUTCOME_HIT_DATABASE);
}

/* Three compiles that differ, and a fourth that keeps the only worker busy. */
static const char *const codes[] = {"__global__ void f() {}", "__global__ void f() { }", "__global__ void f() {  }",
                                    "__global__ void f() {   }"};

static int order[4], n_order;

static void on_landing_in_order(struct passenger *passenger, const struct landing *landing)
{
    struct rider *rider = container_of(passenger, struct rider, passenger);
    on_landing(passenger, landing);
    order[n_order++] = rider->number;
}

static void board_waiting(struct rider *rider, int number, enum priority priority, uint64_t client)
{
    board_for((struct queue_owner){priority, 1000, client}, rider, (struct wish){.code = codes[number]});
    rider->number = number;
    rider->passenger.on_landing = on_landing_in_order;
}

/* The worker is busy with number 0, the others wait. */
static void wait_behind_one(struct rider riders[4], enum priority priority)
{
    start("waits");
    board_waiting(&riders[0], 0, PRIORITY_INTERACTIVE, 1);
    pump_until(stats.workers_busy == 1);
    for (int i = 1; i < 4; i++)
        board_waiting(&riders[i], i, priority, 1);
    pump_until(stats.queue_depth == 3);
}

static void land_all(int n)
{
    for (int i = 0; i < n; i++)
        open_gate();
    pump_until(n_landed == n);
}

Test(flight, the_more_urgent_compile_comes_first)
{
    struct rider riders[4];
    start("waits");
    board_waiting(&riders[0], 0, PRIORITY_BACKGROUND, 1);
    pump_until(stats.workers_busy == 1);
    board_waiting(&riders[1], 1, PRIORITY_BACKGROUND, 1);
    board_waiting(&riders[2], 2, PRIORITY_NORMAL, 1);
    board_waiting(&riders[3], 3, PRIORITY_INTERACTIVE, 1);
    pump_until(stats.queue_depth == 3);
    land_all(4);
    cr_assert_arr_eq(order, ((int[]){0, 3, 2, 1}), sizeof order);
}

Test(flight, F18_a_more_urgent_request_moves_up_a_flight_that_waits)
{
    struct rider riders[4], urgent;
    wait_behind_one(riders, PRIORITY_BACKGROUND);
    board_for((struct queue_owner){PRIORITY_INTERACTIVE, 1000, 2}, &urgent, (struct wish){.code = codes[3]});
    land_all(4);
    cr_assert_arr_eq(order, ((int[]){0, 3, 1, 2}), sizeof order);
    cr_assert_eq(urgent.outcome, OUTCOME_JOINED);
    cr_assert_eq(stats.compiles_total, 4);
}

Test(flight, F18_who_joins_while_it_is_looked_up_moves_it_up_too)
{
    struct rider riders[4], urgent;
    start("waits");
    board_waiting(&riders[0], 0, PRIORITY_INTERACTIVE, 1);
    pump_until(stats.workers_busy == 1);
    for (int i = 1; i < 4; i++)
        board_waiting(&riders[i], i, PRIORITY_NORMAL, 1);
    board_for((struct queue_owner){PRIORITY_INTERACTIVE, 1000, 2}, &urgent, (struct wish){.code = codes[2]});
    pump_until(stats.queue_depth == 3);
    land_all(4);
    cr_assert_arr_eq(order, ((int[]){0, 2, 1, 3}), sizeof order);
}

Test(flight, a_compile_that_nobody_waits_for_never_begins)
{
    struct rider riders[4];
    wait_behind_one(riders, PRIORITY_INTERACTIVE);
    passenger_leave(&riders[2].passenger);
    cr_assert_eq(n_landed, 1, "at once");
    cr_assert_eq(stats.queue_depth, 2);
    cr_assert_eq(stats.compiles_withdrawn_total, 1);
    for (int i = 0; i < 3; i++)
        open_gate();
    pump_until(n_landed == 4);
    cr_assert_eq(riders[2].n_landings, 0);
    cr_assert_eq(stats.compiles_total, 3);
    cr_assert_eq(stats.database_commits_total, 3);
}

Test(flight, a_compile_that_another_one_waits_for_is_not_given_up)
{
    struct rider riders[4], other;
    wait_behind_one(riders, PRIORITY_INTERACTIVE);
    board_for((struct queue_owner){PRIORITY_INTERACTIVE, 1000, 2}, &other, (struct wish){.code = codes[2]});
    passenger_leave(&riders[2].passenger);
    cr_assert_eq(stats.queue_depth, 3);
    cr_assert_eq(stats.compiles_withdrawn_total, 0);
    for (int i = 0; i < 4; i++)
        open_gate();
    pump_until(n_landed == 4);
    cr_assert_eq(other.outcome, OUTCOME_JOINED);
    cr_assert_eq(other.n_landings, 1);
}

Test(flight, who_leaves_while_it_is_looked_up_causes_no_compile)
{
    struct rider rider;
    start("normal");
    board(&rider, (struct wish){0});
    passenger_leave(&rider.passenger);
    pump_until(n_landed == 1);
    cr_assert_eq(stats.compiles_withdrawn_total, 1);
    cr_assert_eq(stats.worker_starts_total, 0);
}

/* ---- progress ---- */

static char news[256]; /* what was told, by number: "1q2 1s 1d" */

static void on_progress(struct passenger *passenger, const struct flight_progress *progress)
{
    struct rider *rider = container_of(passenger, struct rider, passenger);
    size_t used = strlen(news);
    if (progress->state == COMPILE_STATE_QUEUED)
        snprintf(news + used, sizeof news - used, "%dq%zu ", rider->number, progress->ahead);
    else
        snprintf(news + used, sizeof news - used, "%d%c ", rider->number,
                 progress->state == COMPILE_STATE_STARTED ? 's' : 'd');
}

static void board_curious(struct rider *rider, int number, int code)
{
    struct compiler_facts facts = wish_facts();
    struct wish wish = {.code = codes[code]};
    struct error error;
    *rider = (struct rider){
        .number = number,
        .passenger = {.on_landing = on_landing, .on_progress = on_progress, .owner = {PRIORITY_INTERACTIVE, 1000, 1}}};
    cr_assert_eq(flights_board(&flights, wish_plan(&wish, &facts), &rider->passenger, &error), 0);
}

static void expect_news(const char *expected)
{
    cr_assert_str_eq(news, expected);
    news[0] = '\0';
}

Test(flight, who_wants_to_know_is_told_how_far_it_is)
{
    struct rider riders[4], leaving;
    start("waits");
    board_curious(&riders[0], 0, 0);
    expect_news(""); /* it is looked for */
    pump_until(news[0]);
    expect_news("0q0 "); /* no worker is there yet */
    pump_until(stats.workers_busy == 1);
    expect_news("0s ");
    board_curious(&riders[1], 1, 1);
    pump_until(news[0]);
    expect_news("1q0 ");
    board_curious(&riders[2], 2, 2);
    board_curious(&leaving, 3, 2);
    pump_until(stats.queue_depth == 2);
    expect_news("2q1 3q1 ");
    board_curious(&riders[3], 4, 0);
    expect_news("4s "); /* who joins is told at once */
    passenger_leave(&leaving.passenger);
    land_all(3);
    cr_assert_not_null(strstr(news, "0d 4d "), "%s", news);
    cr_assert_not_null(strstr(news, "1s "), "%s", news);
    cr_assert_not_null(strstr(news, "1d "), "%s", news);
    cr_assert_not_null(strstr(news, "2s 2d "), "%s", news);
    cr_assert_null(strchr(news, '3'), "%s", news);
    cr_assert(list_empty(&flights.watchers));
}

Test(flight, what_is_found_causes_no_news)
{
    struct rider first, again;
    start("normal");
    board(&first, (struct wish){.code = codes[0]});
    pump_until(n_landed == 1);
    board_curious(&again, 0, 0);
    pump_until(n_landed == 2);
    cr_assert_eq(again.outcome, OUTCOME_HIT_DATABASE);
    expect_news("");
}

Test(flight, a_failure_reaches_everybody)
{
    struct rider riders[3];
    start("normal");
    for (int i = 0; i < 3; i++)
        board(&riders[i], (struct wish){.code = "#error\n__global__ void f() {}\n"});
    pump_until(n_landed == 1);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(riders[i].failed, STATUS_COMPILE_FAILED);
        cr_assert_str_eq(riders[i].text, "fusion.cu:7: #error: as asked (1 error)");
    }
    cr_assert_eq(stats.compiles_failed_total, 1);
    cr_assert_eq(stats.compiles_total, 0);
    cr_assert_eq(stats.joined_total, 2);
}

Test(flight, F2_a_crash_reaches_everybody)
{
    struct rider riders[2];
    start("dies-on-job");
    for (int i = 0; i < 2; i++)
        board(&riders[i], (struct wish){0});
    pump_until(n_landed == 1);
    cr_assert_eq(riders[0].failed, STATUS_COMPILER_CRASHED);
    cr_assert_eq(riders[1].failed, STATUS_COMPILER_CRASHED);
    cr_assert_eq(stats.database_commits_total, 0);
}

Test(flight, a_header_that_is_not_there_is_named_before_a_worker_is_bothered)
{
    uint8_t blob[DIGEST_SIZE] = {9};
    struct rider rider;
    start("normal");
    board(&rider, (struct wish){.blob = blob});
    pump_until(n_landed == 1);
    cr_assert_eq(rider.failed, STATUS_UNKNOWN_BLOB);
    cr_assert_eq(rider.n_missing, 1);
    cr_assert_eq(stats.worker_starts_total, 0);
}

Test(flight, a_full_queue_is_a_failure_of_that_flight_only)
{
    struct rider riders[3];
    max_queue = 1;
    start("waits");
    board(&riders[0], (struct wish){.code = codes[0]});
    pump_until(stats.workers_busy == 1);
    board(&riders[1], (struct wish){.code = codes[1]});
    board(&riders[2], (struct wish){.code = codes[2]});
    pump_until(n_landed == 1);
    cr_assert_eq(riders[2].failed, STATUS_BUSY);
    open_gate();
    open_gate();
    pump_until(n_landed == 3);
    cr_assert(riders[0].stored && riders[1].stored);
}

Test(flight, the_pool_closing_ends_a_compile)
{
    struct rider rider;
    start("waits");
    board(&rider, (struct wish){0});
    pump_until(stats.workers_busy == 1);
    close_pool();
    cr_assert_eq(rider.n_landings, 1);
    cr_assert_eq(rider.failed, STATUS_SHUTTING_DOWN);
}

Test(flight, a_look_up_that_outlives_the_pool_compiles_nothing)
{
    struct rider rider;
    start("normal");
    close_pool();
    board(&rider, (struct wish){0});
    pump_until(n_landed == 1);
    cr_assert_eq(rider.failed, STATUS_SHUTTING_DOWN);
}

/* ---- cache modes ---- */

static const struct wish requiring = {.cache = CACHE_MODE_REQUIRE}, bypassing = {.cache = CACHE_MODE_BYPASS},
                         refreshing = {.cache = CACHE_MODE_REFRESH};

Test(flight, B8_4_require_compiles_nothing)
{
    struct rider rider, user, again;
    start("normal");
    board(&rider, requiring);
    pump_until(n_landed == 1);
    cr_assert_eq(rider.failed, STATUS_CACHE_MISS);
    cr_assert(strstr(rider.text, "kernel ") && strstr(rider.text, "nvrtc 13.0 would compile it for sm_90"), "%s",
              rider.text);
    cr_assert_eq(stats.misses_total, 0);
    cr_assert_eq(stats.worker_starts_total, 0);
    board(&user, (struct wish){0});
    pump_until(n_landed == 2);
    board(&again, requiring);
    pump_until(n_landed == 3);
    cr_assert_eq(again.outcome, OUTCOME_HIT_DATABASE);
    cr_assert_str_eq(again.image, user.image);
    cr_assert_eq(stats.compiles_total, 1);
}

Test(flight, B8_4_require_does_not_wait_for_a_compile)
{
    struct rider user, rider;
    start("waits");
    board(&user, (struct wish){0});
    pump_until(stats.workers_busy == 1);
    board(&rider, requiring);
    pump_until(n_landed == 1);
    cr_assert_eq(rider.failed, STATUS_CACHE_MISS);
    open_gate();
    pump_until(n_landed == 2);
    cr_assert_eq(user.outcome, OUTCOME_COMPILED);
}

Test(flight, B8_4_bypass_shares_and_keeps_nothing)
{
    struct rider riders[3], later;
    start("normal");
    for (int i = 0; i < 3; i++)
        board(&riders[i], i ? bypassing : (struct wish){0});
    cr_assert_eq(flights_count(&flights), 3);
    pump_until(n_landed == 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(riders[i].outcome, OUTCOME_COMPILED);
        cr_assert_eq(riders[i].stored, i == 0);
    }
    cr_assert_str_neq(riders[1].image, riders[2].image, "the fake compiler counts its jobs");
    cr_assert_eq(stats.compiles_total, 3);
    cr_assert_eq(stats.database_commits_total, 1);
    cr_assert_eq(stats.memory_kernels, 1);
    cr_assert_eq(stats.hits_database_total, 0);
    board(&later, (struct wish){.cache = CACHE_MODE_BYPASS, .code = "__global__ void f() { }"});
    pump_until(n_landed == 4);
    cr_assert_eq(later.outcome, OUTCOME_COMPILED);
    board(&later, (struct wish){.cache = CACHE_MODE_REQUIRE, .code = "__global__ void f() { }"});
    pump_until(n_landed == 5);
    cr_assert_eq(later.failed, STATUS_CACHE_MISS);
}

Test(flight, B8_4_a_refresh_joins_a_refresh_alone)
{
    struct rider user, riders[3], later;
    start("normal");
    board(&user, (struct wish){0});
    pump_until(n_landed == 1);
    for (int i = 0; i < 3; i++)
        board(&riders[i], refreshing);
    board(&later, (struct wish){0});
    cr_assert_eq(flights_count(&flights), 2);
    pump_until(n_landed == 3);
    cr_assert_eq(later.outcome, OUTCOME_HIT_DATABASE);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(riders[i].outcome, i ? OUTCOME_JOINED : OUTCOME_COMPILED);
        cr_assert(riders[i].stored);
    }
    cr_assert_eq(stats.compiles_total, 2);
    cr_assert_eq(stats.database_commits_total, 2);
    cr_assert_eq(stats.memory_kernels, 1);
}

Test(flight, a_refresh_that_fails_stores_nothing)
{
    struct rider rider, later;
    start("dies-on-job");
    board(&rider, refreshing);
    pump_until(n_landed == 1);
    cr_assert_eq(rider.failed, STATUS_COMPILER_CRASHED);
    cr_assert_eq(stats.database_commits_total, 0);
    board(&later, requiring);
    pump_until(n_landed == 2);
    cr_assert_eq(later.failed, STATUS_CACHE_MISS);
}

Test(flight, a_refresh_that_everybody_leaves_never_begins)
{
    struct rider rider;
    start("normal");
    board(&rider, refreshing);
    passenger_leave(&rider.passenger);
    pump_until(n_landed == 1);
    cr_assert_eq(stats.compiles_withdrawn_total, 1);
    cr_assert_eq(stats.worker_starts_total, 0);
}
