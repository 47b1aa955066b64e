/* A worker's private folder. */
#ifndef DAEMON_COMPILER_WORK_DIR_H
#define DAEMON_COMPILER_WORK_DIR_H

#include "proto/error.h"

/* Make a folder in `parent`, locked for as long as this process lives, after removing those whose process is gone: a
 * worker that is killed leaves its folder behind. ret has room for 4096 bytes. */
int work_dir_make(const char *parent, char *ret, struct error *error);

/* Remove a folder in it with all that is in that, if it is there. */
int work_dir_remove(const char *folder, const char *name, struct error *error);

#endif
