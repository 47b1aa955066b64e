/* Which architecture a fusion is compiled for, and to what: SASS (a cubin) or PTX. The rule is B2.2's. */
#ifndef DAEMON_RESOLVE_TARGET_H
#define DAEMON_RESOLVE_TARGET_H

#include "daemon/resolve/resolve.h"

#define TARGET_TEXT 32 /* "compute_121a" and its NUL */

struct target {
    unsigned arch; /* × 10: 90 */
    char suffix;   /* 'a', 'f' or 0 */
    enum image_kind image_kind;
    unsigned device; /* the capability (× 10) of the device that was asked for; 0 when the target was explicit */
};

/*
 * Words for `text`:
 *   "sm_90", "sm_90a", "sm_100f"   exactly this architecture, as a cubin; `wanted` PTX turns it into its PTX
 *   "compute_80", "compute_90a"    exactly this architecture, as PTX
 *   "cc_8.9"                       whatever runs best on a device of this compute capability:
 *       in the compiler's list    → a cubin for it, with the suffix 'a' from 9.0 on
 *       above the newest          → PTX for the newest
 *       missing in between        → a cubin for the nearest lower one of the same major, else PTX of the nearest lower
 *       below the oldest          → UNSUPPORTED_TARGET
 *     A clamped target never has a suffix. PTX that the node's driver is too old for → UNSUPPORTED_TARGET
 *   "host"                         a shared object for the CPU, by the host compiler
 * `wanted` is the fusion's compile.image or 0. Errors: INVALID_FIELD for other words, UNSUPPORTED_TARGET naming the
 * target and what the compiler has, INVALID_OPTION when the target cannot be had in the wanted kind. */
int target_settle(struct text text, enum image_kind wanted, const struct compiler_facts *facts, struct target *ret,
                  struct error *error);

/* "sm_90a" for a cubin, "compute_90a" for PTX, "host". Returns ret. */
const char *target_name(const struct target *target, char ret[TARGET_TEXT]);

/* The version (× 10: 87 for 8.7) of the PTX that CUDA major.minor writes, and the newest that it loads. */
unsigned ptx_version(unsigned major, unsigned minor);

/* Whether the compiler is at least this version. */
bool compiler_is(const struct compiler_facts *facts, unsigned major, unsigned minor);

#endif
