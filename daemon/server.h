/* The server: everything that the front owns, and the order in which it begins and ends. */
#ifndef DAEMON_SERVER_H
#define DAEMON_SERVER_H

#include <uv.h>

#include "daemon/blob_store.h"
#include "daemon/compile/compilers.h"
#include "daemon/compile/flight.h"
#include "daemon/compile/pool.h"
#include "daemon/config.h"
#include "daemon/devices/devices.h"
#include "daemon/kernel_store.h"
#include "daemon/listener.h"
#include "daemon/memo.h"
#include "daemon/overrides.h"

/* The one protocol version so far. */
#define PROTOCOL_VERSION 1
#define PROTOCOL_OLDEST 1

/*
 * The end, each step when the one before is through:
 *
 *   RUNNING ──stop──► listener closed, pools and devices closing ──► all closed, no flights ──► connections closed
 *                                                                                                  ──► store closed
 */
enum server_state {
    SERVER_RUNNING,
    SERVER_STOPPING,
    SERVER_STORE_CLOSING,
    SERVER_STOPPED,
};

struct server;

struct server {
    uv_loop_t loop;
    const struct config *config;
    enum server_state state;
    struct stats_reply stats; /* the counters, in the form in which they are sent */
    uint64_t started_ns;
    struct listener listener;
    struct list conns;
    struct list parked; /* compile requests that came before the compiler was known */
    struct kernel_store *store;
    struct budget budget; /* of compiler processes, over the pools */
    struct compilers compilers;
    struct compiler_facts facts[COMPILERS_MAX]; /* of server_facts() */
    struct devices *devices;                    /* NULL once closed */
    struct flights flights;
    struct blob_store blobs;
    struct memo memo;
    struct overrides *overrides;   /* NULL: there are none */
    struct observers *observers;   /* NULL: there are none */
    struct transforms *transforms; /* the same */
    bool require_cached;           /* nothing is compiled */
    msgpack_sbuffer scratch;       /* one reply, while it is being written */
    uv_idle_t spin;                /* active: the loop polls instead of sleeping */
    uint64_t spin_until_ns;
    uv_signal_t sigterm;
    uv_signal_t sigint;
};

/* Run until a signal ends it. 0, or -1 with the reason why it could not start. */
int server_run(const struct config *config, struct error *error);

/* Begin to stop; harmless when it has begun. */
void server_stop(struct server *server);

/* A request has come: another may follow soon. */
void server_expect_more(struct server *server);

/* A connection has begun to close. */
void server_conn_closed(struct server *server);

/* What is known of a compiler and of the driver that loads what it makes; NULL while nothing is known of the compiler.
 * Good until the next call for the same one. */
const struct compiler_facts *server_facts(struct server *server, size_t compiler_at);

/* One sentence per thing that does not work just now; returns how many. Texts live as long as nothing changes. */
#define SERVER_DEGRADED 16
size_t server_degraded(struct server *server, struct text ret[SERVER_DEGRADED]);

#endif
