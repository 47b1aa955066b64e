/* What is near a kernel that is not there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "kernels_db/connection.h"
#include "kernels_db/kernel_key.h"
#include "tests/unit/kernels_db/sample_kernel.h"

static struct kernels_db_near near[KERNELS_DB_NEAR];
static size_t n_near;
static msgpack_zone *zone;

static void setup(void)
{
    folder_create();
    zone = msgpack_zone_new(8192);
}

static void teardown(void)
{
    msgpack_zone_free(zone);
    folder_remove();
}

TestSuite(kernel_near, .init = setup, .fini = teardown);

static int ask(struct kernels_db *db, const struct kernels_db_wish *wish)
{
    struct error error = {0};
    n_near = 0;
    int found = kernels_db_near(db, "uid:1", wish, zone, near, &n_near, &error);
    cr_assert(found >= 0, "%s", error.text);
    return found;
}

static void put_labelled(struct kernels_db *db, const char *name_space, unsigned seed, const char *label,
                         const char *code)
{
    struct sample sample;
    sample_init(&sample, seed);
    sample.kernel.label = text_of(label);
    if (code)
        sample.kernel.code = text_of(code);
    put_sample(db, name_space, &sample);
}

static struct kernels_db_wish wish_of(const char *code, const char *label)
{
    struct kernels_db_wish wish = {.label = text_of(label)};
    digest_of(code, strlen(code), wish.code);
    return wish;
}

Test(kernel_near, B8_4_the_key_itself_is_enough)
{
    struct sample sample;
    struct kernels_db *db = open_db();
    sample_init(&sample, 1);
    put_sample(db, "shared", &sample);
    struct kernels_db_wish wish = wish_of(SAMPLE_CODE, NULL);
    memcpy(wish.key, sample.kernel.key, DIGEST_SIZE);
    cr_assert_eq(ask(db, &wish), 1);
    kernels_db_close(db);
}

Test(kernel_near, B8_4_code_then_label_the_newest_first_and_each_once)
{
    struct kernels_db *db = open_db();
    put_labelled(db, "uid:1", 1, "softmax", "other code");
    put_labelled(db, "uid:1", 2, "softmax", NULL);
    put_labelled(db, "shared", 3, "gelu", NULL);
    put_labelled(db, "uid:2", 4, "softmax", NULL);
    put_labelled(db, "uid:1", 5, "gelu", "more code");
    struct kernels_db_wish wish = wish_of(SAMPLE_CODE, "softmax");
    cr_assert_eq(ask(db, &wish), 0);
    cr_assert_eq(n_near, 3, "and none of another user's");
    cr_assert(near[0].kinship == KINSHIP_CODE && text_is(near[0].kernel.label, "gelu"));
    cr_assert(near[1].kinship == KINSHIP_CODE && text_is(near[1].kernel.label, "softmax"));
    cr_assert(near[2].kinship == KINSHIP_LABEL && memcmp(near[2].code, wish.code, DIGEST_SIZE) != 0);
    cr_assert(!near[0].kernel.image.at && !near[0].kernel.code.at);
    wish = wish_of("unheard of", "neither");
    cr_assert_eq(ask(db, &wish), 0);
    cr_assert_eq(n_near, 0);
    kernels_db_close(db);
}

Test(kernel_near, B8_4_the_same_headers)
{
    struct sample sample;
    uint8_t digests[2][DIGEST_SIZE];
    struct kernels_db *db = open_db();
    sample_init(&sample, 1);
    put_sample(db, "uid:1", &sample);
    for (size_t i = 0; i < 2; i++)
        memcpy(digests[i], sample.headers[i].digest, DIGEST_SIZE);
    struct kernels_db_wish wish = wish_of("unheard of", NULL);
    wish.header_digests = (const uint8_t(*)[DIGEST_SIZE])digests;
    wish.n_headers = 2;
    cr_assert_eq(ask(db, &wish), 0);
    cr_assert(n_near == 1 && near[0].kinship == KINSHIP_HEADERS);
    kernels_db_close(db);
}

Test(kernel_near, B8_4_bounded_and_by_indexes)
{
    char label[32];
    struct kernels_db *db = open_db();
    for (unsigned i = 0; i < 60; i++) {
        snprintf(label, sizeof label, "label %u", i);
        put_labelled(db, "uid:1", i, i < 30 ? "same" : label, i < 30 ? "other code" : NULL);
    }
    struct kernels_db_wish wish = wish_of(SAMPLE_CODE, "same");
    cr_assert_eq(ask(db, &wish), 0);
    cr_assert_eq(n_near, 32, "16 of each");
    cr_assert(text_is(near[0].kernel.label, "label 59"), "%s", near[0].kernel.label.at);
    kernels_db_close(db);
    sqlite3 *sqlite = sqlite_open();
    sqlite3_stmt *stmt;
    cr_assert_eq(sqlite3_prepare_v2(sqlite,
                                    "EXPLAIN QUERY PLAN SELECT key FROM kernel WHERE label = 'x' AND namespace IN "
                                    "('a', 'shared') ORDER BY rowid DESC LIMIT 3",
                                    -1, &stmt, NULL),
                 SQLITE_OK);
    cr_assert_eq(sqlite3_step(stmt), SQLITE_ROW);
    const char *plan = (const char *)sqlite3_column_text(stmt, 3);
    cr_assert(strstr(plan, "kernel_label"), "%s", plan);
    sqlite3_finalize(stmt);
    sqlite3_close(sqlite);
}

Test(kernel_near, a_file_of_the_first_schema_is_brought_up_to_date)
{
    struct sample sample;
    struct kernels_db *db = open_db();
    sample_init(&sample, 1);
    put_sample(db, "uid:1", &sample);
    kernels_db_close(db);
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "DROP INDEX kernel_label");
    sqlite_run(sqlite, "PRAGMA user_version = 1");
    sqlite3_close(sqlite);
    db = open_db();
    cr_assert(has_sample(db, "uid:1", &sample));
    kernels_db_close(db);
    sqlite = sqlite_open();
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM sqlite_schema WHERE name = 'kernel_label'"), 1);
    sqlite3_close(sqlite);
}
