/* Fibers: who goes on, with what it had. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "daemon/executor/host/fiber.h"

#define STACK (64u << 10)

struct side {
    struct fiber fiber;
    struct fiber *other;
    double sum;
    int switches;
};

static void count(void *data)
{
    struct side *side = data;
    double own = 0.25; /* in a register, or on the fiber's stack */
    for (;;) {
        own += side->switches++;
        side->sum = own;
        fiber_switch(&side->fiber, side->other);
    }
}

Test(host_fiber, goes_on_where_it_left)
{
    struct fiber own;
    struct side side = {.other = &own};
    void *stack = malloc(STACK);
    double want = 0.25;
    fiber_init_thread(&own);
    fiber_init(&side.fiber, stack, STACK, count, &side);
    for (int i = 0; i < 1000; i++) {
        fiber_switch(&own, &side.fiber);
        want += i;
        cr_assert_eq(side.switches, i + 1);
        cr_assert_eq(side.sum, want);
    }
    /* Given up in the middle, and begun anew. */
    fiber_init(&side.fiber, stack, STACK, count, &side);
    fiber_switch(&own, &side.fiber);
    cr_expect_eq(side.sum, 1000.25, "%g", side.sum);
    fiber_finish(&side.fiber);
    free(stack);
}

Test(host_fiber, pass_on_to_each_other)
{
    enum { N = 10 };
    struct fiber own;
    struct side sides[N] = {{.sum = 0}};
    void *stacks[N];
    fiber_init_thread(&own);
    for (int i = 0; i < N; i++) {
        stacks[i] = malloc(STACK);
        fiber_init(&sides[i].fiber, stacks[i], STACK, count, &sides[i]);
        sides[i].other = i + 1 < N ? &sides[i + 1].fiber : &own;
    }
    for (int round = 1; round <= 5; round++) {
        fiber_switch(&own, &sides[0].fiber);
        for (int i = 0; i < N; i++)
            cr_expect_eq(sides[i].switches, round);
    }
    for (int i = 0; i < N; i++) {
        fiber_finish(&sides[i].fiber);
        free(stacks[i]);
    }
}
