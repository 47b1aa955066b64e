/* Devices: listed, opened, their streams, and how a channel ends. Against a peer that is daemon and executor. */
#include <criterion/criterion.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/client/device_peer.h"

static struct fusiond_connection *connect_to(const struct peer *peer)
{
    struct fusiond_connection *connection;
    struct fusiond_error error;
    cr_assert_eq(fusiond_connect(peer->path, NULL, &connection, &error), 0, "%s", error.text);
    return connection;
}

/* ---- the list ---- */

static void list_two(struct peer *peer)
{
    struct device devices[] = {host_device(),
                               {.ordinal = 1,
                                .has_ordinal = true,
                                .name = TEXT_OF("NVIDIA H200"),
                                .uuid = TEXT_OF("GPU-1234"),
                                .capability = 90,
                                .has_capability = true,
                                .kind = DEVICE_KIND_CUDA,
                                .memory_bytes = 141ull << 30,
                                .has_memory_bytes = true,
                                .multiprocessors = 132,
                                .has_multiprocessors = true,
                                .driver = 13000,
                                .has_driver = true}};
    struct text problems[] = {TEXT_OF("cuda: one of two devices is lost")};
    struct devices_reply reply = {
        .devices = devices, .n_devices = 2, .mps = true, .problems = problems, .n_problems = 1};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_DEVICES, NULL);
    peer_reply(peer, id, METHOD_DEVICES, &reply, NULL, 0);
    id = peer_expect(peer, METHOD_DEVICES, NULL);
    peer_refuse(peer, id, STATUS_INTERNAL, "no list today");
    peer_expect_end(peer);
}

Test(device, the_list_tells_what_there_is)
{
    struct peer peer;
    struct fusiond_device_list *list;
    struct fusiond_error error;
    peer_start(&peer, list_two, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_devices(connection, &list, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_device_list_count(list), 2);
    struct fusiond_device_info host = fusiond_device_list_at(list, 0), gpu = fusiond_device_list_at(list, 1);
    cr_assert_str_eq(host.kind, "host");
    cr_assert_str_eq(host.uuid, "");
    cr_assert_eq(host.capability, 0);
    cr_assert_eq(host.multiprocessors, 2);
    cr_assert_str_eq(gpu.kind, "cuda");
    cr_assert_str_eq(gpu.name, "NVIDIA H200");
    cr_assert_str_eq(gpu.uuid, "GPU-1234");
    cr_assert(gpu.ordinal == 1 && gpu.capability == 90 && gpu.multiprocessors == 132 && gpu.driver == 13000);
    cr_assert_eq(gpu.memory_bytes, 141ull << 30);
    cr_assert_eq(fusiond_device_list_problems(list), 1);
    cr_assert_str_eq(fusiond_device_list_problem(list, 0), "cuda: one of two devices is lost");
    cr_assert(fusiond_device_list_mps(list));
    fusiond_device_list_destroy(list);
    cr_assert_eq(fusiond_devices(connection, &list, &error), -1);
    cr_assert_str_eq(error.text, "no list today");
    fusiond_close(connection);
    peer_join(&peer);
}

/* ---- opening ---- */

static void check_open_requests(struct peer *peer)
{
    struct device device = host_device();
    struct device_open_request request;
    struct device_open_reply reply = {.device = &device};
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_DEVICE_OPEN, &request);
    assert(text_is(request.device, "GPU-77") && request.isolation == ISOLATION_SESSION);
    peer_refuse(peer, id, STATUS_NO_DEVICE, "device: GPU-77; there is the host device");
    id = peer_expect(peer, METHOD_DEVICE_OPEN, &request);
    assert(!request.device.at && request.isolation == isolation_absent);
    peer_reply(peer, id, METHOD_DEVICE_OPEN, &reply, NULL, 0);
    /* Descriptors that the reply does not declare, or too many. */
    int fds[] = {peer_memfd("x", 1, 0), peer_memfd("y", 1, 0)};
    id = peer_expect(peer, METHOD_DEVICE_OPEN, &request);
    peer_reply(peer, id, METHOD_DEVICE_OPEN, &reply, fds, 1);
    id = peer_expect(peer, METHOD_DEVICE_OPEN, &request);
    reply.fds = 2;
    reply.has_fds = true;
    peer_reply(peer, id, METHOD_DEVICE_OPEN, &reply, fds, 2);
    close(fds[0]);
    close(fds[1]);
    peer_expect_end(peer);
}

