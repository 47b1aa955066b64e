#include "kernels_db/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels_db/migrations.h"

/* Nobody else should hold the file; a person with a shell on it may, for a moment. */
#define BUSY_MS 1000
/* Image and PTX share a row. */
#define ROW_LIMIT (2 * (int)LIMIT_IMAGE + (1 << 20))

static const char *const statement_texts[STATEMENT_COUNT] = {
#define STATEMENT(name, sql) sql,
#include "kernels_db/statements.def"
#undef STATEMENT
};

/* ---- errors ---- */

static bool means_damaged(int code)
{
    int primary = code & 0xff;
    /* Rows are deleted before they are inserted, so a duplicate means that an index and its table disagree. */
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || code == SQLITE_CONSTRAINT_PRIMARYKEY;
}

int connection_fail(struct kernels_db *db, int code, const char *what, struct error *error)
{
    const char *reason = sqlite3_errstr(code);
    if (db->sqlite && sqlite3_extended_errcode(db->sqlite) == code)
        reason = sqlite3_errmsg(db->sqlite);
    if (code == SQLITE_READONLY_DIRECTORY) /* SQLite's own sentence blames the file */
        reason = "its folder is read-only";
    db->errors++;
    if (means_damaged(code))
        db->damaged = true;
    return error_set(error, (code & 0xff) == SQLITE_NOMEM ? STATUS_OUT_OF_MEMORY : STATUS_DATABASE,
                     "kernel database %.200s: %s: %.160s (SQLite code %d)%s", db->path, what, reason, code,
                     db->damaged ? "; the file is damaged, the next use starts a new one" : "");
}

/* ---- statements ---- */

sqlite3_stmt *statement_begin(struct kernels_db *db, enum statement statement)
{
    statement_end(db->statements[statement]);
    return db->statements[statement];
}

void statement_end(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
}

int statement_run(sqlite3_stmt *stmt)
{
    int code = sqlite3_step(stmt);
    statement_end(stmt);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

void bind_bytes(sqlite3_stmt *stmt, int position, struct bytes value)
{
    if (value.at)
        sqlite3_bind_blob64(stmt, position, value.at, value.size, SQLITE_STATIC);
    else
        sqlite3_bind_null(stmt, position);
}

void bind_text(sqlite3_stmt *stmt, int position, struct text value)
{
    if (value.at)
        sqlite3_bind_text64(stmt, position, value.at, value.size, SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_bind_null(stmt, position);
}

void bind_digest(sqlite3_stmt *stmt, int position, const uint8_t digest[DIGEST_SIZE])
{
    bind_bytes(stmt, position, (struct bytes){digest, DIGEST_SIZE});
}

struct bytes column_bytes(sqlite3_stmt *stmt, int column)
{
    if (sqlite3_column_type(stmt, column) == SQLITE_NULL)
        return (struct bytes){0};
    const uint8_t *at = sqlite3_column_blob(stmt, column);
    int size = sqlite3_column_bytes(stmt, column);
    /* Empty bytes are present all the same, so they need an address. */
    return at && size > 0 ? (struct bytes){at, (size_t)size} : (struct bytes){(const uint8_t *)"", 0};
}

/* ---- transactions ---- */

int transaction_begin(struct kernels_db *db, struct error *error)
{
    int code = statement_run(statement_begin(db, STATEMENT_BEGIN));
    return code == SQLITE_OK ? 0 : connection_fail(db, code, "beginning a transaction", error);
}

int transaction_end(struct kernels_db *db, bool failed, struct error *error)
{
    if (!failed) {
        int code = statement_run(statement_begin(db, STATEMENT_COMMIT));
        if (code == SQLITE_OK) {
            db->commits++;
            return 0;
        }
        connection_fail(db, code, "committing", error);
    }
    /* SQLite may have rolled back by itself, as it does when the disk is full. */
    if (!sqlite3_get_autocommit(db->sqlite))
        statement_run(statement_begin(db, STATEMENT_ROLLBACK));
    return -1;
}

/* ---- opening ---- */

enum opened {
    OPENED,
    UNUSABLE, /* the content; reason says why */
    FAILED,   /* the file can't be used by us now; error says why */
};

void connection_close(struct kernels_db *db)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    sqlite3_close(db->sqlite);
    db->sqlite = NULL;
}

/* A result code while the file is being opened. */
static enum opened judge(struct kernels_db *db, int code, const char *what, char reason[128], struct error *error)
{
    /* Our SQL fits our schema: where SQLite calls it wrong, the schema is not what user_version says. */
    if (means_damaged(code) || (code & 0xff) == SQLITE_ERROR) {
        snprintf(reason, 128, "it is damaged (%.32s: %.70s)", what, sqlite3_errmsg(db->sqlite));
        return UNUSABLE;
    }
    connection_fail(db, code, what, error);
    return FAILED;
}

/* What kind of file it is, before anything of it is changed. */
static enum opened look(struct kernels_db *db, char reason[128], struct error *error)
{
    int version = 0, code;

    switch (migrations_look(db->sqlite, &version, &code)) {
    case MIGRATIONS_UNKNOWN:
        return judge(db, code, "reading the header", reason, error);
    case MIGRATIONS_NEWER:
        snprintf(reason, 128, "its schema %d is newer than this version's %d", version, migrations_count());
        return UNUSABLE;
    case MIGRATIONS_FOREIGN:
        snprintf(reason, 128, "it is a database of something else");
        return UNUSABLE;
    case MIGRATIONS_CURRENT:
        break;
    }
    /* The file could be opened for writing, so only its own header can have made it read-only. */
    if (sqlite3_db_readonly(db->sqlite, "main")) {
        snprintf(reason, 128, "it is damaged (its header asks for a newer file format)");
        return UNUSABLE;
    }
    return OPENED;
}

static int keep_journal_mode(void *ret, int n, char **values, char **names)
{
    if (n == 1 && values[0] && !strcmp(names[0], "journal_mode"))
        snprintf(ret, 16, "%s", values[0]);
    return 0;
}

/* Settings of the connection, and those of the file that only count before its first table. */
static enum opened set_pragmas(struct kernels_db *db, char reason[128], struct error *error)
{
    char sql[256], journal[16] = "";

    sqlite3_limit(db->sqlite, SQLITE_LIMIT_LENGTH, ROW_LIMIT);
    sqlite3_limit(db->sqlite, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    snprintf(sql, sizeof sql,
             "PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
             "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON",
             MIGRATIONS_PAGE_SIZE);
    int code = sqlite3_exec(db->sqlite, sql, keep_journal_mode, journal, NULL);
    if (code != SQLITE_OK)
        return judge(db, code, "setting it up", reason, error);
    if (strcmp(journal, "wal") != 0) {
        error_set(
            error, STATUS_DATABASE,
            "kernel database %.200s: the journal mode is \"%s\"; the file system does not allow write-ahead logging",
            db->path, journal);
        return FAILED;
    }
    return OPENED;
}

static enum opened prepare_all(struct kernels_db *db, char reason[128], struct error *error)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        int code =
            sqlite3_prepare_v3(db->sqlite, statement_texts[i], -1, SQLITE_PREPARE_PERSISTENT, &db->statements[i], NULL);
        if (code != SQLITE_OK)
            return judge(db, code, "preparing statements", reason, error);
    }
    return OPENED;
}

