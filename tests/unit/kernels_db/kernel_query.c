/* Listings and last uses. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "kernels_db/connection.h"
#include "tests/unit/kernels_db/sample_kernel.h"

TestSuite(kernel_query, .init = folder_create, .fini = folder_remove);

/* The keys here are chosen, so that order and prefixes are known: byte 0 is given, the rest is zero. */
static void put_key(struct kernels_db *db, const char *name_space, uint8_t first, const char *label, const char *target)
{
    struct sample sample;
    sample_init(&sample, first);
    memset(sample.kernel.key, 0, DIGEST_SIZE);
    sample.kernel.key[0] = first;
    sample.kernel.label = text_of(label);
    sample.kernel.target = text_of(target);
    put_sample(db, name_space, &sample);
}

static struct kernel_list_reply list(struct kernels_db *db, const char *name_space,
                                     const struct kernel_list_request *request, msgpack_zone *zone)
{
    struct kernel_list_reply reply;
    struct error error = {0};
    cr_assert_eq(kernels_db_list(db, name_space, request, zone, &reply, &error), 0, "%s", error.text);
    return reply;
}

/* The first bytes of the listed keys, in order, as "10 20 …". */
static void expect_keys(struct kernels_db *db, const char *name_space, const struct kernel_list_request *request,
                        const char *expected, bool more)
{
    msgpack_zone *zone = msgpack_zone_new(8192);
    char got[256] = "";
    struct kernel_list_reply reply = list(db, name_space, request, zone);
    for (size_t i = 0; i < reply.n_kernels; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%02x", i ? " " : "", reply.kernels[i].key[0]);
    cr_assert_str_eq(got, expected);
    cr_assert_eq(reply.more, more);
    msgpack_zone_free(zone);
}

static struct kernels_db *open_listed(void)
{
    struct kernels_db *db = open_db();
    put_key(db, "uid:1", 0x30, "softmax", "sm_90a");
    put_key(db, "uid:1", 0x10, "softmax", "sm_80");
    put_key(db, "uid:1", 0x1f, NULL, "sm_90a");
    put_key(db, "uid:2", 0x20, "softmax", "sm_90a");
    put_key(db, "shared", 0x18, "gelu", "sm_90a");
    put_key(db, "shared", 0x10, "gelu", "sm_90a"); /* uid:1 has it too */
    put_key(db, "shared", 0xff, "gelu", "sm_80");
    return db;
}

Test(kernel_query, list_is_in_key_order_over_namespace_and_shared)
{
    struct kernels_db *db = open_listed();
    struct kernel_list_request all = {0};
    expect_keys(db, "uid:1", &all, "10 18 1f 30 ff", false);
    expect_keys(db, "uid:2", &all, "10 18 20 ff", false);
    expect_keys(db, "shared", &all, "10 18 ff", false);
    expect_keys(db, "uid:3", &all, "10 18 ff", false);
    kernels_db_close(db);
}

Test(kernel_query, list_filters)
{
    struct kernels_db *db = open_listed();
    struct kernel_list_request request = {.label = TEXT_OF("softmax")};
    expect_keys(db, "uid:1", &request, "10 30", false);
    request = (struct kernel_list_request){.target = TEXT_OF("sm_80")};
    expect_keys(db, "uid:1", &request, "10 ff", false);
    request = (struct kernel_list_request){.label = TEXT_OF("gelu"), .target = TEXT_OF("sm_90a")};
    expect_keys(db, "uid:1", &request, "18", false);
    request = (struct kernel_list_request){.prefix = TEXT_OF("1")};
    expect_keys(db, "uid:1", &request, "10 18 1f", false);
    request = (struct kernel_list_request){.prefix = TEXT_OF("1F")};
    expect_keys(db, "uid:1", &request, "1f", false);
    request = (struct kernel_list_request){.prefix = TEXT_OF("1f0")};
    expect_keys(db, "uid:1", &request, "1f", false);
    request = (struct kernel_list_request){.prefix = TEXT_OF("1f1")};
    expect_keys(db, "uid:1", &request, "", false);
    request = (struct kernel_list_request){
        .prefix = TEXT_OF("1800000000000000000000000000000000000000000000000000000000000000")};
    expect_keys(db, "uid:1", &request, "18", false);
    request = (struct kernel_list_request){.prefix = TEXT_OF("")};
    expect_keys(db, "uid:1", &request, "10 18 1f 30 ff", false);
    kernels_db_close(db);
}

Test(kernel_query, list_pages)
{
    struct kernels_db *db = open_listed();
    struct kernel_list_request request = {.limit = 2, .has_limit = true};
    expect_keys(db, "uid:1", &request, "10 18", true);
    request.has_after = true;
    request.after[0] = 0x18;
    expect_keys(db, "uid:1", &request, "1f 30", true);
    request.after[0] = 0x30;
    expect_keys(db, "uid:1", &request, "ff", false);
    request.after[0] = 0xff;
    expect_keys(db, "uid:1", &request, "", false);
    /* A key that is not there is a place in the order all the same. */
    request.after[0] = 0x11;
    request.limit = 3;
    expect_keys(db, "uid:1", &request, "18 1f 30", true);
    kernels_db_close(db);
}

Test(kernel_query, list_refuses)
{
    struct kernels_db *db = open_listed();
    msgpack_zone *zone = msgpack_zone_new(8192);
    struct kernel_list_reply reply;
    struct error error = {0};
    struct kernel_list_request request = {.prefix = TEXT_OF("12g")};
    cr_assert_eq(kernels_db_list(db, "uid:1", &request, zone, &reply, &error), -1);
    cr_assert_eq(error.code, STATUS_INVALID_FIELD);
    cr_assert_str_eq(error.text, "prefix: byte 0x67 at 2 is no hexadecimal digit");
    request = (struct kernel_list_request){.has_limit = true};
    cr_assert_eq(kernels_db_list(db, "uid:1", &request, zone, &reply, &error), -1);
    cr_assert_str_eq(error.text, "limit: 0 is below the limit of 1");
    char digits[65];
    memset(digits, '0', sizeof digits);
    request = (struct kernel_list_request){.prefix = {digits, 65}};
    cr_assert_eq(kernels_db_list(db, "uid:1", &request, zone, &reply, &error), -1);
    cr_assert_str_eq(error.text, "prefix: 65 digits are above the limit of 64");
    msgpack_zone_free(zone);
    kernels_db_close(db);
}

Test(kernel_query, list_shows_what_the_kernel_has)
{
    struct sample sample;
    struct kernel_list_request all = {0};
    sample_init(&sample, 5);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &sample);
    msgpack_zone *zone = msgpack_zone_new(8192);
    struct kernel_summary expected = {
        .has_key = true,
        .label = TEXT_OF("label 5"),
        .target = TEXT_OF("sm_90a"),
        .entry = TEXT_OF("twice"),
        .index_type = INDEX_TYPE_INT32,
        .max_registers = 64,
        .has_max_registers = true,
        .image_size = 3000,
        .has_image_size = true,
        .created_unix_s = 1700000005,
        .has_created_unix_s = true,
        .compile_ns = 45000000,
        .has_compile_ns = true,
    };
    memcpy(expected.key, sample.kernel.key, DIGEST_SIZE);
    struct kernel_list_reply reply = list(db, "uid:1", &all, zone);
    cr_assert_eq(reply.n_kernels, 1);
    cr_assert(message_equal(&kernel_summary_type, &reply.kernels[0], &expected));

    /* Without a phase of that name, the compile time is the sum of what there is. */
    sample.phases[0].name = TEXT_OF("program");
    put_sample(db, "uid:1", &sample);
    reply = list(db, "uid:1", &all, zone);
    cr_assert_eq(reply.kernels[0].compile_ns, 50000000);
    sample.kernel.n_phases = 0;
    put_sample(db, "uid:1", &sample);
    reply = list(db, "uid:1", &all, zone);
    cr_assert_not(reply.kernels[0].has_compile_ns);
    msgpack_zone_free(zone);
    kernels_db_close(db);
}