Test(device, opening_says_what_is_wanted_and_needs_one_channel)
{
    struct peer peer;
    struct fusiond_device *device = NULL;
    struct fusiond_error error;
    struct fusiond_device_options options = {.isolation_session = true};
    peer_start(&peer, check_open_requests, NULL);
    struct fusiond_connection *connection = connect_to(&peer);
    cr_assert_eq(fusiond_device_open(connection, "GPU-77", &options, &device, &error), -1);
    cr_assert_eq(error.code, FUSIOND_NO_DEVICE);
    cr_assert(strstr(error.text, "GPU-77"), "%s", error.text);
    cr_assert_eq(fusiond_device_open(connection, NULL, NULL, &device, &error), -1);
    cr_assert_str_eq(error.name, "MALFORMED", "%s", error.text);
    cr_assert_eq(fusiond_device_open(connection, NULL, NULL, &device, &error), -1);
    cr_assert_str_eq(error.name, "UNEXPECTED_FDS", "%s", error.text);
    cr_assert_eq(fusiond_device_open(connection, NULL, NULL, &device, &error), -1);
    cr_assert_str_eq(error.name, "MALFORMED", "%s", error.text);
    cr_assert_null(device);
    fusiond_close(connection);
    peer_join(&peer);
}

static void open_gpu(struct peer *peer)
{
    struct device device = {.has_ordinal = true,
                            .name = TEXT_OF("NVIDIA B200"),
                            .capability = 100,
                            .has_capability = true,
                            .kind = DEVICE_KIND_CUDA};
    peer_open_device(peer, &device);
    peer_expect_end(peer);
}

Test(device, tells_what_to_compile_for)
{
    struct peer peer;
    struct fusiond_device *device = device_start(&peer, open_gpu, NULL);
    cr_assert_str_eq(fusiond_device_target(device), "cc_10.0");
    cr_assert_str_eq(fusiond_device_info(device).name, "NVIDIA B200");
    cr_assert_eq(fusiond_device_executor(device), 4711);
    fusiond_device_close(device);
    peer_join(&peer);
}

static void open_and_end(struct peer *peer)
{
    serve_open(peer);
    peer_expect_end(peer);
}

Test(device, the_host_device_is_a_target_too)
{
    struct peer peer;
    struct fusiond_device *device = device_start(&peer, open_and_end, NULL);
    cr_assert_str_eq(fusiond_device_target(device), "host");
    cr_assert_str_eq(fusiond_device_info(device).kind, "host");
    fusiond_device_close(device);
    fusiond_device_close(NULL);
    peer_join(&peer);
}

/* ---- streams ---- */

static void serve_streams(struct peer *peer)
{
    struct stream_create_request create;
    struct stream_create_reply reply = {.stream = 9, .has_stream = true};
    struct stream_synchronize_request synchronize;
    struct stream_destroy_request destroy;
    serve_open(peer);
    uint32_t id = peer_expect(peer, METHOD_STREAM_CREATE, &create);
    assert(create.has_priority && create.priority == -3);
    peer_reply(peer, id, METHOD_STREAM_CREATE, &reply, NULL, 0);
    id = peer_expect(peer, METHOD_STREAM_SYNCHRONIZE, &synchronize);
    assert(synchronize.has_stream && synchronize.stream == 9);
    peer_refuse(peer, id, STATUS_LAUNCH_FAILED, "kernel scale: an illegal address");
    id = peer_expect(peer, METHOD_STREAM_SYNCHRONIZE, &synchronize);
    assert(!synchronize.has_stream);
    peer_reply(peer, id, METHOD_STREAM_SYNCHRONIZE, NULL, NULL, 0);
    id = peer_expect(peer, METHOD_STREAM_DESTROY, &destroy);
    assert(destroy.stream == 9);
    peer_reply(peer, id, METHOD_STREAM_DESTROY, NULL, NULL, 0);
    id = peer_expect(peer, METHOD_STREAM_CREATE, &create);
    assert(!create.has_priority);
    peer_refuse(peer, id, STATUS_OUT_OF_MEMORY, "no stream left");
    peer_expect_end(peer);
}

