#include "tests/unit/daemon/devices_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "proto/envelope.h"
#include "tests/unit/daemon/held.h"
#include "tests/unit/daemon/pump.h"

struct kernel_store *store;
struct devices *devices;
struct devices_options options;
struct stats_reply stats;
struct test_open opens[MAX_OPENS];
int n_done;
static int n_store_closed, n_closed;
static bool opening;
static char program[600];

static void on_store_closed(void *owner)
{
    (void)owner;
    n_store_closed++;
}

static void on_closed(void *owner)
{
    cr_assert_eq(owner, &n_closed);
    n_closed++;
}

void devices_setup(void)
{
    struct error error;
    log_set_level(LOG_ERROR);
    folder_create();
    pump_start();
    struct kernel_store_options of_store = {folder, 64u << 20, &stats};
    cr_assert_eq(kernel_store_create(loop, &of_store, &store, &error), 0, "%s", error.text);
    snprintf(program, sizeof program, "%s", folder_path("fake-executor"));
    cr_assert_eq(symlink(FAKE_EXECUTOR, program), 0);
    options = (struct devices_options){.executor = program, .idle_ms = 20000, .store = store, .stats = &stats};
    for (size_t i = 0; i < MAX_OPENS; i++)
        opens[i].fd = -1;
}

void close_devices(void)
{
    n_closed = 0;
    devices_close(devices, on_closed, &n_closed);
    cr_assert_eq(n_closed, 0, "later");
    pump_until(n_closed == 1);
    devices = NULL;
}

void hang_up(int number)
{
    close(opens[number].fd);
    opens[number].fd = -1;
}

void devices_teardown(void)
{
    if (devices)
        close_devices();
    for (int i = 0; i < MAX_OPENS; i++) {
        cr_assert_leq(opens[i].n_done, 1);
        if (opens[i].fd >= 0)
            hang_up(i);
    }
    cr_assert_eq(stats.executors, 0);
    cr_assert_eq(stats.channels, 0);
    kernel_store_close(store, on_store_closed, NULL);
    pump_until(n_store_closed == 1);
    pump_finish();
    folder_remove();
}

void script(const char *words)
{
    file_write(folder_path("script"), words);
}

void start(const char *words)
{
    struct error error;
    script(words);
    cr_assert_eq(devices_create(loop, &options, &devices, &error), 0, "%s", error.text);
    cr_assert_null(devices_facts(devices), "later");
    cr_assert_null(devices_problem(devices));
}

void start_known(const char *words)
{
    start(words);
    pump_until(devices_facts(devices));
}

/* ---- opening ---- */

static void done(struct device_open *open, const struct device_opened *opened, const struct error *error)
{
    struct test_open *test = container_of(open, struct test_open, open);
    cr_assert_not(opening, "later, not from within devices_open");
    cr_assert((opened == NULL) == (error != NULL));
    test->n_done++;
    n_done++;
    if (error) {
        test->error = *error;
        return;
    }
    device_label(opened->device->kind, opened->device->ordinal, test->device);
    test->executor = opened->executor_pid;
    test->fd = fcntl(opened->fd, F_DUPFD_CLOEXEC, 0);
    cr_assert_geq(test->fd, 0);
}

struct test_open *begin(int number, const char *name, uid_t uid, bool session)
{
    struct test_open *test = &opens[number];
    struct error error;
    cr_assert_lt(test->fd, 0);
    *test = (struct test_open){.fd = -1};
    test->open =
        (struct device_open){.has_name = name, .uid = uid, .pid = 4000 + number, .session = session, .done = done};
    if (name)
        snprintf(test->open.name, sizeof test->open.name, "%s", name);
    opening = true;
    cr_assert_eq(devices_open(devices, &test->open, &error), 0, "%s", error.text);
    opening = false;
    return test;
}

struct test_open *open_as(int number, const char *name, uid_t uid, bool session)
{
    struct test_open *test = begin(number, name, uid, session);
    pump_until(test->n_done == 1);
    return test;
}

