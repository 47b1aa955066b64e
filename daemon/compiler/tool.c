#include "daemon/compiler/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_ROOM 4096

/* In the child, between fork and exec: calls that are safe there, and no way back. */
static void become(const struct tool *tool, const char *const *argv, char *const *environment, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || chdir(tool->folder) < 0)
        _exit(TOOL_NOT_STARTED);
    int said = open(tool->said, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (said < 0 || dup2(said, STDOUT_FILENO) < 0 || dup2(said, STDERR_FILENO) < 0)
        _exit(TOOL_NOT_STARTED);
    execve(tool->program, (char *const *)argv, environment);
    _exit(TOOL_NOT_STARTED);
}

int tool_run(const struct tool *tool, const char *const *argv, int *ret_status, struct error *error)
{
    char temporary[PATH_ROOM + 16];
    char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", language[] = "LC_ALL=C";
    char *environment[3 + TOOL_ENVIRONMENT + 1] = {path, language, temporary};
    for (int i = 0; tool->environment && tool->environment[i] && i < TOOL_ENVIRONMENT; i++)
        environment[3 + i] = (char *)tool->environment[i];
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", tool->folder);
    pid_t self = getpid(), pid = fork();
    if (pid < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "starting %s", tool->program);
    if (pid == 0)
        become(tool, argv, environment, self);
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return error_set_errno(error, STATUS_SYSTEM, errno, "waiting for %s", tool->program);
    }
    *ret_status = status;
    return 0;
}

static int open_in(const char *folder, const char *name, int flags, mode_t mode)
{
    char path[PATH_ROOM];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

int tool_read_file(const char *folder, const char *name, size_t limit, char **ret, size_t *ret_size,
                   struct error *error)
{
    struct stat status;
    int fd = open_in(folder, name, O_RDONLY, 0);
    if (fd < 0 || fstat(fd, &status) < 0) {
        int number = errno;
        if (fd >= 0)
            close(fd);
        return error_set_errno(error, STATUS_SYSTEM, number, "opening %s", name);
    }
    size_t size = (uint64_t)status.st_size < limit ? (size_t)status.st_size : limit, at = 0;
    char *bytes = malloc(size + 1);
    ssize_t n = 1;
    while (bytes && at < size && n > 0) {
        n = read(fd, bytes + at, size - at);
        at += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    if (!bytes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the %zu bytes of %s", size, name);
    bytes[at] = '\0';
    *ret = bytes;
    *ret_size = at;
    return 0;
}

/* The folders of a name, each if it is not there. */
static int make_folders(const char *folder, const char *name)
{
    char path[PATH_ROOM];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        if (snprintf(path, sizeof path, "%s/%.*s", folder, (int)(slash - name), name) >= (int)sizeof path)
            return -1;
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

int tool_write_file(const char *folder, const char *name, const void *bytes, size_t size, struct error *error)
{
    int fd = make_folders(folder, name) < 0 ? -1 : open_in(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    size_t at = 0;
    ssize_t n = 1;
    while (fd >= 0 && at < size && n > 0) {
        n = write(fd, (const char *)bytes + at, size - at);
        at += n > 0 ? (size_t)n : 0;
    }
    int number = errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && at == size)
        return 0;
    error_set_errno(error, STATUS_SYSTEM, number, "writing the file %s", name);
    errno = number;
    return -1;
}
