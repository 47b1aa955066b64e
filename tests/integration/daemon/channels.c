#include "tests/integration/daemon/channels.h"

#include <criterion/criterion.h>
#include <stdio.h>

unsigned channel_try(struct wire *from, const char *name, bool session, const struct device **ret_device,
                     pid_t *ret_pid, struct wire *ret, struct failure *ret_failure)
{
    static struct device_open_reply reply;
    struct device_open_request request = {.device = text_of(name),
                                          .isolation = session ? ISOLATION_SESSION : isolation_absent};
    unsigned code = wire_call(from, METHOD_DEVICE_OPEN, &request, &reply, ret_failure);
    if (code)
        return code;
    cr_assert(reply.fds == 1 && from->n_fds == 1, "%zu descriptors came", from->n_fds);
    wire_adopt(ret, from->fds[0]);
    from->n_fds = 0;
    if (ret_device)
        *ret_device = reply.device;
    *ret_pid = (pid_t)reply.executor_pid;
    return 0;
}

pid_t channel_open(struct wire *from, const char *name, bool session, struct wire *ret)
{
    pid_t pid;
    struct failure failure = {0};
    unsigned code = channel_try(from, name, session, NULL, &pid, ret, &failure);
    cr_assert(code == 0, "%s: %s", failure.name.at, failure.text.at);
    return pid;
}

bool channel_works(struct wire *channel)
{
    static const struct stream_synchronize_request synchronize;
    return wire_call(channel, METHOD_STREAM_SYNCHRONIZE, &synchronize, NULL, NULL) == 0;
}

struct stats_wait {
    const struct daemon_process *daemon;
    uint64_t executors, channels, faults;
};

static bool stats_are(void *context)
{
    const struct stats_wait *wait = context;
    struct stats_reply stats = wire_stats(wait->daemon->socket);
    return stats.executors == wait->executors && stats.channels == wait->channels &&
           stats.executor_faults_total == wait->faults;
}

void executors_become(const struct daemon_process *daemon, uint64_t executors, uint64_t channels, uint64_t faults)
{
    struct stats_wait wait = {daemon, executors, channels, faults};
    bool became = becomes_true(stats_are, &wait, 10000);
    struct stats_reply stats = wire_stats(daemon->socket);
    cr_assert(became, "%llu executors, %llu channels, %llu faults", (unsigned long long)stats.executors,
              (unsigned long long)stats.channels, (unsigned long long)stats.executor_faults_total);
}

/* An orphan is init's to reap, which may take its time. */
static bool has_ended(void *context)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", *(const pid_t *)context);
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z';
}

void no_process_is_left(const pid_t *pids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cr_assert(becomes_true(has_ended, (void *)&pids[i], 5000), "process %d is still there", pids[i]);
}
