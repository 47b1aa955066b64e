#include "tests/support/host_worker.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preamble/host/abi.h"

#define ARGS_MAX 16
#define PIDS_MAX 16

static void start(struct host_worker *worker)
{
    const char *args[] = {"--host-cc", "g++", "--work-dir", worker->parent, NULL};
    struct error error = {0};
    cr_assert(compiler_process_start(&worker->process, args) == 0, "fusiond-compiler cannot be started");
    int failed = compiler_process_read(&worker->process, &worker_ready_type, &worker->zone, &worker->ready, &error);
    cr_assert(failed == 0, "no worker_ready: %s", error.text);
}

void host_worker_start_or_skip(struct host_worker *ret)
{
    msgpack_zone_init(&ret->zone, MSGPACK_ZONE_CHUNK_SIZE);
    snprintf(ret->folder, sizeof ret->folder, "/tmp/fusiond-host-XXXXXX");
    cr_assert(mkdtemp(ret->folder) != NULL && chmod(ret->folder, 0755) == 0);
    snprintf(ret->parent, sizeof ret->parent, "%s/work", ret->folder);
    cr_assert(mkdir(ret->parent, 0700) == 0);
    start(ret);
    const char *why = ret->ready.error.at;
    cr_assert(why == NULL || strstr(why, "there is no g++"), "%s", why ? why : "");
    if (why != NULL)
        cr_skip("no C++ compiler here: %s", why);
}

void host_worker_restart(struct host_worker *worker)
{
    compiler_process_finish(&worker->process);
    start(worker);
    cr_assert(worker->ready.error.at == NULL, "%s", worker->ready.error.at ? worker->ready.error.at : "");
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

void host_worker_finish(struct host_worker *worker)
{
    compiler_process_finish(&worker->process);
    nftw(worker->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    msgpack_zone_destroy(&worker->zone);
}

struct text host_program(struct host_worker *worker, const char *code, const char *entry)
{
    size_t size = strlen(code) + (entry ? 2 * strlen(entry) : 0) + 256;
    char *program = msgpack_zone_malloc(&worker->zone, size);
    int n = snprintf(program, size, "#include \"" FUSIOND_HOST_INCLUDE "\"\n#line 1 \"fusion.cu\"\n%s\n", code);
    if (entry != NULL)
        n += snprintf(program + n, size - (size_t)n,
                      "#line 1 \"fusion.entries\"\n"
                      "FUSIOND_HOST_IMAGE_BEGIN\nFUSIOND_HOST_ENTRY(\"%s\", %s)\nFUSIOND_HOST_IMAGE_END\n",
                      entry, entry);
    return (struct text){program, (size_t)n};
}

bool host_worker_try(struct host_worker *worker, struct text program, const char *const *args,
                     struct worker_result *ret, struct error *error)
{
    struct text texts[ARGS_MAX];
    size_t n = 0;
    for (; args != NULL && args[n] != NULL && n < ARGS_MAX; n++)
        texts[n] = text_of(args[n]);
    struct worker_job job = {.program = program, .args = texts, .n_args = n, .image_kind = IMAGE_KIND_SHARED_OBJECT};
    return compiler_process_compile(&worker->process, &job, &worker->zone, ret, error) == 0;
}

struct worker_result host_worker_compile(struct host_worker *worker, const char *code, const char *entry)
{
    struct text name = text_of(entry);
    struct worker_job job = {.program = host_program(worker, code, entry),
                             .names = &name,
                             .n_names = entry != NULL,
                             .image_kind = IMAGE_KIND_SHARED_OBJECT};
    struct worker_result result;
    struct error error = {0};
    char words[4096] = "";
    bool good = compiler_process_compile(&worker->process, &job, &worker->zone, &result, &error) == 0;
    if (!good)
        compiler_process_words(&worker->process, words, sizeof words);
    cr_assert(good, "%s: %s", error.text, words);
    return result;
}

size_t host_worker_tools(const struct host_worker *worker, pid_t *ret, size_t room)
{
    size_t n = 0, size = strlen(worker->folder);
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    char path[300], folder[4096];
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        int pid = atoi(entry->d_name);
        snprintf(path, sizeof path, "/proc/%d/cwd", pid);
        ssize_t got = pid > 0 ? readlink(path, folder, sizeof folder - 1) : -1;
        if (got < (ssize_t)size || strncmp(folder, worker->folder, size) != 0)
            continue;
        if (n < room)
            ret[n] = pid;
        n++;
    }
    if (proc != NULL)
        closedir(proc);
    return n;
}

size_t host_worker_folders(const struct host_worker *worker)
{
    size_t n = 0;
    DIR *folder = opendir(worker->parent);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        n += entry->d_name[0] != '.';
    if (folder != NULL)
        closedir(folder);
    return n;
}
