/* Where a path leads when there are no symbolic links: for the fences, which judge what a client's text names. */
#ifndef DAEMON_COMPILER_FLAT_PATH_H
#define DAEMON_COMPILER_FLAT_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The path without "." and "..", from `folder` if it is relative. false: too long. */
bool flat_path(const char *folder, const char *path, char ret[PATH_MAX]);

/* Whether a flat path is the folder (of `size` bytes, without a slash at its end) or below it. */
bool flat_path_is_below(const char *path, const char *folder, size_t size);

#endif
