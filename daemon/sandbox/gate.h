/*
 * The gate: which files a process may know of that needs some. For all others it looks as if they did not exist, be it
 * to open, to stat or to remove, so that nothing can be asked about them.
 *
 * A profile with a gate traps every system call that takes a path; the handler of the trap looks at the path and, below
 * one of the gate's folders, makes the call. What compiles honestly cannot pass it. Against a compiler that somebody
 * has taken over it is no wall: that is Landlock, behind it.
 */
#ifndef DAEMON_SANDBOX_GATE_H
#define DAEMON_SANDBOX_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

#define GATE_FOLDERS 16

/* Install the handler; before the profile's system calls are. The folders (absolute, without "." or ".." and without a
 * slash at the end; the list ends with NULL) must outlive the process's last use of a file. */
int gate_install(const char *const *folders, struct error *error);

/* Calls of the handler have this as their sixth argument, which none of them uses; other calls are trapped. Drawn by
 * gate_install. */
uint64_t gate_secret(void);

/* Whether a path is one of the folders or below one, as far as its text says. For tests. */
bool gate_admits(const char *path);

#endif