static enum opened open_sqlite(struct kernels_db *db, char reason[128], struct error *error)
{
    int code = sqlite3_open_v2(db->path, &db->sqlite,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK)
        return judge(db, code, "opening", reason, error);
    sqlite3_busy_timeout(db->sqlite, BUSY_MS);
    enum opened opened = look(db, reason, error);
    if (opened == OPENED)
        opened = set_pragmas(db, reason, error);
    if (opened != OPENED)
        return opened;
    code = migrations_apply(db->sqlite);
    if (code != SQLITE_OK)
        return judge(db, code, "bringing the schema up to date", reason, error);
    return prepare_all(db, reason, error);
}

/* SQLite would create the file for everybody to read. Its companions take over the file's mode. */
static int create_file(struct kernels_db *db, struct error *error)
{
    int fd = open(db->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        db->errors++;
        return error_set_errno(error, STATUS_DATABASE, errno, "kernel database %.200s can't be opened for writing",
                               db->path);
    }
    close(fd);
    return 0;
}

static enum opened try_open(struct kernels_db *db, char reason[128], struct error *error)
{
    if (create_file(db, error) < 0)
        return FAILED;
    enum opened opened = open_sqlite(db, reason, error);
    if (opened != OPENED)
        connection_close(db);
    return opened;
}

/* ---- moving an unusable file aside ---- */

/* The log goes first: a log left beside a new file would be replayed into it. */
static const char *const companions[] = {"-wal", "-shm", ""};

static int move_aside(struct kernels_db *db, const char *reason, char ret_notice[512], struct error *error)
{
    char aside[PATH_MAX], from[PATH_MAX + 8], to[PATH_MAX + 8];
    long long now = (long long)time(NULL);

    for (int n = 1;; n++) { /* a second one within the same second gets a number */
        int size = n == 1 ? snprintf(aside, sizeof aside, "%s.damaged-%lld", db->path, now)
                          : snprintf(aside, sizeof aside, "%s.damaged-%lld-%d", db->path, now, n);
        if (size < 0 || (size_t)size >= sizeof aside)
            return error_set(error, STATUS_DATABASE, "kernel database %.200s: the path is too long", db->path);
        if (access(aside, F_OK) < 0)
            break;
    }
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++) {
        snprintf(from, sizeof from, "%s%s", db->path, companions[i]);
        snprintf(to, sizeof to, "%s%s", aside, companions[i]);
        if (rename(from, to) < 0 && errno != ENOENT) {
            db->errors++;
            return error_set_errno(error, STATUS_DATABASE, errno,
                                   "kernel database %.200s: %s, and it can't be moved aside", db->path, reason);
        }
    }
    if (ret_notice)
        snprintf(ret_notice, 512,
                 "The kernel database %.150s can't be used: %s. It is now %.150s, and a new one was started.", db->path,
                 reason, aside);
    return 0;
}

int connection_open(struct kernels_db *db, char ret_notice[512], struct error *error)
{
    char reason[128] = "";

    db->damaged = false;
    enum opened opened = try_open(db, reason, error);
    if (opened == UNUSABLE) {
        if (move_aside(db, reason, ret_notice, error) < 0)
            return -1;
        opened = try_open(db, reason, error);
        if (opened == UNUSABLE)
            return error_set(error, STATUS_DATABASE, "kernel database %.200s was just created, but %s", db->path,
                             reason);
    }
    return opened == OPENED ? 0 : -1;
}

int connection_ready(struct kernels_db *db, struct error *error)
{
    if (db->sqlite && !db->damaged)
        return 0;
    connection_close(db);
    if (db->damaged && move_aside(db, "it is damaged", NULL, error) < 0)
        return -1;
    return connection_open(db, NULL, error);
}
