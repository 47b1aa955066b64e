/* Order of work, errors of work, and when memory goes. */
#include <string.h>

#include "tests/unit/executor/fixture.h"

TestSuite(streams, .init = executor_start, .fini = executor_finish, .timeout = 60);

/* A client with `scale` defined and 1.0 at x. */
struct ready {
    struct client *client;
    uint64_t fusion, x, out;
    struct scale_launch launch;
};

static void make_ready(struct ready *ret)
{
    const float one = 1;
    ret->client = client_attach();
    ret->fusion = client_define_scale(ret->client);
    ret->x = client_upload(ret->client, &one, 1);
    ret->out = client_allocate(ret->client, 4);
    scale_launch_init(&ret->launch, ret->fusion, ret->x, ret->out, 1, 2);
}

/* Not waiting for it. */
static void launch(struct ready *ready)
{
    uint32_t id = client_ask(ready->client, METHOD_LAUNCH, &ready->launch.request);
    cr_assert_eq(client_answer(ready->client, id, METHOD_LAUNCH, NULL), 0, "%s", client_error(ready->client));
}

static uint32_t launch_and_wait(struct ready *ready)
{
    ready->launch.request.wait = true;
    uint32_t id = client_ask(ready->client, METHOD_LAUNCH, &ready->launch.request);
    ready->launch.request.wait = false;
    return id;
}

static void free_buffer(struct client *client, uint64_t buffer)
{
    struct buffer_free_request request = {.buffer = buffer, .has_buffer = true};
    cr_assert_eq(client_call(client, METHOD_BUFFER_FREE, &request, NULL), 0, "%s", client_error(client));
}

/* ---- order ---- */

Test(streams, B6_12_a_read_sees_what_was_launched_before_it_and_not_after)
{
    struct ready ready;
    struct buffer_read_reply reply;
    float got;
    make_ready(&ready);
    fake_device_hold(device, true);
    ready.launch.by = 2;
    launch(&ready);
    uint32_t first = client_ask_read(ready.client, ready.out, 0, 4);
    ready.launch.by = 3;
    launch(&ready);
    uint32_t second = client_ask_read(ready.client, ready.out, 0, 4);
    pump_settle();
    cr_assert_not(client_is_answered(ready.client, first));
    fake_device_hold(device, false);
    cr_assert_eq(client_answer(ready.client, first, METHOD_BUFFER_READ, &reply), 0);
    memcpy(&got, reply.bytes.at, 4);
    cr_assert_eq(got, 2);
    cr_assert_eq(client_answer(ready.client, second, METHOD_BUFFER_READ, &reply), 0);
    memcpy(&got, reply.bytes.at, 4);
    cr_assert_eq(got, 3);
}

Test(streams, B6_12_a_stream_does_not_wait_for_another)
{
    struct ready ready;
    make_ready(&ready);
    uint64_t stream = client_stream(ready.client);
    fake_device_hold(device, true);
    uint32_t first = launch_and_wait(&ready);
    uint32_t other = client_ask_read(ready.client, ready.x, stream, 4);
    pump_until(device->n_queued == 2);
    /* Round about: the other stream is answered although the first one has more to do. */
    for (int i = 0; i < 5; i++)
        launch(&ready);
    fake_device_step(device, 2);
    pump_until(client_is_answered(ready.client, other));
    cr_assert(client_is_answered(ready.client, first));
    cr_assert_eq(device->n_queued, 5);
}

Test(streams, synchronize_waits_for_all_of_its_stream)
{
    struct ready ready;
    make_ready(&ready);
    fake_device_hold(device, true);
    for (int i = 0; i < 5; i++)
        launch(&ready);
    struct stream_synchronize_request request = {0};
    uint32_t id = client_ask(ready.client, METHOD_STREAM_SYNCHRONIZE, &request);
    pump_settle();
    cr_assert_eq(fake_device_step(device, 4), 4);
    pump_settle();
    cr_assert_not(client_is_answered(ready.client, id));
    cr_assert_eq(fake_device_step(device, 4), 1);
    cr_assert_eq(client_answer(ready.client, id, METHOD_STREAM_SYNCHRONIZE, NULL), 0);
}

/* ---- errors ---- */

Test(streams, a_kernel_that_traps_is_the_answer_of_who_waits)
{
    struct ready ready;
    make_ready(&ready);
    scale_calls.trap = true;
    uint32_t id = launch_and_wait(&ready);
    cr_assert_eq(client_answer(ready.client, id, METHOD_LAUNCH, NULL), STATUS_LAUNCH_FAILED);
    cr_assert(strstr(client_error(ready.client), "scale (0101010101010101): the test makes it trap"), "%s",
              client_error(ready.client));
    scale_calls.trap = false;
    cr_assert_eq(client_synchronize(ready.client, 0), 0, "it was told already");
    cr_assert_eq(client_answer(ready.client, launch_and_wait(&ready), METHOD_LAUNCH, NULL), 0);
}

