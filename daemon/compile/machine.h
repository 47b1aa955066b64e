/*
 * What this machine lets the daemon use: CPUs and memory, by control groups (v1 and v2), affinity and /proc/meminfo.
 *
 * Read once, at the start. Whatever cannot be read does not limit.
 */
#ifndef DAEMON_COMPILE_MACHINE_H
#define DAEMON_COMPILE_MACHINE_H

#include <stdint.h>

struct machine {
    unsigned cpus;         /* by affinity and cpuset, and by the quota, rounded up; at least 1 */
    uint64_t memory_bytes; /* the least of: what is installed, what is available, what the control groups allow */
};

/* `root` is where /proc and /sys are: "" for this machine. */
void machine_read(const char *root, struct machine *ret);

/* How many compilers may run at once: one a CPU, each with the memory that a compile is sure to need; at least 1. */
unsigned machine_workers(const struct machine *machine);

#endif
