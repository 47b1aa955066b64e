/* Tests: a real fusiond-compiler with the system's C++ compiler, and programs for it. */
#ifndef TESTS_SUPPORT_HOST_WORKER_H
#define TESTS_SUPPORT_HOST_WORKER_H

#include <msgpack.h>

#include "tests/support/compiler_process.h"

struct host_worker {
    struct compiler_process process;
    struct worker_ready ready;
    msgpack_zone zone; /* of everything that is returned below */
    char folder[64];   /* of this test, readable by everybody; holds `parent` */
    char parent[80];   /* where workers make their private folders */
};

/* Make the folder and start a worker. Skips the calling Criterion test, saying why, where there is no C++ compiler. */
void host_worker_start_or_skip(struct host_worker *ret);
/* One more in the same folder, in the place of the first, which has ended or is ended now. */
void host_worker_restart(struct host_worker *worker);
/* Kill it, and remove the folder. */
void host_worker_finish(struct host_worker *worker);

/* The program around the code, as the resolve step writes it for structured code; entry may be NULL. */
struct text host_program(struct host_worker *worker, const char *code, const char *entry);
/* Compile a program as it stands; `args` ends with NULL and may be NULL. false: the worker gave up, and why. */
bool host_worker_try(struct host_worker *worker, struct text program, const char *const *args,
                     struct worker_result *ret, struct error *error);
/* Compile code with an entry; the test fails if the worker gives up. */
struct worker_result host_worker_compile(struct host_worker *worker, const char *code, const char *entry);

/* Processes whose current folder lies in the test's folder, the worker's tools. The pids of the first. */
size_t host_worker_tools(const struct host_worker *worker, pid_t *ret, size_t room);
/* Entries of the folder where workers make theirs. */
size_t host_worker_folders(const struct host_worker *worker);

#endif
