/*
 * The fence of toolkit.h. The program defines the functions by which the compiler library asks for files, and the
 * dynamic linker prefers them to the C library's; meson.build exports them. Landlock alone would say EACCES for a file
 * that exists and ENOENT for one that does not, and answers every stat.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/compiler/flat_path.h"
#include "daemon/compiler/toolkit.h"

/* Names are aliases in the C library too; here they must not become calls of themselves. */
#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

static const struct toolkit *fence;

void toolkit_fence(const struct toolkit *toolkit)
{
    fence = toolkit;
}

/* Whether the caller may go on; otherwise there is no such file. The current folder is the root. */
static bool admit(const char *path)
{
    char flat[PATH_MAX];
    if (!fence)
        return true;
    if (path && flat_path("", path, flat))
        for (size_t i = 0; i < fence->n; i++)
            if (flat_path_is_below(flat, fence->folders[i], strlen(fence->folders[i])))
                return true;
    errno = ENOENT;
    return false;
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                                      \
        va_end(more);                                                                                                  \
        return admit(path) ? NEXT(int (*)(const char *, int, ...), #name)(path, flags, mode) : -1;                     \
    }

#define FOPEN(name)                                                                                                    \
    FILE *name(const char *path, const char *mode)                                                                     \
    {                                                                                                                  \
        return admit(path) ? NEXT(FILE * (*)(const char *, const char *), #name)(path, mode) : NULL;                   \
    }

#define STAT(name, type)                                                                                               \
    int name(const char *path, struct type *ret)                                                                       \
    {                                                                                                                  \
        return admit(path) ? NEXT(int (*)(const char *, struct type *), #name)(path, ret) : -1;                        \
    }

/* What libraries call that were built for a C library before 2.33. dlsym does not give these away; there is one version
 * of the structure on 64-bit machines. */
#define XSTAT(name, next, type)                                                                                        \
    int name(int version, const char *path, struct type *ret);                                                         \
    int name(int version, const char *path, struct type *ret)                                                          \
    {                                                                                                                  \
        (void)version;                                                                                                 \
        return admit(path) ? NEXT(int (*)(const char *, struct type *), #next)(path, ret) : -1;                        \
    }

OPEN(open)
OPEN(open64)
FOPEN(fopen)
FOPEN(fopen64)
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)
XSTAT(__xstat, stat, stat)
XSTAT(__xstat64, stat64, stat64)
XSTAT(__lxstat, lstat, stat)
XSTAT(__lxstat64, lstat64, stat64)

int access(const char *path, int mode)
{
    return admit(path) ? NEXT(int (*)(const char *, int), "access")(path, mode) : -1;
}

char *realpath(const char *path, char *ret)
{
    return admit(path) ? NEXT(char *(*)(const char *, char *), "realpath")(path, ret) : NULL;
}

ssize_t readlink(const char *path, char *ret, size_t size)
{
    return admit(path) ? NEXT(ssize_t(*)(const char *, char *, size_t), "readlink")(path, ret, size) : -1;
}

DIR *opendir(const char *path)
{
    return admit(path) ? NEXT(DIR * (*)(const char *), "opendir")(path) : NULL;
}

int statfs(const char *path, struct statfs *ret)
{
    return admit(path) ? NEXT(int (*)(const char *, struct statfs *), "statfs")(path, ret) : -1;
}
