/* The system's C++ compiler as a back end of the worker: where it is, what it is, and one program at a time. */
#ifndef DAEMON_COMPILER_HOST_CC_H
#define DAEMON_COMPILER_HOST_CC_H

#include <msgpack.h>

#include "proto/error.h"
#include "proto/message.h"

#define HOST_CC_PATH 4096

enum { HOST_CC_CC1PLUS, HOST_CC_AS, HOST_CC_LD, HOST_CC_STAGES };

/*
 * In the private folder `work`:
 *
 *     m/…           the texts that every program may include: host texts, preamble modules
 *     b/…           links to what the compiler's stages run with: leaf and ld (both fusiond-leaf), fence.so
 *     job/          of the program at hand, removed after it
 *         h/…       the client's headers
 *         fusion.cu, object.o, shared.s, image.so, said (what the tools said)
 */
struct host_cc {
    char program[HOST_CC_PATH]; /* g++, without symbolic links */
    char leaf[HOST_CC_PATH];    /* fusiond-leaf */
    char fence[HOST_CC_PATH];   /* fusiond-fence.so */
    char work[HOST_CC_PATH];
    unsigned major, minor;
    char machine[128];                         /* "x86_64-linux-gnu" */
    char stages[HOST_CC_STAGES][HOST_CC_PATH]; /* as the driver tells them, without symbolic links */
};

/* Find the compiler (a path, or a name in the usual folders), ask what it is, make the private folder in `work_parent`,
 * or in /tmp where that cannot be, and write the texts. COMPILER_UNAVAILABLE with what to do. */
int host_cc_open(struct host_cc *cc, const char *program, const char *work_parent, struct error *error);

/* Compile a program that does nothing: everything works, and has been read once. Then one that looks at a file of the
 * machine: it must not find any. */
int host_cc_warm_up(const struct host_cc *cc, struct error *error);

/* Which files they are, for the front to notice an upgrade. */
int host_cc_identity(const struct host_cc *cc, char *ret, size_t room, struct error *error);

/* The digest of all that decides about an image beside the program and its arguments: version, machine, C library, the
 * stages' bytes, the fixed arguments, the host texts. */
int host_cc_build(const struct host_cc *cc, uint8_t ret[DIGEST_SIZE], struct error *error);

/* Shut the process in: the toolchain's folders, and the private one. */
enum sandbox host_cc_enter_sandbox(const struct host_cc *cc);

/* Compile one program: what the compiler says is the result. -1 with RESOURCE_LIMIT, OUT_OF_MEMORY or SYSTEM when the
 * worker cannot go on. Everything in the zone. */
int host_cc_run(const struct host_cc *cc, const struct worker_job *job, msgpack_zone *zone, struct worker_result *ret,
                struct error *error);

#endif
