/*
 * The order in which compile jobs wait: first come, first served.
 *
 * It knows nothing of workers or of a loop; a job is whatever embeds a place.
 */
#ifndef DAEMON_COMPILE_QUEUE_H
#define DAEMON_COMPILE_QUEUE_H

#include "daemon/base/list.h"

/* Where one job stands, embedded in it. */
struct queue_place {
    struct list link;
};

struct queue {
    struct list places;
    size_t n;
};

void queue_init(struct queue *queue);
void queue_push(struct queue *queue, struct queue_place *place);
/* Whose turn it is, taken out; NULL when nobody waits. */
struct queue_place *queue_pop(struct queue *queue);

#endif
