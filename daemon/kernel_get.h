/*
 * kernel.get, whoever asks: a client over its connection, or an executor over its channel.
 *
 *   kernel_get_read ──► kernel_get_find: in memory, the answer is there
 *                            │ no
 *                            └──► kernel_get_look_up ──► done, with what the database has
 */
#ifndef DAEMON_KERNEL_GET_H
#define DAEMON_KERNEL_GET_H

#include "daemon/kernel_answer.h"
#include "daemon/kernel_store.h"

/* Embedded in whoever waits. */
struct kernel_get {
    struct store_lookup lookup; /* with the kernel's id */
    struct parts parts;
    struct entry_names entries; /* as the asker calls them; owned */
    struct stats_reply *stats;
    /* Called once after a look-up that could be started, later, on the loop: with an answer, or an error. */
    void (*done)(struct kernel_get *get, const struct kernel_answer *answer, const struct error *error);
};

/* Read the request's params; the kernel is looked for in the namespace of `owner`. What succeeds is to be finished. */
int kernel_get_read(struct bytes params, uint64_t owner, struct kernel_get *ret, struct error *error);

/* A zeroed one is fine. */
void kernel_get_finish(struct kernel_get *get);

/* Whether the kernel is in memory. */
bool kernel_get_find(const struct kernel_get *get, struct kernel_store *store, struct stats_reply *stats,
                     struct kernel_answer *ret);

/* Look below memory. */
int kernel_get_look_up(struct kernel_get *get, struct kernel_store *store, struct stats_reply *stats,
                       struct error *error);

#endif