Test(kernel_query, list_leaves_out_what_cannot_be_right)
{
    struct kernels_db *db = open_listed();
    struct kernel_list_request all = {0};
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "UPDATE kernel SET target = 'a target of more than thirty-two bytes' WHERE key >= x'ff';"
                       "UPDATE kernel SET index_type = 77 WHERE namespace = 'uid:1' AND key < x'11';"
                       "UPDATE kernel SET max_registers = -1 WHERE key BETWEEN x'30' AND x'31';"
                       "UPDATE kernel SET key = x'1801' WHERE key BETWEEN x'18' AND x'19'");
    expect_keys(db, "uid:1", &all, "1f", false);
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

Test(kernel_query, list_never_exceeds_its_limit)
{
    struct kernels_db *db = open_db();
    static struct sample samples[LIMIT_LIST + 5];
    static struct kernels_db_row rows[LIMIT_LIST + 5];
    struct error error = {0};
    struct kernel_list_request all = {0};
    for (unsigned i = 0; i < LIMIT_LIST + 5; i++) {
        sample_init(&samples[i], i);
        rows[i] = sample_row(&samples[i], i % 2 ? "uid:1" : "shared");
    }
    cr_assert_eq(kernels_db_put(db, rows, LIMIT_LIST + 5, &error), 0, "%s", error.text);
    cr_assert_eq(stats_of(db).kernels, LIMIT_LIST + 5);

    /* Two pages hold every key once, in order. */
    msgpack_zone *zone = msgpack_zone_new(8192);
    struct kernel_list_reply page = list(db, "uid:1", &all, zone);
    cr_assert_eq(page.n_kernels, LIMIT_LIST);
    cr_assert(page.more);
    for (size_t i = 1; i < page.n_kernels; i++)
        cr_assert_lt(memcmp(page.kernels[i - 1].key, page.kernels[i].key, DIGEST_SIZE), 0);
    all.has_after = true;
    memcpy(all.after, page.kernels[LIMIT_LIST - 1].key, DIGEST_SIZE);
    page = list(db, "uid:1", &all, zone);
    cr_assert_eq(page.n_kernels, 5);
    cr_assert_not(page.more);
    msgpack_zone_free(zone);

    kernels_db_close(db);
}

