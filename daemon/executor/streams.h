/* The streams of a session, by number. Number 0 is there from the start. */
#ifndef DAEMON_EXECUTOR_STREAMS_H
#define DAEMON_EXECUTOR_STREAMS_H

#include <uthash.h>

#include "daemon/executor/device.h"

struct defined;

/* Owned by the session. */
struct stream {
    UT_hash_handle hh;
    uint64_t number;
    struct device_stream *device;
    struct device_memory scratch; /* intermediates; launches of one stream use it one after the other */
    struct error failed;          /* of work whose own answer came before it was done */
    uint64_t launched, completed; /* launches: queued, and known to be done */
    struct defined *last;         /* whose launch was the last one; only to name it when the device is lost */
    bool destroyed;               /* the number is gone; the rest goes when its work is done */
};

struct streams {
    struct stream *by_number;
    uint64_t next;
    struct backend *backend;
};

int streams_init(struct streams *streams, struct backend *backend, struct error *error);
/* All work is done. */
void streams_finish(struct streams *streams);

int streams_create(struct streams *streams, int64_t priority, struct stream **ret, struct error *error);
/* NULL with UNKNOWN_HANDLE. */
struct stream *streams_find(const struct streams *streams, uint64_t number, struct error *error);
/* Its work is done: free it. */
void streams_remove(struct streams *streams, struct stream *stream);

#endif
