/*
 * The kernel store: an ordered list of tiers behind one interface. Today memory, then the database; a store shared
 * between nodes would be a third. Finding in memory is immediate; everything else calls back on the loop.
 */
#ifndef DAEMON_KERNEL_STORE_H
#define DAEMON_KERNEL_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/memory_tier.h"
#include "kernels_db/kernels_db.h"
#include "proto/message.h"

struct kernel_store;

struct kernel_store_options {
    const char *directory;     /* of the database; created if absent. NULL: no database */
    uint64_t memory_bytes;     /* of the memory tier */
    struct stats_reply *stats; /* counters of both tiers */
};

/* Open. A database that cannot be had is no error: the store works from memory and kernel_store_problem() says why. */
int kernel_store_create(uv_loop_t *loop, const struct kernel_store_options *options, struct kernel_store **ret,
                        struct error *error);

/* Why kernels are not stored in the database just now; NULL when they are. */
const char *kernel_store_problem(const struct kernel_store *store);

/* In memory, or NULL. Good until control returns to the loop. Counts as a use. */
struct held_kernel *kernel_store_find(struct kernel_store *store, const struct kernel_id *id);

/* The memory tier, for the memfds of what it holds. */
struct memory_tier *kernel_store_memory(struct kernel_store *store);

/* Look below memory. What is found is held in memory from then on; `kernel` is NULL when there is none. */
struct store_lookup {
    struct kernel_id id;
    bool blind; /* look nowhere: `kernel` is NULL in any case */
    void (*done)(struct store_lookup *lookup, struct held_kernel *kernel);
};
int kernel_store_look_up(struct kernel_store *store, struct store_lookup *lookup, struct error *error);

/* Keep a new kernel: commit it to the database, then hold it in memory. The kernel is the store's from the call on;
 * `header_texts`, one per kernel->headers, must live until done. `stored` says whether it is committed. */
struct store_commit {
    struct held_kernel *kernel;
    const struct bytes *header_texts;
    void (*done)(struct store_commit *commit, struct held_kernel *kernel, bool stored);
};
void kernel_store_commit(struct kernel_store *store, struct store_commit *commit);

/* Rows of the owner's namespace. *reply and what it points to is good until done returns. */
struct store_list {
    uint64_t owner;
    struct kernel_list_request request; /* its texts must live until done */
    void (*done)(struct store_list *list, const struct kernel_list_reply *reply, const struct error *error);
};
int kernel_store_list(struct kernel_store *store, struct store_list *list, struct error *error);

/* What the database has that is near a kernel. A store without a database has nothing. */
struct store_near {
    uint64_t owner;
    struct kernels_db_wish wish; /* what it points to must live until done */
    /* found: the key is there. What is near is good until done returns. */
    void (*done)(struct store_near *near, bool found, const struct kernels_db_near *at, size_t n);
};
int kernel_store_near(struct kernel_store *store, struct store_near *near, struct error *error);

/* Numbers of the database, for stats. */
struct store_numbers {
    void (*done)(struct store_numbers *numbers, const struct kernels_db_stats *stats);
};
void kernel_store_numbers(struct kernel_store *store, struct store_numbers *numbers);

/* Finish what was begun, write last uses, close; then call back and free. */
void kernel_store_close(struct kernel_store *store, void (*on_closed)(void *owner), void *owner);

#endif
