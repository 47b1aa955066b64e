/* Shutting the worker in: what it may still do once the compiler is loaded. */
#ifndef DAEMON_COMPILER_SANDBOX_H
#define DAEMON_COMPILER_SANDBOX_H

#include "proto/error.h"
#include "proto/message.h"

/* The compiler's address space: 300 MB is the least that works, 4 GB stops a memory bomb. */
#define SANDBOX_MEMORY (4ull << 30)
/* The stack of a compile: the front end recurses with the nesting of its input. */
#define SANDBOX_STACK (64ull << 20)
/* CPU time of one compile: the longest deadline that a request may set. Deadlines are the parent's; this one is for a
 * worker whose parent has stopped looking. */
#define SANDBOX_CPU_S (LIMIT_DEADLINE_MS / 1000)

/* First thing in main. Die when the parent does. `fd` is the channel: its other end closed means that the parent was
 * gone before. -1 when this process is an orphan already. */
int sandbox_follow_parent(int fd);

/* Before any library is loaded: move the channel to descriptor 3, close all others but stderr (which becomes stdout as
 * well, so that nothing the compiler prints is lost), empty the environment, raise the stack limit, be the first to go
 * when memory runs out. */
int sandbox_prepare(int *fd, struct error *error);

/* After the warm-up: no new privileges, no capabilities, limits, Landlock without any right, a list of system calls.
 * Returns how much of it this kernel grants; never fails. Not undone by anything. Call it with one thread. */
enum sandbox sandbox_enter(void);

/* Let the next compile have SANDBOX_CPU_S more. */
void sandbox_allow_job(void);

/* ---- the single walls, for tests ---- */

/* Deny every right on files that this kernel's Landlock knows. -1 when it has none. */
int sandbox_landlock(void);
/* Load the list of syscalls.def. -1 when it cannot be. */
int sandbox_seccomp(void);
void sandbox_limits(void);

#endif
