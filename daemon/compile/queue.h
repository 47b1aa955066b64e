/*
 * The order in which compile jobs wait.
 *
 * Between priorities: the more urgent first. A priority that was passed over QUEUE_PATIENCE times while somebody waited
 * in it gets the next turn, so that nothing waits for ever: of any QUEUE_PATIENCE + 2 turns in a row, each priority in
 * which jobs wait gets at least one. (Two more, because both of the lesser ones may be due at once.)
 *
 * Within a priority: users take turns, the clients of a user take turns, and a client's own jobs go first come, first
 * served. A client with a thousand jobs holds up another one's single job by one turn.
 *
 * It knows nothing of workers, of a loop or of time; a job is whatever embeds a place.
 */
#ifndef DAEMON_COMPILE_QUEUE_H
#define DAEMON_COMPILE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "proto/message.h"

#define QUEUE_PRIORITIES 3
/* Turns of more urgent jobs that a lesser priority lets pass. */
#define QUEUE_PATIENCE 16

/* For whom a job waits. */
struct queue_owner {
    enum priority priority; /* absent: interactive */
    uint64_t uid;
    uint64_t client; /* a connection */
};

struct queue_client;
struct queue_user;

/* Where one job stands, embedded in it. Zeroed: it does not wait. */
struct queue_place {
    struct list link;
    struct queue_client *client; /* whose line it is in; NULL: it does not wait */
    unsigned level;              /* 0: the most urgent */
    uint64_t number;             /* in its line */
    size_t bytes;                /* what it holds while it waits; set before it is pushed */
};

struct queue {
    size_t n;
    size_t bytes;
    struct queue_user *users;     /* by uid: those with jobs */
    struct queue_client *clients; /* by uid and client: likewise */
    struct {
        struct list users; /* with jobs of this priority; the next one in turn first */
        size_t n;
        unsigned passed; /* turns that others took while somebody waited here */
    } levels[QUEUE_PRIORITIES];
};

void queue_init(struct queue *queue);

/* -1 when memory ran out; then the job does not wait. */
int queue_push(struct queue *queue, struct queue_place *place, const struct queue_owner *owner);
/* Whose turn it is; NULL when nobody waits. */
const struct queue_place *queue_next(const struct queue *queue);
/* The same, taken out. */
struct queue_place *queue_pop(struct queue *queue);
/* Take out a job that waits. */
void queue_remove(struct queue *queue, struct queue_place *place);

static inline bool queue_waits(const struct queue_place *place)
{
    return place->client != NULL;
}

/* Somebody else wants a job that waits, too: it gets the more urgent priority of the two, and the line in which its
 * turn comes sooner. Nothing changes when memory runs out. */
void queue_join(struct queue *queue, struct queue_place *place, const struct queue_owner *owner);

/* How many jobs come before one that waits, if no others arrive and no lesser priority becomes due. */
size_t queue_ahead(const struct queue *queue, const struct queue_place *place);

/* What waits of one user. */
struct queue_share {
    size_t n;
    size_t bytes;
};

/* What may wait; of a user, and of all. */
struct queue_limits {
    struct queue_share user;
    struct queue_share all;
};
/* Whether one more job of that size may wait: -1 with BUSY, which names the limit. A user of whom nothing waits is not
 * told that its job is too large, since it could never be compiled then; nor is anybody while nothing waits at all. */
int queue_admit(const struct queue *queue, const struct queue_limits *limits, uint64_t uid, size_t bytes,
                struct error *error);

struct queue_share queue_share_of(const struct queue *queue, uint64_t uid);

#endif
