#include "client/fusionctl/run_device.h"

#include <stdlib.h>

int run_error(const struct fusiond_error *from, struct error *ret)
{
    return error_set(ret, (enum status)from->code, "%s", from->text);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void run_sort_times(uint64_t *times, size_t n)
{
    qsort(times, n, sizeof *times, compare);
}
