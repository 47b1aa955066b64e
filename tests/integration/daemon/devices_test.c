/* The host device through the real daemon and its real executors: channels, kernels, ends of all kinds. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/daemon/channels.h"

static struct daemon_process daemon_;
static struct base_line base;
static struct wire wire;

static void start(const char *option, const char *value)
{
    const char *args[] = {"--host-threads", "2", option, value, NULL};
    struct daemon_options options = {.args = args};
    daemon_start(&daemon_, &options);
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
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

/* ---- kernels ---- */

/* Compile `k` for the host device; the test is skipped where there is no C++ compiler. */
static void compile_for_host(const char *code, uint8_t ret_key[DIGEST_SIZE])
{
    struct sample sample;
    struct compile_reply reply;
    struct failure failure = {0};
    sample_code(&sample, code, "k");
    sample.fusion.target = TEXT_OF("host");
    unsigned status = wire_call(&wire, METHOD_COMPILE, &sample.request, &reply, &failure);
    if (status == STATUS_COMPILER_UNAVAILABLE)
        cr_skip("no C++ compiler here: %s", failure.text.at);
    cr_assert(status == 0, "%s: %s", failure.name.at, failure.text.at);
    memcpy(ret_key, reply.kernel->key, DIGEST_SIZE);
}

static unsigned define(struct wire *channel, const uint8_t key[DIGEST_SIZE], uint64_t *ret, struct failure *ret_failure)
{
    struct param param = {.name = TEXT_OF("out"), .kind = PARAM_KIND_POINTER, .dtype = DTYPE_UINT32};
    struct fusion_define_request request = {.has_key = true, .params = &param, .n_params = 1};
    struct fusion_define_reply reply;
    memcpy(request.key, key, DIGEST_SIZE);
    unsigned code = wire_call(channel, METHOD_FUSION_DEFINE, &request, &reply, ret_failure);
    if (code == 0)
        *ret = reply.fusion;
    return code;
}

static uint64_t allocate(struct wire *channel)
{
    struct buffer_allocate_request request = {.size = 4096, .has_size = true};
    struct buffer_allocate_reply reply;
    cr_assert(wire_call(channel, METHOD_BUFFER_ALLOCATE, &request, &reply, NULL) == 0);
    return reply.buffer;
}

static uint32_t launch(struct wire *channel, uint64_t fusion, uint64_t buffer)
{
    static int64_t one[] = {1};
    struct launch_argument argument = {.buffer = buffer, .has_buffer = true};
    struct launch_request request = {
        .fusion = fusion,
        .has_fusion = true,
        .arguments = &argument,
        .n_arguments = 1,
        .grid = one,
        .n_grid = 1,
        .block = one,
        .n_block = 1,
        .wait = true,
    };
    return wire_ask(channel, METHOD_LAUNCH, &request);
}

static unsigned read_first(struct wire *channel, uint64_t buffer)
{
    struct buffer_read_request request = {.buffer = buffer, .has_buffer = true, .size = 4, .has_size = true};
    struct buffer_read_reply reply;
    unsigned value;
    cr_assert(wire_call(channel, METHOD_BUFFER_READ, &request, &reply, NULL) == 0 && reply.bytes.size == 4);
    memcpy(&value, reply.bytes.at, 4);
    return value;
}

#define WRITES "extern \"C\" __global__ void k(unsigned *out) { *out = 4711; }\n"
#define FAULTS "extern \"C\" __global__ void k(unsigned *out) { *(volatile unsigned *)(out - (1l << 45)) = 1; }\n"

/* A kernel that writes does, on a channel that was just opened. */
static void works_on(struct wire *channel, const uint8_t key[DIGEST_SIZE])
{
    uint64_t fusion;
    struct failure failure = {0};
    cr_assert(define(channel, key, &fusion, &failure) == 0, "%s", failure.text.at);
    uint64_t buffer = allocate(channel);
    cr_assert(wire_answer(channel, launch(channel, fusion, buffer), METHOD_LAUNCH, NULL, &failure) == 0, "%s",
              failure.text.at);
    cr_assert(read_first(channel, buffer) == 4711);
}

/* ---- what there is ---- */

