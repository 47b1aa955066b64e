/* Getting kernels out of the database. Nothing that the file holds is believed before its hash was checked. */
#include <string.h>

#include "kernels_db/connection.h"
#include "kernels_db/kernel_row.h"
#include "kernels_db/source_text.h"
#include "proto/scan.h"

/* What came of a row. */
enum found {
    FOUND,
    ABSENT,
    CORRUPT, /* not what was stored */
    BROKEN,  /* could not be looked at; error says why */
};

/* The columns of GET_KERNEL, borrowed from the statement. */
struct stored {
    struct kernel_row row;
    struct bytes hash;
    struct bytes code, log; /* packed */
    struct bytes bad_text;  /* the digest of a text that is not what was stored */
};

static struct text column_text(sqlite3_stmt *stmt, int column)
{
    struct bytes bytes = column_bytes(stmt, column);
    return (struct text){(const char *)bytes.at, bytes.size};
}

static struct column_number column_number(sqlite3_stmt *stmt, int column)
{
    return (struct column_number){sqlite3_column_int64(stmt, column), sqlite3_column_type(stmt, column) != SQLITE_NULL};
}

static void read_columns(sqlite3_stmt *stmt, struct text name_space, const uint8_t *key, struct stored *ret)
{
    *ret = (struct stored){
        .row =
            {
                .name_space = name_space,
                .key = {key, DIGEST_SIZE},
                .label = column_text(stmt, 0),
                .target = column_text(stmt, 1),
                .entry = column_text(stmt, 2),
                .index_type = column_number(stmt, 3),
                .max_registers = column_number(stmt, 4),
                .image_size = column_number(stmt, 5),
                .created = column_number(stmt, 6),
                .compile_ns = column_number(stmt, 7),
                .code = column_bytes(stmt, 8),
                .log = column_bytes(stmt, 9),
                .header_set = column_bytes(stmt, 10),
                .meta = column_bytes(stmt, 12),
                .image = column_bytes(stmt, 13),
                .ptx = column_bytes(stmt, 14),
            },
        .hash = column_bytes(stmt, 11),
        .code = column_bytes(stmt, 15),
        .log = column_bytes(stmt, 16),
    };
}

/* ---- from the row to the kernel ---- */

static enum found no_memory(struct error *error)
{
    error_set(error, STATUS_OUT_OF_MEMORY, "no memory to read a kernel");
    return BROKEN;
}

static bool copy_bytes(struct bytes bytes, msgpack_zone *zone, struct bytes *ret)
{
    *ret = bytes;
    if (!bytes.at)
        return true;
    uint8_t *copy = msgpack_zone_malloc(zone, bytes.size + 1);
    if (!copy)
        return false;
    memcpy(copy, bytes.at, bytes.size);
    ret->at = copy;
    return true;
}

static enum found decode_meta(const struct kernel_row *row, msgpack_zone *zone, struct kernel *ret, struct error *error)
{
    struct bytes meta;
    struct error why;

    if (!copy_bytes(row->meta, zone, &meta))
        return no_memory(error);
    if (!meta.at || scan(meta.at, meta.size, &why) < 0)
        return CORRUPT;
    if (message_parse(&kernel_type, meta.at, meta.size, zone, ret, &why) < 0)
        return why.code == STATUS_OUT_OF_MEMORY ? no_memory(error) : CORRUPT;
    *ret = kernel_meta(ret);
    if (memcmp(ret->key, row->key.at, DIGEST_SIZE) != 0 || !row->image.at || ret->image_size != row->image.size ||
        (row->ptx.at && ret->has_ptx_size && ret->ptx_size != row->ptx.size))
        return CORRUPT;
    return FOUND;
}

static enum found decode_text(struct kernels_db *db, struct bytes packed, struct bytes digest, const char *field,
                              msgpack_zone *zone, struct text *ret, struct error *error)
{
    if (!digest.at)
        return FOUND; /* the kernel has none */
    switch (source_text_unpack(db, packed, digest, kernel_limit(field), zone, ret, error)) {
    case 1:
        return FOUND;
    case 0:
        return CORRUPT;
    default:
        return BROKEN;
    }
}

