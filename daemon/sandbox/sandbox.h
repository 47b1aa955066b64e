/* What a process that runs foreign code or compilers may still do once it has loaded what it needs. */
#ifndef DAEMON_SANDBOX_SANDBOX_H
#define DAEMON_SANDBOX_SANDBOX_H

#include "proto/error.h"
#include "proto/message.h"

/* The compiler's address space: 300 MB is the least that works, 4 GB stops a memory bomb. */
#define SANDBOX_MEMORY (4ull << 30)
/* A filter holds some copies of a text of 3 MiB, and perhaps an interpreter. */
#define SANDBOX_FILTER_MEMORY (1ull << 30)
/* The stack of a compile: the front end recurses with the nesting of its input. */
#define SANDBOX_STACK (64ull << 20)
/* What one file of the C++ compiler may hold: an image, or its log. */
#define SANDBOX_FILE (64ull << 20)
/* The memory that NVRTC keeps for what it makes of precompiled headers, all of which may become a file. */
#define SANDBOX_PCH_HEAP (1ull << 30)
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

/* Who is shut in. Each has a list of system calls, <profile>.def. */
enum sandbox_profile {
    SANDBOX_COMPILER,      /* NVRTC is loaded; no file any more */
    SANDBOX_TOOLKIT,       /* the same, but files below paths->read can be read */
    SANDBOX_ZYGOTE,        /* NVRTC is loaded; files below paths->read and paths->work, by the gate (gate.h); forks */
    SANDBOX_ZYGOTE_CHILD,  /* on top of SANDBOX_ZYGOTE, for sandbox_seccomp(): forks no more */
    SANDBOX_HOST_CC,       /* runs the system's C++ compiler on files */
    SANDBOX_FILTER,        /* a program of the daemon's owner between two pipes; entered before it is started */
    SANDBOX_HOST_EXECUTOR, /* runs native kernels; loads them from memfds */
};

/* The folders and files that stay reachable, with all below them; the lists end with NULL and may be NULL. */
struct sandbox_paths {
    const char *const *run;  /* read and execute */
    const char *const *work; /* everything */
    const char *const *read; /* read */
};

/* After the warm-up: no new privileges, no capabilities, limits, Landlock with no rights but those on `paths` (NULL:
 * none at all), a list of system calls. Returns how much of it this kernel grants; never fails. Not undone by anything.
 * Call it with one thread: Landlock binds the caller, and what it starts from then on. */
enum sandbox sandbox_enter(enum sandbox_profile profile, const struct sandbox_paths *paths);

/* The two walls of a kernel, each 0 or -1. */
struct sandbox_walls {
    int (*landlock)(const struct sandbox_paths *paths);
    int (*seccomp)(enum sandbox_profile profile);
};

/* The same with other walls, for tests of machines that lack one. */
enum sandbox sandbox_enter_with(enum sandbox_profile profile, const struct sandbox_paths *paths,
                                const struct sandbox_walls *walls);

/* Let the next compile have SANDBOX_CPU_S more. */
void sandbox_allow_job(void);

/* Whether this kernel has Landlock, without which SANDBOX_TOOLKIT is no wall at all. */
bool sandbox_has_landlock(void);

/* ---- the single walls, for tests ---- */

/* Deny every right on files that this kernel's Landlock knows, but for those on `paths`. -1 when it has none. */
int sandbox_landlock(const struct sandbox_paths *paths);
/* Load the profile's list. -1 when it cannot be. One with a gate needs gate_install() before. */
int sandbox_seccomp(enum sandbox_profile profile);
void sandbox_limits(enum sandbox_profile profile);

#endif
