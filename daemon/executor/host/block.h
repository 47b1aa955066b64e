/* One block of a grid: its threads as fibers of the calling OS thread, with barriers and warps. */
#ifndef DAEMON_EXECUTOR_HOST_BLOCK_H
#define DAEMON_EXECUTOR_HOST_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "preamble/host/abi.h"
#include "proto/error.h"

/* Bytes of a thread's stack, and what is left of it when it has run over. */
#define HOST_STACK (64u << 10)
#define HOST_WHY 256u
/* Below a runner's stacks, which nobody may touch. */
#define HOST_GUARD 4096u
/* Bytes of one printf of a kernel; the rest is cut off. */
#define HOST_PRINT 1024u

struct host_runner;

/* What blocks of one grid share. Owned by the grid; the functions may be called from any of its OS threads. */
struct host_block_grid {
    const struct fusiond_host_entry *entry;
    void *const *arguments;
    unsigned grid[3], block[3];
    bool cooperative;
    /* All threads of a block wait for the grid: come back when all blocks do. false: the grid has failed. */
    bool (*wait)(struct host_block_grid *grid);
    /* A block has failed: threads that wait in loops of their own give up. */
    atomic_bool stop;
    void (*print)(void *context, const char *text, size_t size);
    void *print_context;
};

/* The fibers and stacks of one OS thread, made once and used for block after block. OUT_OF_MEMORY. */
int host_runner_create(struct host_runner **ret, struct error *error);
/* By the same OS thread. NULL is fine. */
void host_runner_destroy(struct host_runner *runner);

/* Run block number `index` to its end. false when it failed, with the reason; *here are the image's variables for this
 * OS thread. */
bool host_block_run(struct host_runner *runner, struct host_block_grid *grid, const struct fusiond_host_here *here,
                    unsigned long long index, char why[HOST_WHY]);

/* The table that images call. It acts on the block that the calling OS thread runs. */
const struct fusiond_host_runtime *host_block_runtime(void);

/* What the calling OS thread runs just now, for a last message: the entry's name, or NULL; the thread's position, and
 * where its stacks begin. */
const char *host_block_where(unsigned ret_block[3], unsigned ret_thread[3], const void **ret_stacks);

#endif
