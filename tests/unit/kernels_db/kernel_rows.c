/* Putting and getting: everything comes back, variants coexist, namespaces are apart, texts are shared and go with the
 * last row, and what does not match its hash is absent. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "kernels_db/kernel_key.h"
#include "kernels_db/kernel_row.h"
#include "tests/unit/kernels_db/sample_kernel.h"

TestSuite(kernel_rows, .init = folder_create, .fini = folder_remove);

Test(kernel_rows, put_get_round_trip)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    cr_assert_not(has_sample(db, "uid:1000", &sample));
    put_sample(db, "uid:1000", &sample);
    cr_assert(has_sample(db, "uid:1000", &sample));
    kernels_db_close(db);
    db = open_db();
    cr_assert(has_sample(db, "uid:1000", &sample), "after opening it again");
    kernels_db_close(db);
}

Test(kernel_rows, put_get_of_the_least_a_kernel_has)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernel whole = sample.kernel;
    sample.kernel = (struct kernel){
        .has_key = true,
        .target = TEXT_OF("compute_80"),
        .image_kind = IMAGE_KIND_PTX,
        .compiler = TEXT_OF("NVRTC 13.0"),
        .has_build = true,
        .has_created_unix_s = true,
        .created_unix_s = UINT64_MAX,
        .has_image_size = true,
        .image = {(const uint8_t *)"", 0},
        .code = TEXT_OF(""),
    };
    memcpy(sample.kernel.key, whole.key, KEY_SIZE);
    struct kernels_db *db = open_db();
    put_sample(db, "shared", &sample);
    cr_assert(has_sample(db, "shared", &sample));
    kernels_db_close(db);
}

Test(kernel_rows, wire_only_fields_are_not_stored)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    sample.kernel.image_fd = 2;
    sample.kernel.has_image_fd = true;
    put_sample(db, "uid:1", &sample);
    sample.kernel.image_fd = 0;
    sample.kernel.has_image_fd = false;
    cr_assert(has_sample(db, "uid:1", &sample));
    kernels_db_close(db);
}

Test(kernel_rows, a_second_put_replaces_the_first)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &sample);
    sample.image[7] ^= 1;
    sample.kernel.label = TEXT_OF("another");
    put_sample(db, "uid:1", &sample);
    cr_assert(has_sample(db, "uid:1", &sample));
    cr_assert_eq(stats_of(db).kernels, 1);
    cr_assert_eq(stats_of(db).image_bytes, sizeof sample.image + sizeof sample.ptx);
    sqlite3 *sqlite = sqlite_open();
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM image"), 1);
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM source"), 4, "code, log and two headers");
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

Test(kernel_rows, variants_of_one_code_coexist_and_share_its_text)
{
    struct sample samples[4];
    struct kernels_db *db = open_db();
    for (unsigned i = 0; i < 4; i++) {
        sample_init(&samples[i], i);
        samples[i].kernel.log = (struct text){0};
        samples[i].kernel.target = i % 2 ? TEXT_OF("sm_80") : TEXT_OF("sm_90a");
        samples[i].kernel.max_registers = i < 2 ? 64 : 128;
        put_sample(db, "uid:1", &samples[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        cr_assert(has_sample(db, "uid:1", &samples[i]), "variant %u", i);
    sqlite3 *sqlite = sqlite_open();
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM kernel"), 4);
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM source"), 3, "one code, two headers");
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(DISTINCT header_set) FROM kernel"), 1);
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

Test(kernel_rows, texts_go_with_the_last_row_that_names_them)
{
    struct sample first, second;
    sample_init(&first, 1);
    sample_init(&second, 2);
    /* A header of the second one is the code of the first: one text in two roles. */
    second.headers[0].has_digest = true;
    second.header_texts[0] = (struct bytes){(const uint8_t *)SAMPLE_CODE, sizeof SAMPLE_CODE - 1};
    digest_of(SAMPLE_CODE, sizeof SAMPLE_CODE - 1, second.headers[0].digest);
    second.kernel.code = TEXT_OF("int other;");
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &first);
    put_sample(db, "uid:1", &second);
    sqlite3 *sqlite = sqlite_open();
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM source"), 6, "2 codes, 2 logs, headers a.h and b.h");

    sqlite_run(sqlite, "DELETE FROM kernel WHERE label = 'label 1'");
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM source"), 4, "its log and a.h are gone");
    cr_assert(has_sample(db, "uid:1", &second));
    cr_assert_eq(stats_of(db).kernels, 1);
    sqlite_run(sqlite, "DELETE FROM kernel");
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM source"), 0);
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM header_set"), 0);
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM image"), 0);
    cr_assert_eq(stats_of(db).kernels, 0);
    cr_assert_eq(stats_of(db).image_bytes, 0);
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

