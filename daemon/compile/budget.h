/*
 * How many compiler processes there may be at a time: one number for all pools together.
 *
 * Who finds none left has another pool's idle process ended, if there is one. A pool with work and without a process
 * gets the next one that becomes free, so that none waits for ever behind another one's work.
 */
#ifndef DAEMON_COMPILE_BUDGET_H
#define DAEMON_COMPILE_BUDGET_H

#include <stdbool.h>

#include "daemon/base/list.h"

struct budget {
    unsigned limit; /* at least 1 */
    unsigned used;
    struct list members; /* who took a place longest ago comes first */
};

/* Embedded in a pool. */
struct budget_member {
    struct list link;
    struct budget *budget;
    unsigned held;
    bool wants; /* it was refused one and still has work */
    /* One may be free: take it, if there is still work. */
    void (*on_room)(struct budget_member *member);
    /* End an idle process, if there is one that no work waits for. true: its place comes back by and by. */
    bool (*let_go)(struct budget_member *member);
};

void budget_init(struct budget *budget, unsigned limit);
void budget_join(struct budget *budget, struct budget_member *member);
void budget_leave(struct budget_member *member); /* it holds nothing any more */

/* A place for one more process. false: there is none now; `on_room` is called when that may have changed. */
bool budget_take(struct budget_member *member);
void budget_give(struct budget_member *member);
/* No work waits for a place any more. */
void budget_forget(struct budget_member *member);

/* A process has become idle: whether another pool, which has none, needs its place more. */
bool budget_is_needed(const struct budget_member *member);

#endif
