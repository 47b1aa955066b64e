/* The methods that are not compile: each a few steps, all of them here. */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "daemon/conn.h"
#include "proto/envelope.h"

/* Each answers the request, now or later. */
void control_hello(struct conn *conn, const struct envelope *envelope);
void control_ping(struct conn *conn, const struct envelope *envelope);
void control_stats(struct conn *conn, const struct envelope *envelope);
void control_kernel_get(struct conn *conn, const struct envelope *envelope);
void control_kernel_list(struct conn *conn, const struct envelope *envelope);
void control_blob_put(struct conn *conn, const struct envelope *envelope);
void control_devices(struct conn *conn, const struct envelope *envelope);
void control_device_open(struct conn *conn, const struct envelope *envelope);
void control_cancel(struct conn *conn, const struct envelope *envelope);

#endif
