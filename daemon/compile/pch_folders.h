/* The folders of zygotes, below the state directory: removing them, which takes too long for the loop. */
#ifndef DAEMON_COMPILE_PCH_FOLDERS_H
#define DAEMON_COMPILE_PCH_FOLDERS_H

#include <limits.h>
#include <uv.h>

#define PCH_FOLDER_PREFIX "pch."

/* One removal, on libuv's threads. */
struct pch_removal {
    uv_work_t work;
    char path[PATH_MAX];
    unsigned n_left; /* of a sweep: folders whose owner lives */
    void (*done)(struct pch_removal *removal);
    void *owner;
};

/* Remove a folder with all that is in it; `done` comes later, once. */
void pch_folder_remove(struct pch_removal *removal, uv_loop_t *loop, const char *path,
                       void (*done)(struct pch_removal *removal), void *owner);

/* Remove all folders in `parent` whose lock nobody holds: a zygote that is killed leaves its folder behind. */
void pch_folders_sweep(struct pch_removal *removal, uv_loop_t *loop, const char *parent,
                       void (*done)(struct pch_removal *removal), void *owner);

#endif
