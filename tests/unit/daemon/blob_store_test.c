#include "daemon/blob_store.h"

#include <criterion/criterion.h>
#include <string.h>

#include "kernels_db/kernel_key.h"

static struct blob_store store;
static struct stats_reply stats;

static void put(const char *text, uint8_t ret[DIGEST_SIZE])
{
    struct error error;
    cr_assert_eq(blob_store_put(&store, (struct bytes){(const uint8_t *)text, strlen(text)}, ret, &error), 0);
}

static bool has(const uint8_t digest[DIGEST_SIZE], const char *text)
{
    struct bytes got = blob_store_get(&store, digest);
    return got.at && got.size == strlen(text) && memcmp(got.at, text, got.size) == 0;
}

static void finish(void)
{
    blob_store_finish(&store);
    cr_assert_eq(stats.blobs, 0);
    cr_assert_eq(stats.blob_bytes, 0);
}

Test(blob_store, bytes_are_found_by_their_digest)
{
    uint8_t digest[DIGEST_SIZE], expected[DIGEST_SIZE];
    blob_store_init(&store, 1000, &stats);
    put("#define A 1\n", digest);
    digest_of("#define A 1\n", 12, expected);
    cr_assert_eq(memcmp(digest, expected, DIGEST_SIZE), 0);
    cr_assert(has(digest, "#define A 1\n"));
    digest[0] ^= 1;
    cr_assert_null(blob_store_get(&store, digest).at);
    finish();
}

Test(blob_store, the_same_bytes_are_kept_once)
{
    uint8_t one[DIGEST_SIZE], two[DIGEST_SIZE];
    blob_store_init(&store, 1000, &stats);
    put("same", one);
    put("same", two);
    cr_assert_eq(memcmp(one, two, DIGEST_SIZE), 0);
    cr_assert_eq(stats.blobs, 1);
    cr_assert_eq(stats.blob_bytes, 4);
    finish();
}

Test(blob_store, empty_bytes_are_bytes)
{
    uint8_t digest[DIGEST_SIZE];
    blob_store_init(&store, 1000, &stats);
    put("", digest);
    cr_assert_not_null(blob_store_get(&store, digest).at);
    cr_assert_eq(blob_store_get(&store, digest).size, 0);
    finish();
}

Test(blob_store, the_least_recently_used_goes_first_and_putting_is_a_use)
{
    uint8_t a[DIGEST_SIZE], b[DIGEST_SIZE], c[DIGEST_SIZE], d[DIGEST_SIZE];
    blob_store_init(&store, 12, &stats);
    put("aaaa", a);
    put("bbbb", b);
    put("cccc", c);
    put("aaaa", a);
    cr_assert(has(b, "bbbb"));
    put("dddd", d);
    cr_assert_null(blob_store_get(&store, c).at);
    cr_assert(has(a, "aaaa") && has(b, "bbbb") && has(d, "dddd"));
    cr_assert_eq(stats.blob_bytes, 12);
    finish();
}

Test(blob_store, the_newest_stays_even_if_it_is_too_large)
{
    uint8_t a[DIGEST_SIZE], b[DIGEST_SIZE];
    blob_store_init(&store, 4, &stats);
    put("aaaa", a);
    put("larger than the limit", b);
    cr_assert_null(blob_store_get(&store, a).at);
    cr_assert(has(b, "larger than the limit"));
    finish();
}
