/* Putting kernels into the database. */
#include <stdlib.h>
#include <string.h>

#include "kernels_db/connection.h"
#include "kernels_db/kernel_key.h"
#include "kernels_db/kernel_row.h"
#include "kernels_db/source_text.h"
#include "proto/scan.h"

/* ---- texts ---- */

static struct bytes bytes_of(struct text text)
{
    return (struct bytes){(const uint8_t *)text.at, text.size};
}

/* Store a text of the kernel, if it has it: its digest goes to `digest`, *ret borrows it. */
static int put_text(struct kernels_db *db, struct text text, uint8_t digest[DIGEST_SIZE], struct bytes *ret,
                    struct error *error)
{
    *ret = (struct bytes){0};
    if (!text.at)
        return 0;
    digest_of(text.at, text.size, digest);
    if (source_text_put(db, bytes_of(text), digest, error) < 0)
        return -1;
    *ret = (struct bytes){digest, DIGEST_SIZE};
    return 0;
}

static int put_header(struct kernels_db *db, const uint8_t set[DIGEST_SIZE], const struct header_digest *header,
                      struct bytes text, struct error *error)
{
    uint8_t digest[DIGEST_SIZE];

    if (!text.at || text.size > LIMIT_BLOB)
        return error_set(error, STATUS_INTERNAL, "a kernel to be stored: header %.*s: %zu bytes are not 0 to %u",
                         (int)header->name.size, header->name.at ? header->name.at : "", text.size, LIMIT_BLOB);
    digest_of(text.at, text.size, digest);
    if (memcmp(digest, header->digest, DIGEST_SIZE) != 0)
        return error_set(error, STATUS_INTERNAL,
                         "a kernel to be stored: header %.*s: the text does not have its digest",
                         (int)header->name.size, header->name.at ? header->name.at : "");
    if (source_text_put(db, text, digest, error) < 0)
        return -1;
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_PUT_HEADER_SET);
    bind_digest(stmt, 1, set);
    bind_digest(stmt, 2, digest);
    int code = statement_run(stmt);
    return code == SQLITE_OK ? 0 : connection_fail(db, code, "storing a header set", error);
}

/* Many kernels share one set of headers, which can have thousands: a known set costs one look. */
static int put_headers(struct kernels_db *db, const struct kernels_db_row *row, uint8_t digest[DIGEST_SIZE],
                       struct bytes *ret, struct error *error)
{
    const struct kernel *kernel = row->kernel;

    *ret = (struct bytes){0};
    if (!kernel->n_headers)
        return 0;
    if (!row->header_texts)
        return error_set(error, STATUS_INTERNAL, "a kernel to be stored: %zu headers without their texts",
                         kernel->n_headers);
    kernel_header_set(kernel, digest);
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_HAS_HEADER_SET);
    bind_digest(stmt, 1, digest);
    int code = sqlite3_step(stmt);
    statement_end(stmt);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return connection_fail(db, code, "looking for a header set", error);
    for (size_t i = 0; code == SQLITE_DONE && i < kernel->n_headers; i++)
        if (put_header(db, digest, &kernel->headers[i], row->header_texts[i], error) < 0)
            return -1;
    *ret = (struct bytes){digest, DIGEST_SIZE};
    return 0;
}

/* ---- the row ---- */

/* Pack the metadata, and refuse now what could not be read back later. */
static int pack_meta(const struct kernel *kernel, msgpack_sbuffer *out, struct error *error)
{
    struct kernel meta = kernel_meta(kernel), back;
    msgpack_zone *zone = msgpack_zone_new(8192);
    int result = -1;

    if (!zone)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to store a kernel");
    if (message_pack(&kernel_type, &meta, out) < 0)
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory to store a kernel");
    else if (scan((const uint8_t *)out->data, out->size, error) < 0 ||
             message_parse(&kernel_type, (const uint8_t *)out->data, out->size, zone, &back, error) < 0)
        error_wrap(error, "a kernel to be stored");
    else
        result = 0;
    msgpack_zone_free(zone);
    return result;
}

static void bind_number(sqlite3_stmt *stmt, int position, struct column_number number)
{
    if (number.has)
        sqlite3_bind_int64(stmt, position, number.value);
    else
        sqlite3_bind_null(stmt, position);
}

