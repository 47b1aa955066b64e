/* One launch: from a request's arguments to work on a stream. */
#ifndef DAEMON_EXECUTOR_LAUNCHER_H
#define DAEMON_EXECUTOR_LAUNCHER_H

#include "daemon/executor/session.h"

/* Memory to be filled before the kernel runs. */
struct launch_fill {
    uint64_t address, size;
    uint8_t value;
};

/* A launch that is checked and complete: queueing it is all that is left. Its arrays are in the zone that it was
 * prepared with; the rest is the session's. */
struct prepared {
    struct session *session;
    struct defined *defined;
    struct stream *stream;
    struct entry *entry; /* its argument bytes are those of this launch; good until the session's next one */
    bool cached;
    struct launch_fill *fills;
    size_t n_fills;
    uint64_t *allocated; /* numbers of the outputs that this launch has allocated */
    size_t n_allocated;
    struct buffer **buffers; /* one per parameter; NULL for those without */
    uint64_t *offsets;       /* into the buffer */
};

/* Look everything up, check it, find or make the launch entry, allocate outputs and intermediates. On failure nothing
 * is left behind. */
int launcher_prepare(struct session *session, const struct launch_request *request, msgpack_zone *zone,
                     struct prepared *ret, struct error *error);
/* Give back what was allocated, once what is queued has used it: for a launch that is not done after all. */
void launcher_abandon(struct prepared *prepared);

/* Queue the fills, and the kernel. May be repeated. */
int launcher_queue_fills(const struct prepared *prepared, struct error *error);
int launcher_queue_kernel(const struct prepared *prepared, struct error *error);

/* The reply's parts, in the zone. */
int launcher_describe(const struct prepared *prepared, msgpack_zone *zone, struct launch_reply *ret,
                      struct error *error);

#endif
