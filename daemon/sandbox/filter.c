#include "daemon/sandbox/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sandbox/owned.h"

/* A first line, as the kernel reads it. */
#define FIRST_LINE 256

static int open_file(const char *path, struct stat *ret, struct error *error)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, ret) < 0) {
        error_set_errno(error, STATUS_INVALID_FILE, errno, "%.300s", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    const char *why = owned_distrust(ret);
    if (!S_ISREG(ret->st_mode))
        why = "is no regular file";
    else if (!why && ret->st_size > (off_t)FILTER_FILE_MAX)
        why = "has more than 64 MiB";
    if (!why)
        return fd;
    close(fd);
    return error_set(error, STATUS_INVALID_FILE, "%.300s %s", path, why);
}

static int add(struct filter_files *files, const char *path, struct error *error)
{
    int fd = open_file(path, &files->status[files->n], error);
    if (fd < 0)
        return -1;
    close(fd);
    files->paths[files->n] = strdup(path);
    if (!files->paths[files->n])
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the path of a filter");
    files->n++;
    return 0;
}

/* "#!/usr/bin/sed -f": the path in it. "": the file is no script. */
static int read_interpreter(const char *path, char ret[FIRST_LINE], struct error *error)
{
    struct stat status;
    int fd = open_file(path, &status, error);
    if (fd < 0)
        return -1;
    char line[FIRST_LINE];
    ssize_t n = read(fd, line, sizeof line - 1);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    ret[0] = '\0';
    if (line[0] != '#' || line[1] != '!')
        return 0;
    const char *at = line + 2 + strspn(line + 2, " \t");
    size_t size = strcspn(at, " \t\n");
    memcpy(ret, at, size);
    ret[size] = '\0';
    if (ret[0] == '/')
        return 0;
    return error_set(error, STATUS_INVALID_FILE, "%.200s: the interpreter \"%.100s\" is no absolute path", path, ret);
}

static bool names_a_file(const char *argument)
{
    struct stat status;
    return argument[0] == '/' && stat(argument, &status) == 0 && S_ISREG(status.st_mode);
}

static int find_all(const char *const *argv, struct filter_files *files, struct error *error)
{
    char interpreter[FIRST_LINE];
    if (argv[0][0] != '/')
        return error_set(error, STATUS_INVALID_FILE, "\"%.200s\" is no absolute path", argv[0]);
    if (add(files, argv[0], error) < 0 || read_interpreter(argv[0], interpreter, error) < 0)
        return -1;
    if (access(argv[0], X_OK) < 0)
        return error_set_errno(error, STATUS_INVALID_FILE, errno, "%.300s cannot be run", argv[0]);
    if (interpreter[0] && add(files, interpreter, error) < 0)
        return -1;
    for (size_t i = 1; argv[i] && i <= FILTER_ARGS; i++)
        if (names_a_file(argv[i]) && add(files, argv[i], error) < 0)
            return -1;
    return 0;
}

int filter_files_find(const char *const *argv, struct filter_files *ret, struct error *error)
{
    *ret = (struct filter_files){0};
    int status = find_all(argv, ret, error);
    if (status < 0)
        filter_files_finish(ret);
    return status;
}

void filter_files_finish(struct filter_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        free(files->paths[i]);
    *files = (struct filter_files){0};
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_uid == b->st_uid && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool filter_files_changed(const struct filter_files *files)
{
    struct stat status;
    for (size_t i = 0; i < files->n; i++)
        if (stat(files->paths[i], &status) < 0 || !is_same(&status, &files->status[i]))
            return true;
    return false;
}

static int digest_file(crypto_generichash_state *state, const char *path, struct error *error)
{
    uint8_t bytes[65536];
    struct stat status;
    ssize_t n;
    int fd = open_file(path, &status, error);
    if (fd < 0)
        return -1;
    crypto_generichash_update(state, (const unsigned char *)path, strlen(path) + 1);
    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        crypto_generichash_update(state, bytes, (size_t)n);
    int number = errno;
    close(fd);
    return n < 0 ? error_set_errno(error, STATUS_INVALID_FILE, number, "%.300s", path) : 0;
}

int filter_files_digest(const char *const *argv, const struct filter_files *files, uint8_t ret[DIGEST_SIZE],
                        struct error *error)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, DIGEST_SIZE);
    for (size_t i = 0; argv[i]; i++)
        crypto_generichash_update(&state, (const unsigned char *)argv[i], strlen(argv[i]) + 1);
    crypto_generichash_update(&state, (const unsigned char *)"", 1);
    for (size_t i = 0; i < files->n; i++)
        if (digest_file(&state, files->paths[i], error) < 0)
            return -1;
    crypto_generichash_final(&state, ret, DIGEST_SIZE);
    return 0;
}