static int delete_row(struct kernels_db *db, const struct kernel_row *row, enum statement statement)
{
    sqlite3_stmt *stmt = statement_begin(db, statement);
    bind_text(stmt, 1, row->name_space);
    bind_bytes(stmt, 2, row->key);
    return statement_run(stmt);
}

static int insert_row(struct kernels_db *db, const struct kernel_row *row)
{
    uint8_t hash[DIGEST_SIZE];
    kernel_row_hash(row, hash);

    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_PUT_KERNEL);
    bind_text(stmt, 1, row->name_space);
    bind_bytes(stmt, 2, row->key);
    bind_text(stmt, 3, row->label);
    bind_text(stmt, 4, row->target);
    bind_text(stmt, 5, row->entry);
    bind_number(stmt, 6, row->index_type);
    bind_number(stmt, 7, row->max_registers);
    bind_number(stmt, 8, row->image_size);
    bind_number(stmt, 9, row->created);
    bind_number(stmt, 10, row->compile_ns);
    bind_bytes(stmt, 11, row->code);
    bind_bytes(stmt, 12, row->log);
    bind_bytes(stmt, 13, row->header_set);
    bind_digest(stmt, 14, hash);
    bind_bytes(stmt, 15, row->meta);
    int code = statement_run(stmt);
    if (code != SQLITE_OK)
        return code;

    stmt = statement_begin(db, STATEMENT_PUT_IMAGE);
    bind_text(stmt, 1, row->name_space);
    bind_bytes(stmt, 2, row->key);
    bind_bytes(stmt, 3, row->image);
    bind_bytes(stmt, 4, row->ptx);
    return statement_run(stmt);
}

/* An earlier row goes first, and with it the texts that only it used. An image without a row can be left of damage. */
static int replace_row(struct kernels_db *db, const struct kernels_db_row *put, struct kernel_row *row,
                       struct error *error)
{
    uint8_t code_digest[DIGEST_SIZE], log_digest[DIGEST_SIZE], set_digest[DIGEST_SIZE];

    int code = delete_row(db, row, STATEMENT_DELETE_KERNEL);
    if (code == SQLITE_OK)
        code = delete_row(db, row, STATEMENT_DELETE_IMAGE);
    if (code != SQLITE_OK)
        return connection_fail(db, code, "replacing a kernel", error);
    if (put_text(db, put->kernel->code, code_digest, &row->code, error) < 0 ||
        put_text(db, put->kernel->log, log_digest, &row->log, error) < 0 ||
        put_headers(db, put, set_digest, &row->header_set, error) < 0)
        return -1;
    code = insert_row(db, row);
    return code == SQLITE_OK ? 0 : connection_fail(db, code, "storing a kernel", error);
}

static int put_one(struct kernels_db *db, const struct kernels_db_row *put, struct error *error)
{
    struct kernel_row row = {.name_space = text_of(put->name_space)};
    msgpack_sbuffer meta;

    if (!row.name_space.size || row.name_space.size >= KERNELS_DB_NAMESPACE)
        return error_set(error, STATUS_INTERNAL, "a namespace of %zu bytes, not 1 to %d", row.name_space.size,
                         KERNELS_DB_NAMESPACE - 1);
    if (kernel_row_check(put->kernel, error) < 0)
        return -1;
    msgpack_sbuffer_init(&meta);
    int result = pack_meta(put->kernel, &meta, error);
    if (result == 0) {
        kernel_row_fill(&row, put->kernel);
        row.meta = (struct bytes){(const uint8_t *)meta.data, meta.size};
        result = replace_row(db, put, &row, error);
    }
    msgpack_sbuffer_destroy(&meta);
    return result;
}

int kernels_db_put(struct kernels_db *db, const struct kernels_db_row *rows, size_t n, struct error *error)
{
    bool failed = false;

    if (connection_ready(db, error) < 0 || transaction_begin(db, error) < 0)
        return -1;
    for (size_t i = 0; i < n && !failed; i++)
        failed = put_one(db, &rows[i], error) < 0;
    return transaction_end(db, failed, error);
}
