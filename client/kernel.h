/* A kernel that a reply carried: the message, and its image inline or mapped from a memfd. */
#ifndef CLIENT_KERNEL_H
#define CLIENT_KERNEL_H

#include "client/connection.h"

/* Bytes of a part. */
struct part {
    const void *at; /* NULL: absent */
    size_t size;
    void *map; /* to be unmapped; NULL: inline */
};

/* Owner: whoever asked. Independent of the connection. */
struct fusiond_kernel {
    msgpack_zone *zone;
    struct frame_copy frame;
    struct kernel message;
    enum outcome outcome;
    bool stored;
    uint64_t queue_ns, compile_ns;
    struct text overridden; /* in the zone, as the notes */
    uint64_t ordinal;
    struct text *notes;
    size_t n_notes;
    char key[2 * DIGEST_SIZE + 1];
    struct part image, ptx;
    /* Of the fusion that it was compiled for, for the loader of PTX; 0: not said. level: 1 + the optimiser's. */
    unsigned max_registers, block_size, level;
};

/* Make a kernel of a successful reply to `method`, compile or kernel.get. Descriptors of the connection are used up. */
int kernel_of_reply(struct fusiond_connection *connection, enum method method, struct reply *reply,
                    struct fusiond_kernel **ret, struct error *error);

#endif
