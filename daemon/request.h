/* The life of a request. */
#ifndef DAEMON_REQUEST_H
#define DAEMON_REQUEST_H

#include "daemon/compile/flight.h"
#include "daemon/conn.h"
#include "daemon/devices/devices.h"
#include "daemon/explain.h"
#include "daemon/kernel_get.h"
#include "daemon/kernel_store.h"
#include "daemon/memo.h"

/* A request that waits for something. It is freed when what it waits for comes; until then it is the connection's,
 * or, once that has closed or it was cancelled, inert (conn == NULL). */
struct request {
    struct list in_conn;
    struct list in_parked;
    struct conn *conn;
    uint32_t id;
    enum method method;
    struct parts parts;
    struct passenger passenger;     /* compile */
    struct bytes params;            /* compile, while parked or while names may be put back: an own copy */
    bool with_names;                /* compile: all names are in the key */
    struct entry_names names;       /* compile: that placeholders stand for; an own copy */
    struct override_note *note;     /* compile, where the daemon has overrides; else NULL */
    struct kernel_get get;          /* kernel.get, kernel.source */
    struct explanation explanation; /* explain */
    struct store_list list;         /* kernel.list */
    struct device_open open;        /* device.open */
    struct device_look look;        /* devices */
    msgpack_zone *zone;             /* kernel.list: the texts of its request; else NULL */
    struct store_numbers numbers;   /* stats */
};

/* A frame from a client: the one entrance. */
void request_receive(struct conn *conn, const uint8_t *frame, size_t size);

/* Make a request that waits. NULL after it has been answered with BUSY or OUT_OF_MEMORY. */
struct request *request_create(struct conn *conn, uint32_t id, enum method method);
/* Free it; what it waits for must have come, or never been asked for. */
void request_destroy(struct request *request);

/* Answer with a kernel. */
void request_answer_kernel(struct conn *conn, uint32_t id, enum method method, struct parts parts,
                           const struct kernel_answer *answer);

/* Stop waiting; what goes on goes on without it. Frees the request, now or when what it waits for comes. */
void request_abandon(struct request *request);
/* All of a connection's. */
void requests_orphan(struct conn *conn);

/* The compiler is known, or known to be missing: go on with the requests that came before. */
void requests_resume_parked(struct server *server);
void requests_fail_parked(struct server *server, enum status code, const char *text);

#endif
