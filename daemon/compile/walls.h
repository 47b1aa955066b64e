/* Who may compile on a machine that cannot shut its compiler workers in. */
#ifndef DAEMON_COMPILE_WALLS_H
#define DAEMON_COMPILE_WALLS_H

#include <sys/types.h>

#include "proto/error.h"
#include "proto/message.h"

/* What a worker that is not shut in can read belongs to the daemon's own user, so that user may go on (and is warned,
 * by `degraded`); any other is refused: FORBIDDEN. A worker with seccomp alone opens no file, which is enough. */
int walls_admit(enum sandbox grade, uid_t client, uid_t own, struct error *error);

#endif