struct test_open *open_well(int number, const char *name)
{
    struct test_open *test = open_as(number, name, 1000, false);
    cr_assert_eq(test->error.code, STATUS_OK, "%s", test->error.text);
    return test;
}

const char *open_badly(int number, const char *name, enum status code)
{
    struct test_open *test = open_as(number, name, 1000, false);
    cr_assert_eq(test->error.code, code, "%s: %s", status_name(test->error.code), test->error.text);
    return test->error.text;
}

/* ---- a client on its channel ---- */

/* Something can be read, while the loop goes on turning. */
static void await_channel(const struct test_open *test)
{
    pump_rearm();
    for (int i = 0; i < 10000; i++) {
        struct pollfd wanted = {.fd = test->fd, .events = POLLIN};
        if (poll(&wanted, 1, 2) > 0)
            return;
        uv_run(loop, UV_RUN_NOWAIT);
    }
    cr_assert_fail("nothing on the channel");
}

void ask(struct test_open *test, enum method method, const void *params)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    cr_assert_eq(envelope_write_request(&out, ++test->last_id, method, params), 0);
    cr_assert_eq(send(test->fd, out.data, out.size, MSG_NOSIGNAL), (ssize_t)out.size);
    msgpack_sbuffer_destroy(&out);
}

/* 0 and the result, or the failure's code. */
static unsigned await_reply(struct test_open *test, const struct message_type *type, void *ret)
{
    static uint8_t frame[65536];
    struct envelope envelope;
    struct error error;
    struct failure failure;
    msgpack_zone zone;
    await_channel(test);
    ssize_t n = recv(test->fd, frame, sizeof frame, 0);
    cr_assert_gt(n, 4, "the channel has ended");
    cr_assert_eq(envelope_read(frame + 4, (size_t)n - 4, &envelope, &error), 0);
    cr_assert(envelope.kind == ENVELOPE_RESPONSE && envelope.id == test->last_id);
    msgpack_zone_init(&zone, 4096);
    unsigned code = 0;
    if (envelope.error.at) {
        cr_assert_eq(message_parse(&failure_type, envelope.error.at, envelope.error.size, &zone, &failure, &error), 0);
        code = (unsigned)failure.code;
    } else if (type) {
        cr_assert_eq(message_parse(type, envelope.body.at, envelope.body.size, &zone, ret, &error), 0);
    }
    msgpack_zone_destroy(&zone);
    return code;
}

bool works(struct test_open *test)
{
    static const struct stream_synchronize_request synchronize;
    ask(test, METHOD_STREAM_SYNCHRONIZE, &synchronize);
    return await_reply(test, NULL, NULL) == 0;
}

void channel_ends(struct test_open *test)
{
    char byte;
    await_channel(test);
    cr_assert_eq(recv(test->fd, &byte, 1, 0), 0);
}

/* The kernel of the number is loaded by the executor: 0, or the failure. */
unsigned define(struct test_open *test, unsigned number, size_t image_size)
{
    struct kernel_id id = held_id(number);
    struct fusion_define_request request = {.has_key = true};
    struct fusion_define_reply reply = {0};
    memcpy(request.key, id.key, DIGEST_SIZE);
    ask(test, METHOD_FUSION_DEFINE, &request);
    unsigned code = await_reply(test, &fusion_define_reply_type, &reply);
    if (code == 0)
        cr_assert_eq(reply.static_shared_memory, image_size);
    return code;
}

void fault(struct test_open *test)
{
    static const struct launch_request launch = {.has_fusion = true};
    ask(test, METHOD_LAUNCH, &launch);
    channel_ends(test);
}

void exit_silently(struct test_open *test)
{
    static struct launch_request launch = {.has_fusion = true};
    static const struct run_request run = {.launch = &launch, .has_repeats = true};
    ask(test, METHOD_RUN, &run);
    channel_ends(test);
}
