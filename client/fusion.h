/* A fusion while it is built: a JSON tree of the small fields, the code and headers beside it, and the message. */
#ifndef CLIENT_FUSION_H
#define CLIENT_FUSION_H

#include <jansson.h>

#include "client/fusiond.h"
#include "proto/message.h"

struct fusion_header {
    char *name;
    void *bytes;
    size_t size;
    bool has_digest;
    uint8_t digest[DIGEST_SIZE];
};

/* Owner: the caller of fusiond_fusion_create or _load. */
struct fusiond_fusion {
    json_t *tree; /* all fields of the message but code and headers */
    char *code;
    size_t code_size;
    struct fusion_header *headers;
    size_t n_headers;

    /* The tree as a message; rebuilt when it is stale. `code` and `headers` are not in it. */
    bool stale;
    bool has_target;
    msgpack_zone *zone;
    msgpack_sbuffer packed;
    struct fusion message;

    /* Of a fusion file: its path, the code's path as the file gives it, its `run` section (NULL: none). */
    char *path;
    char *code_path;
    json_t *run;
};

/* The message without code, headers, and a default target. Good until the fusion is changed. NULL with the error of
 * the field that is wrong. */
const struct fusion *fusion_message(struct fusiond_fusion *fusion, struct error *error);

/* Take ownership of bytes (from malloc) as a header. -1 with OUT_OF_MEMORY; the bytes are freed then. */
int fusion_take_header(struct fusiond_fusion *fusion, const char *name, void *bytes, size_t size, struct error *error);

/* Read a whole regular file of at most `limit` bytes; INVALID_FILE for what is none. The result ends with a NUL that
 * *ret_size does not count. */
int fusion_read_file(const char *path, size_t limit, char **ret, size_t *ret_size, struct error *error);

/* Append a JSON value as MessagePack. -1 with INVALID_FIELD for what has no form there. */
int fusion_pack_json(const json_t *value, msgpack_packer *packer, struct error *error);

#endif
