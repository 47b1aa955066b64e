/* The file: how it is made, what is done with one that can't be used, and what survives a kill. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels_db/connection.h"
#include "kernels_db/migrations.h"
#include "tests/unit/kernels_db/sample_kernel.h"

TestSuite(kernels_db_file, .init = folder_create, .fini = folder_remove);

static void write_file(const char *name, const void *bytes, size_t size)
{
    int fd = open(folder_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static mode_t mode_of(const char *name)
{
    struct stat status;
    cr_assert_eq(stat(folder_path(name), &status), 0, "%s", name);
    return status.st_mode & 0777;
}

/* ---- how it is made ---- */

Test(kernels_db_file, pragmas_and_schema)
{
    struct sample sample;
    struct kernels_db *db = open_db();
    sqlite3 *sqlite = sqlite_open();
    cr_assert_str_eq(sqlite_text(sqlite, "PRAGMA journal_mode"), "wal");
    cr_assert_eq(sqlite_number(sqlite, "PRAGMA auto_vacuum"), 2, "incremental");
    cr_assert_eq(sqlite_number(sqlite, "PRAGMA page_size"), 8192);
    cr_assert_eq(sqlite_number(sqlite, "PRAGMA application_id"), 0x6675736e);
    cr_assert_eq(sqlite_number(sqlite, "PRAGMA user_version"), migrations_count());
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
                                       " AND name NOT LIKE 'sqlite_%' AND NOT strict"),
                 0);
    cr_assert_str_eq(sqlite_text(sqlite, "SELECT group_concat(name) FROM (SELECT name FROM pragma_table_info('kernel')"
                                         " WHERE pk ORDER BY pk)"),
                     "namespace,key");
    cr_assert_eq(sqlite_number(db->sqlite, "PRAGMA synchronous"), 1, "normal");

    /* What is deleted can be given back to the file system. */
    for (unsigned i = 0; i < 20; i++) {
        sample_init(&sample, i);
        put_sample(db, "uid:1", &sample);
    }
    sqlite_run(sqlite, "DELETE FROM kernel");
    long long pages = sqlite_number(sqlite, "PRAGMA page_count");
    cr_assert_gt(sqlite_number(sqlite, "PRAGMA freelist_count"), 0);
    sqlite_run(sqlite, "PRAGMA incremental_vacuum");
    cr_assert_lt(sqlite_number(sqlite, "PRAGMA page_count"), pages);
    cr_assert_str_eq(sqlite_text(sqlite, "PRAGMA integrity_check"), "ok");
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

Test(kernels_db_file, only_its_owner_can_read_it)
{
    struct sample sample;
    umask(0);
    struct kernels_db *db = open_db();
    sample_init(&sample, 1);
    put_sample(db, "uid:1", &sample);
    cr_assert_eq(mode_of("kernels.db"), 0600);
    cr_assert_eq(mode_of("kernels.db-wal"), 0600);
    cr_assert_eq(mode_of("kernels.db-shm"), 0600);
    kernels_db_close(db);
    cr_assert_eq(folder_count("kernels.db"), 1, "closing leaves one file");
}

Test(kernels_db_file, stats)
{
    struct sample samples[2];
    struct error error = {0};
    sample_init(&samples[0], 1);
    sample_init(&samples[1], 2);
    struct kernels_db_row rows[] = {sample_row(&samples[0], "uid:1"), sample_row(&samples[1], "uid:1")};
    struct kernels_db *db = open_db();
    struct kernels_db_stats stats = stats_of(db);
    cr_assert_eq(stats.kernels, 0);
    cr_assert_eq(stats.commits, 0);
    cr_assert_eq(kernels_db_put(db, rows, 2, &error), 0, "%s", error.text);
    stats = stats_of(db);
    cr_assert_eq(stats.kernels, 2);
    cr_assert_eq(stats.image_bytes, 7400);
    cr_assert_eq(stats.commits, 1);
    cr_assert_eq(stats.errors, 0);
    cr_assert_eq(stats.corrupt_rows, 0);
    cr_assert_gt(stats.file_bytes, 7400);
    kernels_db_close(db);
    kernels_db_close(NULL);
}

