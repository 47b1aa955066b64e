/* The daemon's statistics, as they were received. */
#ifndef CLIENT_STATS_H
#define CLIENT_STATS_H

#include "proto/message.h"

struct fusiond_stats {
    msgpack_zone *zone;
    struct stats_reply message;
};

#endif
