/* Walking a tensor's elements in row-major order of its logical sizes, whatever its strides. */
#ifndef CLIENT_FUSIONCTL_WALK_H
#define CLIENT_FUSIONCTL_WALK_H

#include <stddef.h>

#include "daemon/launch/arguments.h"

/* Starts at the first element with everything but `shape` zeroed. */
struct walk {
    const struct shape *shape;
    int64_t index[LIMIT_RANK];
    int64_t offset; /* in elements */
};

void walk_step(struct walk *walk);

/* "3, 4" */
void walk_print(const struct walk *walk, char *room, size_t size);

#endif
