/* B6.9: run, the same launch again and again, timed by the device. */
#include <string.h>

#include "tests/unit/executor/fixture.h"

static struct client *client;
static struct scale_launch launch;
static struct run_request run;
static uint64_t x, out;

static void setup(void)
{
    const float values[] = {1, 2, 3, 4};
    executor_start();
    client = client_attach();
    uint64_t fusion = client_define_scale(client);
    x = client_upload(client, values, 4);
    out = client_allocate(client, 16);
    scale_launch_init(&launch, fusion, x, out, 4, 2);
    run = (struct run_request){.launch = &launch.request, .repeats = 3, .has_repeats = true};
}

TestSuite(timed, .init = setup, .fini = executor_finish, .timeout = 60);

Test(timed, B6_9_every_repeat_has_its_time_and_warm_ups_have_none)
{
    struct run_reply reply;
    float got[4];
    run.warmups = 5;
    run.has_warmups = true;
    cr_assert_eq(client_call(client, METHOD_RUN, &run, &reply), 0, "%s", client_error(client));
    cr_assert_eq(scale_calls.n, 8);
    cr_assert_eq(reply.n_times_ns, 3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(reply.times_ns[i], 1010, "%lld", (long long)reply.times_ns[i]);
    cr_assert_eq(reply.bytes, 32);
    cr_assert_eq(reply.launch->outputs[0].buffer, out);
    cr_assert_eq(reply.launch->grid[0], 1);
    client_read(client, out, got, 16);
    cr_assert_eq(got[3], 8);
}

Test(timed, B6_9_many_are_queued_piece_by_piece_and_nothing_gets_in_between)
{
    struct run_reply reply;
    run.warmups = 1000;
    run.has_warmups = true;
    run.repeats = 5000;
    fake_device_hold(device, true);
    uint32_t id = client_ask(client, METHOD_RUN, &run);
    uint32_t read = client_ask_read(client, out, 0, 16);
    uint64_t least = 0;
    while (!client_is_answered(client, id)) {
        cr_assert_not(client_is_answered(client, read));
        pump_rearm();
        pump_settle();
        fake_device_step(device, 1000000);
        cr_assert_geq(scale_calls.n, least);
        least = scale_calls.n;
    }
    cr_assert_eq(client_answer(client, id, METHOD_RUN, &reply), 0, "%s", client_error(client));
    cr_assert_eq(scale_calls.n, 6000);
    cr_assert_eq(reply.n_times_ns, 5000);
    cr_assert_leq(device->deepest, 200);
    fake_device_hold(device, false);
    cr_assert_eq(client_answer(client, read, METHOD_BUFFER_READ, NULL), 0);
}

Test(timed, another_client_goes_on_meanwhile)
{
    struct client *other = client_attach();
    run.repeats = 5000;
    fake_device_hold(device, true);
    uint32_t id = client_ask(client, METHOD_RUN, &run);
    pump_until(device->n_queued > 0);
    client_allocate(other, 8);
    fake_device_hold(device, false);
    cr_assert_eq(client_answer(client, id, METHOD_RUN, NULL), 0);
}

Test(timed, F17_who_leaves_stops_it)
{
    run.repeats = 10000;
    fake_device_hold(device, true);
    client_ask(client, METHOD_RUN, &run);
    pump_until(device->n_queued > 0);
    client_leave(client);
    pump_settle();
    fake_device_hold(device, false);
    pump_until(list_empty(&process.sessions));
    cr_assert_lt(scale_calls.n, 100);
}

Test(timed, outputs_are_allocated_once_and_belong_to_the_client)
{
    struct run_reply reply;
    float got[4];
    launch.arguments[1].has_buffer = false;
    run.repeats = 100;
    cr_assert_eq(client_call(client, METHOD_RUN, &run, &reply), 0);
    cr_assert_eq(device->n_memory, 3);
    client_read(client, reply.launch->outputs[0].buffer, got, 16);
    cr_assert_eq(got[0], 2);
}

Test(timed, a_kernel_that_traps)
{
    launch.arguments[1].has_buffer = false;
    run.repeats = 100;
    scale_calls.trap = true;
    cr_assert_eq(client_call(client, METHOD_RUN, &run, NULL), STATUS_LAUNCH_FAILED);
    cr_assert_lt(scale_calls.n, 100, "it goes on and on");
    cr_assert_eq(device->n_memory, 2, "its output is given back");
    scale_calls.trap = false;
    cr_assert_eq(client_synchronize(client, 0), 0);
    cr_assert_eq(client_call(client, METHOD_RUN, &run, NULL), 0);
}

Test(timed, F23_calls_that_fail_in_the_middle)
{
    static const enum fake_call calls[] = {FAKE_LAUNCH, FAKE_STAMP, FAKE_ELAPSED};
    static const unsigned after[] = {0, 1, 31, 32, 33, 64, 99};
    launch.arguments[1].has_buffer = false;
    run.repeats = 100;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (size_t j = 0; j < sizeof after / sizeof after[0]; j++) {
            fake_device_fail(device, calls[i], after[j], STATUS_DRIVER);
            cr_assert_eq(client_call(client, METHOD_RUN, &run, NULL), STATUS_DRIVER, "call %d after %u", calls[i],
                         after[j]);
            cr_assert_eq(client_synchronize(client, 0), 0);
            cr_assert_eq(device->n_memory, 2, "call %d after %u", calls[i], after[j]);
            cr_assert_eq(device->n_stamps, 0);
        }
    }
}

Test(timed, how_often)
{
    run.repeats = 0;
    cr_assert_eq(client_call(client, METHOD_RUN, &run, NULL), STATUS_INVALID_FIELD);
    run.repeats = LIMIT_REPEATS + 1;
    cr_assert_eq(client_call(client, METHOD_RUN, &run, NULL), STATUS_INVALID_FIELD);
    run.repeats = 1;
    cr_assert_eq(client_call(client, METHOD_RUN, &run, NULL), 0);
}

Test(timed, an_empty_grid_has_times_too)
{
    struct run_reply reply;
    launch.size = 0;
    cr_assert_eq(client_call(client, METHOD_RUN, &run, &reply), 0, "%s", client_error(client));
    cr_assert_eq(reply.n_times_ns, 3);
    cr_assert_eq(scale_calls.n, 0);
}
