/* Kernels for executors: each asks as a client would, in the namespace of the user that it works for. */
#ifndef DAEMON_DEVICES_FETCH_H
#define DAEMON_DEVICES_FETCH_H

#include "daemon/devices/executor.h"
#include "daemon/kernel_store.h"

/* Answer a kernel.get, now or later. An executor with more than EXECUTOR_FETCHES under way is refused. */
void fetch_start(struct executor *executor, const struct envelope *envelope, struct kernel_store *store,
                 struct stats_reply *stats);

/* The executor is gone: what is under way is finished without it. */
void fetches_orphan(struct executor *executor);

#endif
