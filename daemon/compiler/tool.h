/* One program of the toolchain, run to its end. */
#ifndef DAEMON_COMPILER_TOOL_H
#define DAEMON_COMPILER_TOOL_H

#include "proto/error.h"
#include "proto/message.h"

/* Where and how: in `folder`, which is also its folder for temporary files, with nothing else in its environment than
 * the path of the toolchain and `environment`. What it says, on stdout and stderr, goes to the file `said` in that
 * folder. */
struct tool {
    const char *program; /* a path */
    const char *folder;
    const char *said;
    const char *const *environment; /* NAME=VALUE, at most TOOL_ENVIRONMENT; ends with NULL, may be NULL */
};
#define TOOL_ENVIRONMENT 4

/* The exit status when the program could not be started. */
#define TOOL_NOT_STARTED 127

/* Run it; argv[0] included, NULL at the end. It dies with this process. 0 and its wait status. */
int tool_run(const struct tool *tool, const char *const *argv, int *ret_status, struct error *error);

/* A whole file, at most `limit` bytes of it, with a NUL that ret_size does not count; to be freed. */
int tool_read_file(const char *folder, const char *name, size_t limit, char **ret, size_t *ret_size,
                   struct error *error);
/* A new file in the folder. Folders in `name` are made. After -1 errno says why. */
int tool_write_file(const char *folder, const char *name, const void *bytes, size_t size, struct error *error);

#endif
