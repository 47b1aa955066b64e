/* The kernel database: one SQLite file, one connection, used by one thread at a time. Blocking; knows no loop. */
#ifndef KERNELS_DB_KERNELS_DB_H
#define KERNELS_DB_KERNELS_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/message.h"

struct kernels_db;

struct kernels_db_stats {
    uint64_t kernels;
    uint64_t image_bytes; /* images and PTX, as stored */
    uint64_t file_bytes;
    uint64_t commits;
    uint64_t errors;
    uint64_t corrupt_rows; /* rows whose hash did not match: deleted, answered as absent */
};

/* Open or create `<directory>/kernels.db`. The directory must exist. A damaged file, or one of a newer schema, is
 * renamed aside (`kernels.db.damaged-<time>`, with its -wal) and a new one started; `ret_notice` (NULL or 512 bytes)
 * then holds one sentence about it, else "". -1 with DATABASE when nothing can be opened.
 *
 * Damage that shows later fails the call that meets it, with DATABASE; the next call, of any kind, moves the file aside
 * and starts a new one. After any error the database may be used on. */
int kernels_db_open(const char *directory, struct kernels_db **ret, char *ret_notice, struct error *error);
/* NULL is fine. Checkpoints. */
void kernels_db_close(struct kernels_db *db);

/* Namespaces: "uid:1000", or "shared". */
#define KERNELS_DB_NAMESPACE 64

/* A kernel as it is handed over: metadata, image, ptx, log and code present; image_fd and ptx_fd absent.
 * `header_texts` are the texts of kernel->headers, in that order (may be NULL when there are none). */
struct kernels_db_row {
    const char *name_space;
    const struct kernel *kernel;
    const struct bytes *header_texts;
};

/* Commit all rows in one transaction, durable against a crash of the process on return. A row that is there already is
 * replaced. -1 and nothing is changed. */
int kernels_db_put(struct kernels_db *db, const struct kernels_db_row *rows, size_t n, struct error *error);

/* Find a kernel in the namespace or, failing that, in "shared". The row's hash is checked first; a row that does not
 * match is deleted, counted, and absent. 1 found: *ret, everything in `zone`, with image, ptx, log and code;
 * 0 absent; -1 error. */
int kernels_db_get(struct kernels_db *db, const char *name_space, const uint8_t key[DIGEST_SIZE], msgpack_zone *zone,
                   struct kernel *ret, struct error *error);

/* Rows of the namespace and of "shared", in key order, after the request's filters. */
int kernels_db_list(struct kernels_db *db, const char *name_space, const struct kernel_list_request *request,
                    msgpack_zone *zone, struct kernel_list_reply *ret, struct error *error);

/* Kernels that have something in common with one that may not be there. */
struct kernels_db_wish {
    uint8_t key[DIGEST_SIZE];
    uint8_t code[DIGEST_SIZE];                    /* digest of the text */
    struct text label;                            /* may be absent */
    const uint8_t (*header_digests)[DIGEST_SIZE]; /* in the fusion's order */
    size_t n_headers;
};

struct kernels_db_near {
    enum kinship kinship; /* the first of the enum that holds */
    bool has_code;
    uint8_t code[DIGEST_SIZE];
    struct kernel kernel; /* without image, PTX, code and log. Not hashed: to be shown, not to be used */
};

#define KERNELS_DB_NEAR 48 /* at most a third of each kind, the newest first */

/* 1 the key is there, 0 it is not, and *ret_n (0 to KERNELS_DB_NEAR) others have something in common with it; -1
 * error. */
int kernels_db_near(struct kernels_db *db, const char *name_space, const struct kernels_db_wish *wish,
                    msgpack_zone *zone, struct kernels_db_near *ret, size_t *ret_n, struct error *error);

/* Remember the last use of keys, in one transaction. */
struct kernels_db_use {
    char name_space[KERNELS_DB_NAMESPACE];
    uint8_t key[DIGEST_SIZE];
    uint64_t unix_s;
};
int kernels_db_touch(struct kernels_db *db, const struct kernels_db_use *uses, size_t n, struct error *error);

int kernels_db_read_stats(struct kernels_db *db, struct kernels_db_stats *ret, struct error *error);

#endif
