/* Which kernels are near one that is not there. Three indexed questions, each bounded. */
#include <string.h>

#include "kernels_db/connection.h"
#include "kernels_db/kernel_row.h"
#include "proto/scan.h"

#define NEAR_EACH (KERNELS_DB_NEAR / 3)

struct near {
    struct kernels_db_near *at;
    size_t n;
};

static bool is_known(const struct near *near, const uint8_t *key)
{
    for (size_t i = 0; i < near->n; i++)
        if (memcmp(near->at[i].kernel.key, key, DIGEST_SIZE) == 0)
            return true;
    return false;
}

/* A row that cannot be right is left out: its next get deals with it. -1 when memory ran out. */
static int read_row(sqlite3_stmt *stmt, enum kinship kinship, msgpack_zone *zone, struct near *near)
{
    struct bytes key = column_bytes(stmt, 0), code = column_bytes(stmt, 1), meta = column_bytes(stmt, 2);
    struct kernels_db_near *ret = &near->at[near->n];
    struct error why = {0};
    if (key.size != DIGEST_SIZE || !meta.at || is_known(near, key.at) || scan(meta.at, meta.size, &why) < 0)
        return 0;
    uint8_t *copy = msgpack_zone_malloc(zone, meta.size + 1);
    if (!copy)
        return -1;
    memcpy(copy, meta.at, meta.size);
    *ret = (struct kernels_db_near){.kinship = kinship, .has_code = code.size == DIGEST_SIZE};
    if (message_parse(&kernel_type, copy, meta.size, zone, &ret->kernel, &why) < 0)
        return why.code == STATUS_OUT_OF_MEMORY ? -1 : 0;
    ret->kernel = kernel_meta(&ret->kernel);
    if (memcmp(ret->kernel.key, key.at, DIGEST_SIZE) != 0)
        return 0;
    if (ret->has_code)
        memcpy(ret->code, code.at, DIGEST_SIZE);
    near->n++;
    return 0;
}

/* The statement is bound but for the namespace and the limit. */
static int ask(struct kernels_db *db, sqlite3_stmt *stmt, const char *name_space, enum kinship kinship,
               msgpack_zone *zone, struct near *near, struct error *error)
{
    int code, status = 0;
    bind_text(stmt, 1, text_of(name_space));
    sqlite3_bind_int64(stmt, 3, NEAR_EACH);
    while (status == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
        if (read_row(stmt, kinship, zone, near) < 0)
            status = error_set(error, STATUS_OUT_OF_MEMORY, "no memory to look for kernels that are near");
    if (status == 0 && code != SQLITE_DONE)
        status = connection_fail(db, code, "looking for kernels that are near", error);
    statement_end(stmt);
    return status;
}

/* 1, 0 or -1. */
static int has_key(struct kernels_db *db, const char *name_space, const uint8_t *key, struct error *error)
{
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_HAS_KERNEL);
    bind_text(stmt, 1, text_of(name_space));
    bind_digest(stmt, 2, key);
    int code = sqlite3_step(stmt);
    statement_end(stmt);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return connection_fail(db, code, "looking for a kernel", error);
    return code == SQLITE_ROW;
}

static void header_set_of(const struct kernels_db_wish *wish, struct header_digest *headers, uint8_t ret[DIGEST_SIZE])
{
    struct kernel kernel = {.headers = headers, .n_headers = wish->n_headers};
    for (size_t i = 0; i < wish->n_headers; i++)
        memcpy(headers[i].digest, wish->header_digests[i], DIGEST_SIZE);
    kernel_header_set(&kernel, ret);
}

int kernels_db_near(struct kernels_db *db, const char *name_space, const struct kernels_db_wish *wish,
                    msgpack_zone *zone, struct kernels_db_near *ret, size_t *ret_n, struct error *error)
{
    struct near near = {ret, 0};
    uint8_t set[DIGEST_SIZE];
    if (connection_ready(db, error) < 0)
        return -1;
    int found = has_key(db, name_space, wish->key, error);
    if (found != 0)
        return found;
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_NEAR_CODE);
    bind_digest(stmt, 2, wish->code);
    if (ask(db, stmt, name_space, KINSHIP_CODE, zone, &near, error) < 0)
        return -1;
    if (wish->label.size) {
        stmt = statement_begin(db, STATEMENT_NEAR_LABEL);
        bind_text(stmt, 2, wish->label);
        if (ask(db, stmt, name_space, KINSHIP_LABEL, zone, &near, error) < 0)
            return -1;
    }
    if (wish->n_headers) {
        struct header_digest *headers = msgpack_zone_malloc(zone, wish->n_headers * sizeof *headers);
        if (!headers)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to look for kernels that are near");
        header_set_of(wish, headers, set);
        stmt = statement_begin(db, STATEMENT_NEAR_HEADERS);
        bind_digest(stmt, 2, set);
        if (ask(db, stmt, name_space, KINSHIP_HEADERS, zone, &near, error) < 0)
            return -1;
    }
    *ret_n = near.n;
    return 0;
}
