/* Kernels held in memory, bounded by bytes, the least recently used going first. */
#ifndef DAEMON_MEMORY_TIER_H
#define DAEMON_MEMORY_TIER_H

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "daemon/base/list.h"
#include "daemon/parts.h"
#include "daemon/resolve/entry_names.h"
#include "proto/message.h"

/* A kernel in a namespace: the uid that it belongs to, and its key. Compared as bytes, so it must have no padding. */
struct kernel_id {
    uint64_t owner;
    uint8_t key[DIGEST_SIZE];
};

/* The packed result of the last hit, for the next one that asks the same. */
struct packed_answer {
    enum method method; /* METHOD_UNKNOWN: there is none */
    struct parts parts;
    struct entry_names names; /* its own copy */
    uint8_t *bytes;
    size_t size;
};

/* The long parts, which may go out as memfds. */
enum kernel_part {
    PART_IMAGE,
    PART_PTX,
    KERNEL_PARTS,
};

/* A sealed memfd of a part, as it is for these names. */
struct part_fd {
    int fd; /* -1: there is none */
    struct entry_names names;
};

/* A kernel in memory. Owned by whoever is making it, then by the store. */
struct held_kernel {
    UT_hash_handle hh;
    struct list lru;
    struct kernel_id id;
    struct kernel kernel; /* with image, ptx, log and code; everything in the zone */
    msgpack_zone zone;
    uint64_t bytes; /* what it is charged for */
    uint64_t last_used_s;
    bool stored; /* committed to the database */
    bool used;   /* since last_used_s was written to the database */
    struct part_fd fds[KERNEL_PARTS];
    struct packed_answer answer;
};

struct memory_tier {
    struct held_kernel *by_id;
    struct list lru; /* the least recently used first */
    uint64_t limit;
    struct stats_reply *stats;
    size_t n_fds;
    size_t max_fds;
};

/* A new, empty kernel; NULL when memory ran out. Its zone is ready. */
struct held_kernel *held_kernel_create(const struct kernel_id *id);
/* NULL is fine. */
void held_kernel_destroy(struct held_kernel *kernel);

void memory_tier_init(struct memory_tier *tier, uint64_t limit, struct stats_reply *stats);
/* Frees all kernels. */
void memory_tier_finish(struct memory_tier *tier);

/* NULL when absent. Moves it to the end of the queue for eviction. */
struct held_kernel *memory_tier_find(struct memory_tier *tier, const struct kernel_id *id);

/* Whether it is there; no use. */
bool memory_tier_has(const struct memory_tier *tier, const struct kernel_id *id);

/* Hold the kernel, which is the tier's from now on, in place of one with the same id; evict others beyond the limit,
 * each passed to `on_evict` (may be NULL) first. */
void memory_tier_hold(struct memory_tier *tier, struct held_kernel *kernel,
                      void (*on_evict)(struct held_kernel *kernel, void *context), void *context);

/* Destroy a kernel that was never held, with the memfds that were kept for it. */
void memory_tier_destroy_unheld(struct memory_tier *tier, struct held_kernel *kernel);

/* Keep a copy of a packed result with the kernel, in place of the one before; charged to it. What cannot be kept is
 * packed again the next time. */
void memory_tier_keep_answer(struct memory_tier *tier, struct held_kernel *kernel, enum method method,
                             struct parts parts, struct entry_names names, struct bytes packed);
/* The kept result for this method, these parts and names, or absent. */
struct bytes memory_tier_answer(const struct held_kernel *kernel, enum method method, struct parts parts,
                                struct entry_names names);

/* The kept memfd of a part with these names, or -1. Owned by the tier and good until control returns to the loop. */
int memory_tier_kept_fd(const struct held_kernel *kernel, enum kernel_part part, struct entry_names names);
/* A sealed memfd of the bytes, which are that, kept in place of the one before. -1, with errno, when it cannot be
 * made. */
int memory_tier_keep_fd(struct memory_tier *tier, struct held_kernel *kernel, enum kernel_part part,
                        struct entry_names names, struct bytes bytes);

#endif
