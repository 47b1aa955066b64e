/* How a kernel lies in the database: its row, and the hash that guards the row. Knows the file's columns, not SQL. */
#ifndef KERNELS_DB_KERNEL_ROW_H
#define KERNELS_DB_KERNEL_ROW_H

#include "proto/message.h"

/* A number that may be NULL. Numbers above 2^63 keep their bits. */
struct column_number {
    int64_t value;
    bool has;
};

/* A row of `kernel` with its row of `image`. Everything is borrowed from whoever filled it. */
struct kernel_row {
    struct text name_space;
    struct bytes key;
    struct text label, target, entry;
    struct column_number index_type, max_registers, image_size, created, compile_ns;
    struct bytes code, log, header_set; /* digests; absent: the kernel has none */
    struct bytes meta;                  /* the packed kernel message without image, PTX, code, log and fds */
    struct bytes image, ptx;
};

/* BLAKE2b-256 over every field above. docs/kernels-db.md has the layout. */
void kernel_row_hash(const struct kernel_row *row, uint8_t ret[DIGEST_SIZE]);

/* The digest of a set of headers, in the kernel's order. */
void kernel_header_set(const struct kernel *kernel, uint8_t ret[DIGEST_SIZE]);

/* The kernel message that `meta` holds. */
struct kernel kernel_meta(const struct kernel *kernel);

/* The largest size of a TEXT or BYTES of a kernel, by the field's name. */
uint64_t kernel_limit(const char *field);

/* Fill all that comes from the kernel itself: not the namespace, the digests and meta. Borrows from the kernel. */
void kernel_row_fill(struct kernel_row *row, const struct kernel *kernel);

/* Whether a kernel can be stored and read back: parts present, sizes and limits. -1 with INTERNAL. */
int kernel_row_check(const struct kernel *kernel, struct error *error);

#endif
