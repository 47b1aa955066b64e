#include "daemon/compiler/work_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "host-cc."
#define PATH_ROOM 4096
/* Descriptors that removing a tree may use. */
#define WALK_FDS 16

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)ftw;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static int remove_tree(const char *path)
{
    return nftw(path, remove_one, WALK_FDS, FTW_DEPTH | FTW_PHYS);
}

int work_dir_remove(const char *folder, const char *name, struct error *error)
{
    char path[PATH_ROOM];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
        (remove_tree(path) == 0 || errno == ENOENT))
        return 0;
    return error_set_errno(error, STATUS_SYSTEM, errno, "removing %s", name);
}

/* Whether nobody holds the folder's lock any more. */
static bool is_abandoned(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool mine = fstat(fd, &status) == 0 && status.st_uid == geteuid();
    bool free = mine && flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return free;
}

static void sweep(const char *parent)
{
    char path[PATH_ROOM];
    DIR *folder = opendir(parent);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) < (int)sizeof path && is_abandoned(path))
            remove_tree(path);
    }
    if (folder)
        closedir(folder);
}

int work_dir_make(const char *parent, char *ret, struct error *error)
{
    char path[PATH_ROOM];
    if (snprintf(path, sizeof path, "%s/" PREFIX "XXXXXX", parent) >= (int)sizeof path)
        return error_set(error, STATUS_SYSTEM, "the folder %.200s has too long a name", parent);
    sweep(parent);
    if (!mkdtemp(path))
        return error_set_errno(error, STATUS_SYSTEM, errno, "a private folder in %.300s", parent);
    /* Held until the process ends. Between mkdtemp and here a sweeper may take the folder; then the next step fails. */
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "locking %.300s", path);
    memcpy(ret, path, strlen(path) + 1);
    return 0;
}
