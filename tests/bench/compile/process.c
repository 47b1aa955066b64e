/* What /proc tells of processes and of those that descend from them. */
#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/compile/compile.h"

#define MAX_PROCESSES 4096

struct process {
    pid_t pid, parent;
    unsigned long long ticks; /* its own and those of its reaped children */
    bool in_tree;
};

unsigned cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static cpu_set_t all_cpus;

void pin_to_one_cpu(void)
{
    cpu_set_t one;
    int cpu = sched_getcpu();
    if (cpu < 0 || sched_getaffinity(0, sizeof all_cpus, &all_cpus) < 0)
        die("where this process runs is not known");
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) < 0)
        die("keeping this process on CPU %d", cpu);
}

void unpin(void)
{
    if (sched_setaffinity(0, sizeof all_cpus, &all_cpus) < 0)
        die("giving this process its CPUs back");
}

uint64_t process_cpu_ns(pid_t pid)
{
    char path[300];
    unsigned long long ns, total = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        die("reading %s", path);
    while ((entry = readdir(tasks))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/schedstat", pid, entry->d_name);
        FILE *file = fopen(path, "re");
        if (!file || fscanf(file, "%llu", &ns) != 1)
            die("reading %s", path);
        fclose(file);
        total += ns;
    }
    closedir(tasks);
    return total;
}

static bool read_process(pid_t pid, struct process *ret)
{
    char path[64], line[1024];
    unsigned long long own_user, own_system, user, system;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false; /* gone meanwhile */
    bool whole = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    /* The name is in parentheses and may hold anything. */
    char *rest = whole ? strrchr(line, ')') : NULL;
    *ret = (struct process){.pid = pid};
    if (!rest || sscanf(rest + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &ret->parent,
                        &own_user, &own_system, &user, &system) != 5)
        return false;
    ret->ticks = own_user + own_system + user + system;
    return true;
}

/* All that descend from root, and root, which is the first. */
static size_t read_tree(pid_t root, struct process *ret)
{
    static struct process all[MAX_PROCESSES];
    struct dirent *entry;
    size_t n = 0, n_tree = 0;
    DIR *folder = opendir("/proc");
    if (!folder)
        die("reading /proc");
    while ((entry = readdir(folder)) && n < MAX_PROCESSES)
        if (isdigit((unsigned char)entry->d_name[0]) && read_process((pid_t)atoi(entry->d_name), &all[n]))
            n++;
    closedir(folder);
    for (size_t i = 0; i < n; i++)
        if (all[i].pid == root)
            ret[n_tree++] = all[i];
    if (!n_tree)
        die("process %d is gone", root);
    for (size_t parent = 0; parent < n_tree; parent++)
        for (size_t i = 0; i < n; i++)
            if (all[i].parent == ret[parent].pid)
                ret[n_tree++] = all[i];
    return n_tree;
}

double tree_cpu_seconds(pid_t root)
{
    static struct process tree[MAX_PROCESSES];
    unsigned long long ticks = 0;
    size_t n = read_tree(root, tree);
    for (size_t i = 0; i < n; i++)
        ticks += tree[i].ticks;
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

double process_pss_mib(pid_t pid)
{
    char path[64], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %llu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (double)kib / 1024;
}

double tree_pss_mib(pid_t root, size_t *ret_count)
{
    static struct process tree[MAX_PROCESSES];
    double total = 0;
    size_t n = read_tree(root, tree);
    for (size_t i = 1; i < n; i++)
        total += process_pss_mib(tree[i].pid);
    *ret_count = n - 1;
    return total;
}
