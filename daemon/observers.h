/*
 * Observers (B1.4): programs of the daemon's owner that are given each new kernel's record, after its client has had
 * the answer, and can change nothing. One runs at a time, at the lowest priority; what they do not keep up with is
 * dropped and counted.
 */
#ifndef DAEMON_OBSERVERS_H
#define DAEMON_OBSERVERS_H

#include <uv.h>

#include "daemon/compile/transform_spec.h"
#include "proto/message.h"

struct observers;

struct observers_options {
    const char *leaf;                   /* path of fusiond-leaf, through which they die with the daemon */
    const struct transform_spec *specs; /* their points mean nothing; must outlive the observers */
    size_t n_specs;
    struct stats_reply *stats;
};

/* NULL when memory ran out. */
struct observers *observers_create(uv_loop_t *loop, const struct observers_options *options);
/* After the loop has ended. NULL is fine. */
void observers_destroy(struct observers *observers);

/* Show them a kernel. Copies what it needs. NULL observers are fine. */
void observers_offer(struct observers *observers, const struct kernel *kernel);

/* Forget what waits and kill what runs; its handles close on the loop. NULL is fine. */
void observers_stop(struct observers *observers);

#endif
