/*
 * One executor process, seen from the front.
 *
 *               executor_ready                  executor_release
 *   STARTING ───────────────────► READY ──────────────────────────► LEAVING
 *      │                            │                                  │
 *      │                            │ executor_fault                   │
 *      │                            ▼                                  │
 *      │ deadline, kill,          LOST                                 │
 *      │ broken protocol            │ exit, or a kill after a second   │ exit, or a kill after its grace
 *      └────────────┬───────────────┴──────────────────────────────────┘
 *                   ▼
 *                 GONE  (reported once; the memory is the owner's to free)
 *
 * Only a READY one that still hears is attached to; it may also die from there without a word. Clients need nothing
 * from the front after that: their channels end by themselves when either side does.
 */
#ifndef DAEMON_DEVICES_EXECUTOR_H
#define DAEMON_DEVICES_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/child.h"
#include "daemon/base/list.h"
#include "proto/envelope.h"
#include "proto/message.h"

enum executor_state {
    EXECUTOR_STARTING,
    EXECUTOR_READY,
    EXECUTOR_LEAVING,
    EXECUTOR_LOST,
    EXECUTOR_GONE,
};

/* A device as long as it is the same piece of hardware: ordinals move when one disappears. */
struct device_id {
    enum device_kind kind;
    unsigned ordinal;
    char uuid[65]; /* "" when it has none */
};
struct device_id device_id_of(const struct device *device);
bool device_id_equal(const struct device_id *a, const struct device_id *b);

struct executor;

/* Why an executor is gone. */
struct executor_end {
    const char *code;   /* "fault", "died", "protocol", "timeout", "memory", "no_device", "released", "killed" */
    bool on_purpose;    /* executor_release */
    bool was_starting;  /* it never became ready */
    bool no_device;     /* it was not ready because it has no device */
    uint64_t client;    /* "fault": whose launch did it; 0: unknown */
    uint64_t pid;       /* of that client */
    const uint8_t *key; /* of the kernel; NULL: unknown */
    char text[ERROR_TEXT];
};

struct executor_events {
    /* What it told first, without an error. A negative result kills it, with *ret_error as the reason. To keep what
     * *ready points to, take *zone and leave NULL. */
    int (*on_ready)(struct executor *executor, const struct executor_ready *ready, msgpack_zone **zone,
                    struct error *ret_error);
    /* Channels have reached it, or have ended. */
    void (*on_status)(struct executor *executor);
    /* A kernel.get; its bytes are good until the function returns. */
    void (*on_request)(struct executor *executor, const struct envelope *envelope);
    /* The process is reaped. Called once. */
    void (*on_gone)(struct executor *executor, const struct executor_end *end);
};

struct executor {
    struct list link; /* the owner's */
    struct child child;
    enum executor_state state;
    struct device_id device; /* of no meaning in a probe */
    uid_t uid;
    bool session; /* of one client alone */
    bool probe;
    uint64_t attached;     /* channels that were handed to it */
    uint64_t confirmed;    /* of these, those that have reached it */
    struct list attaching; /* the owner's: who waits for that */
    uint64_t ended;        /* of these, those that it told of */
    struct list fetches;
    size_t n_fetches;
    bool was_ready;
    bool idle; /* it is let go unless it gets a channel in time */
    bool on_purpose;
    bool no_device;
    const char *code;
    struct executor_fault fault;
    char reason[ERROR_TEXT];
    const struct executor_events *events;
    void *owner;
};

/* Start argv[0] with the arguments, which end with NULL. Fields that say what it is are zeroed: the owner sets them. */
int executor_start(struct executor *executor, uv_loop_t *loop, char **argv, const struct executor_events *events,
                   void *owner, struct error *error);

/* Whether a channel can be handed to it, now or when it is ready. */
bool executor_is_usable(const struct executor *executor);
/* Hand a READY one its end of a client's channel; the descriptor is duplicated. It has it when `confirmed` has come up
 * to what `attached` is now; one that takes too long over that is killed. */
void executor_attach(struct executor *executor, uint64_t client, pid_t pid, int fd);
/* Channels that are open, as far as it has told. */
uint64_t executor_channels(const struct executor *executor);

/* Answer one of its requests. */
void executor_send(struct executor *executor, const msgpack_sbuffer *frame, const int *fds, size_t n_fds);

/* Let a READY one go if it gets no channel for `ms`. */
void executor_release_after(struct executor *executor, uint64_t ms);
/* Let it go: it drains what its clients have queued, within a grace. One that is not ready yet is killed. */
void executor_release(struct executor *executor);
/* Kill it, because of what it did. */
void executor_refuse(struct executor *executor, const char *code, const char *why);

#endif