Test(device, streams)
{
    struct peer peer;
    struct fusiond_stream *stream, *none = NULL;
    struct fusiond_error error;
    struct fusiond_device *device = device_start(&peer, serve_streams, NULL);
    cr_assert_eq(fusiond_stream_create(device, -3, &stream, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_device_synchronize(device, stream, &error), -1);
    cr_assert_eq(error.code, FUSIOND_LAUNCH_FAILED);
    cr_assert_str_eq(error.text, "kernel scale: an illegal address");
    cr_assert_eq(fusiond_device_synchronize(device, NULL, &error), 0, "%s", error.text);
    fusiond_stream_destroy(stream);
    cr_assert_eq(fusiond_stream_create(device, 0, &none, &error), -1);
    cr_assert_str_eq(error.text, "no stream left");
    cr_assert_null(none);
    fusiond_device_close(device);
    peer_join(&peer);
}

/* ---- the end of a channel ---- */

static void die_in_a_call(struct peer *peer)
{
    serve_open(peer);
    serve_stream(peer, 1);
    peer_expect(peer, METHOD_BUFFER_ALLOCATE, NULL);
    peer_hang_up(peer);
}

Test(device, an_executor_that_is_gone_is_a_reset)
{
    struct peer peer;
    struct fusiond_stream *stream;
    struct fusiond_buffer *buffer = NULL;
    struct fusiond_error error;
    struct fusiond_device *device = device_start(&peer, die_in_a_call, NULL);
    cr_assert_eq(fusiond_stream_create(device, 0, &stream, &error), 0, "%s", error.text);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), -1);
        cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET);
        cr_assert(error.retryable);
        cr_assert(strstr(error.text, "host CPU (pid 4711)") && strstr(error.text, "open the device again"), "%s",
                  error.text);
    }
    cr_assert_eq(fusiond_device_synchronize(device, stream, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET);
    cr_assert_null(buffer);
    fusiond_stream_destroy(stream);
    fusiond_device_close(device);
    peer_join(&peer);
}

static void die_between_calls(struct peer *peer)
{
    serve_open(peer);
    peer_hang_up(peer);
}

Test(device, a_device_that_ended_between_calls_is_a_reset)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    struct fusiond_device *device = device_start(&peer, die_between_calls, NULL);
    peer_join(&peer);
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET, "%s", error.text);
    fusiond_device_close(device);
}

static void say_why_and_go(struct peer *peer)
{
    serve_open(peer);
    peer_refuse(peer, 0, STATUS_SHUTTING_DOWN, "the executor is shutting down");
    peer_hang_up(peer);
}

Test(device, what_an_executor_says_before_it_goes_is_passed_on)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    struct fusiond_device *device = device_start(&peer, say_why_and_go, NULL);
    peer_join(&peer);
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), -1);
    cr_assert_str_eq(error.text, "the executor is shutting down");
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET);
    cr_assert(strstr(error.text, "the executor is shutting down"), "%s", error.text);
    fusiond_device_close(device);
}

static void answer_with_data(struct peer *peer)
{
    const struct bytes *answer = peer->data;
    serve_open(peer);
    peer_expect(peer, METHOD_BUFFER_ALLOCATE, NULL);
    peer_send(peer, answer->at, answer->size, NULL, 0);
    peer_expect_end(peer);
}

