/* Intrusive doubly linked lists: a head and links inside the members. */
#ifndef DAEMON_BASE_LIST_H
#define DAEMON_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* A link, or the head of a list. An unlinked link points to itself. */
struct list {
    struct list *previous;
    struct list *next;
};

static inline void list_init(struct list *list)
{
    list->previous = list;
    list->next = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

/* Append to the end of the list. */
static inline void list_push(struct list *head, struct list *link)
{
    link->previous = head->previous;
    link->next = head;
    head->previous->next = link;
    head->previous = link;
}

/* Take out of whatever list it is in; harmless for an unlinked link. */
static inline void list_remove(struct list *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    list_init(link);
}

/* The first link, taken out; NULL when empty. */
static inline struct list *list_pop(struct list *head)
{
    struct list *link = head->next;
    if (link == head)
        return NULL;
    list_remove(link);
    return link;
}

#endif
