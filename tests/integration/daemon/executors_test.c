/* The daemon with executors whose faults are had at will (tests/support/fake_executor.c). */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/daemon/channels.h"

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

TestSuite(executors, .fini = teardown);

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

static void fault(struct wire *channel)
{
    static const struct launch_request launch = {.has_fusion = true};
    wire_ask(channel, METHOD_LAUNCH, &launch);
    cr_assert(wire_ends(channel, 5000));
    wire_close(channel);
}

/* ---- what there is ---- */

Test(executors, they_are_listed_and_greeted_with)
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
Test(executors, a_greeting_does_not_wait_for_the_probe)
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

Test(executors, a_missing_executor_is_told_and_costs_nothing_else)
{
    static const struct devices_request request;
    struct devices_reply reply;
    struct failure failure;
    struct wire channel;
    pid_t pid;
    daemon_start(&daemon_, &(struct daemon_options){
                               .args = (const char *const[]){"--executor", "/nonexistent/fusiond-executor", NULL}});
    wire_open(&wire, daemon_.socket);
    cr_assert(channel_try(&wire, "host", false, NULL, &pid, &channel, &failure) == STATUS_EXECUTOR_UNAVAILABLE);
    cr_assert(strstr(failure.text.at, "/nonexistent/fusiond-executor") && failure.retryable, "%s", failure.text.at);
    cr_assert(wire_call(&wire, METHOD_DEVICES, &request, &reply, NULL) == 0);
    cr_assert(reply.n_devices == 0 && reply.n_problems == 1);
    cr_assert(strstr(reply.problems[0].at, "/nonexistent/fusiond-executor"));
    cr_assert(daemon_log_count(&daemon_, "devices.unavailable") == 1);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

/* ---- opening ---- */

Test(executors, the_host_device_where_there_is_no_gpu)
{
    const struct device *device;
    struct wire channel;
    struct failure failure;
    pid_t pid;
    start("no-gpu");
    cr_assert(channel_try(&wire, NULL, false, &device, &pid, &channel, NULL) == 0);
    cr_assert(device->kind == DEVICE_KIND_HOST && pid > 0 && kill(pid, 0) == 0);
    cr_assert(fcntl(channel.fd, F_GETFD) & FD_CLOEXEC);
    cr_assert(channel_works(&channel));
    cr_assert(channel_try(&wire, "0", false, NULL, &pid, &channel, &failure) == STATUS_NO_DEVICE);
    cr_assert_str_eq(failure.text.at, "device: no \"0\"; there is \"host\"; there is no CUDA driver here");
    executors_become(&daemon_, 1, 1, 0);
    wire_close(&channel);
    executors_become(&daemon_, 1, 0, 0);
    daemon_is_well();
}

Test(executors, each_client_counts_by_its_own_environment)
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
        cr_assert(channel_try(&client, rows[i].name, false, &device, &pid, &channel, NULL) == 0);
        cr_assert(device->kind == rows[i].kind && device->ordinal == rows[i].ordinal, "row %zu", i);
        cr_assert(channel_works(&channel));
        wire_close(&channel);
        wire_close(&client);
    }
    executors_become(&daemon_, 3, 0, 0);
    daemon_is_well();
}

/* ---- executors that die ---- */

Test(executors, F19_a_fault_is_told_in_one_line_and_others_go_on)
{
    struct wire faulty, neighbour, session, other;
    char words[64];
    start("");
    channel_open(&wire, "host", false, &faulty);
    channel_open(&wire, "host", false, &neighbour);
    channel_open(&wire, "host", true, &session);
    channel_open(&wire, "1", false, &other);
    fault(&faulty);
    cr_assert(wire_ends(&neighbour, 5000), "it shared the process");
    wire_close(&neighbour);
    executors_become(&daemon_, 2, 2, 1);
    cr_assert(channel_works(&session) && channel_works(&other), "these did not");
    cr_assert(daemon_log_count(&daemon_, "executor.lost") == 1);
    snprintf(words, sizeof words, "client=1/pid:%d kernel=", getpid());
    cr_assert(daemon_log_count(&daemon_, words) == 1);
    cr_assert(daemon_log_count(&daemon_, "code=fault device=host") == 1);
    wire_close(&session);
    wire_close(&other);
    daemon_is_well();
}

/* The first form of F19: whatever executors do, the front stays the same process with what it had. */
Test(executors, F19_a_hundred_faults)
{
    struct wire channel;
    start("");
    uint64_t before = 0;
    for (unsigned i = 1; i <= 110; i++) {
        channel_open(&wire, i % 2 ? "host" : "0", i % 3 == 0, &channel);
        fault(&channel);
        if (i == 10)
            before = wire_stats(daemon_.socket).resident_bytes;
    }
    executors_become(&daemon_, 0, 0, 110);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert((pid_t)stats.pid == daemon_.pid && stats.executor_starts_total == 110);
    cr_assert(daemon_log_count(&daemon_, "executor.lost code=fault") == 110);
    cr_assert(getenv("ASAN_OPTIONS") || stats.resident_bytes < before + before / 20 + 65536, "%llu bytes, %llu before",
              (unsigned long long)stats.resident_bytes, (unsigned long long)before);
    daemon_is_well();
}

Test(executors, an_executor_that_does_not_start_says_why_and_recovers)
{
    struct wire channel;
    struct failure failure;
    pid_t pid;
    start("dies-at-start");
    cr_assert(channel_try(&wire, "host", false, NULL, &pid, &channel, &failure) == STATUS_EXECUTOR_UNAVAILABLE);
    cr_assert_str_eq(failure.text.at, "device: the executor of host does not start (3 times in a row): exit status 1: "
                                      "no reason given");
    script("");
    unsigned code;
    long deadline = clock_ms() + 10000;
    do
        code = channel_try(&wire, "host", false, NULL, &pid, &channel, &failure);
    while (code == STATUS_EXECUTOR_UNAVAILABLE && clock_ms() < deadline);
    cr_assert(code == 0, "%s", failure.text.at);
    cr_assert(channel_works(&channel));
    wire_close(&channel);
    daemon_is_well();
}

/* ---- the end ---- */

Test(executors, F30_a_stop_ends_executors_that_stay)
{
    struct wire channel;
    start("stays");
    pid_t pid = channel_open(&wire, "host", false, &channel);
    daemon_stop_in_order(&daemon_);
    no_process_is_left(&pid, 1);
    wire_close(&channel);
    wire_close(&wire);
}

Test(executors, F30_a_stop_while_an_executor_starts)
{
    struct device_open_request request = {.device = TEXT_OF("host")};
    int status;
    start("silent");
    uint32_t id = wire_ask(&wire, METHOD_DEVICE_OPEN, &request);
    executors_become(&daemon_, 1, 0, 0);
    kill(daemon_.pid, SIGTERM);
    cr_assert(wire_answer(&wire, id, METHOD_DEVICE_OPEN, NULL, NULL) == STATUS_SHUTTING_DOWN);
    cr_assert(process_ends(daemon_.pid, DAEMON_PATIENCE_MS, &status) && status == 0);
    daemon_.pid = 0;
    wire_close(&wire);
}
