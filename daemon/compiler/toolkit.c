#include "daemon/compiler/toolkit.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder with this file holds the headers of a toolkit. */
#define LANDMARK "cuda_fp16.h"

#define WHAT_TO_DO                                                                                                     \
    "install them (a CUDA toolkit, or the wheels nvidia-cuda-runtime, nvidia-cuda-crt and nvidia-cuda-cccl beside "    \
    "NVRTC's), or start fusiond with --toolkit-include FOLDER"

/* ---- finding ---- */

static void add(struct toolkit *toolkit, const char *folder)
{
    struct stat st;
    char path[PATH_MAX];
    size_t n = toolkit->n;
    if (n == TOOLKIT_FOLDERS || realpath(folder, path) == NULL || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return;
    snprintf(toolkit->folders[n], sizeof toolkit->folders[0], "%s", path);
    snprintf(toolkit->options[n], sizeof toolkit->options[0], "-I%s", path);
    toolkit->paths[n] = toolkit->folders[n];
    toolkit->option_list[n] = toolkit->options[n];
    toolkit->n++;
}

/* A folder of headers, and the C++ library's, which may be one of its own below it. */
static void add_with_library(struct toolkit *toolkit, const char *folder)
{
    char path[PATH_MAX];
    add(toolkit, folder);
    if (snprintf(path, sizeof path, "%s/cccl", folder) < (int)sizeof path)
        add(toolkit, path);
}

static bool is_complete(const struct toolkit *toolkit)
{
    char path[PATH_MAX + sizeof "/" LANDMARK];
    for (size_t i = 0; i < toolkit->n; i++) {
        snprintf(path, sizeof path, "%s/" LANDMARK, toolkit->folders[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static int find_configured(struct toolkit *ret, const char *configured, struct error *error)
{
    char path[PATH_MAX];
    for (const char *at = configured; *at;) {
        size_t size = strcspn(at, ":");
        if (size > 0 && size < sizeof path) {
            memcpy(path, at, size);
            path[size] = '\0';
            add_with_library(ret, path);
        }
        at += size;
        at += *at == ':';
    }
    if (!is_complete(ret))
        return error_set(error, STATUS_COMPILER_UNAVAILABLE,
                         "toolkit headers: there is no " LANDMARK " in %.300s (--toolkit-include)", configured);
    return 0;
}

/* Beside a toolkit's lib64 or a CUDA 13 wheel's lib is an include; wheels of CUDA 12 have a folder for each part. */
int toolkit_find(struct toolkit *ret, const char *library, const char *configured, struct error *error)
{
    static const char *const layouts[][4] = {
        {"/../include"},
        {"/../../cuda_runtime/include", "/../../cuda_cccl/include", "/../../cuda_nvcc/include"},
    };
    char path[PATH_MAX];
    const char *slash = strrchr(library, '/');
    int folder = slash ? (int)(slash - library) : 0;
    *ret = (struct toolkit){0};
    if (configured)
        return find_configured(ret, configured, error);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        ret->n = 0;
        for (size_t j = 0; j < 4 && layouts[i][j]; j++) {
            int n = snprintf(path, sizeof path, "%.*s%s", folder, library, layouts[i][j]);
            if (n < (int)sizeof path)
                add_with_library(ret, path);
        }
        ret->paths[ret->n] = ret->option_list[ret->n] = NULL;
        if (is_complete(ret))
            return 0;
    }
    return error_set(error, STATUS_COMPILER_UNAVAILABLE, "toolkit headers: there are none beside %.*s; " WHAT_TO_DO,
                     folder < 200 ? folder : 200, library);
}

/* ---- which files they are ---- */

static void hash_number(crypto_generichash_state *state, uint64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    crypto_generichash_update(state, bytes, sizeof bytes);
}

static int hash_touched(crypto_generichash_state *state, const FTSENT *file)
{
    const struct stat *st = file->fts_statp;
    hash_number(state, (uint64_t)st->st_dev);
    hash_number(state, (uint64_t)st->st_ino);
    hash_number(state, (uint64_t)st->st_mtim.tv_sec);
    hash_number(state, (uint64_t)st->st_mtim.tv_nsec);
    return 0;
}

static int hash_bytes(crypto_generichash_state *state, const FTSENT *file)
{
    char chunk[65536];
    uint64_t done = 0;
    ssize_t n = -1;
    int fd = open(file->fts_accpath, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, chunk, sizeof chunk)) > 0) {
        crypto_generichash_update(state, (const uint8_t *)chunk, (size_t)n);
        done += (uint64_t)n;
    }
    if (fd >= 0)
        close(fd);
    if (n == 0 && done != (uint64_t)file->fts_statp->st_size)
        errno = EAGAIN; /* it is being written */
    return n == 0 && done == (uint64_t)file->fts_statp->st_size ? 0 : -1;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Hash every file below a folder: its name there, its size, and what `each` adds. What is neither a file nor a folder
 * cannot be included. */
static int hash_folder(crypto_generichash_state *state, const char *folder,
                       int (*each)(crypto_generichash_state *, const FTSENT *))
{
    char *const roots[] = {(char *)folder, NULL};
    FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    FTSENT *file;
    int failed = walk ? 0 : -1;
    while (failed == 0 && (errno = 0, file = fts_read(walk)) != NULL) {
        if (file->fts_info != FTS_F)
            continue;
        const char *name = file->fts_path + strlen(folder);
        hash_number(state, strlen(name));
        crypto_generichash_update(state, (const uint8_t *)name, strlen(name));
        hash_number(state, (uint64_t)file->fts_statp->st_size);
        failed = each(state, file);
    }
    if (errno != 0)
        failed = -1;
    int reason = errno;
    if (walk)
        fts_close(walk);
    errno = reason;
    return failed;
}

static int hash_all(const struct toolkit *toolkit, const char *tag,
                    int (*each)(crypto_generichash_state *, const FTSENT *), uint8_t ret[DIGEST_SIZE],
                    struct error *error)
{
    crypto_generichash_state state;
    if (sodium_init() < 0)
        return error_set(error, STATUS_INTERNAL, "libsodium cannot be initialised");
    crypto_generichash_init(&state, NULL, 0, DIGEST_SIZE);
    crypto_generichash_update(&state, (const uint8_t *)tag, strlen(tag));
    for (size_t i = 0; i < toolkit->n; i++) {
        hash_number(&state, i);
        if (hash_folder(&state, toolkit->folders[i], each) < 0)
            return error_set_errno(error, STATUS_COMPILER_UNAVAILABLE, errno, "toolkit headers: reading %s",
                                   toolkit->folders[i]);
    }
    crypto_generichash_final(&state, ret, DIGEST_SIZE);
    return 0;
}

int toolkit_identity(const struct toolkit *toolkit, uint8_t ret[DIGEST_SIZE], struct error *error)
{
    return hash_all(toolkit, "fusiond toolkit identity 1", hash_touched, ret, error);
}

int toolkit_build(const struct toolkit *toolkit, uint8_t ret[DIGEST_SIZE], struct error *error)
{
    return hash_all(toolkit, "fusiond toolkit build 1", hash_bytes, ret, error);
}
