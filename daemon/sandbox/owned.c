#include "daemon/sandbox/owned.h"

#include <stddef.h>
#include <unistd.h>

const char *owned_distrust(const struct stat *status)
{
    if (status->st_uid != geteuid() && status->st_uid != 0)
        return "belongs neither to the daemon's user nor to root";
    if (status->st_mode & (S_IWGRP | S_IWOTH))
        return "can be written by others than its owner";
    return NULL;
}
