/* The requests of a direct channel, by what they are about. Each answers, now or when the device is done. */
#ifndef DAEMON_EXECUTOR_REQUESTS_H
#define DAEMON_EXECUTOR_REQUESTS_H

#include "daemon/executor/session.h"

/* define.c: fusion.define */
void request_define(struct session *session, const struct envelope *envelope);

/* launcher.c: launch; timed.c: run */
void request_launch(struct session *session, const struct envelope *envelope);
void request_run(struct session *session, const struct envelope *envelope);

/* transfers.c: buffer.* and stream.* */
void request_buffer(struct session *session, const struct envelope *envelope);
void request_stream(struct session *session, const struct envelope *envelope);

/* Decode the params into *ret, in the process's zone, good until the handler returns; or answer with what is wrong. */
int request_parse(struct session *session, const struct envelope *envelope, void *ret);

/* Answer with what went wrong before anything of it was queued, or, when it went wrong because the device is lost, with
 * that. */
void request_fail(struct session *session, const struct envelope *envelope, const struct error *error);

#endif
