/*
 * A zygote: a compiler process that has made a precompiled header and forks a worker for every job that begins like it.
 *
 *   load the library → shut the process in → zygote_setup, worker_job (a sample) → make the header
 *     → prove that a fork makes the same code of the sample from it as without it → zygote_ready → { zygote_fork }
 *
 * It never sees a job: the front sends the descriptors of the worker's channel and stderr, and talks to the worker. It
 * reports each worker's pid, as a pidfd, and its end. The header is made of the client's texts, so even that is done
 * behind the wall.
 */
#ifndef DAEMON_COMPILER_ZYGOTE_H
#define DAEMON_COMPILER_ZYGOTE_H

#include "daemon/compiler/channel.h"
#include "daemon/compiler/nvrtc.h"
#include "daemon/compiler/toolkit.h"

struct zygote_compiler {
    const struct nvrtc *nvrtc;     /* warmed up */
    const struct toolkit *toolkit; /* NULL: programs have no headers of it */
    const uint8_t *headers;        /* toolkit_identity() of those */
    const char *identity;          /* of the whole compiler, for the parent to compare */
    const char *folder;            /* to be made, for the header */
};

/* Until the parent closes the channel. Returns the exit code. */
int zygote_run(struct channel *channel, const struct zygote_compiler *compiler);

#endif
