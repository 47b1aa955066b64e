/* What grids and the pool share: jobs made of blocks. */
#ifndef DAEMON_EXECUTOR_HOST_JOBS_H
#define DAEMON_EXECUTOR_HOST_JOBS_H

#include <stdbool.h>

#include "daemon/executor/host/block.h"
#include "daemon/executor/host/pool.h"

/* Embedded in a grid. The pool's from host_pool_post until `done` is called. */
struct host_job {
    struct host_job *next, *previous;
    unsigned long long blocks; /* at least 1; those that are begun at all */
    unsigned long long begun, ended;
    /* On a thread of the pool: run one block. false: begin no more of them. */
    bool (*run)(struct host_job *job, struct host_runner *runner, unsigned long long block);
    /* All begun blocks have ended. Once; the job may be freed. */
    void (*done)(struct host_job *job);
};

void host_pool_post(struct host_pool *pool, struct host_job *job);

/* A grid with threads of its own begins, and has ended: the pool's end waits for it. */
void host_pool_began(struct host_pool *pool);
void host_pool_ended(struct host_pool *pool);

/* What a kernel prints, one call at a time. */
void host_pool_print(const struct host_pool *pool, const char *text, size_t size);

#endif