Test(devices, the_host_device_is_always_there)
{
    static const struct devices_request request;
    struct devices_reply reply;
    struct hello_reply greeting;
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    struct wire other;
    start(NULL, NULL);
    cr_assert(wire_call(&wire, METHOD_DEVICES, &request, &reply, NULL) == 0);
    const struct device *host = &reply.devices[reply.n_devices - 1];
    cr_assert(reply.n_devices > 0 && host->kind == DEVICE_KIND_HOST && host->name.size > 0 &&
              host->multiprocessors > 0);
    cr_assert(reply.n_devices > 1 || reply.n_problems == 1, "why there is no GPU is told");
    wire_connect(&other, daemon_.socket);
    cr_assert(wire_call(&other, METHOD_HELLO, &hello, &greeting, NULL) == 0);
    cr_assert(greeting.n_devices == reply.n_devices);
    for (size_t i = 0; i < reply.n_devices; i++)
        cr_assert(message_equal(&device_type, &greeting.devices[i], &reply.devices[i]));
    wire_close(&other);
    daemon_is_well();
}

Test(devices, a_device_that_is_not_there)
{
    struct wire channel;
    struct failure failure;
    pid_t pid;
    start(NULL, NULL);
    cr_assert(channel_try(&wire, "63", false, NULL, &pid, &channel, &failure) == STATUS_NO_DEVICE);
    cr_assert(strncmp(failure.text.at, "device: no \"63\"; there is ", 26) == 0 && strstr(failure.text.at, "\"host\""),
              "%s", failure.text.at);
    cr_assert(!failure.retryable && wire_stats(daemon_.socket).executor_starts_total == 0);
    daemon_is_well();
}

/* ---- channels ---- */

Test(devices, a_kernel_runs)
{
    uint8_t key[DIGEST_SIZE];
    const struct device *device;
    struct wire channel;
    struct failure failure;
    uint64_t fusion;
    pid_t pid;
    start(NULL, NULL);
    compile_for_host(WRITES, key);
    cr_assert(channel_try(&wire, "host", false, &device, &pid, &channel, NULL) == 0);
    cr_assert(device->kind == DEVICE_KIND_HOST && pid > 0 && kill(pid, 0) == 0);
    cr_assert(fcntl(channel.fd, F_GETFD) & FD_CLOEXEC);
    works_on(&channel, key);
    key[5] ^= 1;
    cr_assert(define(&channel, key, &fusion, &failure) == STATUS_NOT_FOUND);
    executors_become(&daemon_, 1, 1, 0);
    wire_close(&channel);
    executors_become(&daemon_, 1, 0, 0);
    daemon_is_well();
}

Test(devices, a_kernel_of_another_life_comes_from_the_database)
{
    uint8_t key[DIGEST_SIZE];
    struct wire channel;
    start(NULL, NULL);
    compile_for_host(WRITES, key);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, NULL);
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
    channel_open(&wire, "host", false, &channel);
    works_on(&channel, key);
    cr_assert(wire_stats(daemon_.socket).hits_database_total == 1);
    wire_close(&channel);
    daemon_is_well();
}

Test(devices, F27_clients_share_an_executor_and_sessions_do_not)
{
    struct wire other, channels[4];
    start(NULL, NULL);
    pid_t first = channel_open(&wire, "host", false, &channels[0]);
    wire_open(&other, daemon_.socket);
    pid_t again, own, second;
    cr_assert(channel_try(&other, "host", false, NULL, &again, &channels[1], NULL) == 0);
    cr_assert(channel_try(&other, "host", true, NULL, &own, &channels[2], NULL) == 0);
    second = channel_open(&wire, "host", true, &channels[3]);
    cr_assert(again == first && own != first && second != first && second != own);
    executors_become(&daemon_, 3, 4, 0);
    /* A channel outlives the connection that it came by. */
    wire_close(&other);
    for (int i = 0; i < 4; i++)
        cr_assert(channel_works(&channels[i]));
    /* A session's executor ends with its channel. */
    wire_close(&channels[2]);
    executors_become(&daemon_, 2, 3, 0);
    for (int i = 0; i < 4; i++)
        wire_close(&channels[i]);
    executors_become(&daemon_, 1, 0, 0);
    daemon_is_well();
}