static void expect_bad_answer(const char *answer, size_t size, const char *name)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    struct bytes bytes = {(const uint8_t *)answer, size};
    struct fusiond_device *device = device_start(&peer, answer_with_data, &bytes);
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), -1);
    cr_assert_str_eq(error.name, name, "%s", error.text);
    peer_join(&peer); /* the channel is closed at once */
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET);
    fusiond_device_close(device);
}

Test(device, F12_a_lying_length_ends_the_channel)
{
    expect_bad_answer("\xff\xff\xff\xff", 4, "FRAME_TOO_LARGE");
}

Test(device, F11_bytes_that_are_no_message_end_the_channel)
{
    expect_bad_answer("\0\0\0\5\xdd\xff\xff\xff\xff", 9, "MALFORMED");
}

Test(device, an_answer_to_nothing_ends_the_channel)
{
    expect_bad_answer("\0\0\0\5\x94\x01\x4d\xc0\x80", 9, "MALFORMED");
}

Test(device, a_request_from_the_executor_ends_the_channel)
{
    expect_bad_answer("\0\0\0\x09\x94\x00\x01\xa4ping\x80", 13, "MALFORMED");
}

static void answer_without_fields(struct peer *peer)
{
    serve_open(peer);
    uint32_t id = peer_expect(peer, METHOD_BUFFER_ALLOCATE, NULL);
    peer_send(peer, "\0\0\0\x08\x93\x02\xa4news\x80", 12, NULL, 0); /* passed over */
    peer_reply(peer, id, METHOD_PING, NULL, NULL, 0);
    id = peer_expect(peer, METHOD_BUFFER_ALLOCATE, NULL);
    int fd = peer_memfd("x", 1, 0);
    struct buffer_allocate_reply reply = {.has_buffer = true, .size = 64, .has_size = true};
    peer_reply(peer, id, METHOD_BUFFER_ALLOCATE, &reply, &fd, 1);
    close(fd);
    serve_allocate(peer, 5);
    serve_free(peer, 5);
    peer_expect_end(peer);
}

Test(device, an_answer_that_is_wrong_in_itself_fails_the_call_alone)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    struct fusiond_device *device = device_start(&peer, answer_without_fields, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), -1);
    cr_assert_str_eq(error.name, "MISSING_FIELD", "%s", error.text);
    cr_assert(strstr(error.text, "the executor's answer to buffer.allocate"), "%s", error.text);
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), -1);
    cr_assert_str_eq(error.name, "UNEXPECTED_FDS", "%s", error.text);
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), 0, "%s", error.text);
    fusiond_buffer_free(buffer);
    fusiond_device_close(device);
    peer_join(&peer);
}

/* ---- closing and forking ---- */

static void serve_some(struct peer *peer)
{
    serve_open(peer);
    serve_stream(peer, 1);
    serve_allocate(peer, 2);
    serve_define(peer, 3);
    peer_expect_end(peer);
}

static void expect_reset(int result, const struct fusiond_error *error, const char *what)
{
    cr_assert_eq(result, -1);
    cr_assert_eq(error->code, FUSIOND_EXECUTOR_RESET, "%s", error->text);
    cr_assert(strstr(error->text, what), "%s", error->text);
}

