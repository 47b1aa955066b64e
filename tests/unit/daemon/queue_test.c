#include "daemon/compile/queue.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MAX_JOBS 2000

static struct queue queue;
static struct queue_place places[MAX_JOBS];

static void setup(void)
{
    queue_init(&queue);
    memset(places, 0, sizeof places);
}

static void teardown(void)
{
    while (queue_pop(&queue))
        ;
    cr_assert_eq(queue.n, 0);
    cr_assert_eq(queue.bytes, 0);
    cr_assert_null(queue.users);
    cr_assert_null(queue.clients);
}

TestSuite(queue, .init = setup, .fini = teardown);

static void push(int number, enum priority priority, uint64_t uid, uint64_t client)
{
    struct queue_owner owner = {priority, uid, client};
    cr_assert_eq(queue_push(&queue, &places[number], &owner), 0);
}

static void join(int number, enum priority priority, uint64_t uid, uint64_t client)
{
    struct queue_owner owner = {priority, uid, client};
    queue_join(&queue, &places[number], &owner);
}

static int pop(void)
{
    struct queue_place *place = queue_pop(&queue);
    if (!place)
        return -1;
    cr_assert_not(queue_waits(place));
    return (int)(place - places);
}

#define expect(...)                                                                                                    \
    do {                                                                                                               \
        static const int expected[] = {__VA_ARGS__};                                                                   \
        for (size_t at = 0; at < sizeof expected / sizeof expected[0]; at++)                                           \
            cr_assert_eq(pop(), expected[at], "turn %zu", at);                                                         \
    } while (0)

Test(queue, a_client_is_served_in_its_order)
{
    for (int i = 0; i < 4; i++)
        push(i, PRIORITY_INTERACTIVE, 1000, 1);
    expect(0, 1, 2, 3, -1);
}

Test(queue, F18_a_client_with_a_thousand_jobs_holds_up_another_one_by_one_turn)
{
    for (int i = 0; i < 1000; i++)
        push(i, priority_absent, 1000, 1);
    push(1000, PRIORITY_INTERACTIVE, 1000, 2);
    cr_assert_eq(queue_ahead(&queue, &places[1000]), 1);
    expect(0, 1000, 1, 2);
}

Test(queue, F18_users_take_turns_however_many_clients_they_have)
{
    for (int i = 0; i < 6; i++)
        push(i, PRIORITY_INTERACTIVE, 1000, (uint64_t)(1 + i % 3));
    push(6, PRIORITY_INTERACTIVE, 1001, 9);
    push(7, PRIORITY_INTERACTIVE, 1001, 9);
    expect(0, 6, 1, 7, 2, 3, 4, 5, -1);
}

Test(queue, the_more_urgent_comes_first)
{
    push(0, PRIORITY_BACKGROUND, 1000, 1);
    push(1, PRIORITY_NORMAL, 1000, 1);
    push(2, PRIORITY_INTERACTIVE, 1000, 1);
    push(3, PRIORITY_NORMAL, 1000, 2);
    expect(2, 1, 3, 0, -1);
}

Test(queue, a_lesser_priority_is_not_starved)
{
    for (int i = 0; i < 100; i++)
        push(i, PRIORITY_INTERACTIVE, 1000, 1);
    push(100, PRIORITY_NORMAL, 1000, 1);
    push(101, PRIORITY_BACKGROUND, 1000, 1);
    for (int i = 0; i < QUEUE_PATIENCE; i++)
        cr_assert_eq(pop(), i);
    expect(100, 101, QUEUE_PATIENCE);
}

Test(queue, patience_is_counted_from_when_somebody_waits)
{
    for (int i = 0; i < 100; i++)
        push(i, PRIORITY_INTERACTIVE, 1000, 1);
    for (int i = 0; i < 50; i++)
        cr_assert_eq(pop(), i);
    push(100, PRIORITY_NORMAL, 1000, 1);
    for (int i = 50; i < 50 + QUEUE_PATIENCE; i++)
        cr_assert_eq(pop(), i);
    expect(100);
}

