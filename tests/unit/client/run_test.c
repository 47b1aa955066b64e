/* `fusionctl run` on a device of the daemon whose executor follows a script: what it asks, and what it makes of answers
 * that a real executor does not give. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/integration/client/program.h"
#include "tests/unit/client/device_peer.h"

#define FUSION FUSIONS_PATH "/transpose/transpose.json"
#define ROWS 3
#define COLUMNS 2

/* What a test changes about the executor. */
struct faults {
    bool wrong_number, wrong_size, no_output, dies;
};

static struct program_output output;

static void serve_compile(struct peer *peer, const char *target)
{
    struct compile_request request;
    struct kernel_entry entry = {.name = TEXT_OF("transpose"), .lowered = TEXT_OF("transpose")};
    struct kernel kernel = {.has_key = true,
                            .target = text_of(target),
                            .image_kind = IMAGE_KIND_SHARED_OBJECT,
                            .index_type = INDEX_TYPE_INT32,
                            .entries = &entry,
                            .n_entries = 1,
                            .label = TEXT_OF("transpose"),
                            .compiler = TEXT_OF("cc"),
                            .has_build = true,
                            .has_created_unix_s = true,
                            .has_image_size = true};
    struct compile_reply reply = {.kernel = &kernel, .outcome = OUTCOME_COMPILED};
    for (int i = 0; i < 2; i++) {
        uint32_t id = peer_expect(peer, METHOD_COMPILE, &request);
        assert(text_is(request.fusion->target, target) && !request.with_image && request.n_sample == 2);
        assert(request.sample[1].sizes[0] == COLUMNS && request.sample[1].sizes[1] == ROWS);
        peer_reply(peer, id, METHOD_COMPILE, &reply, NULL, 0);
    }
}

/* Take x, and leave its transpose in ret. */
static void serve_input(struct peer *peer, float ret[ROWS * COLUMNS])
{
    struct buffer_write_request request;
    serve_allocate(peer, 1);
    uint32_t id = peer_expect(peer, METHOD_BUFFER_WRITE, &request);
    assert(request.buffer == 1 && request.bytes.size == ROWS * COLUMNS * sizeof(float));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        memcpy(&ret[i % COLUMNS * ROWS + i / COLUMNS], request.bytes.at + (size_t)i * sizeof(float), sizeof(float));
    peer_reply(peer, id, METHOD_BUFFER_WRITE, NULL, NULL, 0);
}

static void serve_launch(struct peer *peer, const struct faults *faults)
{
    struct launch_request request;
    int64_t grid[] = {1, 1, 1}, block[] = {64, 8, 1}, sizes[] = {COLUMNS, ROWS}, strides[] = {ROWS, 1};
    struct launched_output out = {.param = 1,
                                  .has_param = true,
                                  .buffer = 2,
                                  .has_buffer = true,
                                  .bytes = faults->wrong_size ? 4 : ROWS * COLUMNS * 4,
                                  .has_bytes = true,
                                  .sizes = sizes,
                                  .n_sizes = 2,
                                  .strides = strides,
                                  .n_strides = 2};
    struct launch_reply reply = {.outputs = &out,
                                 .n_outputs = faults->no_output ? 0 : 1,
                                 .grid = grid,
                                 .n_grid = 3,
                                 .block = block,
                                 .n_block = 3};
    uint32_t id = peer_expect(peer, METHOD_LAUNCH, &request);
    assert(request.wait && request.fill == FILL_NAN && request.n_arguments == 2);
    assert(request.arguments[0].buffer == 1 && request.arguments[0].sizes[0] == ROWS);
    assert(!request.arguments[1].has_buffer);
    peer_reply(peer, id, METHOD_LAUNCH, &reply, NULL, 0);
}

static void serve_output(struct peer *peer, const float values[ROWS * COLUMNS])
{
    struct buffer_read_request request;
    struct buffer_read_reply reply = {.bytes = {(const uint8_t *)values, ROWS * COLUMNS * sizeof(float)}};
    uint32_t id = peer_expect(peer, METHOD_BUFFER_READ, &request);
    assert(request.buffer == 2 && request.size == ROWS * COLUMNS * sizeof(float));
    peer_reply(peer, id, METHOD_BUFFER_READ, &reply, NULL, 0);
}