Test(device, what_belongs_to_a_closed_device_is_inert)
{
    static const char key[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    struct peer peer;
    struct fusiond_stream *stream;
    struct fusiond_buffer *buffer;
    struct fusiond_defined *defined;
    struct fusiond_memory memory;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = scale_fusion();
    void *map;
    uint64_t ticket;
    struct fusiond_device *device = device_start(&peer, serve_some, NULL);
    cr_assert_eq(fusiond_stream_create(device, 0, &stream, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_allocate(device, 64, true, &buffer, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_define(device, key, NULL, fusion, &defined, &error), 0, "%s", error.text);
    fusiond_device_close(device);
    peer_join(&peer);
    expect_reset(fusiond_buffer_write(buffer, 0, "x", 1, NULL, &error), &error, "closed");
    expect_reset(fusiond_buffer_read(buffer, 0, &map, 1, NULL, &error), &error, "closed");
    expect_reset(fusiond_buffer_export(buffer, &memory, &error), &error, "closed");
    expect_reset(fusiond_buffer_map(buffer, &map, &error), &error, "closed");
    expect_reset(fusiond_device_launch(defined, NULL, 0, NULL, NULL, &error), &error, "closed");
    expect_reset(fusiond_device_run(defined, NULL, 0, NULL, 0, 1, NULL, &error), &error, "closed");
    expect_reset(fusiond_device_submit(defined, NULL, 0, NULL, &ticket, &error), &error, "closed");
    fusiond_defined_destroy(defined);
    fusiond_buffer_free(buffer);
    fusiond_stream_destroy(stream);
    fusiond_fusion_destroy(fusion);
}

static void serve_parent_only(struct peer *peer)
{
    serve_open(peer);
    serve_allocate(peer, 2);
    /* Nothing of the child's may come in between. */
    serve_synchronize(peer);
    serve_free(peer, 2);
    peer_expect_end(peer);
}

static int use_in_child(struct fusiond_device *device, struct fusiond_buffer *buffer)
{
    struct fusiond_error error;
    struct fusiond_buffer *other;
    struct fusiond_stream *stream;
    int wrong = 0;
    wrong += fusiond_buffer_allocate(device, 8, false, &other, &error) != -1 || error.code != FUSIOND_EXECUTOR_RESET ||
             !strstr(error.text, "forked");
    wrong += fusiond_stream_create(device, 0, &stream, &error) != -1 || error.code != FUSIOND_EXECUTOR_RESET;
    wrong += fusiond_buffer_write(buffer, 0, "x", 1, NULL, &error) != -1 || error.code != FUSIOND_EXECUTOR_RESET;
    wrong += fusiond_device_synchronize(device, NULL, &error) != -1 || error.code != FUSIOND_EXECUTOR_RESET;
    wrong += fusiond_device_collect(device, 1, NULL, &error) != -1 || error.code != FUSIOND_EXECUTOR_RESET;
    fusiond_buffer_free(buffer);
    fusiond_device_close(device);
    return wrong;
}

Test(device, a_forked_child_must_open_its_own)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    int status;
    struct fusiond_device *device = device_start(&peer, serve_parent_only, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, 64, false, &buffer, &error), 0, "%s", error.text);
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(device, buffer));
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
    cr_assert_eq(fusiond_device_synchronize(device, NULL, &error), 0, "%s", error.text);
    fusiond_buffer_free(buffer);
    fusiond_device_close(device);
    peer_join(&peer);
}

Test(device, a_stream_of_another_device_is_refused)
{
    struct peer a, b;
    struct fusiond_stream *stream;
    struct fusiond_error error;
    struct fusiond_device *one = device_start(&a, serve_parent_only, NULL);
    struct fusiond_device *other = device_start(&b, serve_streams, NULL);
    struct fusiond_buffer *buffer;
    cr_assert_eq(fusiond_stream_create(other, -3, &stream, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_allocate(one, 64, false, &buffer, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_device_synchronize(one, stream, &error), -1);
    cr_assert_str_eq(error.name, "UNKNOWN_HANDLE", "%s", error.text);
    cr_assert_eq(fusiond_buffer_write(buffer, 0, "x", 1, stream, &error), -1);
    cr_assert_str_eq(error.name, "UNKNOWN_HANDLE", "%s", error.text);
    cr_assert_eq(fusiond_device_synchronize(one, NULL, &error), 0, "%s", error.text);
    fusiond_buffer_free(buffer);
    fusiond_device_close(one);
    peer_join(&a);
    /* The rest of the other's script. */
    cr_assert_eq(fusiond_device_synchronize(other, stream, &error), -1);
    cr_assert_eq(fusiond_device_synchronize(other, NULL, &error), 0, "%s", error.text);
    fusiond_stream_destroy(stream);
    cr_assert_eq(fusiond_stream_create(other, 0, &stream, &error), -1);
    fusiond_device_close(other);
    peer_join(&b);
}
