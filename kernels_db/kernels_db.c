#include "kernels_db/kernels_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "kernels_db/connection.h"

int kernels_db_open(const char *directory, struct kernels_db **ret, char *ret_notice, struct error *error)
{
    char notice[512] = "";
    struct kernels_db *db = calloc(1, sizeof *db);
    if (!db)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to open a kernel database");

    int size = snprintf(db->path, sizeof db->path, "%s/kernels.db", directory);
    if (size < 0 || (size_t)size >= sizeof db->path - 64) {
        error_set(error, STATUS_DATABASE, "kernel database %.200s…: the path is too long", directory);
        goto fail;
    }
    db->compressor = ZSTD_createCCtx();
    db->decompressor = ZSTD_createDCtx();
    if (!db->compressor || !db->decompressor) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory to open a kernel database");
        goto fail;
    }
    if (connection_open(db, notice, error) < 0)
        goto fail;
    if (ret_notice)
        snprintf(ret_notice, sizeof notice, "%s", notice);
    *ret = db;
    return 0;

fail:
    kernels_db_close(db);
    return -1;
}

void kernels_db_close(struct kernels_db *db)
{
    if (!db)
        return;
    connection_close(db); /* the last connection to leave checkpoints */
    ZSTD_freeCCtx(db->compressor);
    ZSTD_freeDCtx(db->decompressor);
    free(db);
}

static uint64_t size_of_file(const char *path, const char *suffix)
{
    char name[PATH_MAX + 8];
    struct stat status;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &status) == 0 ? (uint64_t)status.st_size : 0;
}

int kernels_db_read_stats(struct kernels_db *db, struct kernels_db_stats *ret, struct error *error)
{
    if (connection_ready(db, error) < 0)
        return -1;
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_TALLY);
    int code = sqlite3_step(stmt);
    if (code != SQLITE_ROW) {
        statement_end(stmt);
        return connection_fail(db, code == SQLITE_DONE ? SQLITE_CORRUPT : code, "reading the tally", error);
    }
    *ret = (struct kernels_db_stats){
        .kernels = (uint64_t)sqlite3_column_int64(stmt, 0),
        .image_bytes = (uint64_t)sqlite3_column_int64(stmt, 1),
        .file_bytes = size_of_file(db->path, "") + size_of_file(db->path, "-wal"),
        .commits = db->commits,
        .errors = db->errors,
        .corrupt_rows = db->corrupt_rows,
    };
    statement_end(stmt);
    return 0;
}
