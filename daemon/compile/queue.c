#include "daemon/compile/queue.h"

void queue_init(struct queue *queue)
{
    list_init(&queue->places);
    queue->n = 0;
}

void queue_push(struct queue *queue, struct queue_place *place)
{
    list_push(&queue->places, &place->link);
    queue->n++;
}

struct queue_place *queue_pop(struct queue *queue)
{
    struct list *link = list_pop(&queue->places);
    if (!link)
        return NULL;
    queue->n--;
    return container_of(link, struct queue_place, link);
}
