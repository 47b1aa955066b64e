/* Why a compile request hits or misses: its key, part by part, and what is there in its place. Compiles nothing. */
#ifndef DAEMON_EXPLAIN_H
#define DAEMON_EXPLAIN_H

#include "daemon/compile/plan.h"
#include "daemon/kernel_store.h"
#include "daemon/overrides.h"

struct conn;

/* What a request that waits for the database holds. Zeroed: nothing. */
struct explanation {
    struct store_near near;
    struct plan *plan;          /* owned */
    struct override_note *note; /* owned; may be NULL */
};

void explanation_finish(struct explanation *explanation);

/* Answer the request, now or later. The settled plan and the note (may be NULL) are taken over. */
void explain(struct conn *conn, uint32_t id, struct plan *plan, struct override_note *note);

#endif
