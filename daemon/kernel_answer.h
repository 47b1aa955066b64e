/* How a kernel becomes a reply: the parts that were asked for, inline or as descriptors, packed once. */
#ifndef DAEMON_KERNEL_ANSWER_H
#define DAEMON_KERNEL_ANSWER_H

#include <msgpack.h>

#include "daemon/memory_tier.h"
#include "daemon/overrides.h"

struct kernel_answer {
    struct held_kernel *kernel;
    enum outcome outcome;
    bool stored;
    uint64_t queue_ns;
    uint64_t compile_ns;
    const struct override_note *note; /* of compile alone; NULL: there are no overrides */
    /* Whose names the kernel goes out with: of a compile those that placeholders stand for; or, of a kernel.get, the
     * entries as the asker calls them, packed in the same way. Absent: the stored names. Borrowed. */
    struct entry_names names, entries;
};

/* Append the whole frame of the reply to compile or kernel.get. The descriptors that travel with it are the memory
 * tier's, good until control returns to the loop; there are at most LIMIT_FDS. -1 with OUT_OF_MEMORY, or INVALID_FIELD
 * for entries that are not the kernel's. */
int kernel_answer_write(const struct kernel_answer *answer, struct memory_tier *memory, uint32_t id, enum method method,
                        struct parts parts, msgpack_sbuffer *out, int *ret_fds, size_t *ret_n_fds, struct error *error);

#endif
