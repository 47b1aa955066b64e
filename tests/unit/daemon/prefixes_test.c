#include "daemon/compile/prefixes.h"

#include <criterion/criterion.h>
#include <string.h>

static struct prefixes prefixes;

static void setup(void)
{
    prefixes_init(&prefixes);
}

static void teardown(void)
{
    prefixes_finish(&prefixes);
}

TestSuite(prefixes, .init = setup, .fini = teardown);

static const uint8_t *digest(unsigned number)
{
    static uint8_t ret[DIGEST_SIZE];
    memcpy(ret, &number, sizeof number);
    return ret;
}

Test(prefixes, the_second_compile_deserves_one)
{
    cr_assert_not(prefixes_compiled(&prefixes, digest(1), 0));
    cr_assert_not(prefixes_compiled(&prefixes, digest(2), 0), "another one's compile does not count");
    cr_assert(prefixes_compiled(&prefixes, digest(1), 0));
    cr_assert(prefixes_compiled(&prefixes, digest(1), 0), "and so do all later ones, while there is none");
    cr_assert(prefixes_compiled(&prefixes, digest(2), 0));
}

Test(prefixes, what_failed_is_not_tried_again_for_a_while)
{
    prefixes_compiled(&prefixes, digest(1), 5);
    cr_assert(prefixes_compiled(&prefixes, digest(1), 5));
    prefixes_bar(&prefixes, digest(1), 5);
    for (unsigned i = 0; i < 10; i++)
        cr_assert_not(prefixes_compiled(&prefixes, digest(1), 5 + PREFIXES_BARRED_MS - 1));
    cr_assert_not(prefixes_compiled(&prefixes, digest(1), 5 + PREFIXES_BARRED_MS), "it begins anew");
    cr_assert(prefixes_compiled(&prefixes, digest(1), 5 + PREFIXES_BARRED_MS));
}

/* Also one that was never met: a zygote outlives what is remembered of its prefix. */
Test(prefixes, a_bar_is_remembered_by_itself)
{
    prefixes_bar(&prefixes, digest(1), 0);
    cr_assert_eq(prefixes.n, 1);
    cr_assert_not(prefixes_compiled(&prefixes, digest(1), 1));
    cr_assert_not(prefixes_compiled(&prefixes, digest(1), 1));
}

Test(prefixes, memory_is_bounded_and_the_oldest_go)
{
    for (unsigned i = 0; i < PREFIXES_MAX; i++)
        prefixes_compiled(&prefixes, digest(i), 0);
    cr_assert_eq(prefixes.n, PREFIXES_MAX);
    cr_assert(prefixes_compiled(&prefixes, digest(0), 0), "met again: 1 is the oldest now");
    prefixes_compiled(&prefixes, digest(PREFIXES_MAX), 0);
    cr_assert_eq(prefixes.n, PREFIXES_MAX);
    cr_assert(prefixes_compiled(&prefixes, digest(0), 0));
    cr_assert_not(prefixes_compiled(&prefixes, digest(1), 0), "forgotten");
}
