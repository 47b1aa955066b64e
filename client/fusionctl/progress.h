/* How far a compile is, on stderr, once it takes long: on a terminal one line that is redrawn every second, elsewhere a
 * plain line whenever there is news. */
#ifndef CLIENT_FUSIONCTL_PROGRESS_H
#define CLIENT_FUSIONCTL_PROGRESS_H

#include "client/fusiond.h"

/* `what` is being compiled, and must live until the end. One at a time. */
void progress_begin(const char *what);
/* For fusiond_compile_options; the context is not used. */
void progress_take(void *context, const struct fusiond_progress *progress);
/* The terminal's line is empty again. */
void progress_end(void);

#endif
