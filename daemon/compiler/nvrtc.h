/* The NVRTC library: finding it, loading it, and which file it is. */
#ifndef DAEMON_COMPILER_NVRTC_H
#define DAEMON_COMPILER_NVRTC_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/compiler/worker.h"
#include "proto/error.h"
#include "proto/message.h"

#define NVRTC_MAX_ARCHS 256

/* The loaded library. It stays loaded until the process ends. */
struct nvrtc {
#define NVRTC(field, symbol, parameters) int(*field) parameters;
#include "daemon/compiler/nvrtc.def"
#undef NVRTC
    const char *(*result_name)(int result);
    int (*set_pch_heap)(size_t size); /* NULL before 12.8 */
    int major, minor;
    int archs[NVRTC_MAX_ARCHS];
    size_t n_archs;
    char path[PATH_MAX];
    const char *const *includes; /* "-I…" of the toolkit's headers, for every compile; ends with NULL. NULL: none */
    char builtins[PATH_MAX];     /* empty until the first compile has loaded it */
};

/* Load the library. `path`, when given, is the only candidate; else `dirs` (library folders, or folders that hold
 * Python wheels or a toolkit) are tried in order, then the usual place of a toolkit, then the system's loader.
 * -1 with COMPILER_UNAVAILABLE and a text that says what to do. */
int nvrtc_open(struct nvrtc *ret, const char *path, const char *const *dirs, size_t n_dirs, struct error *error);

/* Compile something small for a real target, so that everything the library loads or reads later is there before the
 * process is shut in. Finds the builtins. */
int nvrtc_warm_up(struct nvrtc *nvrtc, struct error *error);

/* Device, inode, size and time of the library and its builtins: changes when either file is replaced. */
int nvrtc_identity(const struct nvrtc *nvrtc, char *ret, size_t size, struct error *error);

/* The digest of the contents of both files: the compiler's part of a kernel's key. Reads about 110 MB. */
int nvrtc_build(const struct nvrtc *nvrtc, uint8_t ret[DIGEST_SIZE], struct error *error);

#endif
