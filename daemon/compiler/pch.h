/*
 * A precompiled header: what the compiler makes of a program's prefix, in a file that it can begin another program from
 * that has the same prefix. It holds the compiler's heap as it was, so only the process that made it, and its forked
 * children, can use it.
 */
#ifndef DAEMON_COMPILER_PCH_H
#define DAEMON_COMPILER_PCH_H

#include <limits.h>
#include <msgpack.h>

#include "daemon/compiler/nvrtc.h"
#include "proto/message.h"

struct pch {
    char folder[PATH_MAX];    /* private; the file is in it */
    char temporary[PATH_MAX]; /* in the folder; the compiler makes a file there at every compile, and unlinks it */
    char file[PATH_MAX];
    char use[PATH_MAX + 32];     /* the argument */
    char message[PATH_MAX + 64]; /* with which the log begins when the file was used */
    uint64_t size;               /* of the file; 0 until it is made */
};

/* Make the folder, lock it for as long as this process lives, and make TMPDIR the whole environment. */
int pch_open(struct pch *ret, const char *folder, struct error *error);

/* Make the file: from the prefix, with the headers and arguments of a job that has it. -1 with COMPILE_FAILED when the
 * compiler makes none, and what it says. */
int pch_make(struct pch *pch, const struct nvrtc *nvrtc, struct text prefix, const struct worker_job *job,
             msgpack_zone *zone, struct error *error);

/* job_run() from the file. *ret_used: the compiler has used it, and the result is as it would be without; otherwise the
 * result is good for nothing. */
int pch_run(const struct pch *pch, const struct nvrtc *nvrtc, const struct worker_job *job, msgpack_zone *zone,
            struct worker_result *ret, bool *ret_used, struct error *error);

#endif
