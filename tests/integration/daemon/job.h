/* The main job's parts: the fusions of tests/fusions through libfusiond, in this process and in others. */
#ifndef TESTS_INTEGRATION_DAEMON_JOB_H
#define TESTS_INTEGRATION_DAEMON_JOB_H

#include "client/fusiond.h"
#include "tests/support/daemon_process.h"

#define JOB_FUSIONS 4

extern const char *const job_fusions[JOB_FUSIONS];

/* Each fails the test, or ends the forked client, when something goes wrong. */
struct fusiond_connection *job_connect(const struct daemon_process *daemon);
struct fusiond_fusion *job_load(const char *name, const char *target);
/* block_size NULL: as the file says. */
struct fusiond_kernel *job_compile(struct fusiond_connection *connection, const char *name, const char *target,
                                   const char *block_size);
/* One of the daemon's numbers. */
uint64_t job_stat(struct fusiond_connection *connection, const char *name);
/* Enough to tell two images apart across a pipe. */
uint64_t job_fingerprint(const struct fusiond_kernel *kernel);

/* What a client process saw of the four fusions. */
struct job_seen {
    uint64_t images[JOB_FUSIONS];
    char outcomes[JOB_FUSIONS][16];
};

/* Another client process gets all four for the target, and writes a job_seen to `out`. It waits until nobody holds the
 * writing end of the gate (a pipe, or NULL). */
pid_t job_fork_client(const struct daemon_process *daemon, const char *target, const int *gate, int out);
/* The same, waited for. */
struct job_seen job_in_another_process(const struct daemon_process *daemon, const char *target);
/* Eight processes at once on a daemon with an empty cache: each fusion is compiled by one of them, once. */
void job_in_eight_processes(const struct daemon_process *daemon, const char *target);

#endif
