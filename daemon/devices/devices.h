/*
 * The devices of the node, and the executors that launch on them: one per device and user, and one per session that
 * asks for its own.
 *
 * Opening a device:
 *
 *   device_open ─► what devices are there? ─► which one is meant? ─► is there an executor? ─► it gets its end of the
 *                    │ waits for the probe      │ NO_DEVICE           │ no: one is started     channel, and says so
 *                    │                          │                     │       ▲                  │         │
 *                    └─ EXECUTOR_UNAVAILABLE ◄──┼─────────────────────┘       └──────────────────┘         ▼
 *                                    three starts have failed, or       it dies over that, not for       answered
 *                                    three executors died over it                the third time
 *
 * An executor that dies costs its clients their channels, which end by themselves, and the front one log line; the next
 * device_open starts another. One that has no channel for a while is let go.
 */
#ifndef DAEMON_DEVICES_DEVICES_H
#define DAEMON_DEVICES_DEVICES_H

#include <uv.h>

#include "daemon/base/list.h"
#include "daemon/devices/executor.h"
#include "daemon/devices/naming.h"
#include "daemon/kernel_store.h"

struct devices;

struct devices_options {
    const char *executor;  /* path of fusiond-executor */
    unsigned host_threads; /* of the host device; 0: as many as it may use */
    uint64_t spin_us;      /* how long an executor polls before it sleeps */
    uint64_t idle_ms;      /* how long one without a channel is kept */
    struct kernel_store *store;
    struct stats_reply *stats;
};

/* What a device_open came to: good until `done` returns. The descriptor is the client's end of the channel; it is
 * closed afterwards. */
struct device_opened {
    const struct device *device;
    pid_t executor_pid;
    int fd;
};

/* Somebody who waits for a device, embedded in a request. */
struct device_open {
    struct list link;
    char name[65]; /* as the client names it */
    bool has_name;
    struct device_view view; /* its texts must live until done, or until it is left */
    uid_t uid;
    pid_t pid;
    bool session;
    bool is_named; /* `device` is known */
    struct device_id device;
    struct executor *executor; /* of a session, while it starts; and while it takes its end of the channel */
    bool is_handed;            /* the latter: */
    uint64_t number;           /* of the channel among those of the executor */
    int fd;                    /* the client's end */
    unsigned n_handed;         /* executors that were tried */
    /* Called exactly once unless it is left, later than devices_open, on the loop. One of opened and error. */
    void (*done)(struct device_open *open, const struct device_opened *opened, const struct error *error);
};

/* Somebody who waits for the facts alone. */
struct device_look {
    struct list link;
    /* facts NULL: there are none, and devices_problem says why. */
    void (*done)(struct device_look *look, const struct executor_ready *facts);
};

/* Starts looking at what there is. */
int devices_create(uv_loop_t *loop, const struct devices_options *options, struct devices **ret, struct error *error);

/* Of these three, NULL (devices that are closed) is fine, and knows nothing. */
/* What there is, as far as it is known: devices, mps, problems. NULL while it is not. Good until control returns to the
 * loop. */
const struct executor_ready *devices_facts(const struct devices *devices);
/* Why the devices cannot be looked at; NULL: nothing is wrong, or it is not known yet. */
const char *devices_problem(const struct devices *devices);
/* How well the executor of the host device is shut in; 0 until one has started. */
enum sandbox devices_sandbox(const struct devices *devices);

/* Open a device. -1 with SHUTTING_DOWN, and then `done` is not called. */
int devices_open(struct devices *devices, struct device_open *open, struct error *error);
/* Stop waiting. Harmless when nothing is waited for, also for a zeroed one. */
void device_open_leave(struct device_open *open);

/* Wait for the facts; a first look takes up to half a minute. */
int devices_look(struct devices *devices, struct device_look *look, struct error *error);
void device_look_leave(struct device_look *look);

/* Fail what waits, let the executors drain, kill those that do not end, reap; then call back and free. */
void devices_close(struct devices *devices, void (*on_closed)(void *owner), void *owner);

#endif
