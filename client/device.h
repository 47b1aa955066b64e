/* A device's direct channel: calls, requests in flight, and what belongs to the device. */
#ifndef CLIENT_DEVICE_H
#define CLIENT_DEVICE_H

#include <sys/queue.h>
#include <sys/types.h>

#include "client/channel.h"
#include "client/fusiond.h"

/* Requests that are unanswered or uncollected, at most: a power of two. Bounds what a client holds of them, and with
 * it the answers that the executor must buffer for one that only sends. */
#define DEVICE_WINDOW 1024u

/* Owner: the caller of fusiond_stream_create; the first one is part of the device. */
struct fusiond_stream {
    LIST_ENTRY(fusiond_stream) link;
    struct fusiond_device *device; /* NULL: closed */
    uint64_t number;
    size_t n_silent;     /* launches without a ticket that are not answered yet */
    struct error failed; /* the first of them that was refused; code 0: none */
};

/* Owner: whoever made it, or the launched that it came with. */
struct fusiond_buffer {
    LIST_ENTRY(fusiond_buffer) link;
    struct fusiond_device *device; /* NULL: closed */
    uint64_t number, size;
    void *map; /* NULL: not mapped */
};

/* What the answer to a request is for. */
enum pending_kind {
    PENDING_NONE,    /* the slot is free */
    PENDING_CALL,    /* somebody waits for it; at most one at a time */
    PENDING_TICKET,  /* kept until it is collected */
    PENDING_SILENT,  /* a failure is kept in the stream */
    PENDING_DROPPED, /* nobody wants to know */
};

/* A request from when it is sent until its answer has been used. */
struct pending {
    enum pending_kind kind;
    uint32_t id;
    bool answered;
    struct fusiond_stream *stream; /* of a silent one; NULL: destroyed */
    /* Of a ticket: the answer, a failure if `error` is there (neither: the channel ended), and the caller's note. */
    struct frame_copy frame;
    struct bytes body, error;
    void *note;
};

/* Owner: the caller of fusiond_device_open. */
struct fusiond_device {
    struct channel channel;
    pid_t pid;          /* that opened it; another one is a forked child */
    struct error ended; /* why the channel ended; code 0: it has not */
    uint32_t next_id;
    size_t n_taken, n_unanswered; /* slots */
    unsigned n_posted;            /* since answers were last looked for */
    struct pending *pending;      /* DEVICE_WINDOW slots; a request is in slot id % DEVICE_WINDOW */

    struct fusiond_stream first; /* number 0 */
    LIST_HEAD(, fusiond_stream) streams;
    LIST_HEAD(, fusiond_buffer) buffers;
    LIST_HEAD(, fusiond_defined) defined;

    /* Shared memory for large copies; made by the first one. */
    int staging_fd; /* -1: none */
    void *staging;

    msgpack_zone *zone;    /* of facts */
    msgpack_zone *scratch; /* of the last reply */
    struct device facts;
    char target[16];
    uint32_t executor_pid;
};

/* Whether the device can be used: EXECUTOR_RESET when it is NULL (closed), has ended, or is a parent process's. */
int device_check(const struct fusiond_device *device, struct error *error);

/* Make one request and wait for its answer; answers of others that come meanwhile are put where they belong. */
int device_call(struct fusiond_device *device, enum method method, const void *params, const int *fds, size_t n_fds,
                struct reply *ret, struct error *error);

/* device_call and message_parse into *ret (NULL: not wanted), whose texts and numbers live in `zone` (NULL: in the
 * device's, until the next call). For replies without descriptors. */
int device_ask(struct fusiond_device *device, enum method method, const void *params, const int *fds, size_t n_fds,
               msgpack_zone *zone, void *ret, struct error *error);

/* Make a request and return once it is sent. `note`, a ticket's, comes back from device_collect; it is from malloc, and
 * the device's from here on unless this fails. *ret_id (which may be NULL) is the ticket. */
int device_post(struct fusiond_device *device, enum method method, const void *params, enum pending_kind kind,
                struct fusiond_stream *stream, void *note, uint32_t *ret_id, struct error *error);

/* Wait for one answer and put it where it belongs. -1: the channel has ended. */
int device_receive(struct fusiond_device *device, struct error *error);

/* Wait for the answer to a ticket. The caller frees *ret_note and, when it returns 0, ret_frame->bytes, which *ret_body
 * lies in. -1 also when the answer is an error. UNKNOWN_HANDLE (with *ret_note untouched) for no ticket. */
int device_collect(struct fusiond_device *device, uint64_t ticket, struct frame_copy *ret_frame, struct bytes *ret_body,
                   void **ret_note, struct error *error);

/* Decode a reply to the method; the zone as for device_ask. */
int device_parse(struct fusiond_device *device, enum method method, struct bytes body, msgpack_zone *zone, void *ret,
                 struct error *error);

/* Free what is kept of requests, whatever they wait for. */
void device_forget(struct fusiond_device *device);

/* A buffer of this number. Takes its place among the device's. NULL when memory ran out. */
struct fusiond_buffer *buffer_create(struct fusiond_device *device, uint64_t number, uint64_t size);

/* Unmap and close the staging memory. */
void staging_finish(struct fusiond_device *device);

/* The device is gone: everything defined on it becomes inert. */
void defined_abandon(struct fusiond_device *device);

#endif