Test(streams, a_kernel_that_traps_later_is_the_answer_of_the_next_synchronize)
{
    struct ready ready;
    make_ready(&ready);
    scale_calls.trap = true;
    launch(&ready);
    pump_until(device->n_launched == 1);
    scale_calls.trap = false;
    launch(&ready);
    /* It is not the answer of a read behind it, nor of another stream. */
    cr_assert_eq(client_answer(ready.client, client_ask_read(ready.client, ready.out, 0, 4), METHOD_BUFFER_READ, NULL),
                 0);
    cr_assert_eq(client_synchronize(ready.client, client_stream(ready.client)), 0);
    cr_assert_eq(client_synchronize(ready.client, 0), STATUS_LAUNCH_FAILED);
    cr_assert_eq(client_synchronize(ready.client, 0), 0);
}

Test(streams, an_error_is_told_to_the_right_one_though_all_was_sent_together)
{
    struct ready ready;
    make_ready(&ready);
    fake_device_hold(device, true);
    launch(&ready);
    uint32_t waiting = launch_and_wait(&ready);
    uint32_t read = client_ask_read(ready.client, ready.out, 0, 4);
    launch(&ready);
    pump_until(device->n_queued == 4);
    /* The third launch traps, which nobody waits for. */
    fake_device_step(device, 3);
    scale_calls.trap = true;
    fake_device_step(device, 1);
    scale_calls.trap = false;
    cr_assert_eq(client_answer(ready.client, waiting, METHOD_LAUNCH, NULL), 0);
    cr_assert_eq(client_answer(ready.client, read, METHOD_BUFFER_READ, NULL), 0);
    fake_device_hold(device, false);
    cr_assert_eq(client_synchronize(ready.client, 0), STATUS_LAUNCH_FAILED);
}

Test(streams, the_first_of_several_errors_is_told)
{
    struct ready ready;
    make_ready(&ready);
    scale_calls.trap = true;
    launch(&ready);
    pump_until(device->n_launched == 1);
    cr_assert_eq(scale_calls.n, 1);
    launch(&ready);
    pump_until(device->n_launched == 2);
    cr_assert_eq(client_synchronize(ready.client, 0), STATUS_LAUNCH_FAILED);
    cr_assert_eq(client_synchronize(ready.client, 0), 0);
}

/* ---- what goes, and when ---- */

Test(streams, a_freed_buffer_stays_until_queued_work_has_used_it)
{
    struct ready ready;
    make_ready(&ready);
    fake_device_hold(device, true);
    launch(&ready);
    free_buffer(ready.client, ready.x);
    free_buffer(ready.client, ready.out);
    pump_settle();
    cr_assert_eq(device->n_memory, 2);
    fake_device_step(device, 1);
    cr_assert_eq(device->n_memory, 0);
}

Test(streams, a_freed_buffer_that_nothing_uses_goes_at_once)
{
    struct client *client = client_attach();
    uint64_t buffer = client_allocate(client, 16);
    free_buffer(client, buffer);
    cr_assert_eq(device->n_memory, 0);
}

Test(streams, a_freed_buffer_waits_for_work_of_every_stream_but_not_for_later_work)
{
    struct ready ready;
    make_ready(&ready);
    uint64_t other = client_stream(ready.client);
    fake_device_hold(device, true);
    launch(&ready);
    ready.launch.request.stream = other;
    ready.launch.request.has_stream = true;
    launch(&ready);
    free_buffer(ready.client, ready.x);
    /* Work from now on cannot use it. */
    uint32_t id = client_ask_read(ready.client, ready.out, 0, 4);
    pump_until(device->n_queued == 3);
    fake_device_step(device, 1);
    cr_assert_eq(device->n_memory, 2);
    fake_device_step(device, 1);
    cr_assert_eq(device->n_memory, 1);
    cr_assert_not(client_is_answered(ready.client, id));
}

Test(streams, a_destroyed_stream_does_its_work_and_goes)
{
    struct ready ready;
    make_ready(&ready);
    uint64_t stream = client_stream(ready.client);
    struct stream_destroy_request destroy = {.stream = stream, .has_stream = true};
    fake_device_hold(device, true);
    ready.launch.request.stream = stream;
    ready.launch.request.has_stream = true;
    launch(&ready);
    cr_assert_eq(client_call(ready.client, METHOD_STREAM_DESTROY, &destroy, NULL), 0);
    cr_assert_eq(device->n_streams, 2);
    fake_device_step(device, 1);
    cr_assert_eq(scale_calls.n, 1);
    cr_assert_eq(device->n_streams, 1);
}

Test(streams, the_first_stream_cannot_be_destroyed)
{
    struct client *client = client_attach();
    struct stream_destroy_request destroy = {.has_stream = true};
    cr_assert_eq(client_call(client, METHOD_STREAM_DESTROY, &destroy, NULL), STATUS_INVALID_FIELD);
    cr_assert_eq(client_synchronize(client, 0), 0);
}

Test(streams, one_that_cannot_be_made)
{
    struct stream_create_request create = {0};
    struct client *client = client_attach();
    client_allocate(client, 8); /* it is there */
    fake_device_fail(device, FAKE_STREAM, 0, STATUS_DRIVER);
    cr_assert_eq(client_call(client, METHOD_STREAM_CREATE, &create, NULL), STATUS_DRIVER);
    client_stream(client);
    /* Not even the first one of a client: its channel is closed. */
    fake_device_fail(device, FAKE_STREAM, 0, STATUS_DRIVER);
    struct client *other = client_attach();
    pump_until(client_is_closed(other));
}
