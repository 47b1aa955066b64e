/* Another program, run to its end: its output, bounded, within a deadline. */
#ifndef CLIENT_FUSIONCTL_COMMAND_H
#define CLIENT_FUSIONCTL_COMMAND_H

#include <stddef.h>

/* What is kept of its stderr; the rest is read and dropped. */
#define COMMAND_SAID 1024

/* One of `names`, looked for in $PATH and then in the toolkit's folders ($CUDA_HOME/bin, $CUDA_PATH/bin,
 * /usr/local/cuda/bin). The first name that is found anywhere is taken. NULL: there is none. To be freed. */
char *command_find(const char *const *names);

/* What it wrote to stdout, NUL-terminated, to be freed; stderr, one line of it. */
struct command_output {
    char *out;
    size_t size;
    char said[COMMAND_SAID];
};

/* Run argv[0], a path, with nothing to read. It is killed, with all that it has started, when it is not done after
 * `deadline_ms`, or has written more than `limit` bytes. 0, or -1 with one sentence in `said` and nothing in `out`. It
 * is reaped in any case. */
int command_run(const char *const *argv, long deadline_ms, size_t limit, struct command_output *ret);

#endif
