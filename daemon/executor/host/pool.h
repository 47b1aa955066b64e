/* The CPU threads that run blocks of the host device. */
#ifndef DAEMON_EXECUTOR_HOST_POOL_H
#define DAEMON_EXECUTOR_HOST_POOL_H

#include <stddef.h>

#include "proto/error.h"

struct host_pool;

struct host_pool_options {
    /* 0: as many as this process may use CPUs. */
    unsigned threads;
    /* What kernels print, one call of printf at a time, from any thread; calls do not overlap. NULL: to standard
     * output. */
    void (*print)(void *context, const char *text, size_t size);
    void *print_context;
};

int host_pool_create(const struct host_pool_options *options, struct host_pool **ret, struct error *error);

/* Waits until all launches have ended. (One that never ends has no other cure than the end of the process.) Accepts
 * NULL. Not from a launch's callback. */
void host_pool_destroy(struct host_pool *pool);

unsigned host_pool_threads(const struct host_pool *pool);

/* Print one line on standard error, who was running where, before a fault in a kernel (SIGSEGV, SIGBUS, SIGFPE, SIGILL)
 * ends the process as it would have. Once, before the first launch. */
int host_pool_report_faults(struct error *error);

#endif
