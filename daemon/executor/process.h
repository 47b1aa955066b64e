/* The executor process: everything it owns, and the order in which it begins and ends. */
#ifndef DAEMON_EXECUTOR_PROCESS_H
#define DAEMON_EXECUTOR_PROCESS_H

#include <msgpack.h>
#include <uv.h>

#include "daemon/executor/device.h"
#include "daemon/executor/front.h"
#include "daemon/executor/modules.h"
#include "daemon/executor/session.h"

/*
 *   RUNNING ──the front closes──► FINISHING ──no session left──► CLOSING ──► CLOSED
 *      │                              └──after a second──► ABANDONED        ▲
 *      └──────the device is lost──► LOST ──the clients are told─────────────┘
 *
 * ABANDONED: a kernel does not end. Nothing more is done in order; the process is to exit.
 */
enum process_state {
    PROCESS_RUNNING,
    PROCESS_FINISHING,
    PROCESS_LOST,
    PROCESS_CLOSING,
    PROCESS_CLOSED,
    PROCESS_ABANDONED,
};

struct process {
    uv_loop_t *loop;
    enum process_state state;
    struct backend *backend;
    struct front front;
    struct modules modules;
    struct list sessions;
    uint64_t attached; /* sessions that ever were */
    size_t channels;   /* sessions that are not gone */
    uint64_t launches;
    msgpack_sbuffer scratch; /* one reply, while it is being written */
    msgpack_zone request;    /* one request, while it is being handled */
    uv_idle_t spin;          /* active: the loop polls instead of sleeping */
    uint64_t spin_ns;
    uint64_t spin_until_ns;
    uv_timer_t grace;
    int open_handles;
    int exit_code;
    struct error loss;            /* LOST: what the back end said */
    const struct stream *culprit; /* LOST: the one stream with launches under way, if there was but one launch */
};

struct process_options {
    int fd;           /* the channel to the front */
    uint64_t spin_us; /* poll that long for the next request before sleeping */
    enum sandbox sandbox;
};

/* Take over an open back end and the channel to the front, which is told that the executor is ready. Everything ends
 * when the front closes the channel, or when the device is lost: the loop has then nothing left to do, and the state is
 * CLOSED or ABANDONED. The back end is closed, unless it is lost. */
int process_init(struct process *process, uv_loop_t *loop, struct backend *backend,
                 const struct process_options *options, struct error *error);
/* Run the loop until then. The exit code. */
int process_run(struct process *process);

/* A session is freed. */
void process_session_gone(struct process *process);

/* The device is lost: the error for a request that waits on this stream, or on none (NULL). Whose launch did it is said
 * when there was but one under way. */
void process_explain_loss(const struct process *process, const struct stream *stream, struct error *ret);

/* A request has come, or an answer went: another request may follow soon. */
void process_expect_more(struct process *process);

#endif
