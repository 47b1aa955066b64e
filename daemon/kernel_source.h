/* kernel.source: the whole program that a kernel was compiled from. */
#ifndef DAEMON_KERNEL_SOURCE_H
#define DAEMON_KERNEL_SOURCE_H

#include "daemon/conn.h"
#include "proto/envelope.h"

/* Answers the request, now or later. */
void kernel_source(struct conn *conn, const struct envelope *envelope);

#endif
