#include "daemon/compile/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The least memory that a compile is sure to need. */
#define WORKER_BYTES (1ull << 30)
/* A limit above this is none: v1 writes "no limit" as a number near 2^63. */
#define NO_LIMIT (1ull << 60)
#define PATH_ROOM 4096
/* Control groups nest; each level may limit. */
#define MAX_LEVELS 64

/* ---- files ---- */

/* The first line of "<root><path>"; false when there is none. */
static bool read_line(const char *root, const char *path, char *ret, size_t room)
{
    char whole[PATH_ROOM];
    if ((size_t)snprintf(whole, sizeof whole, "%s%s", root, path) >= sizeof whole)
        return false;
    FILE *file = fopen(whole, "re");
    if (!file)
        return false;
    bool got = fgets(ret, (int)room, file) != NULL;
    fclose(file);
    return got;
}

/* The rest of the line of "<root><path>" that begins with `name`. */
static bool read_field(const char *root, const char *path, const char *name, char *ret, size_t room)
{
    char whole[PATH_ROOM], line[1024];
    bool found = false;
    snprintf(whole, sizeof whole, "%s%s", root, path);
    FILE *file = fopen(whole, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            snprintf(ret, room, "%s", line + strlen(name));
            found = true;
        }
    }
    fclose(file);
    return found;
}

static void limit_to(uint64_t *value, uint64_t limit)
{
    if (limit < *value)
        *value = limit;
}

/* ---- control groups ----
 * Where the process is says /proc/self/cgroup; inside a container that path may be one of the host's, which is not
 * there. Then the group that is mounted is the container's own. */

/* Call `look` for a group and all above it; "" is the mounted root. */
static void climb(const char *root, const char *mount, const char *group,
                  void (*look)(const char *root, const char *folder, void *context), void *context)
{
    char folder[PATH_ROOM];
    size_t least = strlen(mount);
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group) >= sizeof folder)
        return;
    for (int level = 0; level < MAX_LEVELS; level++) {
        look(root, folder, context);
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < least)
            return;
        *slash = '\0';
    }
}

static void look_at_v2(const char *root, const char *folder, void *context)
{
    struct machine *machine = context;
    char path[PATH_ROOM + 32], line[128];
    unsigned long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_line(root, path, line, sizeof line) && sscanf(line, "%llu %llu", &quota, &period) == 2 && period > 0 &&
        (quota + period - 1) / period < machine->cpus)
        machine->cpus = (unsigned)((quota + period - 1) / period);
    static const char *const names[] = {"memory.max", "memory.high"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (read_line(root, path, line, sizeof line) && line[0] != 'm') /* "max" */
            limit_to(&machine->memory_bytes, strtoull(line, NULL, 10));
    }
}

static void look_at_v1_cpu(const char *root, const char *folder, void *context)
{
    struct machine *machine = context;
    char path[PATH_ROOM + 32], line[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    long long quota = read_line(root, path, line, sizeof line) ? strtoll(line, NULL, 10) : -1;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    long long period = read_line(root, path, line, sizeof line) ? strtoll(line, NULL, 10) : 0;
    if (quota > 0 && period > 0 && (quota + period - 1) / period < (long long)machine->cpus)
        machine->cpus = (unsigned)((quota + period - 1) / period);
}

static void look_at_v1_memory(const char *root, const char *folder, void *context)
{
    struct machine *machine = context;
    char path[PATH_ROOM + 32], line[64];
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    uint64_t limit = read_line(root, path, line, sizeof line) ? strtoull(line, NULL, 10) : UINT64_MAX;
    if (limit < NO_LIMIT)
        limit_to(&machine->memory_bytes, limit);
}

/* Whether a list "cpu,cpuacct" has the name. */
static bool names(const char *list, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, size) == 0 && (at[size] == ',' || at[size] == '\0'))
            return true;
    }
    return false;
}

static void look_at_v1(const char *root, const char *controllers, const char *group, struct machine *machine)
{
    char mount[256];
    snprintf(mount, sizeof mount, "/sys/fs/cgroup/%.200s", controllers);
    if (names(controllers, "cpu"))
        climb(root, mount, group, look_at_v1_cpu, machine);
    if (names(controllers, "memory"))
        climb(root, mount, group, look_at_v1_memory, machine);
}

static void look_at_groups(const char *root, struct machine *machine)
{
    char path[PATH_ROOM], line[PATH_ROOM];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) { /* "4:cpu,cpuacct:/group", and "0::/group" of v2 */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        if (*controllers) {
            look_at_v1(root, controllers, group, machine);
        } else {
            climb(root, "/sys/fs/cgroup", group, look_at_v2, machine);
            climb(root, "/sys/fs/cgroup/unified", group, look_at_v2, machine);
        }
    }
    fclose(file);
}

/* ---- this process, this machine ---- */

/* CPUs in "0-3,8": what affinity and cpuset leave. 0: it makes no sense. */
static unsigned count_list(const char *list)
{
    unsigned n = 0;
    for (const char *at = list; *at; at++) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at)
            break;
        if (*end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
        }
        if (end == at || last < first || last > 1u << 20)
            return 0;
        n += (unsigned)(last - first) + 1;
        if (*end != ',')
            break;
        at = end;
    }
    return n;
}

void machine_read(const char *root, struct machine *ret)
{
    static const char *const fields[] = {"MemTotal:", "MemAvailable:"};
    struct machine machine = {.cpus = 1, .memory_bytes = UINT64_MAX};
    char text[1024];
    if (read_field(root, "/proc/self/status", "Cpus_allowed_list:", text, sizeof text)) {
        unsigned n = count_list(text + strspn(text, " \t"));
        machine.cpus = n ? n : 1;
    }
    for (size_t i = 0; i < 2; i++) {
        if (read_field(root, "/proc/meminfo", fields[i], text, sizeof text))
            limit_to(&machine.memory_bytes, strtoull(text, NULL, 10) * 1024);
    }
    look_at_groups(root, &machine);
    if (machine.cpus == 0)
        machine.cpus = 1;
    *ret = machine;
}

unsigned machine_workers(const struct machine *machine)
{
    uint64_t by_memory = machine->memory_bytes / WORKER_BYTES;
    uint64_t n = machine->cpus < by_memory ? machine->cpus : by_memory;
    return n ? (unsigned)n : 1;
}
