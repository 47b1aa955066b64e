/* Why a fusion hits or misses, as the daemon tells. */
#ifndef CLIENT_EXPLAIN_H
#define CLIENT_EXPLAIN_H

#include "client/fusiond.h"
#include "kernels_db/kernel_key.h"

/* Owner: whoever asked. Independent of the connection. */
struct fusiond_explanation {
    msgpack_zone *zone;
    struct explain_reply message; /* all in the zone */
    char key[KEY_HEX];
    char *json;
};

#endif
