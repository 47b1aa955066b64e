/*
 * Which prefixes deserve a zygote: those with which programs compile again and again. One whose zygote was no good is
 * barred for a while. A bounded memory; pure, the caller tells the time.
 */
#ifndef DAEMON_COMPILE_PREFIXES_H
#define DAEMON_COMPILE_PREFIXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "kernels_db/kernel_key.h"

/* A prefix that is met once may never be met again, and a header costs as much as several compiles. */
#define PREFIXES_COMPILES 2
/* What was wrong with a header set may be another program's fault, or the machine's. */
#define PREFIXES_BARRED_MS 600000
/* Prefixes that are remembered; the one that was not met for longest goes. */
#define PREFIXES_MAX 1024

struct prefix_note;

struct prefixes {
    struct prefix_note *by_digest;
    struct list by_use; /* the least recently met first */
    size_t n;
};

void prefixes_init(struct prefixes *prefixes);
void prefixes_finish(struct prefixes *prefixes);

/* A program with it has compiled in an ordinary worker. Whether it deserves a zygote from now on. */
bool prefixes_compiled(struct prefixes *prefixes, const uint8_t digest[DIGEST_SIZE], uint64_t now_ms);

/* No zygote of it for a while; then it has to deserve one again. */
void prefixes_bar(struct prefixes *prefixes, const uint8_t digest[DIGEST_SIZE], uint64_t now_ms);

#endif