Test(queue, who_joins_with_a_higher_priority_moves_the_job_up)
{
    push(0, PRIORITY_NORMAL, 1000, 1);
    push(1, PRIORITY_BACKGROUND, 1000, 1);
    push(2, PRIORITY_BACKGROUND, 1000, 1);
    join(2, PRIORITY_INTERACTIVE, 1000, 2);
    join(1, PRIORITY_BACKGROUND, 1000, 2);
    join(0, PRIORITY_BACKGROUND, 1000, 2);
    expect(2, 0, 1, -1);
}

Test(queue, who_joins_brings_the_job_into_a_shorter_line)
{
    for (int i = 0; i < 100; i++)
        push(i, PRIORITY_INTERACTIVE, 1000, 1);
    join(50, PRIORITY_INTERACTIVE, 1000, 2);
    join(60, PRIORITY_INTERACTIVE, 1000, 2);
    join(0, PRIORITY_INTERACTIVE, 1000, 2); /* it is the first of its line already */
    join(99, PRIORITY_BACKGROUND, 1000, 3); /* into the line of client 3, of the same priority */
    expect(0, 50, 99, 1, 60, 2);
}

Test(queue, a_promoted_job_goes_into_the_shorter_of_the_two_lines)
{
    push(0, PRIORITY_BACKGROUND, 1000, 1);
    push(1, PRIORITY_INTERACTIVE, 1000, 2);
    push(2, PRIORITY_INTERACTIVE, 1000, 2);
    join(0, PRIORITY_INTERACTIVE, 1000, 2);
    expect(1, 0, 2, -1);
}

Test(queue, what_is_removed_is_not_served)
{
    for (int i = 0; i < 3; i++)
        push(i, PRIORITY_NORMAL, 1000, 1);
    push(3, PRIORITY_NORMAL, 1001, 2);
    queue_remove(&queue, &places[0]);
    queue_remove(&queue, &places[3]);
    cr_assert_not(queue_waits(&places[0]));
    expect(1, 2, -1);
}

Test(queue, a_users_share_is_counted)
{
    places[0].bytes = 100;
    places[1].bytes = 10;
    places[2].bytes = 1;
    push(0, PRIORITY_NORMAL, 1000, 1);
    push(1, PRIORITY_BACKGROUND, 1000, 2);
    push(2, PRIORITY_NORMAL, 1001, 3);
    cr_assert_eq(queue_share_of(&queue, 1000).n, 2);
    cr_assert_eq(queue_share_of(&queue, 1000).bytes, 110);
    cr_assert_eq(queue.bytes, 111);
    join(1, PRIORITY_INTERACTIVE, 1000, 3);
    cr_assert_eq(queue_share_of(&queue, 1000).bytes, 110);
    expect(1, 0);
    cr_assert_eq(queue_share_of(&queue, 1000).n, 0);
    cr_assert_eq(queue.bytes, 1);
}

/* ---- limits ---- */

static void expect_busy(const struct queue_limits *limits, uint64_t uid, size_t bytes, const char *text)
{
    struct error error = {0};
    int status = queue_admit(&queue, limits, uid, bytes, &error);
    cr_assert_eq(status, text ? -1 : 0, "%s", error.text);
    cr_assert_eq(error.code, text ? STATUS_BUSY : STATUS_OK);
    cr_assert_str_eq(error.text, text ? text : "");
}

