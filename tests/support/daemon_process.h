/* Tests: a real fusiond in a fresh folder, its log in a file, and what /proc tells of it. */
#ifndef TESTS_SUPPORT_DAEMON_PROCESS_H
#define TESTS_SUPPORT_DAEMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/error.h"

/* No wait in here is longer. */
#define DAEMON_PATIENCE_MS 60000

struct daemon_process {
    pid_t pid; /* 0: not running */
    char directory[64];
    char socket[96];
    char cache[96];     /* of --cache-dir */
    char database[128]; /* the file that the daemon makes in it */
    char log[96];       /* its stderr; a restart appends */
};

/* Zeroed: as a user starts it. */
struct daemon_options {
    const char *const *args; /* more flags; ends with NULL */
    bool empty_environment;  /* not even $FUSIOND_NVRTC */
    uid_t uid;               /* run as this uid; the folder belongs to it. 0: as the test */
    unsigned files;          /* RLIMIT_NOFILE; 0: as it is */
};

/* Make the folder. */
int daemon_prepare(struct daemon_process *ret, const struct daemon_options *options, struct error *error);
/* Start fusiond ($FUSIOND_DAEMON, or the one of this build) in the folder and wait until it is ready. -1: it ended, or
 * took too long; the error holds the end of its log. */
int daemon_launch(struct daemon_process *daemon, const struct daemon_options *options, struct error *error);
/* SIGTERM; waits for the end. Its exit status; -1 with the reason when it was killed or did not end in time. */
int daemon_stop(struct daemon_process *daemon, struct error *error);
/* SIGKILL and reap. Harmless when it does not run. */
void daemon_kill(struct daemon_process *daemon);
/* Kill what still runs and remove the folder. */
void daemon_finish(struct daemon_process *daemon);

/* For tests: each fails or skips the test, saying why. */
void daemon_start(struct daemon_process *ret, const struct daemon_options *options);
/* The same with NVRTC: skipped where there is none. */
void daemon_start_or_skip(struct daemon_process *ret, const struct daemon_options *options);
void daemon_restart(struct daemon_process *daemon, const struct daemon_options *options);
void daemon_stop_in_order(struct daemon_process *daemon);

/* The log so far, NUL-terminated. The caller frees it. */
char *daemon_log(const struct daemon_process *daemon);
/* Lines of the log that contain the words. */
size_t daemon_log_count(const struct daemon_process *daemon, const char *words);
/* A line of the log with the words appears within the patience. */
bool daemon_log_waits_for(const struct daemon_process *daemon, const char *words);

/* What /proc says. */
size_t process_descriptors(pid_t pid);
size_t process_children(pid_t pid, pid_t *ret, size_t room);
/* The condition becomes true within `ms`; it is looked at every few milliseconds. */
bool becomes_true(bool (*condition)(void *context), void *context, long ms);
/* fork for a test: the child holds none of the runner's descriptors but the given ones (ends with -1; NULL: none), so
 * that an assertion that fails in it ends it instead of talking to the runner, and the runner does not wait for it. It
 * dies with the test. It must end by _exit. */
pid_t fork_apart(const int *kept);
/* The process ends within `ms`; *ret_status is the one of waitpid. */
bool process_ends(pid_t pid, long ms, int *ret_status);
long clock_ms(void);

#endif
