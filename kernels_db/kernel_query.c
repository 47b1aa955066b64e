/* Questions about many kernels: listings, and when they were last used. */
#include <string.h>

#include "kernels_db/connection.h"

/* ---- list ---- */

struct key_range {
    uint8_t first[DIGEST_SIZE], last[DIGEST_SIZE];
};

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* All keys that begin with the digits. */
static int range_of(struct text prefix, struct key_range *ret, struct error *error)
{
    memset(ret->first, 0x00, sizeof ret->first);
    memset(ret->last, 0xff, sizeof ret->last);
    size_t n = prefix.at ? prefix.size : 0;
    if (n > 2 * DIGEST_SIZE)
        return error_set(error, STATUS_INVALID_FIELD, "prefix: %zu digits are above the limit of %d", n,
                         2 * DIGEST_SIZE);
    for (size_t i = 0; i < n; i++) {
        int digit = digit_of(prefix.at[i]), shift = i % 2 ? 0 : 4;
        if (digit < 0)
            return error_set(error, STATUS_INVALID_FIELD, "prefix: byte 0x%02x at %zu is no hexadecimal digit",
                             (unsigned char)prefix.at[i], i);
        ret->first[i / 2] = (uint8_t)(ret->first[i / 2] | digit << shift);
        ret->last[i / 2] = (uint8_t)(ret->last[i / 2] & ~((0xf ^ digit) << shift));
    }
    return 0;
}

/* A text of the file: 1, 0 when it can't be what was stored, -1 when memory ran out. */
static int copy_text(sqlite3_stmt *stmt, int column, size_t max, msgpack_zone *zone, struct text *ret)
{
    struct bytes bytes = column_bytes(stmt, column);
    if (!bytes.at)
        return 1;
    if (bytes.size > max || (bytes.size && memchr(bytes.at, '\0', bytes.size)))
        return 0;
    char *copy = msgpack_zone_malloc(zone, bytes.size + 1);
    if (!copy)
        return -1;
    memcpy(copy, bytes.at, bytes.size);
    copy[bytes.size] = '\0';
    *ret = (struct text){copy, bytes.size};
    return 1;
}

static uint64_t column_number(sqlite3_stmt *stmt, int column, bool *ret_has)
{
    if (ret_has)
        *ret_has = sqlite3_column_type(stmt, column) != SQLITE_NULL;
    return (uint64_t)sqlite3_column_int64(stmt, column);
}

/* One row, under the limits of the message that will carry it. Result as for copy_text. */
static int read_summary(sqlite3_stmt *stmt, msgpack_zone *zone, struct kernel_summary *ret)
{
    struct kernel_summary row = {0};
    struct bytes key = column_bytes(stmt, 0);
    struct {
        struct text *ret;
        int column;
        size_t max;
    } texts[] = {{&row.label, 1, LIMIT_NAME}, {&row.target, 2, 32}, {&row.entry, 3, LIMIT_NAME}};

    if (key.size != DIGEST_SIZE)
        return 0;
    memcpy(row.key, key.at, DIGEST_SIZE);
    row.has_key = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int copied = copy_text(stmt, texts[i].column, texts[i].max, zone, texts[i].ret);
        if (copied != 1)
            return copied;
    }
    int index_type = sqlite3_column_int(stmt, 4);
    if (!row.target.at || (index_type != index_type_absent && !index_type_word(index_type)))
        return 0;
    row.index_type = (enum index_type)index_type;
    row.max_registers = column_number(stmt, 5, &row.has_max_registers);
    row.image_size = column_number(stmt, 6, &row.has_image_size);
    row.created_unix_s = column_number(stmt, 7, &row.has_created_unix_s);
    row.last_used_unix_s = column_number(stmt, 8, &row.has_last_used_unix_s);
    row.compile_ns = column_number(stmt, 9, &row.has_compile_ns);
    if (row.max_registers > 255 || row.image_size > LIMIT_IMAGE)
        return 0;
    *ret = row;
    return 1;
}

