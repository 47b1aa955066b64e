/* One client's channel: requests and answers, handles, what it may have under way, its end. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/executor/fixture.h"

TestSuite(session, .init = executor_start, .fini = executor_finish, .timeout = 60);

/* ---- requests ---- */

Test(session, a_launch_computes_and_is_answered_when_it_is_done)
{
    const float values[] = {1, 2, 3, 4};
    float got[4];
    struct scale_launch launch;
    struct launch_reply reply;
    struct client *client = client_attach();
    uint64_t fusion = client_define_scale(client), x = client_upload(client, values, 4);
    scale_launch_init(&launch, fusion, x, 0, 4, 2.5f);
    launch.request.wait = true;
    cr_assert_eq(client_call(client, METHOD_LAUNCH, &launch.request, &reply), 0, "%s", client_error(client));
    cr_assert_eq(scale_calls.n, 1);
    cr_assert_eq(reply.n_outputs, 1);
    cr_assert_eq(reply.outputs[0].param, 1);
    cr_assert_eq(reply.outputs[0].bytes, 16);
    cr_assert_eq(reply.outputs[0].sizes[0], 4);
    cr_assert_eq(reply.outputs[0].strides[0], 1);
    cr_assert_eq(reply.grid[0], 1);
    cr_assert_eq(reply.block[0], 256);
    cr_assert_not(reply.cached);
    client_read(client, reply.outputs[0].buffer, got, sizeof got);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(got[i], values[i] * 2.5f);
}

Test(session, a_method_of_the_daemon_is_refused_by_name)
{
    struct ping_request ping;
    struct client *client = client_attach();
    cr_assert_eq(client_call(client, METHOD_PING, &ping, NULL), STATUS_UNKNOWN_METHOD);
    cr_assert(strstr(client_error(client), "\"ping\" here: it is one of the daemon"), "%s", client_error(client));
    client_allocate(client, 1);
}

Test(session, F11_bytes_that_are_no_request_are_answered_and_end_it)
{
    static const struct {
        const char *bytes;
        size_t size;
    } nonsense[] = {
        {"\0\0\0\0", 4},                       /* an empty frame */
        {"\0\0\0\1\xc1", 5},                   /* no MessagePack */
        {"\0\0\0\1\x01", 5},                   /* no array */
        {"\xff\xff\xff\xff", 4},               /* 4 GiB */
        {"\0\0\0\x07\x93\x02\xa3xyz\x80", 11}, /* a notification */
        {"\0\0\0\x05\x94\x01\x01\xc0\x80", 9}, /* a response */
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        struct client *client = client_attach();
        client_send_bytes(client, nonsense[i].bytes, nonsense[i].size);
        pump_until(client_is_closed(client));
        cr_assert_eq(client_answers(client), 1, "case %zu", i);
    }
    pump_until(list_empty(&process.sessions));
    client_allocate(client_attach(), 1);
}

Test(session, F13_a_request_cut_at_every_byte)
{
    struct buffer_allocate_request request = {.size = 8, .has_size = true};
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    envelope_write_request(&out, 1, METHOD_BUFFER_ALLOCATE, &request);
    for (size_t cut = 1; cut < out.size; cut++) {
        struct client *client = client_attach();
        client_send_bytes(client, out.data, cut);
        client_leave(client);
    }
    pump_until(process.attached == out.size - 1 && list_empty(&process.sessions));
    cr_assert_eq(device->n_memory, 0);
    msgpack_sbuffer_destroy(&out);
}

Test(session, F16_descriptors_that_no_request_declares_end_it)
{
    struct buffer_allocate_request request = {.size = 8, .has_size = true};
    struct client *client = client_attach(), *other = client_attach();
    int fds[] = {STDERR_FILENO, STDERR_FILENO};
    client_ask_with_fds(client, METHOD_BUFFER_ALLOCATE, &request, fds, 2);
    pump_until(client_is_closed(client));
    client_allocate(other, 1);
}

