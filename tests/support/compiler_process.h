/* Tests: a real fusiond-compiler at the other end of a socketpair. */
#ifndef TESTS_SUPPORT_COMPILER_PROCESS_H
#define TESTS_SUPPORT_COMPILER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "proto/frame.h"
#include "proto/message.h"

/* No wait in here is longer. */
#define COMPILER_PROCESS_PATIENCE_MS 120000

struct compiler_process {
    pid_t pid;
    int channel; /* our end; -1 after compiler_process_hang_up */
    int errors;  /* its stderr, a pipe */
    struct frame_reader reader;
};

/* Start $FUSIOND_COMPILER, or the one of this build, with `args` (ends with NULL; may be NULL) after "--fd 3".
 * Its environment is empty. 0, or -1 when it cannot be started. */
int compiler_process_start(struct compiler_process *ret, const char *const *args);

/* Wait for one message of a type. Its bytes are good until the next call, the rest until the zone ends.
 * -1 when the worker closed the channel, sent something else, or took too long; the error says which. */
int compiler_process_read(struct compiler_process *process, const struct message_type *type, msgpack_zone *zone,
                          void *ret, struct error *error);
/* Send raw bytes; -1 when the worker does not take them. */
int compiler_process_write(struct compiler_process *process, const void *bytes, size_t size);
/* Send a job; -1 when the worker does not take it. */
int compiler_process_send(struct compiler_process *process, const struct worker_job *job);
/* Send a job and wait for its result. */
int compiler_process_compile(struct compiler_process *process, const struct worker_job *job, msgpack_zone *zone,
                             struct worker_result *ret, struct error *error);

/* Close our end. */
void compiler_process_hang_up(struct compiler_process *process);
/* Wait for its end and give the status of waitpid; -1 when it does not end in time. */
int compiler_process_wait(struct compiler_process *process);
/* What it wrote to stderr until it closed it, NUL-terminated; waits for that. */
void compiler_process_words(struct compiler_process *process, char *ret, size_t size);

/* Kill it if it still runs, reap, close. */
void compiler_process_finish(struct compiler_process *process);

/* Start and greet. Skips the calling Criterion test, saying why, where there is no NVRTC. */
void compiler_process_start_or_skip(struct compiler_process *ret, const char *const *args, msgpack_zone *zone,
                                    struct worker_ready *ret_ready);

#endif
