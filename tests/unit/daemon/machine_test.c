#include "daemon/compile/machine.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/daemon/pump.h"

#define GIB (1ull << 30)

static struct machine machine;

TestSuite(machine, .init = folder_create, .fini = folder_remove);

/* A file of the tree, with the folders above it. */
static void plant(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", folder, path);
    for (char *slash = whole + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(whole, 0700);
    }
    file_write(whole, text);
}

/* A machine with 64 CPUs and 256 GiB. */
static void plant_machine(const char *groups)
{
    plant("/proc/self/status", "Name:\tfusiond\nCpus_allowed:\tffffffff,ffffffff\nCpus_allowed_list:\t0-63\n");
    plant("/proc/meminfo", "MemTotal:       268435456 kB\nMemFree:        1 kB\nMemAvailable:   209715200 kB\n");
    plant("/proc/self/cgroup", groups);
}

static void expect(unsigned cpus, uint64_t memory, unsigned workers)
{
    machine_read(folder, &machine);
    cr_assert_eq(machine.cpus, cpus, "%u CPUs", machine.cpus);
    cr_assert_eq(machine.memory_bytes, memory, "%llu bytes", (unsigned long long)machine.memory_bytes);
    cr_assert_eq(machine_workers(&machine), workers);
}

Test(machine, without_limits)
{
    plant_machine("0::/user.slice\n");
    expect(64, 200 * GIB, 64);
}

Test(machine, memory_bounds_the_workers)
{
    plant_machine("");
    plant("/proc/meminfo", "MemTotal: 268435456 kB\nMemAvailable: 5000000 kB\n");
    expect(64, 5000000ull * 1024, 4);
    plant("/proc/meminfo", "MemTotal: 500000 kB\n");
    expect(64, 500000ull * 1024, 1);
}

Test(machine, v2_quota_and_memory)
{
    plant_machine("0::/system.slice/fusiond.service\n");
    plant("/sys/fs/cgroup/system.slice/fusiond.service/cpu.max", "350000 100000\n");
    plant("/sys/fs/cgroup/system.slice/fusiond.service/memory.max", "17179869184\n");
    expect(4, 16 * GIB, 4);
    plant("/sys/fs/cgroup/system.slice/fusiond.service/memory.high", "3221225472\n");
    expect(4, 3 * GIB, 3);
    plant("/sys/fs/cgroup/system.slice/fusiond.service/cpu.max", "max 100000\n");
    plant("/sys/fs/cgroup/system.slice/fusiond.service/memory.max", "max\n");
    plant("/sys/fs/cgroup/system.slice/fusiond.service/memory.high", "max\n");
    expect(64, 200 * GIB, 64);
}

Test(machine, v2_a_group_above_limits_too)
{
    plant_machine("0::/job.slice/step/task\n");
    plant("/sys/fs/cgroup/job.slice/cpu.max", "800000 100000\n");
    plant("/sys/fs/cgroup/job.slice/step/memory.max", "10737418240\n");
    plant("/sys/fs/cgroup/job.slice/step/task/cpu.max", "max 100000\n");
    expect(8, 10 * GIB, 8);
}

Test(machine, v2_in_a_container_the_mounted_group_is_the_own_one)
{
    plant_machine("0::/kubepods/pod1/container2\n");
    plant("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    plant("/sys/fs/cgroup/memory.max", "4294967296\n");
    expect(2, 4 * GIB, 2);
    plant("/proc/self/cgroup", "0::/\n");
    expect(2, 4 * GIB, 2);
}

Test(machine, v1_quota_and_memory)
{
    plant_machine("5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/docker/abc\n");
    plant("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n");
    plant("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    plant("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "8589934592\n");
    expect(2, 8 * GIB, 2);
    plant("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
    plant("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    expect(64, 200 * GIB, 64);
}

Test(machine, v1_controllers_that_are_mounted_alone)
{
    plant_machine("2:cpuacct:/\n1:cpu:/\n4:memory:/job\n");
    plant("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    plant("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    plant("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    expect(1, 2 * GIB, 1);
}

Test(machine, hybrid_the_unified_hierarchy_beside_v1)
{
    plant_machine("1:cpu:/a\n0::/a\n");
    plant("/sys/fs/cgroup/unified/a/memory.max", "6442450944\n");
    plant("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "1000000\n");
    plant("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    expect(10, 6 * GIB, 6);
}

Test(machine, affinity_and_cpuset)
{
    plant_machine("");
    plant("/proc/self/status", "Cpus_allowed_list:\t0,2-5,63\n");
    expect(6, 200 * GIB, 6);
    plant("/proc/self/status", "Cpus_allowed_list:\t7\n");
    expect(1, 200 * GIB, 1);
}

Test(machine, what_makes_no_sense_does_not_limit)
{
    plant_machine("nonsense\n3:\n0::/x\n");
    plant("/sys/fs/cgroup/x/cpu.max", "\n");
    plant("/sys/fs/cgroup/cpu.max", "100 0\n");
    expect(64, 200 * GIB, 64);
    plant("/proc/self/status", "Cpus_allowed_list:\t9-3\n");
    expect(1, 200 * GIB, 1);
    plant("/proc/self/status", "Cpus_allowed_list:\tall\n");
    expect(1, 200 * GIB, 1);
}

Test(machine, nothing_is_there)
{
    machine_read(folder, &machine);
    cr_assert_eq(machine.cpus, 1);
    cr_assert_eq(machine_workers(&machine), 1);
}

Test(machine, this_one)
{
    machine_read("", &machine);
    cr_assert_geq(machine.cpus, 1);
    cr_assert_leq(machine.cpus, sysconf(_SC_NPROCESSORS_CONF));
    cr_assert_leq(machine.memory_bytes, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}
