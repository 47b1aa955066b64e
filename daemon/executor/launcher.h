/* One launch: from a request's arguments to work on a stream. */
#ifndef DAEMON_EXECUTOR_LAUNCHER_H
#define DAEMON_EXECUTOR_LAUNCHER_H

#include "daemon/executor/session.h"

/* A launch that is checked and complete. Everything in it is in the zone that it was prepared with, or the session's.
 */
struct prepared {
    struct session *session;
    struct defined *defined;
    struct stream *stream;
    struct entry *entry; /* good until another entry is made */
    bool cached;
    enum fill fill;
    uint64_t *addresses;     /* one per parameter */
    struct buffer **buffers; /* one per parameter; NULL for those without */
    uint64_t *offsets;       /* into the buffer */
    const struct launch_argument *arguments;
    struct buffer **allocated; /* outputs that this launch has allocated */
    size_t n_allocated;
};

/* Look everything up, check it, find or make the launch entry, allocate outputs and intermediates. On failure nothing
 * is left behind. */
int launcher_prepare(struct session *session, const struct launch_request *request, msgpack_zone *zone,
                     struct prepared *ret, struct error *error);
/* Give back what was allocated, once what is queued has used it: for a launch that is not done after all. */
void launcher_abandon(struct prepared *prepared);

/* Queue fills and the kernel. May be repeated. */
int launcher_queue(struct prepared *prepared, struct error *error);

/* The reply's parts, in the zone. */
int launcher_describe(const struct prepared *prepared, msgpack_zone *zone, struct launch_reply *ret,
                      struct error *error);

#endif