Test(queue, F18_limits_of_a_user_and_of_all)
{
    const struct queue_limits limits = {.user = {2, 100}, .all = {3, 150}};
    expect_busy(&limits, 1000, 500, NULL); /* alone, however large */
    places[0].bytes = 40;
    push(0, PRIORITY_NORMAL, 1000, 1);
    expect_busy(&limits, 1000, 60, NULL);
    expect_busy(&limits, 1000, 61,
                "user 1000: compiles of 40 bytes wait already and this one has 61, the limit is 100 "
                "(--queue-bytes-per-user)");
    expect_busy(&limits, 1001, 111,
                "compiles of 40 bytes wait already and this one has 111, the limit is 150 (--queue-bytes)");
    push(1, PRIORITY_NORMAL, 1000, 2);
    expect_busy(&limits, 1000, 1, "user 1000: 2 compiles wait already, the limit is 2 (--queue-jobs-per-user)");
    expect_busy(&limits, 1001, 1, NULL);
    push(2, PRIORITY_BACKGROUND, 1001, 3);
    expect_busy(&limits, 1001, 1, "3 compiles wait already, the limit is 3 (--queue-jobs)");
    pop();
    expect_busy(&limits, 1000, 1, NULL);
}

/* ---- rules that hold whatever happens ---- */

#define USERS 3
#define CLIENTS 4 /* of each */

/* One job as the test remembers it. */
struct expected_job {
    bool waits;
    unsigned level, user, client;
    unsigned order; /* of arrival in its line */
};

static struct expected_job jobs[MAX_JOBS];
/* Turns of others since: a priority's last turn; a user's; a client's. Counted while they wait. */
static unsigned level_passed[QUEUE_PRIORITIES];
static unsigned user_turns[QUEUE_PRIORITIES][USERS][USERS];
static unsigned client_turns[QUEUE_PRIORITIES][USERS][CLIENTS][CLIENTS];

static size_t count_waiting(unsigned level, int user, int client)
{
    size_t n = 0;
    for (int i = 0; i < MAX_JOBS; i++)
        n += jobs[i].waits && jobs[i].level == level && (user < 0 || jobs[i].user == (unsigned)user) &&
             (client < 0 || jobs[i].client == (unsigned)client);
    return n;
}

/* Who does not wait is owed nothing. */
static void forget_absent(void)
{
    for (unsigned level = 0; level < QUEUE_PRIORITIES; level++) {
        if (count_waiting(level, -1, -1) == 0)
            level_passed[level] = 0;
        for (unsigned user = 0; user < USERS; user++) {
            if (count_waiting(level, (int)user, -1) == 0)
                memset(user_turns[level][user], 0, sizeof user_turns[level][user]);
            for (unsigned client = 0; client < CLIENTS; client++)
                if (count_waiting(level, (int)user, (int)client) == 0)
                    memset(client_turns[level][user][client], 0, sizeof client_turns[level][user][client]);
        }
    }
}

static void check_turn(int number)
{
    struct expected_job *job = &jobs[number];
    const unsigned level = job->level, user = job->user, client = job->client;
    cr_assert(job->waits);
    for (int i = 0; i < MAX_JOBS; i++) /* first come, first served */
        cr_assert_not(jobs[i].waits && jobs[i].level == level && jobs[i].user == user && jobs[i].client == client &&
                      jobs[i].order < job->order);
    for (unsigned urgent = 0; urgent < level; urgent++) /* strict, unless it is due */
        cr_assert(count_waiting(urgent, -1, -1) == 0 || level_passed[level] >= QUEUE_PATIENCE);
    for (unsigned other = 0; other < QUEUE_PRIORITIES; other++) {
        level_passed[other] = other == level ? 0 : level_passed[other] + 1;
        if (count_waiting(other, -1, -1) > 0)
            cr_assert_leq(level_passed[other], QUEUE_PATIENCE + 1, "priority %u starves", other);
    }
    for (unsigned other = 0; other < USERS; other++) {
        if (other != user && count_waiting(level, (int)other, -1) > 0)
            cr_assert_leq(++user_turns[level][other][user], 1, "user %u had two turns before user %u", user, other);
        user_turns[level][user][other] = 0;
    }
    for (unsigned other = 0; other < CLIENTS; other++) {
        if (other != client && count_waiting(level, (int)user, (int)other) > 0)
            cr_assert_leq(++client_turns[level][user][other][client], 1, "client %u had two turns before %u", client,
                          other);
        client_turns[level][user][client][other] = 0;
    }
    job->waits = false;
}

