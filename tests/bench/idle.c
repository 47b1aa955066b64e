/* P15: what the front costs when nobody asks for anything. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define IDLE_CLIENTS 500
#define IDLE_MS 5000

static uint64_t status_number(uint64_t pid, const char *name)
{
    char path[64], line[256];
    uint64_t value = UINT64_MAX;
    size_t size = strlen(name);
    snprintf(path, sizeof path, "/proc/%llu/status", (unsigned long long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        die("reading %s", path);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, size) == 0 && line[size] == ':')
            value = strtoull(line + size + 1, NULL, 10);
    fclose(file);
    if (value == UINT64_MAX)
        die("%s has no %s", path, name);
    return value;
}

void bench_idle(const struct bench *bench)
{
    static struct fusiond_connection *connections[IDLE_CLIENTS];
    struct fusiond_error error;
    /* One kernel, so that the daemon has its compiler, its database and one worker. */
    if (fusiond_connect(bench->socket, NULL, &connections[0], &error) < 0)
        die("%s", error.text);
    struct fusiond_fusion *fusion = make_fusion("bench", 10240, 0);
    fusiond_kernel_destroy(get_kernel(connections[0], fusion, 0));
    fusiond_fusion_destroy(fusion);
    fusiond_close(connections[0]);
    uint64_t before = status_number(bench->pid, "VmRSS");
    for (int i = 0; i < IDLE_CLIENTS; i++)
        if (fusiond_connect(bench->socket, NULL, &connections[i], &error) < 0)
            die("client %d: %s", i, error.text);
    uint64_t after = status_number(bench->pid, "VmRSS");
    uint64_t wakes = status_number(bench->pid, "voluntary_ctxt_switches");
    /* Nothing is waited for: the measurement is that nothing happens. */
    poll(NULL, 0, IDLE_MS);
    wakes = status_number(bench->pid, "voluntary_ctxt_switches") - wakes;
    print_row(stdout, "P15.front_rss", (double)before / 1024, "MiB", 0, "");
    print_row(stdout, "P15.rss_per_idle_client", (double)(after - before) / IDLE_CLIENTS, "KiB", 0, "");
    print_row(stdout, "P15.wakeups_per_second", (double)wakes / (IDLE_MS / 1000.0), "1/s", 0, "");
    for (int i = 0; i < IDLE_CLIENTS; i++)
        fusiond_close(connections[i]);
}
