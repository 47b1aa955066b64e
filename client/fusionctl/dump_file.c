#include "client/fusionctl/dump_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool dump_folder(const char *folder)
{
    struct stat status;
    if (mkdir(folder, 0777) == 0 || (errno == EEXIST && stat(folder, &status) == 0 && S_ISDIR(status.st_mode)))
        return true;
    fprintf(stderr, "fusionctl: %s: %s\n", folder, errno == EEXIST ? "not a folder" : strerror(errno));
    return false;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

bool dump_file(const char *folder, const char *name, const void *bytes, size_t size, bool force, char **ret_path)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0) {
        fprintf(stderr, "fusionctl: no memory for a path\n");
        return false;
    }
    if (force && unlink(path) < 0 && errno != ENOENT) {
        fprintf(stderr, "fusionctl: %s: %s\n", path, strerror(errno));
        free(path);
        return false;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool good = fd >= 0 && write_all(fd, bytes, size);
    int number = errno;
    if (fd >= 0 && close(fd) < 0 && good) {
        number = errno;
        good = false;
    }
    if (good) {
        *ret_path = path;
        return true;
    }
    fprintf(stderr, "fusionctl: %s: %s%s\n", path, strerror(number), number == EEXIST ? "; --force replaces it" : "");
    if (fd >= 0)
        unlink(path);
    free(path);
    return false;
}

void dump_plain(const char *text, char *ret, size_t room)
{
    size_t n = 0;
    for (; *text && n + 1 < room; text++) {
        unsigned char c = (unsigned char)*text;
        bool stays = isalnum(c) || c == '-' || c == '_' || (c == '.' && n > 0);
        ret[n++] = stays ? (char)c : '_';
    }
    ret[n] = '\0';
}