Test(session, F16_a_request_that_declares_descriptors_and_brings_none)
{
    struct buffer_import_request request = {
        .kind = MEMORY_KIND_MEMFD, .size = 8, .has_size = true, .fds = 1, .has_fds = true};
    struct client *client = client_attach();
    cr_assert_eq(client_call(client, METHOD_BUFFER_IMPORT, &request, NULL), STATUS_UNEXPECTED_FDS);
    client_allocate(client, 1);
}

/* ---- handles ---- */

Test(session, F27_handles_of_another_client_mean_nothing)
{
    const float values[] = {1};
    struct scale_launch launch;
    struct client *owner = client_attach(), *other = client_attach();
    uint64_t fusion = client_define_scale(owner), x = client_upload(owner, values, 1), stream = client_stream(owner);
    struct buffer_free_request release = {.buffer = x, .has_buffer = true};
    struct stream_destroy_request destroy = {.stream = stream, .has_stream = true};

    cr_assert_eq(client_answer(other, client_ask_read(other, x, 0, 4), METHOD_BUFFER_READ, NULL),
                 STATUS_UNKNOWN_HANDLE);
    cr_assert_eq(client_call(other, METHOD_BUFFER_FREE, &release, NULL), STATUS_UNKNOWN_HANDLE);
    cr_assert_eq(client_call(other, METHOD_STREAM_DESTROY, &destroy, NULL), STATUS_UNKNOWN_HANDLE);
    cr_assert_eq(client_synchronize(other, stream), STATUS_UNKNOWN_HANDLE);
    scale_launch_init(&launch, fusion, x, 0, 1, 1);
    cr_assert_eq(client_call(other, METHOD_LAUNCH, &launch.request, NULL), STATUS_UNKNOWN_HANDLE);
    /* With a fusion of its own, a foreign buffer still is none. */
    client_define_scale(other);
    cr_assert_eq(client_call(other, METHOD_LAUNCH, &launch.request, NULL), STATUS_UNKNOWN_HANDLE);
    cr_assert(strstr(client_error(other), "parameter x"), "%s", client_error(other));
    client_read(owner, x, &(float){0}, 4);
}

Test(session, a_number_that_was_freed_is_gone_at_once)
{
    struct client *client = client_attach();
    uint64_t buffer = client_allocate(client, 16), stream = client_stream(client);
    struct buffer_free_request release = {.buffer = buffer, .has_buffer = true};
    struct stream_destroy_request destroy = {.stream = stream, .has_stream = true};
    cr_assert_eq(client_call(client, METHOD_BUFFER_FREE, &release, NULL), 0);
    cr_assert_eq(client_call(client, METHOD_BUFFER_FREE, &release, NULL), STATUS_UNKNOWN_HANDLE);
    cr_assert_eq(client_call(client, METHOD_STREAM_DESTROY, &destroy, NULL), 0);
    cr_assert_eq(client_call(client, METHOD_STREAM_DESTROY, &destroy, NULL), STATUS_UNKNOWN_HANDLE);
    cr_assert_neq(client_allocate(client, 16), buffer, "a number is used twice");
}

/* ---- how much may be under way ---- */

/* Launches without an answer to wait for, as many as asked, written in one go. */
static void flood(struct client *client, uint64_t fusion, uint64_t x, uint64_t out, size_t n)
{
    struct scale_launch launch;
    scale_launch_init(&launch, fusion, x, out, 1, 1);
    for (size_t i = 0; i < n; i++)
        client_ask(client, METHOD_LAUNCH, &launch.request);
}

Test(session, B6_12_who_queues_too_much_waits_and_nobody_else)
{
    const float value = 3;
    float got;
    struct client *greedy = client_attach(), *other = client_attach();
    uint64_t fusion = client_define_scale(greedy), x = client_upload(greedy, &value, 1),
             out = client_allocate(greedy, 4), mine = client_upload(other, &value, 1);
    fake_device_hold(device, true);
    flood(greedy, fusion, x, out, 2000);
    pump_until(client_answers(greedy) >= SESSION_QUEUED);
    pump_settle();
    cr_assert_leq(device->deepest, SESSION_QUEUED);
    cr_assert_eq(client_answers(greedy), SESSION_QUEUED);
    /* Another client's requests are taken; here the device still has to be let. */
    uint32_t id = client_ask_read(other, mine, 0, 4);
    uint64_t theirs = client_allocate(other, 64);
    fake_device_hold(device, false);
    cr_assert_eq(client_answer(other, id, METHOD_BUFFER_READ, NULL), 0);
    client_read(other, theirs, &got, 4);
    pump_until(client_answers(greedy) == 2000);
    cr_assert_eq(client_synchronize(greedy, 0), 0);
    cr_assert_eq(scale_calls.n, 2000);
    cr_assert_leq(device->deepest, SESSION_QUEUED + 2, "of both clients together");
}

