#include "daemon/memo.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define KIB 1024u

static struct memo memo;
static struct stats_reply stats;

static void start(uint64_t limit)
{
    stats = (struct stats_reply){0};
    memo_init(&memo, limit, &stats);
}

static struct bytes bytes_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static void add(const char *text, uint8_t key)
{
    struct remembered what = {.parts = {.image = true, .log = key == 2}};
    memset(what.key, key, sizeof what.key);
    if (key == 2)
        what.names = (struct entry_names){"softmax\0sum", 12};
    memo_add(&memo, bytes_of(text), &what);
}

/* The first byte of the key that is found, or 0. */
static int find(const char *text)
{
    struct remembered what;
    return memo_find(&memo, bytes_of(text), &what) ? what.key[DIGEST_SIZE - 1] : 0;
}

Test(memo, the_same_bytes_are_found_and_no_others)
{
    struct remembered what;
    start(64 * KIB);
    add("request one", 1);
    add("request two", 2);
    cr_assert_eq(find("request one"), 1);
    cr_assert_eq(find("request two"), 2);
    cr_assert_eq(find("request"), 0);
    cr_assert_eq(find("request one "), 0);
    cr_assert_eq(find(""), 0);
    cr_assert_eq(stats.memo_hits_total, 2);
    cr_assert(memo_find(&memo, bytes_of("request one"), &what));
    cr_assert_eq(what.names.size, 0);
    cr_assert(memo_find(&memo, bytes_of("request two"), &what));
    cr_assert(what.parts.image && what.parts.log && !what.parts.ptx && !what.parts.code);
    cr_assert(text_is(entry_name(what.names, 0), "softmax") && text_is(entry_name(what.names, 1), "sum"));
    memo_finish(&memo);
}

Test(memo, bytes_that_collide_are_told_apart)
{
    start(64 * KIB);
    add("request one", 1);
    /* What a collision looks like: an entry under the hash of other bytes. */
    char *kept = memmem(memo.by_hash, memo.bytes, "request one", 11);
    cr_assert(kept);
    kept[0] = 'R';
    cr_assert_eq(find("request one"), 0);
    memo_finish(&memo);
}

Test(memo, adding_again_replaces)
{
    start(64 * KIB);
    add("request", 1);
    uint64_t bytes = memo.bytes;
    add("request", 2);
    cr_assert_eq(find("request"), 2);
    cr_assert_eq(memo.bytes, bytes + 12, "the second has names");
    add("request", 1);
    cr_assert_eq(memo.bytes, bytes);
    memo_finish(&memo);
    cr_assert_eq(memo.bytes, 0);
}

Test(memo, the_least_recently_used_goes_first)
{
    char text[32];
    start(4 * KIB);
    add("kept by use", 3);
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof text, "request %d", i);
        add(text, 1);
        cr_assert_eq(find("kept by use"), 3);
        cr_assert_leq(memo.bytes, 4 * KIB);
    }
    cr_assert_eq(find("request 0"), 0);
    cr_assert_eq(find("request 199"), 1);
    memo_finish(&memo);
}

Test(memo, what_is_too_large_is_not_kept)
{
    char *large = malloc(256 * KIB + 2);
    memset(large, 'x', 256 * KIB + 1);
    large[256 * KIB + 1] = '\0';
    start(64 * 1024 * KIB);
    add("small", 1);
    uint64_t bytes = memo.bytes;
    add(large, 2);
    cr_assert_eq(find(large), 0);
    cr_assert_eq(memo.bytes, bytes);
    large[256 * KIB] = '\0';
    add(large, 2);
    cr_assert_eq(find(large), 2);
    memo_finish(&memo);
    /* And one that alone is beyond the limit leaves nothing behind. */
    start(KIB);
    add(large, 2);
    cr_assert_eq(find(large), 0);
    cr_assert_eq(memo.bytes, 0);
    memo_finish(&memo);
    free(large);
}

Test(memo, clearing_forgets_everything)
{
    start(64 * KIB);
    add("one", 1);
    add("two", 2);
    memo_clear(&memo);
    cr_assert_eq(find("one"), 0);
    cr_assert_eq(find("two"), 0);
    cr_assert_eq(memo.bytes, 0);
    add("one", 3);
    cr_assert_eq(find("one"), 3);
    memo_finish(&memo);
}