static void serve_run(struct peer *peer)
{
    struct run_request request;
    int64_t times[] = {9000, 1000, 5000};
    struct launch_reply launch = {0};
    struct run_reply reply = {.launch = &launch, .times_ns = times, .n_times_ns = 3};
    uint32_t id = peer_expect(peer, METHOD_RUN, &request);
    assert(request.repeats == 3 && request.launch->arguments[1].buffer == 2 && request.launch->fill == fill_absent);
    peer_reply(peer, id, METHOD_RUN, &reply, NULL, 0);
}

/* Everything up to the outputs, on a device that was opened just now. */
static void serve_side(struct peer *peer, const struct faults *faults, float values[ROWS * COLUMNS])
{
    serve_compile(peer, "host");
    peer_swap(peer);
    serve_define(peer, 1);
    serve_input(peer, values);
    if (faults->wrong_number)
        values[4] += 1;
    if (faults->dies) {
        peer_expect(peer, METHOD_LAUNCH, NULL);
        peer_hang_up(peer);
        return;
    }
    serve_launch(peer, faults);
    if (!faults->wrong_size && !faults->no_output)
        serve_output(peer, values);
}

static void serve_all(struct peer *peer)
{
    const struct faults *faults = peer->data;
    float values[ROWS * COLUMNS];
    serve_open(peer);
    peer_swap(peer);
    serve_side(peer, faults, values);
    if (!faults->wrong_size && !faults->no_output && !faults->dies)
        serve_run(peer);
}

#define RUN(peer, ...)                                                                                                 \
    fusionctl((peer)->path, NULL,                                                                                      \
              (const char *const[]){"run", FUSION, "--device", "host", "--tensor", "x=3x2", "--repeats", "3",          \
                                    __VA_ARGS__, NULL},                                                                \
              &output)

static void run_with(const struct faults *faults, const char *option, const char *value)
{
    struct peer peer;
    peer_start(&peer, serve_all, (void *)(uintptr_t)faults);
    RUN(&peer, option, value);
    peer_join(&peer);
}

#define expect_status(expected) cr_assert_eq(output.status, expected, "%d: %s%s", output.status, output.out, output.err)
#define expect_out(text) cr_assert(strstr(output.out, text), "\"%s\" is not in: %s", text, output.out)
#define expect_err(text) cr_assert(strstr(output.err, text), "\"%s\" is not in: %s", text, output.err)

Test(run, on_a_device_of_the_daemon)
{
    const struct faults none = {0};
    run_with(&none, "--seed", "7");
    expect_status(0);
    expect_out("transpose on host CPU: x 3x2 float32, out 2x3 float32");
    expect_out("host, int32, grid 1x1x1, block 64x8x1");
    expect_out("5.00 µs, median of 3, least 1.00 µs");
    expect_out("not checked");
}

/* The values that the seed gives are the same everywhere, so a file can hold the outputs of a run. */
Test(run, wrong_numbers_exit_with_1)
{
    const struct faults faults = {.wrong_number = true};
    char path[] = "/tmp/fusiond-run-XXXXXX", option[64];
    int fd = mkstemp(path);
    const float zeros[ROWS * COLUMNS] = {0};
    cr_assert_eq(write(fd, zeros, sizeof zeros), (ssize_t)sizeof zeros);
    close(fd);
    snprintf(option, sizeof option, "out=%s", path);
    run_with(&faults, "--check", option);
    unlink(path);
    expect_status(1);
    expect_out("WRONG, 6 of 6 numbers; first out[0, 0] is ");
}

Test(run, an_executor_that_launches_something_else_is_found_out)
{
    const struct faults size = {.wrong_size = true}, output_count = {.no_output = true};
    run_with(&size, "--seed", "1");
    expect_status(1);
    expect_err("output out: the executor launched it with other sizes or strides");
    run_with(&output_count, "--seed", "1");
    expect_status(1);
    expect_err("the executor launched 0 outputs; the fusion has 1");
}

Test(run, an_executor_that_dies_is_said_to_be_gone)
{
    const struct faults faults = {.dies = true};
    run_with(&faults, "--seed", "1");
    expect_status(1);
    expect_err("EXECUTOR_RESET");
    expect_err("open the device again");
}

/* ---- two devices ---- */