Test(kernel_rows, namespaces_see_themselves_and_shared)
{
    struct sample own, other, shared, both;
    sample_init(&own, 1);
    sample_init(&other, 2);
    sample_init(&shared, 3);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &own);
    put_sample(db, "uid:2", &other);
    put_sample(db, "shared", &shared);
    cr_assert(has_sample(db, "uid:1", &own));
    cr_assert_not(has_sample(db, "uid:1", &other));
    cr_assert_not(has_sample(db, "shared", &own));
    cr_assert(has_sample(db, "uid:1", &shared));
    cr_assert(has_sample(db, "uid:2", &shared));

    /* One key in both: the namespace's own row is the one that counts. */
    sample_init(&both, 3);
    both.kernel.label = TEXT_OF("mine");
    put_sample(db, "uid:1", &both);
    cr_assert(has_sample(db, "uid:1", &both));
    cr_assert(has_sample(db, "uid:2", &shared));
    kernels_db_close(db);
}

Test(kernel_rows, rows_of_one_put_are_all_stored_or_none)
{
    struct sample good, bad;
    struct error error = {0};
    sample_init(&good, 1);
    sample_init(&bad, 2);
    bad.kernel.image_size--;
    struct kernels_db_row rows[] = {sample_row(&good, "uid:1"), sample_row(&bad, "uid:1")};
    struct kernels_db *db = open_db();
    cr_assert_eq(kernels_db_put(db, rows, 2, &error), -1);
    cr_assert_eq(error.code, STATUS_INTERNAL);
    cr_assert(strstr(error.text, "image: 3000 bytes, image_size says 2999"), "%s", error.text);
    cr_assert_not(has_sample(db, "uid:1", &good));
    cr_assert_eq(stats_of(db).kernels, 0);
    bad.kernel.image_size++;
    cr_assert_eq(kernels_db_put(db, rows, 2, &error), 0, "%s", error.text);
    cr_assert(has_sample(db, "uid:1", &good) && has_sample(db, "uid:1", &bad));
    cr_assert_eq(stats_of(db).commits, 1);
    kernels_db_close(db);
}

static void expect_refused(struct kernels_db *db, const struct kernels_db_row *row, const char *what)
{
    struct error error = {0};
    cr_assert_eq(kernels_db_put(db, row, 1, &error), -1, "%s", what);
    cr_assert(strstr(error.text, what), "\"%s\" does not say \"%s\"", error.text, what);
}

Test(kernel_rows, what_could_not_be_read_back_is_refused)
{
    struct sample sample;
    struct kernels_db *db = open_db();
    sample_init(&sample, 1);
    struct kernels_db_row row = sample_row(&sample, "uid:1");
    struct kernel kernel = sample.kernel;

    sample.kernel.image = (struct bytes){0};
    expect_refused(db, &row, "image: absent");
    sample.kernel = kernel;
    sample.kernel.ptx_size = 1;
    expect_refused(db, &row, "ptx: 700 bytes, ptx_size says 1");
    sample.kernel = kernel;
    sample.kernel.code = TEXT_OF("int\0x;");
    expect_refused(db, &row, "code: a NUL byte");
    sample.kernel = kernel;
    sample.kernel.target = (struct text){0};
    expect_refused(db, &row, "target");
    sample.kernel = kernel;
    sample.kernel.max_registers = 256;
    expect_refused(db, &row, "max_registers");
    sample.kernel = kernel;
    row.header_texts = NULL;
    expect_refused(db, &row, "2 headers without their texts");
    row.header_texts = sample.header_texts;
    sample.headers[1].digest[0] ^= 1;
    expect_refused(db, &row, "header dir/b.h: the text does not have its digest");
    sample.headers[1].digest[0] ^= 1;
    row.name_space = "";
    expect_refused(db, &row, "namespace");
    row.name_space = "uid:1";
    struct error error = {0};
    cr_assert_eq(kernels_db_put(db, &row, 1, &error), 0, "%s", error.text);
    kernels_db_close(db);
}