/* A page of a large database must cost a page: no sort, and no walk through a table. */
Test(kernel_query, list_is_served_from_the_primary_key)
{
    static const char *const texts[] = {
#define STATEMENT(name, sql) [STATEMENT_##name] = sql,
#include "kernels_db/statements.def"
#undef STATEMENT
    };
    char sql[2048];
    sqlite3_stmt *stmt;
    struct kernels_db *db = open_db();
    sqlite3 *sqlite = sqlite_open();
    snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", texts[STATEMENT_LIST]);
    cr_assert_eq(sqlite3_prepare_v2(sqlite, sql, -1, &stmt, NULL), SQLITE_OK);
    int rows = 0;
    for (; sqlite3_step(stmt) == SQLITE_ROW; rows++) {
        const char *detail = (const char *)sqlite3_column_text(stmt, 3);
        cr_assert_null(strstr(detail, "SCAN"), "%s", detail);
        cr_assert_null(strstr(detail, "TEMP B-TREE"), "%s", detail);
    }
    cr_assert_gt(rows, 2);
    sqlite3_finalize(stmt);
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

/* ---- touch ---- */

static uint64_t last_used(struct kernels_db *db, const char *name_space, uint8_t first)
{
    msgpack_zone *zone = msgpack_zone_new(8192);
    struct kernel_list_request all = {0};
    struct kernel_list_reply reply = list(db, name_space, &all, zone);
    uint64_t result = UINT64_MAX;
    for (size_t i = 0; i < reply.n_kernels; i++)
        if (reply.kernels[i].key[0] == first)
            result = reply.kernels[i].has_last_used_unix_s ? reply.kernels[i].last_used_unix_s : 0;
    msgpack_zone_free(zone);
    return result;
}

Test(kernel_query, touch_remembers_the_last_use)
{
    struct kernels_db *db = open_listed();
    struct error error = {0};
    struct kernels_db_use uses[] = {
        {"uid:1", {0x10}, 100}, {"uid:1", {0x30}, 200}, {"uid:1", {0x30}, 150}, /* an earlier one changes nothing */
        {"uid:1", {0x18}, 300},                                                 /* given from shared */
        {"uid:1", {0x77}, 400},                                                 /* not there: nothing */
    };
    cr_assert_eq(last_used(db, "uid:1", 0x10), 0);
    uint64_t commits = stats_of(db).commits;
    cr_assert_eq(kernels_db_touch(db, uses, 5, &error), 0, "%s", error.text);
    cr_assert_eq(stats_of(db).commits, commits + 1);
    cr_assert_eq(last_used(db, "uid:1", 0x10), 100);
    cr_assert_eq(last_used(db, "shared", 0x10), 0, "the namespace has its own");
    cr_assert_eq(last_used(db, "uid:1", 0x30), 200);
    cr_assert_eq(last_used(db, "shared", 0x18), 300);
    cr_assert_eq(last_used(db, "uid:1", 0x1f), 0);
    kernels_db_close(db);
}

Test(kernel_query, touch_leaves_the_row_valid)
{
    struct sample sample;
    struct error error = {0};
    struct kernels_db_use use = {.name_space = "uid:1", .unix_s = 1800000000};
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &sample);
    memcpy(use.key, sample.kernel.key, DIGEST_SIZE);
    cr_assert_eq(kernels_db_touch(db, &use, 1, &error), 0, "%s", error.text);
    cr_assert(has_sample(db, "uid:1", &sample));
    kernels_db_close(db);
}
