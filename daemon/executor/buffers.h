/* The buffers of a session, by number: memory of the device, allocated here or imported. */
#ifndef DAEMON_EXECUTOR_BUFFERS_H
#define DAEMON_EXECUTOR_BUFFERS_H

#include <uthash.h>

#include "daemon/base/list.h"
#include "daemon/executor/device.h"

/* Owned by the session. */
struct buffer {
    UT_hash_handle hh;
    uint64_t number;
    struct device_memory memory;
    bool imported;
};

struct buffers {
    struct buffer *by_number;
    uint64_t next;
    uint64_t bytes; /* of all */
    struct backend *backend;
};

void buffers_init(struct buffers *buffers, struct backend *backend);
/* All work is done. */
void buffers_finish(struct buffers *buffers);

/* OUT_OF_MEMORY, BUSY when there are too many, INVALID_BUFFER. */
int buffers_allocate(struct buffers *buffers, uint64_t size, bool exportable, struct buffer **ret, struct error *error);
/* fd is borrowed; -1: none came. */
int buffers_import(struct buffers *buffers, const struct buffer_import_request *request, int fd, struct buffer **ret,
                   struct error *error);

/* NULL with UNKNOWN_HANDLE. */
struct buffer *buffers_find(const struct buffers *buffers, uint64_t number, struct error *error);
/* Take the number away: the memory is somebody else's from now on. */
void buffers_forget(struct buffers *buffers, struct buffer *buffer);
/* The same, and release the memory, which nothing uses. */
void buffers_release(struct buffers *buffers, struct buffer *buffer);

/* Whether a part lies in the buffer: INVALID_BUFFER with what is needed and what is there. */
int buffer_check(const struct buffer *buffer, uint64_t offset, uint64_t size, struct error *error);

#endif
