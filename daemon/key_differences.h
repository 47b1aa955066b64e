/* What of the key of a plan is not the same in a stored kernel, field by field. */
#ifndef DAEMON_KEY_DIFFERENCES_H
#define DAEMON_KEY_DIFFERENCES_H

#include "daemon/compile/plan.h"
#include "kernels_db/kernels_db.h"

#define KEY_DIFFERENCES 64 /* as many as an answer carries */

struct key_differences {
    struct difference at[KEY_DIFFERENCES]; /* texts in the zone */
    size_t n;                              /* all there are; those above KEY_DIFFERENCES are counted only */
    msgpack_zone *zone;
};

/* Append all. Texts that do not fit into memory are left out. */
void key_differences_find(const struct plan *plan, const struct kernels_db_near *near, struct key_differences *ret);

#endif