/* ---- files that can't be used ---- */

/* Open, expecting the present file to be moved aside for the reason, and a working new one. */
static void expect_moved_aside(const char *reason, size_t already)
{
    struct kernels_db *db = NULL;
    struct error error = {0};
    struct sample sample;
    char notice[512] = "";
    cr_assert_eq(kernels_db_open(folder, &db, notice, &error), 0, "%s", error.text);
    cr_assert(strstr(notice, reason), "\"%s\" does not say \"%s\"", notice, reason);
    cr_assert(strstr(notice, "kernels.db.damaged-"), "%s", notice);
    cr_assert_eq(folder_count("kernels.db.damaged-"), already + 1);
    sample_init(&sample, 9);
    put_sample(db, "uid:1", &sample);
    cr_assert(has_sample(db, "uid:1", &sample));
    kernels_db_close(db);
    db = open_db();
    cr_assert(has_sample(db, "uid:1", &sample));
    kernels_db_close(db);
}

Test(kernels_db_file, F9_not_a_database)
{
    char text[20000];
    memset(text, 'x', sizeof text);
    write_file("kernels.db", text, sizeof text);
    expect_moved_aside("file is not a database", 0);
    /* A second one within the same second finds a name of its own. */
    write_file("kernels.db", text, sizeof text);
    expect_moved_aside("file is not a database", 1);
}

Test(kernels_db_file, F9_an_empty_file_is_a_new_one)
{
    write_file("kernels.db", "", 0);
    kernels_db_close(open_db());
    cr_assert_eq(folder_count("kernels.db.damaged-"), 0);
}

Test(kernels_db_file, a_newer_schema_is_moved_aside)
{
    kernels_db_close(open_db());
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "PRAGMA user_version = 1000");
    sqlite3_close(sqlite);
    expect_moved_aside("its schema 1000 is newer than this version's 2", 0);
}

Test(kernels_db_file, a_foreign_database_is_moved_aside)
{
    write_file("kernels.db", "", 0);
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "CREATE TABLE theirs (a)");
    sqlite3_close(sqlite);
    expect_moved_aside("a database of something else", 0);
}

Test(kernels_db_file, a_schema_that_lacks_a_table_is_moved_aside)
{
    kernels_db_close(open_db());
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "DROP TABLE header_set");
    sqlite3_close(sqlite);
    expect_moved_aside("no such table", 0);
}

