#include "daemon/resolve/sorted.h"

#include <stdlib.h>
#include <string.h>

static int compare_text(struct text a, struct text b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int order = n ? memcmp(a.at, b.at, n) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_numbered(const void *left, const void *right)
{
    const struct numbered *a = left, *b = right;
    int order = compare_text(a->name, b->name);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

void sorted_sort(struct numbered *names, size_t count)
{
    qsort(names, count, sizeof *names, compare_numbered);
}

const struct numbered *sorted_twice(const struct numbered *names, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (compare_text(names[i - 1].name, names[i].name) == 0)
            return &names[i];
    return NULL;
}

const struct numbered *sorted_find(const struct numbered *names, size_t count, struct text name)
{
    for (size_t low = 0, high = count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = compare_text(name, names[middle].name);
        if (order == 0)
            return &names[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