Test(session, F15_answers_of_many_large_reads_stay_below_the_cap)
{
    struct buffer_read_request request = {.has_buffer = true, .size = LIMIT_INLINE, .has_size = true};
    struct client *client = client_attach();
    request.buffer = client_allocate(client, LIMIT_INLINE);
    for (int i = 0; i < 32; i++)
        client_ask(client, METHOD_BUFFER_READ, &request);
    pump_until(client_answers(client) == 32);
    cr_assert_not(client_is_closed(client));
}

Test(session, F15_a_client_that_never_reads_is_given_up)
{
    struct buffer_read_request request = {.has_buffer = true, .size = LIMIT_INLINE, .has_size = true};
    struct client *client = client_attach(), *other = client_attach();
    request.buffer = client_allocate(client, LIMIT_INLINE);
    client_stop_reading(client);
    for (int i = 0; i < 100; i++)
        client_ask(client, METHOD_BUFFER_READ, &request);
    for (int i = 0; i < 100; i++)
        client_allocate(other, 8);
    pump_until(client_is_closed(client));
    client_allocate(other, 8);
}

/* ---- the end ---- */

Test(session, F17_who_leaves_in_the_middle_of_work_leaves_nothing)
{
    const float value = 3;
    struct client *client = client_attach(), *other = client_attach();
    uint64_t fusion = client_define_scale(client), x = client_upload(client, &value, 1),
             out = client_allocate(client, 4), stream = client_stream(client);
    fake_device_hold(device, true);
    flood(client, fusion, x, out, 1000);
    client_ask_read(client, out, 0, 4);
    client_ask_read(client, x, stream, 4);
    pump_until(device->n_queued > 100);
    client_leave(client);
    pump_settle();
    cr_assert_eq(device->n_memory, 2, "memory goes while kernels may still use it");
    client_allocate(other, 8);
    fake_device_hold(device, false);
    pump_until(device->n_memory == 1 && device->n_streams == 1);
    pump_until(front.n_status == 3); /* two came, one has left */
    cr_assert_eq(front.status.attached, 2);
    cr_assert_eq(front.status.channels, 1);
    client_allocate(other, 8);
}

Test(session, F17_who_leaves_while_its_kernel_is_fetched)
{
    struct fusion_define_request request = {.has_key = true};
    struct client *client = client_attach();
    memset(request.key, 1, sizeof request.key);
    front.held = true;
    client_ask(client, METHOD_FUSION_DEFINE, &request);
    pump_until(front.n_asked == 1);
    client_leave(client);
    pump_settle();
    front.held = false;
    front_answer();
    pump_until(list_empty(&process.sessions));
}

Test(session, F17_imported_memory_is_unmapped)
{
    struct buffer_import_request request = {
        .kind = MEMORY_KIND_MEMFD, .size = 4096, .has_size = true, .fds = 1, .has_fds = true};
    struct buffer_import_reply reply;
    struct client *client = client_attach();
    int fd = memfd_create("theirs", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    for (int i = 0; i < 10; i++) {
        uint32_t id = client_ask_with_fds(client, METHOD_BUFFER_IMPORT, &request, &fd, 1);
        cr_assert_eq(client_answer(client, id, METHOD_BUFFER_IMPORT, &reply), 0, "%s", client_error(client));
    }
    close(fd);
    cr_assert_eq(device->n_memory, 10);
    client_leave(client);
    pump_until(device->n_memory == 0);
}
