/* A listing of kernels, page after page. */
#ifndef CLIENT_LIST_H
#define CLIENT_LIST_H

#include "kernels_db/kernel_key.h"
#include "proto/message.h"

struct list_row {
    struct kernel_summary summary; /* its texts are in the zone */
    char key[KEY_HEX];
};

struct fusiond_kernel_list {
    msgpack_zone *zone;
    struct list_row *rows;
    size_t n, capacity;
};

#endif
