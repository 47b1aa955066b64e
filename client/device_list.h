/* The daemon's list of devices, as the message has it. */
#ifndef CLIENT_DEVICE_LIST_H
#define CLIENT_DEVICE_LIST_H

#include "client/fusiond.h"
#include "proto/message.h"

/* Owner: the caller of fusiond_devices. */
struct fusiond_device_list {
    msgpack_zone *zone;
    struct devices_reply message;
};

#endif