static unsigned below(unsigned n)
{
    return (unsigned)rand() % n;
}

static void push_random(int number, unsigned order)
{
    jobs[number] = (struct expected_job){true, below(QUEUE_PRIORITIES), below(USERS), below(CLIENTS), order};
    /* Two users never have the same connection, but the queue must not rely on that. */
    push(number, (enum priority)(jobs[number].level + 1), jobs[number].user, jobs[number].client);
}

Test(queue, F18_every_rule_holds_in_whatever_order_things_happen)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        srand(seed);
        memset(jobs, 0, sizeof jobs);
        unsigned bias = 2 + seed % 5;
        for (int number = 0; number < 300;) {
            if (below(bias) > 0) {
                push_random(number, (unsigned)number);
                number++;
            } else if (below(8) == 0) {
                int victim = (int)below((unsigned)number + 1);
                if (jobs[victim].waits)
                    queue_remove(&queue, &places[victim]);
                jobs[victim].waits = false;
            } else {
                int served = pop();
                if (served >= 0)
                    check_turn(served);
            }
            forget_absent();
        }
        for (int served; (served = pop()) >= 0; forget_absent())
            check_turn(served);
        for (int i = 0; i < MAX_JOBS; i++)
            cr_assert_not(jobs[i].waits, "job %d was forgotten", i);
    }
}

Test(queue, how_many_are_ahead_is_how_many_come_before)
{
    static size_t ahead[MAX_JOBS];
    for (unsigned seed = 1; seed <= 20; seed++) {
        srand(seed);
        int n = 50 + (int)below(100);
        for (int i = 0; i < n; i++) {
            push(i, PRIORITY_INTERACTIVE, below(USERS), below(CLIENTS));
            if (below(6) == 0)
                pop();
        }
        for (int i = 0; i < n; i++)
            ahead[i] = queue_waits(&places[i]) ? queue_ahead(&queue, &places[i]) : SIZE_MAX;
        size_t turn = 0;
        for (int served; (served = pop()) >= 0; turn++)
            cr_assert_eq(ahead[served], turn, "seed %u: job %d", seed, served);
    }
}

Test(queue, the_more_urgent_are_ahead)
{
    push(0, PRIORITY_BACKGROUND, 1000, 1);
    push(1, PRIORITY_NORMAL, 1000, 1);
    push(2, PRIORITY_INTERACTIVE, 1001, 2);
    cr_assert_eq(queue_ahead(&queue, &places[0]), 2);
    cr_assert_eq(queue_ahead(&queue, &places[1]), 1);
    cr_assert_eq(queue_ahead(&queue, &places[2]), 0);
}

/* Joining moves jobs about; none is lost, none served twice, and none gets a lesser priority. */
Test(queue, joining_at_random_loses_nothing)
{
    static int served_times[MAX_JOBS];
    for (unsigned seed = 1; seed <= 20; seed++) {
        srand(seed);
        memset(served_times, 0, sizeof served_times);
        int number = 0;
        while (number < 400) {
            unsigned what = below(5);
            int victim = (int)below((unsigned)number + 1);
            if (what < 2) {
                push(number++, (enum priority)(1 + below(3)), below(USERS), below(CLIENTS));
            } else if (what < 4 && queue_waits(&places[victim])) {
                size_t n = queue.n;
                unsigned level = places[victim].level;
                join(victim, (enum priority)below(4), below(USERS), below(CLIENTS));
                cr_assert_eq(queue.n, n);
                cr_assert_leq(places[victim].level, level);
            } else if (what == 4) {
                int served = pop();
                if (served >= 0)
                    served_times[served]++;
            }
        }
        for (int served; (served = pop()) >= 0;)
            served_times[served]++;
        for (int i = 0; i < number; i++)
            cr_assert_eq(served_times[i], 1, "job %d", i);
    }
}
