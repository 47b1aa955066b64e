/*
 * Compile flights: one per key under way. The first request for a key leads, later ones join; all are answered with
 * the same kernel or the same failure. When everybody has left, a compile that has not begun is given up; one that has
 * goes on, because what it makes is stored.
 *
 *   LOOKING_UP ──found, or absent and nobody waits any more─────► landed
 *       │ absent                                                ▲
 *       ▼                                                       │
 *   TRANSFORMING ────failed, or everybody left──────────────────┤   (where there are transforms)
 *       │                                                       │
 *       ▼            compiled               committed           │
 *   COMPILING ───────────────► COMMITTING ──────────────────────┤
 *       └─── failed, or everybody left before it began ─────────┘
 *
 * The diagram is of cache mode `use`. `require` ends with a miss instead of compiling. `refresh` and `bypass` begin
 * with compiling; what a bypass makes is not committed. A flight is shared within its mode only, and a bypass never:
 * who needs a stored kernel must not wait for, or fail with, a compile that he has not asked for.
 */
#ifndef DAEMON_COMPILE_FLIGHT_H
#define DAEMON_COMPILE_FLIGHT_H

#include "daemon/base/list.h"
#include "daemon/compile/failures.h"
#include "daemon/compile/plan.h"
#include "daemon/compile/pool.h"
#include "daemon/compile/shown_names.h"
#include "daemon/compile/transforms.h"
#include "daemon/kernel_store.h"
#include "daemon/observers.h"

struct flight;

/* What a flight came to. One of kernel and failure. Good until on_landing returns. */
struct landing {
    struct held_kernel *kernel; /* the store's, or, of a bypass, the flight's */
    enum outcome outcome;       /* for the leader; who joined a compile is told JOINED */
    bool stored;
    const struct failure *failure;
    bool names_show; /* a failure to be passed over: settled again, the plan has another key */
    uint64_t queue_ns;
    uint64_t compile_ns;
};

/* How far a flight's compile is. */
struct flight_progress {
    enum compile_state state;
    size_t ahead; /* queued: how many compiles come before it */
};

/* Somebody who waits, embedded in a request. */
struct passenger {
    struct list link;
    struct list in_watchers;  /* of all flights: who wants to know how far it is */
    struct flight *flight;    /* NULL when it waits for nothing */
    struct queue_owner owner; /* for whom; set before it boards */
    bool leads;
    /* Called once, on the loop, later than flights_board; then the passenger waits for nothing. */
    void (*on_landing)(struct passenger *passenger, const struct landing *landing);
    /* Whenever it is further than before; may be called from within flights_board. It must not end anybody's waiting.
     * NULL: nobody wants to know. */
    void (*on_progress)(struct passenger *passenger, const struct flight_progress *progress);
};

struct flights {
    struct flight *by_id;
    uint64_t n_bypasses; /* so far: each has a lane of its own */
    struct kernel_store *store;
    struct pool **pools; /* by plan->compiler_at; NULL once one is closed: it compiles nothing any more */
    struct blob_store *blobs;
    struct stats_reply *stats;
    struct shown_names shown;
    struct failures failures;
    struct observers *observers;   /* likewise */
    struct transforms *transforms; /* NULL: there are none */
    struct list watchers;
    uint64_t told_ns;               /* when they were last told of their turns */
    void (*on_landed)(void *owner); /* a flight is over and gone */
    void *owner;
};

void flights_init(struct flights *flights, struct kernel_store *store, struct pool **pools, struct blob_store *blobs,
                  struct stats_reply *stats, uint64_t remember_ms, void (*on_landed)(void *owner), void *owner);
/* No flight is under way any more. */
void flights_finish(struct flights *flights);

/* The failure of the same compile a short while ago, which answers this one too; NULL: board. */
const struct failure *flights_recall(struct flights *flights, const struct kernel_id *id, const struct plan *plan);
/* The same for who only wants to know. */
const struct failure *flights_remember(struct flights *flights, const struct kernel_id *id, const struct plan *plan);

/* Join the flight of this uid's key in the request's cache mode, or lead a new one. The plan is taken over in any case.
 * -1: nothing is called back. */
int flights_board(struct flights *flights, struct plan *plan, struct passenger *passenger, struct error *error);

/* Stop waiting. The flight goes on, unless it has not begun to compile and nobody else waits. Harmless when nothing is
 * waited for. */
void passenger_leave(struct passenger *passenger);

/* Whether a compile of this kernel that others may join is under way. */
bool flights_have(const struct flights *flights, const struct kernel_id *id);

/* How many are under way: 0 is needed before the store is closed. */
size_t flights_count(const struct flights *flights);

#endif
