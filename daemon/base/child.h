/*
 * A supervised child process: spawned with a channel to it, its stderr bounded, ended by SIGKILL when it must end.
 * One module for every executable that the daemon starts.
 *
 *   child_start ──► on_frame … ──► on_exit      (once, when the process is reaped and its output read)
 *                     ▲    ├── child_kill        (asks; on_exit still comes)
 *                     │    └── child_release     (lets it end by itself; on_exit still comes)
 *
 * A process that another one forks is a child, too: child_expect takes the place of child_start, child_found tells of
 * the process, child_ended of its end.
 */
#ifndef DAEMON_BASE_CHILD_H
#define DAEMON_BASE_CHILD_H

#include <stdbool.h>
#include <uv.h>

#include "daemon/base/channel.h"

/* What is kept of a child's stderr: its last words are at the beginning (the first thing that went wrong). */
#define CHILD_STDERR 4096

struct child;

struct child_exit {
    int status;            /* exit status, when not killed by a signal */
    int signal;            /* 0 or the signal that ended it */
    bool killed;           /* by child_kill */
    const char *complaint; /* its stderr, bounded, NUL-terminated, control characters replaced */
};

struct child_events {
    /* A frame from the child. */
    void (*on_frame)(struct child *child, const uint8_t *frame, size_t size);
    /* The process is gone and reaped, its stderr is read to the end, nothing else will be called; the memory may be
     * freed. Called exactly once after a successful child_start, on the loop. */
    void (*on_exit)(struct child *child, const struct child_exit *exit);
};

/* Embedded in its owner. */
struct child {
    uv_process_t process;
    uv_pipe_t complaints;
    struct channel channel;
    uv_timer_t deadline;
    char text[CHILD_STDERR];
    size_t text_size;
    int open_handles; /* those whose close callback is still to come */
    bool reaped;
    bool killed;
    bool released;
    bool channel_open;
    bool foster;   /* another process's child: child_expect */
    int pidfd;     /* of a foster child that was found, until it has ended; else -1 */
    bool kill_due; /* asked for before a foster child was found */
    struct child_exit exit;
    const struct child_events *events;
    void *owner;
    void (*on_deadline)(struct child *child);
};

/* Start `path` with the arguments (argv[0] included, NULL at the end), an empty environment, the channel as its
 * descriptor 3, and /dev/null as stdin and stdout. -1 with SYSTEM, and then nothing is called back. */
int child_start(struct child *child, uv_loop_t *loop, const char *path, char **argv, size_t in_limit,
                const struct child_events *events, void *owner, struct error *error);

/* The same for a process that another one is about to fork: ret_remote gets its end of the channel and its stderr,
 * which the caller passes on and closes. child_ended must follow, with or without child_found. */
int child_expect(struct child *child, uv_loop_t *loop, size_t in_limit, const struct child_events *events, void *owner,
                 int ret_remote[2], struct error *error);
/* It is there. The pidfd is taken over. */
void child_found(struct child *child, pid_t pid, int pidfd);
/* It is reaped by its parent; or was never there, and then `why` takes the place of its stderr. NULL: nothing to add.
 */
void child_ended(struct child *child, int status, int signal, const char *why);

/* Send a frame. The descriptors that travel with it are duplicated. */
void child_send(struct child *child, const char *bytes, size_t size, const int *fds, size_t n_fds);

/* Whether it can still be spoken to: false from the moment when its channel has ended, before it is reaped. */
bool child_hears(const struct child *child);

/* Forget what it said on stderr so far: from now on it is about something else. */
void child_forget_complaint(struct child *child);

/* Call back once after `ms`, unless disarmed. */
void child_arm(struct child *child, uint64_t ms, void (*on_deadline)(struct child *child));
void child_disarm(struct child *child);

/* Let it go: it sees the end of its channel, may still say what it has to, and has `ms` to end before SIGKILL. Takes
 * the place of what was armed. */
void child_release(struct child *child, uint64_t ms);

/* SIGKILL. Harmless when it is gone already. */
void child_kill(struct child *child);

/* "killed by SIGSEGV: <first line of stderr>" */
void child_describe_exit(const struct child_exit *exit, char *ret, size_t room);

#endif