/* ---- the hash's layout: a change would make every stored row corrupt ---- */

Test(kernel_rows, row_hash_vector)
{
    uint8_t key[KEY_SIZE], text[DIGEST_SIZE], hash[DIGEST_SIZE];
    char hex[KEY_HEX];
    for (uint8_t i = 0; i < KEY_SIZE; i++)
        key[i] = i;
    digest_of("text", 4, text);
    struct kernel_row row = {
        .name_space = TEXT_OF("uid:1000"),
        .key = {key, KEY_SIZE},
        .target = TEXT_OF("sm_90a"),
        .entry = TEXT_OF("twice"),
        .index_type = {1, true},
        .image_size = {4, true},
        .created = {-1, true},
        .compile_ns = {0, true},
        .code = {text, DIGEST_SIZE},
        .meta = {(const uint8_t *)"\x80", 1},
        .image = {(const uint8_t *)"\x7f"
                                   "ELF",
                  4},
        .ptx = {(const uint8_t *)"", 0},
    };
    kernel_row_hash(&row, hash);
    key_to_hex(hash, hex);
    cr_assert_str_eq(hex, "706b0a301bd8c6326c893479404d6112d7f277a7dde1af475ca2f3e7e21c5111");
}

Test(kernel_rows, header_set_vector)
{
    struct header_digest headers[2] = {0};
    struct kernel kernel = {.headers = headers, .n_headers = 2};
    uint8_t set[DIGEST_SIZE];
    char hex[KEY_HEX];
    digest_of("one", 3, headers[0].digest);
    digest_of("two", 3, headers[1].digest);
    kernel_header_set(&kernel, set);
    key_to_hex(set, hex);
    cr_assert_str_eq(hex, "7c683f5678b15303ac2912b78b6d5094b4736a7c1bf6d5d61f29e155f2a2c33c");
}

/* ---- corrupt rows ---- */

/* Run SQL that damages the stored sample, and expect it absent, counted and gone, and a new one to be taken. */
static void expect_caught(const char *sql)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &sample);
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, sql);
    cr_assert_geq(sqlite3_changes(sqlite), 1, "nothing was damaged: %s", sql);
    cr_assert_not(has_sample(db, "uid:1", &sample), "%s", sql);
    cr_assert_eq(stats_of(db).corrupt_rows, 1, "%s", sql);
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM kernel"), 0, "%s", sql);
    cr_assert_not(has_sample(db, "uid:1", &sample));
    cr_assert_eq(stats_of(db).corrupt_rows, 1, "a row that is gone is only absent");
    put_sample(db, "uid:1", &sample);
    cr_assert(has_sample(db, "uid:1", &sample), "after %s", sql);
    sqlite_run(sqlite, "DELETE FROM kernel; DELETE FROM source; UPDATE tally SET kernels = 0, image_bytes = 0");
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

/* Flip one bit of one byte of a blob, through another connection. */
static void flip(sqlite3 *sqlite, const char *table, const char *column, int at, int bit)
{
    sqlite3_blob *blob;
    char sql[128];
    uint8_t byte;
    snprintf(sql, sizeof sql, "SELECT rowid FROM %s", table);
    sqlite3_int64 row = sqlite_number(sqlite, sql);
    cr_assert_eq(sqlite3_blob_open(sqlite, "main", table, column, row, 1, &blob), SQLITE_OK);
    cr_assert_eq(sqlite3_blob_read(blob, &byte, 1, at), SQLITE_OK);
    byte ^= (uint8_t)(1 << bit);
    cr_assert_eq(sqlite3_blob_write(blob, &byte, 1, at), SQLITE_OK);
    cr_assert_eq(sqlite3_blob_close(blob), SQLITE_OK);
}

