#include "daemon/compile/pch_folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/require.h"

/* Descriptors that removing a tree may use. */
#define WALK_FDS 8

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)ftw;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, WALK_FDS, FTW_DEPTH | FTW_PHYS);
}

/* Whether it is ours, and nobody holds its lock. */
static bool is_abandoned(const char *path, unsigned *n_left)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool mine = fstat(fd, &status) == 0 && status.st_uid == geteuid();
    bool free = mine && flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    *n_left += mine && !free;
    return free;
}

static void sweep(uv_work_t *work)
{
    struct pch_removal *removal = work->data;
    char path[PATH_MAX + 256];
    const struct dirent *entry;
    DIR *folder = opendir(removal->path);
    removal->n_left = 0;
    while (folder && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, PCH_FOLDER_PREFIX, sizeof PCH_FOLDER_PREFIX - 1) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", removal->path, entry->d_name);
        if (is_abandoned(path, &removal->n_left))
            remove_tree(path);
    }
    if (folder)
        closedir(folder);
}

static void remove_folder(uv_work_t *work)
{
    struct pch_removal *removal = work->data;
    remove_tree(removal->path);
}

static void on_done(uv_work_t *work, int status)
{
    struct pch_removal *removal = work->data;
    (void)status; /* nothing cancels it */
    removal->done(removal);
}

static void start(struct pch_removal *removal, uv_loop_t *loop, const char *path, uv_work_cb run,
                  void (*done)(struct pch_removal *removal), void *owner)
{
    snprintf(removal->path, sizeof removal->path, "%s", path);
    removal->done = done;
    removal->owner = owner;
    removal->work.data = removal;
    require(uv_queue_work(loop, &removal->work, run, on_done) == 0);
}

void pch_folder_remove(struct pch_removal *removal, uv_loop_t *loop, const char *path,
                       void (*done)(struct pch_removal *removal), void *owner)
{
    start(removal, loop, path, remove_folder, done, owner);
}

void pch_folders_sweep(struct pch_removal *removal, uv_loop_t *loop, const char *parent,
                       void (*done)(struct pch_removal *removal), void *owner)
{
    start(removal, loop, parent, sweep, done, owner);
}