/* Its log goes with it: left behind, it would be replayed into the new file. */
Test(kernels_db_file, F9_the_log_is_moved_with_its_file)
{
    struct kernels_db *db = NULL;
    struct error error = {0};
    kernels_db_close(open_db());
    sqlite3 *sqlite = sqlite_open(); /* stays open, so the log stays too */
    sqlite_run(sqlite, "PRAGMA user_version = 1000");
    cr_assert_eq(folder_count("kernels.db-wal"), 1);
    cr_assert_eq(kernels_db_open(folder, &db, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(folder_count("kernels.db.damaged-"), 3, "the file, -wal and -shm");
    cr_assert_eq(stats_of(db).kernels, 0);
    kernels_db_close(db);
    sqlite3_close(sqlite);
}

Test(kernels_db_file, F9_damage_found_while_running)
{
    struct sample sample;
    struct kernel kernel;
    struct error error = {0};
    struct stat status;
    char junk[8192];
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    put_sample(db, "uid:1", &sample);
    kernels_db_close(db);
    db = open_db();
    memset(junk, 0xa5, sizeof junk);
    int fd = open(folder_path("kernels.db"), O_RDWR | O_CLOEXEC);
    cr_assert_eq(fstat(fd, &status), 0);
    for (off_t at = 8192; at < status.st_size; at += 8192)
        cr_assert_eq(pwrite(fd, junk, sizeof junk, at), 8192);

    msgpack_zone *zone = msgpack_zone_new(8192);
    cr_assert_eq(kernels_db_get(db, "uid:1", sample.kernel.key, zone, &kernel, &error), -1);
    cr_assert_eq(error.code, STATUS_DATABASE);
    cr_assert(strstr(error.text, "is damaged"), "%s", error.text);
    cr_assert_eq(kernels_db_get(db, "uid:1", sample.kernel.key, zone, &kernel, &error), 0, "absent in the new file");
    msgpack_zone_free(zone);
    put_sample(db, "uid:1", &sample);
    cr_assert(has_sample(db, "uid:1", &sample));
    cr_assert_eq(stats_of(db).errors, 1);
    cr_assert_geq(folder_count("kernels.db.damaged-"), 1);
    close(fd); /* not earlier: closing drops this process's locks on the file */
    kernels_db_close(db);
}

/* ---- random damage ---- */

#define KERNELS 12

static uint32_t dice(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void copy_pristine(const uint8_t *bytes, size_t size)
{
    unlink(folder_path("kernels.db-wal"));
    unlink(folder_path("kernels.db-shm"));
    write_file("kernels.db", bytes, size);
}

/* Every kernel is what was stored, or absent; an error is followed by a database that works. */
static void expect_no_wrong_bytes(struct kernels_db *db, const struct sample *samples, size_t *ret_found)
{
    msgpack_zone *zone = msgpack_zone_new(8192);
    struct kernel kernel;
    struct error error = {0};
    struct kernels_db_row row = sample_row(&samples[0], "uid:1");
    *ret_found = 0;
    for (size_t i = 0; i < KERNELS; i++) {
        int got = kernels_db_get(db, "uid:1", samples[i].kernel.key, zone, &kernel, &error);
        cr_assert(got != 1 || message_equal(&kernel_type, &kernel, &samples[i].kernel), "wrong bytes");
        *ret_found += got == 1;
    }
    /* Writing may find more damage, once. */
    if (kernels_db_put(db, &row, 1, &error) < 0)
        cr_assert_eq(kernels_db_put(db, &row, 1, &error), 0, "%s", error.text);
    int got = kernels_db_get(db, "uid:1", samples[0].kernel.key, zone, &kernel, &error);
    if (got < 0) { /* the same for reading it back */
        cr_assert_eq(kernels_db_put(db, &row, 1, &error), 0, "%s", error.text);
        got = kernels_db_get(db, "uid:1", samples[0].kernel.key, zone, &kernel, &error);
    }
    cr_assert_eq(got, 1, "%s", error.text);
    cr_assert(message_equal(&kernel_type, &kernel, &samples[0].kernel));
    msgpack_zone_free(zone);
}

Test(kernels_db_file, F9_random_overwrites_and_truncation)
{
    static struct sample samples[KERNELS];
    static uint8_t pristine[1 << 20], bytes[1 << 20];
    uint32_t state = 20240607;
    size_t found, lost = 0, kept = 0;
    struct kernels_db *db = open_db();
    for (unsigned i = 0; i < KERNELS; i++) {
        sample_init(&samples[i], i);
        put_sample(db, "uid:1", &samples[i]);
    }
    kernels_db_close(db);
    int fd = open(folder_path("kernels.db"), O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, pristine, sizeof pristine);
    close(fd);
    cr_assert(size > 8192 && size < (ssize_t)sizeof pristine);

    for (unsigned cycle = 0; cycle < cycles(60); cycle++) {
        size_t length = (size_t)size, at = dice(&state) % length, n = 1 + dice(&state) % 4096;
        memcpy(bytes, pristine, length);
        if (cycle % 10 == 9)
            length = at;
        else if (cycle % 10 == 8)
            bytes[dice(&state) % 100] = (uint8_t)dice(&state); /* the header */
        else
            for (size_t i = at; i < length && i < at + n; i++)
                bytes[i] = (uint8_t)dice(&state);
        copy_pristine(bytes, length);
        struct error error = {0};
        cr_assert_eq(kernels_db_open(folder, &db, NULL, &error), 0, "cycle %u: %s", cycle, error.text);
        expect_no_wrong_bytes(db, samples, &found);
        kernels_db_close(db);
        kept += found;
        lost += KERNELS - found;
    }
    cr_assert(kept > 0 && lost > 0, "kept %zu, lost %zu: the damage proves nothing", kept, lost);
}

/* ---- errors that pass ---- */

static void expect_put_fails(struct kernels_db *db, const struct sample *sample, const char *reason)
{
    struct kernels_db_row row = sample_row(sample, "uid:1");
    struct error error = {0};
    uint64_t errors = db->errors;
    cr_assert_eq(kernels_db_put(db, &row, 1, &error), -1);
    cr_assert_eq(error.code, STATUS_DATABASE);
    cr_assert(strstr(error.text, reason), "%s", error.text);
    cr_assert_eq(db->errors, errors + 1);
    cr_assert_not(db->damaged);
}

Test(kernels_db_file, F7_full_and_then_not)
{
    struct sample sample;
    char sql[64];
    unsigned fit = 0;
    struct kernels_db *db = open_db();
    snprintf(sql, sizeof sql, "PRAGMA max_page_count = %lld", sqlite_number(db->sqlite, "PRAGMA page_count") + 8);
    sqlite_run(db->sqlite, sql);
    for (int result = 0; result == 0 && fit < 100; fit += result == 0) {
        sample_init(&sample, fit);
        struct kernels_db_row row = sample_row(&sample, "uid:1");
        result = kernels_db_put(db, &row, 1, NULL);
    }
    cr_assert(fit > 0 && fit < 100, "%u kernels fit into 8 pages", fit);
    expect_put_fails(db, &sample, "database or disk is full");
    cr_assert_not(has_sample(db, "uid:1", &sample));
    for (unsigned seed = 0; seed < fit; seed++) {
        sample_init(&sample, seed);
        cr_assert(has_sample(db, "uid:1", &sample), "kernel %u is no longer served", seed);
    }
    cr_assert_eq(stats_of(db).kernels, fit);
    sqlite_run(db->sqlite, "PRAGMA max_page_count = 1000000");
    sample_init(&sample, fit);
    put_sample(db, "uid:1", &sample);
    cr_assert(has_sample(db, "uid:1", &sample));
    cr_assert_str_eq(sqlite_text(db->sqlite, "PRAGMA integrity_check"), "ok");
    kernels_db_close(db);
}

Test(kernels_db_file, somebody_else_holds_the_file)
{
    struct sample sample;
    sample_init(&sample, 1);
    struct kernels_db *db = open_db();
    sqlite3 *sqlite = sqlite_open();
    sqlite3_busy_timeout(db->sqlite, 0); /* no need to wait for what won't happen */
    sqlite_run(sqlite, "BEGIN IMMEDIATE");
    expect_put_fails(db, &sample, "database is locked");
    cr_assert_not(has_sample(db, "uid:1", &sample), "reading goes on");
    sqlite_run(sqlite, "COMMIT");
    put_sample(db, "uid:1", &sample);
    cr_assert(has_sample(db, "uid:1", &sample));
    sqlite3_close(sqlite);
    kernels_db_close(db);
}

/* A statement that is not ended would keep the log from ever being truncated. */
Test(kernels_db_file, no_call_leaves_a_transaction_open)
{
    struct sample samples[3];
    struct error error = {0};
    struct kernel_list_request one = {.limit = 1, .has_limit = true};
    struct kernel_list_reply reply;
    struct kernels_db *db = open_db();
    for (unsigned i = 0; i < 3; i++) {
        sample_init(&samples[i], i);
        put_sample(db, "uid:1", &samples[i]);
    }
    msgpack_zone *zone = msgpack_zone_new(8192);
    cr_assert(has_sample(db, "uid:1", &samples[0]));
    cr_assert_eq(kernels_db_list(db, "uid:1", &one, zone, &reply, &error), 0, "%s", error.text);
    cr_assert(reply.more);
    stats_of(db);
    cr_assert_eq(sqlite3_get_autocommit(db->sqlite), 1);
    cr_assert_eq(sqlite3_txn_state(db->sqlite, NULL), SQLITE_TXN_NONE);
    sqlite3 *sqlite = sqlite_open();
    cr_assert_eq(sqlite_number(sqlite, "PRAGMA wal_checkpoint(TRUNCATE)"), 0, "busy");
    sqlite3_close(sqlite);
    msgpack_zone_free(zone);
    kernels_db_close(db);
}

/* ---- folders that can't be used ---- */

static void expect_refused(const char *directory, const char *reason)
{
    struct kernels_db *db = NULL;
    struct error error = {0};
    cr_assert_eq(kernels_db_open(directory, &db, NULL, &error), -1);
    cr_assert_null(db);
    cr_assert_eq(error.code, STATUS_DATABASE);
    cr_assert(strstr(error.text, reason) && strstr(error.text, "kernels.db"), "%s", error.text);
}

Test(kernels_db_file, F8_no_such_folder)
{
    expect_refused(folder_path("missing"), "can't be opened for writing: No such file or directory (ENOENT)");
}

/* Permissions mean nothing to root. */
static void become_unprivileged(void)
{
    if (geteuid() != 0)
        return;
    cr_assert_eq(chown(folder, 65534, 65534), 0);
    cr_assert_eq(setresgid(65534, 65534, 65534), 0);
    cr_assert_eq(setresuid(65534, 65534, 65534), 0);
}

Test(kernels_db_file, F8_read_only_folder)
{
    become_unprivileged();
    cr_assert_eq(chmod(folder, 0500), 0);
    expect_refused(folder, "can't be opened for writing: Permission denied (EACCES)");
    cr_assert_eq(chmod(folder, 0700), 0);
    struct kernels_db *db = open_db();
    kernels_db_close(db);
    /* The file could be written, but its log could not be made. */
    cr_assert_eq(chmod(folder, 0500), 0);
    expect_refused(folder, "its folder is read-only");
    cr_assert_eq(folder_count("kernels.db"), 1, "nothing was moved aside");
    cr_assert_eq(chmod(folder, 0700), 0);
    kernels_db_close(open_db());
}

/* ---- killed while writing ---- */

/* Store kernel after kernel, and say so after each. */
static void write_until_killed(int acknowledge, unsigned seed)
{
    struct kernels_db *db;
    struct sample sample;
    if (kernels_db_open(folder, &db, NULL, NULL) < 0)
        _exit(1);
    for (;; seed++) {
        sample_init(&sample, seed);
        struct kernels_db_row row = sample_row(&sample, "uid:1");
        if (kernels_db_put(db, &row, 1, NULL) < 0 || write(acknowledge, &seed, sizeof seed) != sizeof seed)
            _exit(2);
    }
}

Test(kernels_db_file, F1_killed_while_writing)
{
    uint32_t state = 7;
    unsigned next = 0, acknowledged = 0, last;
    struct sample sample;

    for (unsigned cycle = 0; cycle < cycles(20); cycle++) {
        int ends[2], status;
        cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0)
            write_until_killed(ends[1], next);
        close(ends[1]);
        /* After some acknowledgements, wherever it is just then. */
        for (uint32_t left = 1 + dice(&state) % 40; left; left--) {
            cr_assert_eq(read(ends[0], &last, sizeof last), (ssize_t)sizeof last, "the writer failed");
            cr_assert_eq(last, next++);
        }
        for (volatile uint32_t spin = dice(&state) % 200000; spin; spin--)
            continue;
        cr_assert_eq(kill(pid, SIGKILL), 0);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFSIGNALED(status), "the writer ended by itself");
        while (read(ends[0], &last, sizeof last) == (ssize_t)sizeof last)
            cr_assert_eq(last, next++);
        close(ends[0]);

        struct kernels_db *db = open_db();
        for (; acknowledged < next; acknowledged++) {
            sample_init(&sample, acknowledged);
            cr_assert(has_sample(db, "uid:1", &sample), "acknowledged kernel %u is lost", acknowledged);
        }
        cr_assert_eq(stats_of(db).corrupt_rows, 0);
        kernels_db_close(db);
    }
    struct kernels_db *db = open_db();
    for (unsigned seed = 0; seed < next; seed++) {
        sample_init(&sample, seed);
        cr_assert(has_sample(db, "uid:1", &sample), "kernel %u of an earlier cycle is lost", seed);
    }
    sqlite3 *sqlite = sqlite_open();
    cr_assert_str_eq(sqlite_text(sqlite, "PRAGMA integrity_check"), "ok");
    sqlite3_close(sqlite);
    kernels_db_close(db);
}