Test(kernel_rows, F10_flipped_byte)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "PRAGMA synchronous = OFF");
    uint64_t caught = 0;
    for (size_t at = 0; at < sizeof sample.image + sizeof sample.ptx; at += at % 7 + 1) {
        bool in_image = at < sizeof sample.image;
        put_sample(db, "uid:1", &sample);
        flip(sqlite, "image", in_image ? "image" : "ptx", (int)(in_image ? at : at - sizeof sample.image), (int)at % 8);
        cr_assert_not(has_sample(db, "uid:1", &sample), "byte %zu", at);
        cr_assert_eq(stats_of(db).corrupt_rows, ++caught, "byte %zu", at);
        cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM image"), 0, "byte %zu", at);
    }
    cr_assert_gt(caught, 500);
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

Test(kernel_rows, F10_any_changed_column)
{
    expect_caught("UPDATE kernel SET label = 'other'");
    expect_caught("UPDATE kernel SET label = NULL");
    expect_caught("UPDATE kernel SET target = 'sm_80'");
    expect_caught("UPDATE kernel SET entry = 'twicf'");
    expect_caught("UPDATE kernel SET index_type = 2");
    expect_caught("UPDATE kernel SET max_registers = 65");
    expect_caught("UPDATE kernel SET image_size = image_size + 1");
    expect_caught("UPDATE kernel SET created = created + 1");
    expect_caught("UPDATE kernel SET compile_ns = 0");
    expect_caught("UPDATE kernel SET code = NULL");
    expect_caught("UPDATE kernel SET code = log");
    expect_caught("UPDATE kernel SET log = x'00'");
    expect_caught("UPDATE kernel SET header_set = NULL");
    expect_caught("UPDATE kernel SET hash = zeroblob(32)");
    expect_caught("UPDATE kernel SET hash = x''");
    expect_caught("UPDATE kernel SET meta = x''");
    expect_caught("UPDATE kernel SET meta = substr(meta, 1, length(meta) - 1)");
    expect_caught("UPDATE image SET ptx = NULL");
    expect_caught("UPDATE image SET image = x''");
    expect_caught("DELETE FROM image");
}

Test(kernel_rows, F10_a_damaged_text)
{
    expect_caught("UPDATE source SET packed = x'00'");
    expect_caught("UPDATE source SET packed = x''");
    expect_caught("DELETE FROM source");
    /* The code's place taken by another text, well packed. */
    expect_caught("UPDATE source SET packed = (SELECT s.packed FROM source s, kernel k WHERE s.digest = k.log)");
    /* A frame that claims 2^32 bytes and more. */
    expect_caught("UPDATE source SET packed = x'28b52ffde000000000010000000100004142'");
}

Test(kernel_rows, F10_a_damaged_text_that_others_share)
{
    struct sample first, second;
    sample_init(&first, 1);
    sample_init(&second, 2);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &first);
    put_sample(db, "uid:1", &second);
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "UPDATE source SET packed = x'00' WHERE digest IN (SELECT code FROM kernel)");
    cr_assert_not(has_sample(db, "uid:1", &first));
    put_sample(db, "uid:1", &first); /* brings the good text back */
    cr_assert(has_sample(db, "uid:1", &first));
    cr_assert(has_sample(db, "uid:1", &second));
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

Test(kernel_rows, F10_a_row_moved_to_another_key_or_namespace)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &sample);
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "UPDATE kernel SET namespace = 'uid:2'; UPDATE image SET namespace = 'uid:2'");
    cr_assert_not(has_sample(db, "uid:2", &sample));
    cr_assert_eq(stats_of(db).corrupt_rows, 1);

    put_sample(db, "uid:1", &sample);
    sqlite_run(sqlite, "UPDATE kernel SET key = zeroblob(32); UPDATE image SET key = zeroblob(32)");
    memset(sample.kernel.key, 0, KEY_SIZE);
    cr_assert_not(has_sample(db, "uid:1", &sample));
    cr_assert_eq(stats_of(db).corrupt_rows, 2);
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

/* A corrupt row of the namespace hides nothing: the shared one is still found. */
Test(kernel_rows, F10_falls_back_to_shared)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &sample);
    put_sample(db, "shared", &sample);
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "UPDATE image SET image = zeroblob(3000) WHERE namespace = 'uid:1'");
    cr_assert(has_sample(db, "uid:1", &sample));
    cr_assert_eq(stats_of(db).corrupt_rows, 1);
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM kernel"), 1);
    sqlite3_close(sqlite);
    kernels_db_close(db);
}
