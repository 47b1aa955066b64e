/* Devices, executors and direct channels through the real daemon, with an executor whose faults are had at will. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct base_line base;
static struct wire wire;

static void script(const char *words)
{
    char path[128];
    snprintf(path, sizeof path, "%s/script", daemon_.directory);
    FILE *file = fopen(path, "we");
    cr_assert(file && fputs(words, file) >= 0 && fclose(file) == 0);
}

/* A daemon whose executors follow the script. */
static void start_with(const char *words, const char *option, const char *value)
{
    char path[128];
    struct error error = {0};
    cr_assert(daemon_prepare(&daemon_, NULL, &error) == 0, "%s", error.text);
    snprintf(path, sizeof path, "%s/fake-executor", daemon_.directory);
    cr_assert(symlink(FAKE_EXECUTOR, path) == 0);
    script(words);
    const char *args[] = {"--executor", path, option, value, NULL};
    struct daemon_options options = {.args = args};
    cr_assert(daemon_launch(&daemon_, &options, &error) == 0, "%s", error.text);
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
}

static void start(const char *words)
{
    start_with(words, NULL, NULL);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(devices, .fini = teardown);

/* At the end of every test. */
static void daemon_is_well(void)
{
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

/* The environment that a client tells of. */
static void open_as(struct wire *ret, const char *visible, const char *order)
{
    struct hello_request hello = {
        .protocol_min = 1,
        .has_protocol_min = true,
        .protocol_max = 1,
        .has_protocol_max = true,
        .cuda_visible_devices = text_of(visible),
        .cuda_device_order = text_of(order),
    };
    wire_connect(ret, daemon_.socket);
    cr_assert(wire_call(ret, METHOD_HELLO, &hello, NULL, NULL) == 0);
}

/* Open a device: 0, its name, its executor and the channel; or the failure's code. */
static unsigned try_open(struct wire *from, const char *name, bool session, const struct device **ret_device,
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

static pid_t open_device(const char *name, bool session, struct wire *ret)
{
    pid_t pid;
    struct failure failure = {0};
    unsigned code = try_open(&wire, name, session, NULL, &pid, ret, &failure);
    cr_assert(code == 0, "%s: %s", failure.name.at, failure.text.at);
    return pid;
}

static bool works(struct wire *channel)
{
    static const struct stream_synchronize_request synchronize;
    return wire_call(channel, METHOD_STREAM_SYNCHRONIZE, &synchronize, NULL, NULL) == 0;
}

static void fault(struct wire *channel)
{
    static const struct launch_request launch = {.has_fusion = true};
    wire_ask(channel, METHOD_LAUNCH, &launch);
    cr_assert(wire_ends(channel, 5000));
    wire_close(channel);
}

struct stats_wait {
    uint64_t executors, channels, faults;
};

static bool stats_are(void *context)
{
    const struct stats_wait *wait = context;
    struct stats_reply stats = wire_stats(daemon_.socket);
    return stats.executors == wait->executors && stats.channels == wait->channels &&
           stats.executor_faults_total == wait->faults;
}

static void stats_become(uint64_t executors, uint64_t channels, uint64_t faults)
{
    struct stats_wait wait = {executors, channels, faults};
    bool became = becomes_true(stats_are, &wait, 10000);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert(became, "%llu executors, %llu channels, %llu faults", (unsigned long long)stats.executors,
              (unsigned long long)stats.channels, (unsigned long long)stats.executor_faults_total);
}

/* ---- what there is ---- */

Test(devices, they_are_listed_and_greeted_with)
{
    static const struct devices_request request;
    struct devices_reply reply;
    struct hello_reply greeting;
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    struct wire other;
    start("");
    cr_assert(wire_call(&wire, METHOD_DEVICES, &request, &reply, NULL) == 0);
    cr_assert(reply.n_devices == 3 && reply.n_problems == 0 && !reply.mps);
    cr_assert(reply.devices[0].kind == DEVICE_KIND_CUDA && reply.devices[1].ordinal == 1);
    cr_assert_str_eq(reply.devices[1].pci.at, "0000:1b:00.0");
    cr_assert(reply.devices[2].kind == DEVICE_KIND_HOST);
    wire_connect(&other, daemon_.socket);
    cr_assert(wire_call(&other, METHOD_HELLO, &hello, &greeting, NULL) == 0);
    cr_assert(greeting.n_devices == 3);
    cr_assert_str_eq(greeting.devices[0].uuid.at, "GPU-aaaaaaaa-0000-4000-8000-000000000001");
    wire_close(&other);
    daemon_is_well();
}

/* Looking takes its time, greeting does not. */
Test(devices, a_greeting_does_not_wait_for_the_probe)
{
    static const struct devices_request request;
    struct error error = {0};
    char path[128];
    cr_assert(daemon_prepare(&daemon_, NULL, &error) == 0);
    snprintf(path, sizeof path, "%s/fake-executor", daemon_.directory);
    cr_assert(symlink(FAKE_EXECUTOR, path) == 0);
    script("probe-silent");
    struct daemon_options options = {.args = (const char *const[]){"--executor", path, NULL}};
    cr_assert(daemon_launch(&daemon_, &options, &error) == 0, "%s", error.text);
    wire_open(&wire, daemon_.socket);
    uint32_t id = wire_ask(&wire, METHOD_DEVICES, &request);
    struct cancel_request cancel = {.request = id, .has_request = true};
    struct cancel_reply cancelled;
    uint32_t cancel_id = wire_ask(&wire, METHOD_CANCEL, &cancel);
    cr_assert(wire_answer(&wire, id, METHOD_DEVICES, NULL, NULL) == STATUS_CANCELLED);
    cr_assert(wire_answer(&wire, cancel_id, METHOD_CANCEL, &cancelled, NULL) == 0 && cancelled.cancelled);
    wire_ask(&wire, METHOD_DEVICES, &request);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

Test(devices, a_missing_executor_is_told_and_costs_nothing_else)
{
    static const struct devices_request request;
    struct devices_reply reply;
    struct failure failure;
    struct wire channel;
    pid_t pid;
    daemon_start(&daemon_, &(struct daemon_options){
                               .args = (const char *const[]){"--executor", "/nonexistent/fusiond-executor", NULL}});
    wire_open(&wire, daemon_.socket);
    cr_assert(try_open(&wire, "host", false, NULL, &pid, &channel, &failure) == STATUS_EXECUTOR_UNAVAILABLE);
    cr_assert(strstr(failure.text.at, "/nonexistent/fusiond-executor") && failure.retryable, "%s", failure.text.at);
    cr_assert(wire_call(&wire, METHOD_DEVICES, &request, &reply, NULL) == 0);
    cr_assert(reply.n_devices == 0 && reply.n_problems == 1);
    cr_assert(strstr(reply.problems[0].at, "/nonexistent/fusiond-executor"));
    cr_assert(daemon_log_count(&daemon_, "devices.unavailable") == 1);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

/* ---- opening ---- */

Test(devices, the_host_device_where_there_is_no_gpu)
{
    const struct device *device;
    struct wire channel;
    struct failure failure;
    pid_t pid;
    start("no-gpu");
    cr_assert(try_open(&wire, NULL, false, &device, &pid, &channel, NULL) == 0);
    cr_assert(device->kind == DEVICE_KIND_HOST && pid > 0 && kill(pid, 0) == 0);
    cr_assert(fcntl(channel.fd, F_GETFD) & FD_CLOEXEC);
    cr_assert(works(&channel));
    cr_assert(try_open(&wire, "0", false, NULL, &pid, &channel, &failure) == STATUS_NO_DEVICE);
    cr_assert_str_eq(failure.text.at, "device: no \"0\"; there is \"host\"; there is no CUDA driver here");
    stats_become(1, 1, 0);
    wire_close(&channel);
    stats_become(1, 0, 0);
    daemon_is_well();
}

Test(devices, each_client_counts_by_its_own_environment)
{
    static const struct {
        const char *visible, *order, *name;
        enum device_kind kind;
        unsigned ordinal;
    } rows[] = {
        {NULL, NULL, "0", DEVICE_KIND_CUDA, 0},   {"1", NULL, "0", DEVICE_KIND_CUDA, 1},
        {"1,0", NULL, "1", DEVICE_KIND_CUDA, 0},  {"GPU-b", NULL, NULL, DEVICE_KIND_CUDA, 1},
        {"", NULL, NULL, DEVICE_KIND_HOST, 0},    {NULL, "PCI_BUS_ID", "0", DEVICE_KIND_CUDA, 1},
        {"", NULL, "GPU-a", DEVICE_KIND_CUDA, 0},
    };
    start("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct device *device;
        struct wire client, channel;
        pid_t pid;
        open_as(&client, rows[i].visible, rows[i].order);
        cr_assert(try_open(&client, rows[i].name, false, &device, &pid, &channel, NULL) == 0);
        cr_assert(device->kind == rows[i].kind && device->ordinal == rows[i].ordinal, "row %zu", i);
        cr_assert(works(&channel));
        wire_close(&channel);
        wire_close(&client);
    }
    stats_become(3, 0, 0);
    daemon_is_well();
}

Test(devices, F27_clients_share_an_executor_and_sessions_do_not)
{
    struct wire other, channels[4];
    start("");
    pid_t first = open_device("host", false, &channels[0]);
    wire_open(&other, daemon_.socket);
    pid_t again, own, second;
    cr_assert(try_open(&other, "host", false, NULL, &again, &channels[1], NULL) == 0);
    cr_assert(try_open(&other, "host", true, NULL, &own, &channels[2], NULL) == 0);
    second = open_device("host", true, &channels[3]);
    cr_assert(again == first && own != first && second != first && second != own);
    stats_become(3, 4, 0);
    /* A channel outlives the connection that it came by. */
    wire_close(&other);
    for (int i = 0; i < 4; i++)
        cr_assert(works(&channels[i]));
    /* A session's executor ends with its channel. */
    wire_close(&channels[2]);
    stats_become(2, 3, 0);
    for (int i = 0; i < 4; i++)
        wire_close(&channels[i]);
    stats_become(1, 0, 0);
    daemon_is_well();
}

Test(devices, F17_clients_that_leave_while_a_device_is_opened)
{
    struct device_open_request request = {.device = TEXT_OF("host")};
    start_with("", "--executor-idle-ms", "100");
    for (int i = 0; i < 60; i++) {
        struct wire client;
        wire_open(&client, daemon_.socket);
        request.isolation = i % 3 == 0 ? ISOLATION_SESSION : ISOLATION_UID;
        wire_ask(&client, METHOD_DEVICE_OPEN, &request);
        if (i % 2)
            works(&wire); /* some time for it: the daemon answers that it has no such method */
        wire_close(&client);
    }
    stats_become(0, 0, 0);
    daemon_is_well();
}

Test(devices, an_executor_that_nobody_uses_is_let_go)
{
    struct wire channel;
    start_with("", "--executor-idle-ms", "50");
    pid_t first = open_device("host", false, &channel);
    cr_assert(works(&channel));
    wire_close(&channel);
    stats_become(0, 0, 0);
    cr_assert(kill(first, 0) < 0);
    cr_assert(open_device("host", false, &channel) != first);
    cr_assert(works(&channel));
    wire_close(&channel);
    daemon_is_well();
}

/* ---- kernels ---- */

Test(devices, an_executor_gets_the_kernels_of_its_user)
{
    struct sample sample;
    struct wire channel;
    struct fusion_define_request define = {.has_key = true};
    struct fusion_define_reply defined;
    start("");
    struct failure failure = {0};
    struct compile_reply compiled;
    unsigned code = wire_call(&wire, METHOD_COMPILE, sample_kernel(&sample, 1), &compiled, &failure);
    if (code == STATUS_COMPILER_UNAVAILABLE && !getenv("FUSIOND_NVRTC"))
        cr_skip("no NVRTC here");
    cr_assert(code == 0, "%s", failure.text.at);
    memcpy(define.key, compiled.kernel->key, sizeof define.key);
    open_device("0", false, &channel);
    cr_assert(wire_call(&channel, METHOD_FUSION_DEFINE, &define, &defined, NULL) == 0);
    cr_assert(defined.registers == 0x7f, "the first byte of an ELF file");
    cr_assert(defined.static_shared_memory == compiled.kernel->image_size);
    define.key[5] ^= 1;
    cr_assert(wire_call(&channel, METHOD_FUSION_DEFINE, &define, NULL, &failure) == STATUS_NOT_FOUND);
    wire_close(&channel);
    daemon_is_well();
}

/* ---- executors that die ---- */

Test(devices, F21_an_executor_that_is_killed)
{
    struct wire first, second;
    start("");
    pid_t pid = open_device("host", false, &first);
    cr_assert(works(&first));
    cr_assert(kill(pid, SIGKILL) == 0);
    cr_assert(wire_ends(&first, 5000));
    stats_become(0, 0, 1);
    cr_assert(daemon_log_count(&daemon_, "executor.lost code=died device=host") == 1);
    cr_assert(daemon_log_count(&daemon_, "killed by SIGKILL") == 1);
    cr_assert(open_device("host", false, &second) != pid);
    cr_assert(works(&second));
    cr_assert(wire_stats(daemon_.socket).executor_starts_total == 2);
    wire_close(&first);
    wire_close(&second);
    daemon_is_well();
}

Test(devices, F19_a_fault_is_told_in_one_line_and_others_go_on)
{
    struct wire faulty, neighbour, session, other;
    char words[64];
    start("");
    open_device("host", false, &faulty);
    open_device("host", false, &neighbour);
    open_device("host", true, &session);
    open_device("1", false, &other);
    fault(&faulty);
    cr_assert(wire_ends(&neighbour, 5000), "it shared the process");
    wire_close(&neighbour);
    stats_become(2, 2, 1);
    cr_assert(works(&session) && works(&other), "these did not");
    cr_assert(daemon_log_count(&daemon_, "executor.lost") == 1);
    snprintf(words, sizeof words, "client=1/pid:%d kernel=", getpid());
    cr_assert(daemon_log_count(&daemon_, words) == 1);
    cr_assert(daemon_log_count(&daemon_, "code=fault device=host") == 1);
    wire_close(&session);
    wire_close(&other);
    daemon_is_well();
}

/* The first form of F19: whatever executors do, the front stays the same process with what it had. */
Test(devices, F19_a_hundred_faults)
{
    struct wire channel;
    start("");
    uint64_t before = 0;
    for (unsigned i = 1; i <= 110; i++) {
        open_device(i % 2 ? "host" : "0", i % 3 == 0, &channel);
        fault(&channel);
        if (i == 10)
            before = wire_stats(daemon_.socket).resident_bytes;
    }
    stats_become(0, 0, 110);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert((pid_t)stats.pid == daemon_.pid && stats.executor_starts_total == 110);
    cr_assert(daemon_log_count(&daemon_, "executor.lost code=fault") == 110);
    cr_assert(getenv("ASAN_OPTIONS") || stats.resident_bytes < before + before / 20 + 65536, "%llu bytes, %llu before",
              (unsigned long long)stats.resident_bytes, (unsigned long long)before);
    daemon_is_well();
}

Test(devices, an_executor_that_does_not_start_says_why_and_recovers)
{
    struct wire channel;
    struct failure failure;
    pid_t pid;
    start("dies-at-start");
    cr_assert(try_open(&wire, "host", false, NULL, &pid, &channel, &failure) == STATUS_EXECUTOR_UNAVAILABLE);
    cr_assert_str_eq(failure.text.at, "device: the executor of host does not start (3 times in a row): exit status 1: "
                                      "no reason given");
    script("");
    unsigned code;
    long deadline = clock_ms() + 10000;
    do
        code = try_open(&wire, "host", false, NULL, &pid, &channel, &failure);
    while (code == STATUS_EXECUTOR_UNAVAILABLE && clock_ms() < deadline);
    cr_assert(code == 0, "%s", failure.text.at);
    cr_assert(works(&channel));
    wire_close(&channel);
    daemon_is_well();
}

/* ---- the end ---- */

static void no_process_is_left(const pid_t *pids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cr_assert(kill(pids[i], 0) < 0, "process %d is still there", pids[i]);
}

Test(devices, F30_a_stop_ends_the_executors)
{
    struct wire channels[3];
    pid_t pids[3];
    start("");
    pids[0] = open_device("host", false, &channels[0]);
    pids[1] = open_device("0", false, &channels[1]);
    pids[2] = open_device("0", true, &channels[2]);
    long before = clock_ms();
    daemon_stop_in_order(&daemon_);
    cr_assert(clock_ms() - before < 5000);
    no_process_is_left(pids, 3);
    for (int i = 0; i < 3; i++) {
        cr_assert(wire_ends(&channels[i], 1000));
        wire_close(&channels[i]);
    }
    wire_close(&wire);
}

Test(devices, F30_a_stop_ends_executors_that_stay)
{
    struct wire channel;
    start("stays");
    pid_t pid = open_device("host", false, &channel);
    daemon_stop_in_order(&daemon_);
    no_process_is_left(&pid, 1);
    wire_close(&channel);
    wire_close(&wire);
}

Test(devices, F30_a_stop_while_an_executor_starts)
{
    struct device_open_request request = {.device = TEXT_OF("host")};
    int status;
    start("silent");
    uint32_t id = wire_ask(&wire, METHOD_DEVICE_OPEN, &request);
    stats_become(1, 0, 0);
    kill(daemon_.pid, SIGTERM);
    cr_assert(wire_answer(&wire, id, METHOD_DEVICE_OPEN, NULL, NULL) == STATUS_SHUTTING_DOWN);
    cr_assert(process_ends(daemon_.pid, DAEMON_PATIENCE_MS, &status) && status == 0);
    daemon_.pid = 0;
    wire_close(&wire);
}
