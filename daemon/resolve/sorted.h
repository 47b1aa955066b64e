/* Names in order: finds the ones given twice, and looks one up, in n log n. */
#ifndef DAEMON_RESOLVE_SORTED_H
#define DAEMON_RESOLVE_SORTED_H

#include "proto/message.h"

struct numbered {
    struct text name;
    size_t number; /* where it stood */
};

void sorted_sort(struct numbered *names, size_t count);

/* The second of the first pair of equal names in a sorted array, or NULL. Equal names stand in the order of their
 * numbers, so that the same input always gives the same answer. */
const struct numbered *sorted_twice(const struct numbered *names, size_t count);

/* The entry with this name, or NULL. */
const struct numbered *sorted_find(const struct numbered *names, size_t count, struct text name);

#endif
