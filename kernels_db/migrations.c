#include "kernels_db/migrations.h"

#include <stddef.h>
#include <stdio.h>

/*
 * To add a step: append it, never change an earlier one, and describe the result in docs/kernels-db.md.
 *
 * A text (code, log, a header) is stored once for all rows that name its digest, and goes with the last of them; so do
 * header sets, which many kernels share. Triggers hold that rule, so that no way of deleting a row can forget it.
 * `tally` keeps the sums that would otherwise need a walk through all rows.
 */
static const char *const steps[] = {
    /* 1 */
    "CREATE TABLE kernel ("
    "    namespace TEXT NOT NULL,"
    "    key BLOB NOT NULL,"
    "    label TEXT,"
    "    target TEXT NOT NULL,"
    "    entry TEXT,"
    "    index_type INTEGER,"
    "    max_registers INTEGER,"
    "    image_size INTEGER NOT NULL,"
    "    created INTEGER NOT NULL,"
    "    last_used INTEGER,"
    "    compile_ns INTEGER,"
    "    code BLOB,"
    "    log BLOB,"
    "    header_set BLOB,"
    "    hash BLOB NOT NULL,"
    "    meta BLOB NOT NULL,"
    "    PRIMARY KEY (namespace, key)"
    ") STRICT;"
    "CREATE INDEX kernel_code ON kernel (code) WHERE code IS NOT NULL;"
    "CREATE INDEX kernel_log ON kernel (log) WHERE log IS NOT NULL;"
    "CREATE INDEX kernel_header_set ON kernel (header_set) WHERE header_set IS NOT NULL;"

    "CREATE TABLE image ("
    "    namespace TEXT NOT NULL,"
    "    key BLOB NOT NULL,"
    "    image BLOB NOT NULL,"
    "    ptx BLOB,"
    "    PRIMARY KEY (namespace, key)"
    ") STRICT;"

    "CREATE TABLE source ("
    "    digest BLOB NOT NULL PRIMARY KEY,"
    "    packed BLOB NOT NULL"
    ") STRICT;"

    "CREATE TABLE header_set ("
    "    digest BLOB NOT NULL,"
    "    source BLOB NOT NULL,"
    "    PRIMARY KEY (digest, source)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX header_set_source ON header_set (source);"

    "CREATE TABLE tally (kernels INTEGER NOT NULL, image_bytes INTEGER NOT NULL) STRICT;"
    "INSERT INTO tally VALUES (0, 0);"

    "CREATE TRIGGER kernel_deleted AFTER DELETE ON kernel BEGIN"
    "    DELETE FROM image WHERE namespace = OLD.namespace AND key = OLD.key;"
    "    DELETE FROM header_set WHERE digest = OLD.header_set"
    "        AND NOT EXISTS (SELECT 1 FROM kernel WHERE header_set = OLD.header_set);"
    "    DELETE FROM source WHERE digest IN (OLD.code, OLD.log)"
    "        AND NOT EXISTS (SELECT 1 FROM kernel WHERE code = source.digest)"
    "        AND NOT EXISTS (SELECT 1 FROM kernel WHERE log = source.digest)"
    "        AND NOT EXISTS (SELECT 1 FROM header_set WHERE header_set.source = source.digest);"
    "END;"
    "CREATE TRIGGER header_set_deleted AFTER DELETE ON header_set BEGIN"
    "    DELETE FROM source WHERE digest = OLD.source"
    "        AND NOT EXISTS (SELECT 1 FROM kernel WHERE code = OLD.source)"
    "        AND NOT EXISTS (SELECT 1 FROM kernel WHERE log = OLD.source)"
    "        AND NOT EXISTS (SELECT 1 FROM header_set WHERE header_set.source = OLD.source);"
    "END;"
    "CREATE TRIGGER image_inserted AFTER INSERT ON image BEGIN"
    "    UPDATE tally SET kernels = kernels + 1,"
    "        image_bytes = image_bytes + length(NEW.image) + coalesce(length(NEW.ptx), 0);"
    "END;"
    "CREATE TRIGGER image_deleted AFTER DELETE ON image BEGIN"
    "    UPDATE tally SET kernels = kernels - 1,"
    "        image_bytes = image_bytes - length(OLD.image) - coalesce(length(OLD.ptx), 0);"
    "END;",
    /* 2 */
    "CREATE INDEX kernel_label ON kernel (label) WHERE label IS NOT NULL;",
};

#define STEPS ((int)(sizeof steps / sizeof steps[0]))

int migrations_count(void)
{
    return STEPS;
}

static int read_number(sqlite3 *sqlite, const char *sql, int *ret)
{
    sqlite3_stmt *stmt;
    int code = sqlite3_prepare_v2(sqlite, sql, -1, &stmt, NULL);
    if (code != SQLITE_OK)
        return code;
    code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        *ret = sqlite3_column_int(stmt, 0);
    int finished = sqlite3_finalize(stmt);
    return code == SQLITE_ROW ? SQLITE_OK : finished;
}

enum migrations_state migrations_look(sqlite3 *sqlite, int *ret_version, int *ret_code)
{
    int application = 0, version = 0, tables = 0;

    int code = read_number(sqlite, "PRAGMA application_id", &application);
    if (code == SQLITE_OK)
        code = read_number(sqlite, "PRAGMA user_version", &version);
    if (code == SQLITE_OK)
        code = read_number(sqlite, "SELECT count(*) FROM sqlite_schema", &tables);
    *ret_code = code;
    if (code != SQLITE_OK)
        return MIGRATIONS_UNKNOWN;
    *ret_version = version;
    if (application == 0 && version == 0 && tables == 0)
        return MIGRATIONS_CURRENT; /* an empty file */
    if (application != MIGRATIONS_APPLICATION_ID || version < 1)
        return MIGRATIONS_FOREIGN;
    return version > STEPS ? MIGRATIONS_NEWER : MIGRATIONS_CURRENT;
}

static int run_steps(sqlite3 *sqlite, int from)
{
    char sql[96];

    for (int i = from; i < STEPS; i++) {
        int code = sqlite3_exec(sqlite, steps[i], NULL, NULL, NULL);
        if (code != SQLITE_OK)
            return code;
    }
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", MIGRATIONS_APPLICATION_ID, STEPS);
    return sqlite3_exec(sqlite, sql, NULL, NULL, NULL);
}

int migrations_apply(sqlite3 *sqlite)
{
    int version = 0;
    int code = read_number(sqlite, "PRAGMA user_version", &version);
    if (code != SQLITE_OK || version == STEPS)
        return code;
    code = sqlite3_exec(sqlite, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return code;
    code = run_steps(sqlite, version);
    if (code == SQLITE_OK)
        code = sqlite3_exec(sqlite, "COMMIT", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        sqlite3_exec(sqlite, "ROLLBACK", NULL, NULL, NULL);
    return code;
}
