/* Tests of the daemon: fusions to ask for, and the base line that it must come back to. */
#ifndef TESTS_INTEGRATION_DAEMON_FIXTURE_H
#define TESTS_INTEGRATION_DAEMON_FIXTURE_H

#include "tests/support/daemon_process.h"
#include "tests/support/wire_client.h"

/* A compile request whose parts may be changed before it is sent. It must stay where it is. */
struct sample {
    struct compile_request request;
    struct fusion fusion;
    struct compile_options options;
    struct text entries[2];
    char code[512];
};

/* A small structured kernel `k` for sm_90a, another one for every number. */
struct compile_request *sample_kernel(struct sample *ret, unsigned number);
/* Structured code of the caller's with one entry, or none (NULL). */
struct compile_request *sample_code(struct sample *ret, const char *code, const char *entry);
/* Doubling macros, 2^30 tokens: the preprocessor is busy for far longer than any deadline here, and this has one of
 * 600 ms. */
struct compile_request *sample_hang(struct sample *ret);

/* Compile and expect success. */
struct compile_reply get_kernel(struct wire *wire, const struct compile_request *request);
/* Compile and expect this failure, whose text holds `words` (NULL: any). */
struct failure fail_kernel(struct wire *wire, const struct compile_request *request, enum status code,
                           const char *words);
/* Within the patience, n compiles are under way. */
void flights_become(const struct daemon_process *daemon, uint64_t n);
/* An empty file in memory, as a descriptor to pass around. */
int some_descriptor(void);

/* What must be as before once a fault is over. */
struct base_line {
    const struct daemon_process *daemon;
    pid_t pid;
    size_t descriptors; /* without those of workers, executors and zygotes */
    size_t children;    /* that are neither: probes, what is not reaped */
    uint64_t workers;
    uint64_t connections;
};

/* Waits until the daemon is idle: no client, no probe. */
struct base_line base_line_take(const struct daemon_process *daemon);
/* Within 5 s there are no more descriptors, children and connections than then, and the front is the same process. Not
 * for the .fini of a suite: what fails there fails no test. */
void base_line_check(const struct base_line *base);

#endif