static void bind_list(sqlite3_stmt *stmt, struct text name_space, const struct kernel_list_request *request,
                      const struct key_range *range, size_t rows)
{
    bind_text(stmt, 1, name_space);
    bind_digest(stmt, 2, range->first);
    bind_digest(stmt, 3, range->last);
    /* Every key is greater than no bytes at all. */
    bind_bytes(stmt, 4,
               request->has_after ? (struct bytes){request->after, DIGEST_SIZE} : (struct bytes){range->first, 0});
    bind_text(stmt, 5, request->label);
    bind_text(stmt, 6, request->target);
    sqlite3_bind_int64(stmt, 7, (sqlite3_int64)rows);
}

/* Listings don't read images, so rows are not hashed here; one that can't be right is left out, and its next get
 * deals with it. */
static int read_list(struct kernels_db *db, sqlite3_stmt *stmt, size_t limit, msgpack_zone *zone,
                     struct kernel_list_reply *reply, struct error *error)
{
    int code;

    for (size_t seen = 0; (code = sqlite3_step(stmt)) == SQLITE_ROW; seen++) {
        if (seen == limit) {
            reply->more = true;
            return 0;
        }
        int got = read_summary(stmt, zone, &reply->kernels[reply->n_kernels]);
        if (got < 0)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to list kernels");
        reply->n_kernels += (size_t)got;
    }
    return code == SQLITE_DONE ? 0 : connection_fail(db, code, "listing kernels", error);
}

int kernels_db_list(struct kernels_db *db, const char *name_space, const struct kernel_list_request *request,
                    msgpack_zone *zone, struct kernel_list_reply *ret, struct error *error)
{
    struct kernel_list_reply reply = {0};
    struct key_range range;
    size_t limit = request->has_limit && request->limit < LIMIT_LIST ? (size_t)request->limit : LIMIT_LIST;

    if (limit == 0)
        return error_set(error, STATUS_INVALID_FIELD, "limit: 0 is below the limit of 1");
    if (range_of(request->prefix, &range, error) < 0 || connection_ready(db, error) < 0)
        return -1;
    reply.kernels = msgpack_zone_malloc(zone, limit * sizeof *reply.kernels);
    if (!reply.kernels)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to list kernels");
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_LIST);
    bind_list(stmt, text_of(name_space), request, &range, limit + 1);
    int result = read_list(db, stmt, limit, zone, &reply, error);
    statement_end(stmt);
    if (result == 0)
        *ret = reply;
    return result;
}

/* ---- touch ---- */

static int touch_in(struct kernels_db *db, struct text name_space, const struct kernels_db_use *use)
{
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_TOUCH);
    bind_text(stmt, 1, name_space);
    bind_digest(stmt, 2, use->key);
    sqlite3_bind_int64(stmt, 3, (sqlite3_int64)use->unix_s);
    return statement_run(stmt);
}

int kernels_db_touch(struct kernels_db *db, const struct kernels_db_use *uses, size_t n, struct error *error)
{
    int code = SQLITE_OK;

    if (connection_ready(db, error) < 0 || transaction_begin(db, error) < 0)
        return -1;
    for (size_t i = 0; i < n && code == SQLITE_OK; i++) {
        struct text name_space = {uses[i].name_space, strnlen(uses[i].name_space, KERNELS_DB_NAMESPACE)};
        code = touch_in(db, name_space, &uses[i]);
        /* What the namespace doesn't have, it was given from "shared". */
        if (code == SQLITE_OK && sqlite3_changes(db->sqlite) == 0)
            code = touch_in(db, TEXT_OF("shared"), &uses[i]);
    }
    if (code != SQLITE_OK)
        connection_fail(db, code, "remembering last uses", error);
    return transaction_end(db, code != SQLITE_OK, error);
}
