/*
 * A plan: a compile request, decoded, checked, resolved and keyed. It owns a copy of the request's bytes, so that it
 * outlives the frame; everything that can be said about a compile before it starts is in it.
 */
#ifndef DAEMON_COMPILE_PLAN_H
#define DAEMON_COMPILE_PLAN_H

#include "daemon/blob_store.h"
#include "daemon/compile/prefix.h"
#include "daemon/resolve/resolve.h"
#include "proto/message.h"

struct plan {
    msgpack_zone zone; /* everything below lives here */
    struct compile_request request;
    struct resolved resolved;
    uint8_t (*header_digests)[DIGEST_SIZE]; /* one per request.fusion->headers */
    uint8_t key[KEY_SIZE];
    bool has_first_key; /* it was settled a second time, with names; the key before that is for messages */
    uint8_t first_key[KEY_SIZE];
    enum compiler_kind compiler;             /* who has to compile it */
    size_t compiler_at;                      /* its place among the daemon's compilers, once it is chosen */
    unsigned compiler_major, compiler_minor; /* of the facts that it was settled with */
    uint8_t build[DIGEST_SIZE];
    struct compiler_facts facts;       /* that it was settled with; its transforms are those below */
    const struct key_part *transforms; /* of those facts */
    size_t n_transforms;
    bool transformed;         /* the program is not what the client's code makes */
    struct job_prefix prefix; /* once plan_find_prefix() has looked */
};

/* Decode the packed params of a compile request: only `request` and `compiler` are meant yet. -1 with the first thing
 * that is wrong. */
int plan_create(struct bytes params, struct plan **ret, struct error *error);
/* Check, resolve and key it, with what is known of its compiler. */
int plan_settle(struct plan *plan, const struct compiler_facts *facts, struct error *error);
/* Once more, with the names of its kernels in the key. */
int plan_settle_with_names(struct plan *plan, const struct compiler_facts *facts, struct error *error);
/* Other code in place of the client's, from here on; it must be settled again. */
int plan_replace_code(struct plan *plan, struct text code, struct error *error);
/* What the transforms made of the code, or of the program: that is compiled, under the key and in the record of what
 * the client sent. The compiler must still be the one that it was settled for. */
int plan_transform_code(struct plan *plan, struct text code, struct error *error);
int plan_transform_source(struct plan *plan, struct text program, struct error *error);
/* NULL is fine. */
void plan_destroy(struct plan *plan);

/* The texts of the headers, in the request's order, copied into the plan. Headers given by a digest that the store
 * does not hold: -1 with UNKNOWN_BLOB, and *ret_missing (in the plan's zone) lists them. */
int plan_collect_headers(struct plan *plan, struct blob_store *blobs, struct bytes **ret_texts,
                         struct header_digest **ret_missing, size_t *ret_n_missing, struct error *error);

/* What a precompiled header can be made of; none when memory ran out. */
void plan_find_prefix(struct plan *plan);

/* What a line table calls the code of a kernel: "fusiond-<64 digits>.cu". */
#define PLAN_SOURCE_NAME (sizeof "fusiond-.cu" + KEY_HEX)
void plan_source_name(const uint8_t key[KEY_SIZE], char ret[PLAN_SOURCE_NAME]);

/* Append the packed worker_job frame. brief: with short diagnostics. -1 when memory ran out. */
int plan_write_job(const struct plan *plan, const struct bytes *header_texts, bool brief, msgpack_sbuffer *out);

#endif
