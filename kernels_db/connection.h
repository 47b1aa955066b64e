/* The connection behind a kernels_db: its file, pragmas and statements, and SQLite's result codes as errors. */
#ifndef KERNELS_DB_CONNECTION_H
#define KERNELS_DB_CONNECTION_H

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <zstd.h>

#include "kernels_db/kernels_db.h"

enum statement {
#define STATEMENT(name, sql) STATEMENT_##name,
#include "kernels_db/statements.def"
#undef STATEMENT
    STATEMENT_COUNT,
};

/* Owner: whoever called kernels_db_open. sqlite == NULL: the last attempt to start a new file failed. */
struct kernels_db {
    char path[PATH_MAX];
    sqlite3 *sqlite;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    ZSTD_CCtx *compressor;
    ZSTD_DCtx *decompressor;
    bool damaged; /* a call found the file so: the next one moves it aside */
    uint64_t commits, errors, corrupt_rows;
};

/* Open db->path, moving an unusable file aside. Contract of kernels_db_open. */
int connection_open(struct kernels_db *db, char ret_notice[512], struct error *error);
void connection_close(struct kernels_db *db);

/* To be called first by everything that uses the file: starts a new one when the present one was found damaged. */
int connection_ready(struct kernels_db *db, struct error *error);

/* Count a failed SQLite call, note a damaged file, and fill the error: "kernel database <path>: <what>: <why>". -1. */
int connection_fail(struct kernels_db *db, int code, const char *what, struct error *error);

/* A statement without bindings, ready to run. */
sqlite3_stmt *statement_begin(struct kernels_db *db, enum statement statement);
/* Let go of what it holds: the read transaction, and borrowed bindings. */
void statement_end(sqlite3_stmt *stmt);
/* Run one that returns no rows, and end it. An SQLite result code, SQLITE_OK when it ran. */
int statement_run(sqlite3_stmt *stmt);

/* Bindings are borrowed until the statement ends, so they can't fail for want of memory, and what is bound was checked
 * to be within its limits. Absent values are NULL. */
void bind_text(sqlite3_stmt *stmt, int position, struct text value);
void bind_bytes(sqlite3_stmt *stmt, int position, struct bytes value);
void bind_digest(sqlite3_stmt *stmt, int position, const uint8_t digest[DIGEST_SIZE]);

/* A column of text or bytes, borrowed until the statement's next step; absent for NULL. */
struct bytes column_bytes(sqlite3_stmt *stmt, int column);

/* One write transaction. Begin: -1 on failure. End: commits, or rolls back when `failed`; 0 only if it committed. */
int transaction_begin(struct kernels_db *db, struct error *error);
int transaction_end(struct kernels_db *db, bool failed, struct error *error);

#endif
