#include "daemon/compile/budget.h"

#include <criterion/criterion.h>

/* A pool that has work as long as it is told so, and idle processes as many as it is told. */
struct pool {
    struct budget_member share;
    unsigned work, idle;
    int n_asked, n_let_go;
};

static struct budget budget;
static struct pool pools[3];

static void on_room(struct budget_member *share)
{
    struct pool *pool = container_of(share, struct pool, share);
    pool->n_asked++;
    while (pool->work > 0 && budget_take(share))
        pool->work--;
}

static bool let_go(struct budget_member *share)
{
    struct pool *pool = container_of(share, struct pool, share);
    if (pool->idle == 0)
        return false;
    pool->idle--;
    pool->n_let_go++;
    return true;
}

static void start(unsigned limit)
{
    budget_init(&budget, limit);
    for (int i = 0; i < 3; i++) {
        pools[i] = (struct pool){.share = {.on_room = on_room, .let_go = let_go}};
        budget_join(&budget, &pools[i].share);
    }
}

static unsigned take(int number, unsigned n)
{
    unsigned taken = 0;
    while (taken < n && budget_take(&pools[number].share))
        taken++;
    pools[number].work = n - taken;
    return taken;
}

Test(budget, one_number_for_all)
{
    start(3);
    cr_assert_eq(take(0, 2), 2);
    cr_assert_eq(take(1, 2), 1);
    cr_assert_eq(take(2, 1), 0);
    cr_assert_eq(budget.used, 3);
}

Test(budget, who_has_nothing_comes_first)
{
    start(2);
    cr_assert_eq(take(0, 5), 2);
    cr_assert_not(budget_is_needed(&pools[0].share), "it is the only one");
    cr_assert_eq(take(1, 1), 0);
    cr_assert(budget_is_needed(&pools[0].share));
    budget_give(&pools[0].share);
    cr_assert_eq(pools[1].share.held, 1);
    cr_assert_eq(pools[0].share.held, 1);
    cr_assert_not(budget_is_needed(&pools[0].share));
    cr_assert_not(budget_is_needed(&pools[1].share), "pool 0 has one");
}

Test(budget, those_with_something_take_turns)
{
    start(3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(take(i, 1), 1);
    take(0, 1);
    take(1, 1);
    take(2, 1);
    budget_give(&pools[2].share);
    budget_give(&pools[0].share); /* it had two */
    cr_assert_eq(pools[0].share.held + pools[1].share.held + pools[2].share.held, 3);
    cr_assert_eq(pools[0].share.held, 1);
    cr_assert_eq(pools[1].share.held, 1);
    cr_assert_eq(pools[2].share.held, 1);
}

Test(budget, an_idle_process_of_another_pool_is_let_go)
{
    start(2);
    take(0, 2);
    pools[0].idle = 2;
    cr_assert_eq(take(1, 1), 0);
    cr_assert_eq(pools[0].n_let_go, 1);
    budget_give(&pools[0].share); /* its process has ended */
    cr_assert_eq(pools[1].share.held, 1);
}

Test(budget, who_has_no_work_any_more_is_passed_over)
{
    start(1);
    take(0, 1);
    take(1, 1);
    take(2, 1);
    pools[1].work = 0;
    budget_give(&pools[0].share);
    cr_assert_eq(pools[1].n_asked, 1);
    cr_assert_eq(pools[2].share.held, 1);
    take(0, 1);
    budget_forget(&pools[0].share);
    budget_give(&pools[2].share);
    cr_assert_eq(pools[0].n_asked, 0);
    cr_assert_eq(budget.used, 0);
}

Test(budget, a_pool_that_leaves_is_not_asked)
{
    start(1);
    take(0, 1);
    take(1, 1);
    budget_leave(&pools[1].share);
    budget_give(&pools[0].share);
    cr_assert_eq(pools[1].n_asked, 0);
}
