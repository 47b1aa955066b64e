#include "client/fusionctl/walk.h"

#include <stdio.h>

void walk_step(struct walk *walk)
{
    for (unsigned i = walk->shape->rank; i-- > 0;) {
        int64_t stride = i < walk->shape->alloc_rank ? walk->shape->strides[i] : 0;
        walk->offset += stride;
        if (++walk->index[i] < walk->shape->sizes[i])
            return;
        walk->offset -= stride * walk->shape->sizes[i];
        walk->index[i] = 0;
    }
}

void walk_print(const struct walk *walk, char *room, size_t size)
{
    size_t used = 0;
    room[0] = '\0';
    for (unsigned i = 0; i < walk->shape->rank && used < size; i++)
        used += (size_t)snprintf(room + used, size - used, "%s%lld", i ? ", " : "", (long long)walk->index[i]);
}