static void serve_two(struct peer *peer)
{
    const struct faults none = {0}, wrong = {.wrong_number = true};
    struct device device = {.ordinal = 1, .has_ordinal = true, .name = TEXT_OF("second"), .kind = DEVICE_KIND_HOST};
    struct device_open_request open;
    struct device_open_reply opened = {.device = &device, .fds = 1, .has_fds = true};
    float values[ROWS * COLUMNS];
    int fds[2];
    serve_open(peer);
    peer_swap(peer);
    serve_side(peer, peer->data ? &wrong : &none, values);
    /* The same for another device; the first one's channel waits meanwhile. */
    int first = peer->fd;
    peer_swap(peer);
    uint32_t id = peer_expect(peer, METHOD_DEVICE_OPEN, &open);
    assert(text_is(open.device, "GPU-2"));
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    peer_reply(peer, id, METHOD_DEVICE_OPEN, &opened, &fds[1], 1);
    close(fds[1]);
    peer->daemon = fds[0];
    serve_side(peer, &none, values);
    peer_swap(peer);
    peer_swap(peer);
    close(peer->fd);
    peer->fd = first;
    serve_run(peer);
}

Test(run, compares_two_devices_element_by_element)
{
    struct peer peer;
    peer_start(&peer, serve_two, NULL);
    RUN(&peer, "--compare", "GPU-2");
    peer_join(&peer);
    expect_status(0);
    expect_out("against second    all 6 numbers are right, largest difference 0");
    peer_start(&peer, serve_two, "");
    RUN(&peer, "--compare", "GPU-2", "--json");
    peer_join(&peer);
    expect_status(1);
    expect_out("\"against\": \"device\", \"device\": \"second\", \"numbers\": 6, \"mismatches\": 1, "
               "\"largest_difference\": 1, \"first\": \"out[1, 1] is ");
}

/* ---- no such device ---- */

static void refuse_device(struct peer *peer)
{
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_DEVICE_OPEN, NULL);
    peer_refuse(peer, id, STATUS_NO_DEVICE, "device: host; this daemon has none");
}

Test(run, no_such_device_exits_with_4)
{
    struct peer peer;
    peer_start(&peer, refuse_device, NULL);
    RUN(&peer, NULL);
    peer_join(&peer);
    expect_status(4);
    expect_err("NO_DEVICE: device: host; this daemon has none");
}

/* ---- the list ---- */

static void list_devices(struct peer *peer)
{
    struct device devices[] = {host_device(),
                               {.has_ordinal = true,
                                .name = TEXT_OF("NVIDIA H200"),
                                .uuid = TEXT_OF("GPU-1234"),
                                .capability = 90,
                                .has_capability = true,
                                .kind = DEVICE_KIND_CUDA,
                                .memory_bytes = 141ull << 30,
                                .has_memory_bytes = true,
                                .multiprocessors = 132,
                                .has_multiprocessors = true,
                                .driver = 13020,
                                .has_driver = true}};
    struct text problem = TEXT_OF("host: it may not be used by other users");
    struct devices_reply reply = {
        .devices = devices, .n_devices = 2, .mps = true, .problems = &problem, .n_problems = 1};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_DEVICES, NULL);
    peer_reply(peer, id, METHOD_DEVICES, &reply, NULL, 0);
}

Test(devices, a_table_for_people_and_the_message_as_json)
{
    struct peer peer;
    peer_start(&peer, list_devices, NULL);
    fusionctl(peer.path, NULL, (const char *const[]){"devices", NULL}, &output);
    peer_join(&peer);
    expect_status(0);
    expect_out("DEVICE  KIND  NAME         CAPABILITY  MEMORY   SMS  DRIVER  UUID\n");
    expect_out("host    host  host CPU     -           8.0 GiB  2    -       -\n");
    expect_out("0       cuda  NVIDIA H200  9.0         141 GiB  132  13.2    GPU-1234\n");
    expect_out("host: it may not be used by other users\n");
    expect_out("MPS runs");
    peer_start(&peer, list_devices, NULL);
    fusionctl(peer.path, NULL, (const char *const[]){"devices", "--json", NULL}, &output);
    peer_join(&peer);
    expect_status(0);
    expect_out("\"uuid\": \"GPU-1234\"");
    expect_out("\"mps\": true");
}
