/* B6.5: launch entries, bounded. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/executor/entry_cache.h"

static struct entry_cache cache;

static void setup(void)
{
    entry_cache_init(&cache);
}

static void teardown(void)
{
    entry_cache_finish(&cache);
    cr_assert_eq(cache.bytes, 0);
}

TestSuite(entry_cache, .init = setup, .fini = teardown);

/* An entry of a number, with so many sizes and strides. */
static struct entry *add(unsigned number, size_t n_shapes)
{
    struct entry *entry = entry_create((const uint8_t *)&number, sizeof number, 3, n_shapes);
    cr_assert_not_null(entry);
    entry->moved = number;
    entry->arguments = (struct argument_bytes){
        .n = 3, .bytes = calloc(1, 64), .pointers = calloc(3, sizeof(void *)), .sizes = calloc(3, sizeof(size_t))};
    cr_assert_eq(entry_cache_add(&cache, entry), 0);
    return entry;
}

static struct entry *find(unsigned number)
{
    return entry_cache_find(&cache, (const uint8_t *)&number, sizeof number);
}

Test(entry_cache, what_was_added_is_found)
{
    for (unsigned i = 0; i < 100; i++)
        add(i, i);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(find(i)->moved, i);
    cr_assert_null(find(100));
    /* A key that begins like another one is another one. */
    cr_assert_null(entry_cache_find(&cache, (const uint8_t *)"\0\0\0", 3));
}

Test(entry_cache, its_parts_do_not_overlap)
{
    struct entry *entry = add(7, 5);
    memset(entry->spans, 1, 3 * sizeof *entry->spans);
    memset(entry->scratch_at, 2, 3 * sizeof *entry->scratch_at);
    memset(entry->shapes, 3, 5 * sizeof *entry->shapes);
    cr_assert_eq(entry->spans[2], 0x0101010101010101);
    cr_assert_eq(entry->scratch_at[2], 0x0202020202020202);
    cr_assert_eq(find(7), entry, "the key is damaged");
}

Test(entry_cache, B6_5_the_least_recently_used_goes_when_there_are_too_many_bytes)
{
    size_t large = ENTRY_CACHE_BYTES / 10 / sizeof(int64_t);
    for (unsigned i = 0; i < 9; i++)
        add(i, large);
    cr_assert_not_null(find(0));
    add(9, large);
    cr_assert_leq(cache.bytes, ENTRY_CACHE_BYTES);
    cr_assert_null(find(1));
    cr_assert_not_null(find(0));
    cr_assert_not_null(find(9));
    /* One that is too large on its own is held until the next. */
    add(10, 11 * large);
    cr_assert_not_null(find(10));
    cr_assert_null(find(9));
    add(11, 1);
    cr_assert_null(find(10));
    cr_assert_not_null(find(11));
}
