/*
 * What devices there are: asked of an executor that is started for this alone, because the front never loads a driver.
 *
 *             facts                      probe_again
 *   ASKING ───────────► KNOWN ───────────────────────────► ASKING   (the facts before stay good meanwhile)
 *     ▲ │ failed, with a problem
 *     │ ▼
 *    PAUSED   (ever longer)
 */
#ifndef DAEMON_DEVICES_PROBE_H
#define DAEMON_DEVICES_PROBE_H

#include <stdbool.h>
#include <uv.h>

#include "daemon/devices/executor.h"

/* Embedded in its owner. */
struct probe {
    uv_loop_t *loop;
    const char *program; /* fusiond-executor */
    struct executor *process;
    uv_timer_t pause;
    unsigned failed;
    bool again; /* ask once more when this one is over */
    bool told;  /* this process has told */
    bool closing;
    msgpack_zone *zone; /* of the facts; NULL: none yet */
    struct executor_ready facts;
    uint64_t known_ms;        /* when they were told, by the loop's clock */
    char problem[ERROR_TEXT]; /* why the last try failed; "" when it did not */
    void (*on_change)(struct probe *probe);
    void (*on_closed)(struct probe *probe);
};

/* Start asking. `on_change` comes later, on the loop, whenever facts or problem are new. */
void probe_start(struct probe *probe, uv_loop_t *loop, const char *program, void (*on_change)(struct probe *probe));

/* NULL while nothing is known. Good until control returns to the loop. */
const struct executor_ready *probe_facts(const struct probe *probe);

/* Ask again: something has changed, perhaps. */
void probe_again(struct probe *probe);

void probe_close(struct probe *probe, void (*on_closed)(struct probe *probe));

#endif
