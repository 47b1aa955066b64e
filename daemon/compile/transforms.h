/*
 * Source transforms (B1.4): programs of the daemon's owner that every code goes through before it is compiled. They run
 * in processes of their own, shut in, a few at a time; what they are made of is in the key, so that a hit runs none.
 */
#ifndef DAEMON_COMPILE_TRANSFORMS_H
#define DAEMON_COMPILE_TRANSFORMS_H

#include <uv.h>

#include "daemon/base/list.h"
#include "daemon/compile/transform_spec.h"
#include "kernels_db/kernel_key.h"
#include "proto/message.h"

struct transforms;

struct transforms_options {
    const char *program;                /* path of fusiond-transform */
    const struct transform_spec *specs; /* must outlive the transforms */
    size_t n_specs;
    unsigned max_running; /* processes at a time, at least 1 */
    struct stats_reply *stats;
};

/* One that cannot be run is no error here: what it should have changed cannot be compiled. NULL when memory ran out. */
struct transforms *transforms_create(uv_loop_t *loop, const struct transforms_options *options);
/* Nothing may be running any more. NULL is fine. */
void transforms_destroy(struct transforms *transforms);

/* Look whether programs were replaced, since keys depend on them. True: at least one was. NULL is fine. */
bool transforms_refresh(struct transforms *transforms);

/* For the key: name and digest of each, in order. The array stays where it is. NULL has none. */
const struct key_part *transforms_parts(const struct transforms *transforms, size_t *ret_n);

/* Whether there is one for this point. NULL has none. */
bool transforms_any(const struct transforms *transforms, enum transform_point point);

/* A text on its way through all transforms of one point. Embedded in whoever wants it. */
struct transform_run {
    struct list link;
    struct transforms *transforms;
    enum transform_point point;
    const struct key_part *parts; /* what each must be, by its digest */
    size_t next;                  /* the one that it goes through, or waits for */
    struct text text;
    char *own; /* what `text` is, after the first */
    uint64_t limit;
    struct transform_process *process; /* NULL: it waits */
    /* Called once after a successful transforms_start, later, on the loop: with the text, good until it returns; or
     * with an error and what the program said (absent: nothing). */
    void (*done)(struct transform_run *run, struct text text, const struct error *error, struct text said);
};

/* Text and parts, those of the key, must live until done. There must be a transform for the point. -1: nothing is
 * called back. */
int transforms_start(struct transforms *transforms, enum transform_point point, struct text text,
                     const struct key_part *parts, struct transform_run *run, struct error *error);

/* Fail all that waits and runs with SHUTTING_DOWN, and from now on whatever is started. NULL is fine. */
void transforms_stop(struct transforms *transforms);

#endif