Test(devices, F17_clients_that_leave_while_a_device_is_opened)
{
    struct device_open_request request = {.device = TEXT_OF("host")};
    start("--executor-idle-ms", "100");
    for (int i = 0; i < 60; i++) {
        struct wire client;
        wire_open(&client, daemon_.socket);
        request.isolation = i % 3 == 0 ? ISOLATION_SESSION : ISOLATION_UID;
        wire_ask(&client, METHOD_DEVICE_OPEN, &request);
        if (i % 2)
            channel_works(&wire); /* some time for it: the daemon answers that it has no such method */
        wire_close(&client);
    }
    executors_become(&daemon_, 0, 0, 0);
    daemon_is_well();
}

Test(devices, an_executor_that_nobody_uses_is_let_go)
{
    struct wire channel;
    start("--executor-idle-ms", "50");
    pid_t first = channel_open(&wire, "host", false, &channel);
    cr_assert(channel_works(&channel));
    wire_close(&channel);
    executors_become(&daemon_, 0, 0, 0);
    cr_assert(kill(first, 0) < 0);
    cr_assert(channel_open(&wire, "host", false, &channel) != first);
    cr_assert(channel_works(&channel));
    wire_close(&channel);
    daemon_is_well();
}

/* ---- executors that die ---- */

Test(devices, F21_an_executor_that_is_killed)
{
    struct wire first, second;
    start(NULL, NULL);
    pid_t pid = channel_open(&wire, "host", false, &first);
    cr_assert(channel_works(&first));
    cr_assert(kill(pid, SIGKILL) == 0);
    cr_assert(wire_ends(&first, 5000));
    executors_become(&daemon_, 0, 0, 1);
    cr_assert(daemon_log_count(&daemon_, "executor.lost code=died device=host") == 1);
    cr_assert(daemon_log_count(&daemon_, "killed by SIGKILL") == 1);
    cr_assert(channel_open(&wire, "host", false, &second) != pid);
    cr_assert(channel_works(&second));
    cr_assert(wire_stats(daemon_.socket).executor_starts_total == 2);
    wire_close(&first);
    wire_close(&second);
    daemon_is_well();
}

/* The device is opened anew after each; a session of its own does not notice. */
Test(devices, F19_a_kernel_that_faults_on_the_host_device)
{
    uint8_t writes[DIGEST_SIZE], faults[DIGEST_SIZE];
    struct wire session;
    uint64_t fusion;
    enum { CYCLES = 10 };
    start(NULL, NULL);
    compile_for_host(WRITES, writes);
    compile_for_host(FAULTS, faults);
    channel_open(&wire, "host", true, &session);
    for (int i = 0; i < CYCLES; i++) {
        struct wire channel, neighbour;
        channel_open(&wire, "host", false, &channel);
        channel_open(&wire, "host", false, &neighbour);
        works_on(&neighbour, writes);
        cr_assert(define(&channel, faults, &fusion, NULL) == 0);
        launch(&channel, fusion, allocate(&channel));
        cr_assert(wire_ends(&channel, 5000) && wire_ends(&neighbour, 5000));
        wire_close(&channel);
        wire_close(&neighbour);
    }
    executors_become(&daemon_, 1, 1, CYCLES);
    cr_assert(daemon_log_count(&daemon_, "executor.lost code=died device=host") == CYCLES);
    cr_assert(daemon_log_count(&daemon_, "killed by SIGSEGV: ") == CYCLES);
    works_on(&session, writes);
    wire_close(&session);
    daemon_is_well();
}

/* ---- the end ---- */

Test(devices, F30_a_stop_ends_the_executors)
{
    struct wire channels[3];
    pid_t pids[3];
    start(NULL, NULL);
    for (int i = 0; i < 3; i++)
        pids[i] = channel_open(&wire, "host", i > 0, &channels[i]);
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

/* The daemon is gone without a word: so are its executors. */
Test(devices, F1_executors_end_with_a_daemon_that_is_killed)
{
    struct wire channel;
    start(NULL, NULL);
    pid_t pid = channel_open(&wire, "host", false, &channel);
    cr_assert(channel_works(&channel));
    daemon_kill(&daemon_);
    cr_assert(wire_ends(&channel, 5000));
    no_process_is_left(&pid, 1);
    wire_close(&channel);
    wire_close(&wire);
}
