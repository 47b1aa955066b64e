/* Whether a file that changes what is compiled can have been written by the daemon's owner alone. */
#ifndef DAEMON_SANDBOX_OWNED_H
#define DAEMON_SANDBOX_OWNED_H

#include <sys/stat.h>

/* Why somebody else could have written it, as the rest of a sentence; NULL: nobody else could. */
const char *owned_distrust(const struct stat *status);

#endif
