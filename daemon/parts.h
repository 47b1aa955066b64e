/* Which long parts of a kernel a reply carries beside the metadata. */
#ifndef DAEMON_PARTS_H
#define DAEMON_PARTS_H

#include <stdbool.h>

struct parts {
    bool image;
    bool ptx;
    bool log;
    bool code;
    bool details; /* args, modules, headers, phases */
};

static inline bool parts_equal(struct parts a, struct parts b)
{
    return a.image == b.image && a.ptx == b.ptx && a.log == b.log && a.code == b.code && a.details == b.details;
}

#endif
