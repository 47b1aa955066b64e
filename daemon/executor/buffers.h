/* The buffers of a session, by number: memory of the device, allocated here or imported. */
#ifndef DAEMON_EXECUTOR_BUFFERS_H
#define DAEMON_EXECUTOR_BUFFERS_H

#include "daemon/base/list.h"
#include "daemon/executor/device.h"
#include "daemon/executor/table.h"

struct process;

/* Owned by the session, or the stream whose scratch memory it is. */
struct buffer {
    UT_hash_handle hh;
    uint64_t number;
    struct device_memory memory;
    bool imported;
    struct list condemned; /* in session->condemned, since this moment of the session */
    uint64_t condemned_at;
};

struct buffers {
    struct buffer *by_number;
    uint64_t next;
    struct process *process;
};

void buffers_init(struct buffers *buffers, struct process *process);
/* All work is done. */
void buffers_finish(struct buffers *buffers);

/* OUT_OF_MEMORY, BUSY when there are too many, INVALID_BUFFER. When the device is short of memory, kernels that nobody
 * uses are unloaded first. */
int buffers_allocate(struct buffers *buffers, uint64_t size, bool exportable, struct buffer **ret, struct error *error);
/* fd is borrowed; -1: none came. */
int buffers_import(struct buffers *buffers, const struct buffer_import_request *request, int fd, struct buffer **ret,
                   struct error *error);

/* NULL with UNKNOWN_HANDLE. */
struct buffer *buffers_find(const struct buffers *buffers, uint64_t number, struct error *error);
/* Take the number away; the buffer is the caller's. */
void buffers_forget(struct buffers *buffers, struct buffer *buffer);

/* One without a number, and the end of one that nothing uses. */
int buffer_create(struct process *process, uint64_t size, bool exportable, struct buffer **ret, struct error *error);
void buffer_destroy(struct backend *backend, struct buffer *buffer);

/* Whether a part lies in the buffer: INVALID_BUFFER with what is needed and what is there. */
int buffer_check(const struct buffer *buffer, uint64_t offset, uint64_t size, struct error *error);

#endif
