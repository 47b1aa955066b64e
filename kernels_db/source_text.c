#include "kernels_db/source_text.h"

#include <stdlib.h>
#include <string.h>

#include "kernels_db/kernel_key.h"

/* Zstandard's default: source shrinks to about a quarter at hundreds of MB/s. */
#define LEVEL 3

/* -1, 0 or 1: whether it is there. */
static int has_source(struct kernels_db *db, const uint8_t digest[DIGEST_SIZE], struct error *error)
{
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_HAS_SOURCE);
    bind_digest(stmt, 1, digest);
    int code = sqlite3_step(stmt);
    statement_end(stmt);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return code == SQLITE_ROW;
    return connection_fail(db, code, "looking for a source text", error);
}

int source_text_put(struct kernels_db *db, struct bytes text, const uint8_t digest[DIGEST_SIZE], struct error *error)
{
    int has = has_source(db, digest, error);
    if (has)
        return has < 0 ? -1 : 0;

    size_t room = ZSTD_compressBound(text.size);
    uint8_t *packed = malloc(room);
    size_t size = packed ? ZSTD_compressCCtx(db->compressor, packed, room, text.at, text.size, LEVEL) : 0;
    if (!packed || ZSTD_isError(size)) {
        free(packed);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to compress a text of %zu bytes", text.size);
    }
    sqlite3_stmt *stmt = statement_begin(db, STATEMENT_PUT_SOURCE);
    bind_digest(stmt, 1, digest);
    bind_bytes(stmt, 2, (struct bytes){packed, size});
    int code = statement_run(stmt);
    free(packed);
    return code == SQLITE_OK ? 0 : connection_fail(db, code, "storing a source text", error);
}

int source_text_unpack(struct kernels_db *db, struct bytes packed, struct bytes digest, uint64_t max,
                       msgpack_zone *zone, struct text *ret, struct error *error)
{
    uint8_t found[DIGEST_SIZE];

    if (!packed.at || digest.size != DIGEST_SIZE)
        return 0;
    unsigned long long size = ZSTD_getFrameContentSize(packed.at, packed.size);
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > max)
        return 0;
    char *text = msgpack_zone_malloc(zone, size + 1);
    if (!text)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to unpack a text of %llu bytes", size);
    if (ZSTD_decompressDCtx(db->decompressor, text, size, packed.at, packed.size) != size)
        return 0; /* an error code is never equal to a size within the limit */
    text[size] = '\0';
    digest_of(text, size, found);
    if (memcmp(found, digest.at, DIGEST_SIZE) != 0)
        return 0;
    *ret = (struct text){text, size};
    return 1;
}
