#include "daemon/compiler/pch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/compiler/job.h"
#include "daemon/sandbox/sandbox.h"

/* What programs begin with whose code is not wrapped. It repeats what the compiler knows, and keeps it from making a
 * header; prefixes are cut behind it. */
#define LINE_ONE "#line 1 \"fusion.cu\"\n"
#define CREATE "--create-pch="
/* The compiler says whether it has used the file. */
#define MESSAGES "--pch-messages=true"

int pch_open(struct pch *ret, const char *folder, struct error *error)
{
    struct pch pch = {0};
    size_t room = sizeof pch.folder;
    if (snprintf(pch.folder, room, "%s", folder) >= (int)room - 16)
        return error_set(error, STATUS_SYSTEM, "the folder %.200s has too long a name", folder);
    snprintf(pch.temporary, room, "%.*s/tmp", (int)room - 16, pch.folder);
    snprintf(pch.file, room, "%.*s/header", (int)room - 16, pch.folder);
    snprintf(pch.use, sizeof pch.use, "--use-pch=%s", pch.file);
    snprintf(pch.message, sizeof pch.message, "\"fusion.cu\": using precompiled header file \"%s\"\n", pch.file);
    if (mkdir(pch.folder, 0700) < 0 || mkdir(pch.temporary, 0700) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "making the folder %.300s", pch.folder);
    int fd = open(pch.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "locking %.300s", pch.folder);
    if (clearenv() != 0 || setenv("TMPDIR", pch.temporary, 1) < 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the environment");
    *ret = pch;
    return 0;
}

static int add_args(struct worker_job *job, const char *const *more, size_t n_more, msgpack_zone *zone,
                    struct error *error)
{
    struct text *args = msgpack_zone_malloc(zone, (job->n_args + n_more) * sizeof *args);
    if (!args)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a compiler's arguments");
    if (job->n_args > 0)
        memcpy(args, job->args, job->n_args * sizeof *args);
    for (size_t i = 0; i < n_more; i++)
        args[job->n_args + i] = text_of(more[i]);
    job->args = args;
    job->n_args += n_more;
    return 0;
}

int pch_make(struct pch *pch, const struct nvrtc *nvrtc, struct text prefix, const struct worker_job *job,
             msgpack_zone *zone, struct error *error)
{
    char create[sizeof pch->file + sizeof CREATE];
    const char *const more[] = {create, MESSAGES};
    struct worker_job making = *job;
    struct worker_result result;
    struct stat st;
    snprintf(create, sizeof create, CREATE "%s", pch->file);
    making.program = prefix;
    making.n_names = 0;
    /* The default is too small for the C++ library of newer toolkits. What is not used costs address space only. */
    if (nvrtc->set_pch_heap)
        nvrtc->set_pch_heap(SANDBOX_PCH_HEAP);
    if (add_args(&making, more, 2, zone, error) < 0 || job_run(nvrtc, &making, zone, &result, error) < 0)
        return -1;
    if (result.result != NVRTC_RESULT_SUCCESS || stat(pch->file, &st) < 0 || st.st_size == 0)
        return error_set(error, STATUS_COMPILE_FAILED, "no precompiled header was made: %s: %.300s",
                         result.result_name.at, result.log.at ? result.log.at : "");
    pch->size = (uint64_t)st.st_size;
    return 0;
}

/* A log that was cut holds less of what the compiler said than without the message. */
static bool take_message(const struct pch *pch, struct worker_result *result)
{
    size_t size = strlen(pch->message);
    if (result->log_cut || !result->log.at || result->log.size < size ||
        memcmp(result->log.at, pch->message, size) != 0)
        return false;
    result->log.at += size;
    result->log.size -= size;
    return true;
}

int pch_run(const struct pch *pch, const struct nvrtc *nvrtc, const struct worker_job *job, msgpack_zone *zone,
            struct worker_result *ret, bool *ret_used, struct error *error)
{
    const char *const more[] = {pch->use, MESSAGES};
    struct worker_job using = *job;
    size_t skipped = sizeof LINE_ONE - 1;
    if (using.program.size >= skipped && memcmp(using.program.at, LINE_ONE, skipped) == 0) {
        using.program.at += skipped;
        using.program.size -= skipped;
    }
    if (add_args(&using, more, 2, zone, error) < 0 || job_run(nvrtc, &using, zone, ret, error) < 0)
        return -1;
    *ret_used = take_message(pch, ret);
    return 0;
}
