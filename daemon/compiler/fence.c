/*
 * fusiond-fence.so: preloaded into the stages of the C++ compiler that read a client's text (cc1plus, as).
 *
 * The text may name files: #include, __has_include, #pragma GCC dependency, .include, .incbin. Landlock refuses most of
 * them, but says EACCES for what exists and ENOENT for what does not, and lets the toolchain's own folders be read,
 * which no key covers. With this, the stages see nothing but the private folder: anything else does not exist. It is a
 * fence for what a compiler is told to do, and no wall: behind it stands Landlock. The worker proves at its start that
 * it holds.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/compiler/flat_path.h"

/* The folder of the program at hand, which is also the current one, and the folder of texts beside it. */
#define TEXTS "/m"

/* Names are aliases in the C library too; here they must not become calls of themselves. */
#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

/* In the private folder there are no symbolic links that a client can name. */
static bool is_inside(const char *path)
{
    char flat[PATH_MAX], texts[PATH_MAX];
    const char *folder = getenv("TMPDIR");
    const char *slash = folder ? strrchr(folder, '/') : NULL;
    if (!slash || folder[0] != '/' || !flat_path(folder, path, flat))
        return false;
    int size = snprintf(texts, sizeof texts, "%.*s" TEXTS, (int)(slash - folder), folder);
    return flat_path_is_below(flat, folder, strlen(folder)) ||
           (size < (int)sizeof texts && flat_path_is_below(flat, texts, (size_t)size));
}

/* Whether the caller may go on; otherwise there is no such file. */
static bool admit(const char *path)
{
    if (path && is_inside(path))
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

#define FREOPEN(name)                                                                                                  \
    FILE *name(const char *path, const char *mode, FILE *stream)                                                       \
    {                                                                                                                  \
        return !path || admit(path) ? NEXT(FILE * (*)(const char *, const char *, FILE *), #name)(path, mode, stream)  \
                                    : NULL;                                                                            \
    }

#define STAT(name, type)                                                                                               \
    int name(const char *path, struct type *ret)                                                                       \
    {                                                                                                                  \
        return admit(path) ? NEXT(int (*)(const char *, struct type *), #name)(path, ret) : -1;                        \
    }

/* Exported although this file's C library headers may make one a name of the other. */
#pragma GCC visibility push(default)
OPEN(open)
OPEN(open64)
FOPEN(fopen)
FOPEN(fopen64)
FREOPEN(freopen)
FREOPEN(freopen64)
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

int access(const char *path, int mode)
{
    return admit(path) ? NEXT(int (*)(const char *, int), "access")(path, mode) : -1;
}

char *realpath(const char *path, char *ret)
{
    return admit(path) ? NEXT(char *(*)(const char *, char *), "realpath")(path, ret) : NULL;
}
#pragma GCC visibility pop