static enum found decode_texts(struct kernels_db *db, struct stored *stored, msgpack_zone *zone, struct kernel *ret,
                               struct error *error)
{
    enum found found = decode_text(db, stored->code, stored->row.code, "code", zone, &ret->code, error);
    if (found == CORRUPT)
        stored->bad_text = stored->row.code;
    if (found != FOUND)
        return found;
    found = decode_text(db, stored->log, stored->row.log, "log", zone, &ret->log, error);
    if (found == CORRUPT)
        stored->bad_text = stored->row.log;
    return found;
}

static enum found decode(struct kernels_db *db, struct stored *stored, msgpack_zone *zone, struct kernel *ret,
                         struct error *error)
{
    const struct kernel_row *row = &stored->row;
    uint8_t hash[DIGEST_SIZE];

    kernel_row_hash(row, hash);
    if (stored->hash.size != DIGEST_SIZE || memcmp(hash, stored->hash.at, DIGEST_SIZE) != 0)
        return CORRUPT;
    enum found found = decode_meta(row, zone, ret, error);
    if (found == FOUND)
        found = decode_texts(db, stored, zone, ret, error);
    if (found == FOUND && (!copy_bytes(row->image, zone, &ret->image) || !copy_bytes(row->ptx, zone, &ret->ptx)))
        return no_memory(error);
    return found;
}

/* ---- corrupt rows ---- */

/* What to delete for a corrupt kernel: kept apart from the statement, which must end before. */
struct doomed {
    struct text name_space;
    const uint8_t *key;
    bool has_text;
    uint8_t text[DIGEST_SIZE];
};

/* A bad text goes even if other kernels name it: as long as it is there, no new row would bring a good one. Those
 * others miss once and are compiled again. */
static struct doomed doom(const struct stored *stored)
{
    struct doomed doomed = {.name_space = stored->row.name_space, .key = stored->row.key.at};
    if (stored->bad_text.size == DIGEST_SIZE) {
        doomed.has_text = true;
        memcpy(doomed.text, stored->bad_text.at, DIGEST_SIZE);
    }
    return doomed;
}

/* A failure is counted, and the row stays corrupt: it will be found so again. */
static void delete_doomed(struct kernels_db *db, const struct doomed *doomed)
{
    int code = SQLITE_OK;

    db->corrupt_rows++;
    if (transaction_begin(db, NULL) < 0)
        return;
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_DELETE_KERNEL);
    bind_text(stmt, 1, doomed->name_space);
    bind_digest(stmt, 2, doomed->key);
    code = statement_run(stmt);
    if (code == SQLITE_OK && doomed->has_text) {
        stmt = statement_begin(db, STATEMENT_DELETE_SOURCE);
        bind_digest(stmt, 1, doomed->text);
        code = statement_run(stmt);
    }
    if (code != SQLITE_OK)
        connection_fail(db, code, "deleting a corrupt kernel", NULL);
    transaction_end(db, code != SQLITE_OK, NULL);
}

/* ---- get ---- */

static enum found find(struct kernels_db *db, struct text name_space, const uint8_t key[DIGEST_SIZE],
                       msgpack_zone *zone, struct kernel *ret, struct error *error)
{
    struct stored stored;
    struct doomed doomed;
    struct kernel kernel;

    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_GET_KERNEL);
    bind_text(stmt, 1, name_space);
    bind_digest(stmt, 2, key);
    int code = sqlite3_step(stmt);
    if (code != SQLITE_ROW) {
        statement_end(stmt);
        if (code == SQLITE_DONE)
            return ABSENT;
        connection_fail(db, code, "reading a kernel", error);
        return BROKEN;
    }
    read_columns(stmt, name_space, key, &stored);
    enum found found = decode(db, &stored, zone, &kernel, error);
    if (found == CORRUPT)
        doomed = doom(&stored);
    statement_end(stmt);
    if (found == CORRUPT)
        delete_doomed(db, &doomed);
    if (found == FOUND)
        *ret = kernel;
    return found;
}

int kernels_db_get(struct kernels_db *db, const char *name_space, const uint8_t key[DIGEST_SIZE], msgpack_zone *zone,
                   struct kernel *ret, struct error *error)
{
    if (connection_ready(db, error) < 0)
        return -1;
    enum found found = find(db, text_of(name_space), key, zone, ret, error);
    if (found != FOUND && found != BROKEN && strcmp(name_space, "shared") != 0)
        found = find(db, TEXT_OF("shared"), key, zone, ret, error);
    if (found == BROKEN)
        return -1;
    return found == FOUND ? 1 : 0;
}
