/* The end of the executor: the front goes, the device is lost, a kernel does not end. */
#include <string.h>

#include "daemon/executor/executor.h"
#include "tests/unit/executor/fixture.h"

TestSuite(ending, .init = executor_start, .fini = executor_finish, .timeout = 60);

static uint32_t launch(struct client *client, uint64_t fusion, uint64_t x, bool wait)
{
    struct scale_launch launch;
    scale_launch_init(&launch, fusion, x, x, 1, 2);
    launch.request.wait = wait;
    return client_ask(client, METHOD_LAUNCH, &launch.request);
}

/* ---- the front goes ---- */

Test(ending, what_is_queued_is_done_and_answered)
{
    const float value = 1;
    struct client *client = client_attach(), *idle = client_attach();
    uint64_t fusion = client_define_scale(client), x = client_upload(client, &value, 1);
    fake_device_hold(device, true);
    uint32_t first = launch(client, fusion, x, true), second = client_ask_read(client, x, 0, 4);
    pump_until(device->n_queued == 2);
    front_leave();
    pump_until(client_is_closed(idle));
    cr_assert_eq(process.state, PROCESS_FINISHING);
    fake_device_hold(device, false);
    cr_assert_eq(client_answer(client, first, METHOD_LAUNCH, NULL), 0);
    cr_assert_eq(client_answer(client, second, METHOD_BUFFER_READ, NULL), 0);
    pump_until(client_is_closed(client));
    pump_until(process.state == PROCESS_CLOSED);
    cr_assert_eq(process.exit_code, EXECUTOR_EXIT_DONE);
}

Test(ending, who_waits_for_a_kernel_is_told)
{
    struct fusion_define_request request = {.has_key = true};
    struct client *client = client_attach();
    memset(request.key, 1, sizeof request.key);
    front.held = true;
    uint32_t id = client_ask(client, METHOD_FUSION_DEFINE, &request);
    pump_until(front.n_asked == 1);
    front_leave();
    cr_assert_eq(client_answer(client, id, METHOD_FUSION_DEFINE, NULL), STATUS_SHUTTING_DOWN);
    pump_until(process.state == PROCESS_CLOSED);
}

Test(ending, a_kernel_that_does_not_end_is_waited_for_a_second)
{
    const float value = 1;
    struct client *client = client_attach();
    uint64_t fusion = client_define_scale(client), x = client_upload(client, &value, 1);
    fake_device_hold(device, true);
    launch(client, fusion, x, true);
    pump_until(device->n_queued == 1);
    uint64_t start = uv_hrtime();
    front_leave();
    pump_until(process.state == PROCESS_ABANDONED);
    cr_assert_geq(uv_hrtime() - start, 900000000u);
    /* For the sake of the fixture it ends after all. */
    process.state = PROCESS_FINISHING;
}

Test(ending, bytes_of_the_front_that_are_no_frame_end_it)
{
    front_send_bytes("\0\0\0\1\xc1", 5);
    pump_until(process.state == PROCESS_CLOSED);
    cr_assert_eq(process.exit_code, EXECUTOR_EXIT_CHANNEL);
}

/* ---- the device is lost ---- */

Test(ending, F19_the_only_launch_under_way_is_named_to_all)
{
    const float value = 1;
    struct client *guilty = client_attach(), *other = client_attach();
    uint64_t fusion = client_define_scale(guilty), x = client_upload(guilty, &value, 1),
             theirs = client_upload(other, &value, 1);
    uint64_t theirs_fusion = client_define_scale(other);
    cr_assert_eq(client_answer(other, launch(other, theirs_fusion, theirs, true), METHOD_LAUNCH, NULL), 0);
    fake_device_hold(device, true);
    uint32_t launched = launch(guilty, fusion, x, true), read = client_ask_read(guilty, x, 0, 4),
             theirs_read = client_ask_read(other, theirs, 0, 4);
    pump_until(device->n_queued == 3);
    fake_device_lose(device, "an illegal memory access");

    cr_assert_eq(client_answer(guilty, launched, METHOD_LAUNCH, NULL), STATUS_LAUNCH_FAILED);
    cr_assert(strstr(client_error(guilty), "an illegal memory access"), "%s", client_error(guilty));
    cr_assert(strstr(client_error(guilty), "scale (0101010101010101) of client"), "%s", client_error(guilty));
    cr_assert_eq(client_answer(guilty, read, METHOD_BUFFER_READ, NULL), STATUS_LAUNCH_FAILED);
    cr_assert_eq(client_answer(other, theirs_read, METHOD_BUFFER_READ, NULL), STATUS_EXECUTOR_RESET);
    cr_assert(strstr(client_error(other), "an illegal memory access"), "%s", client_error(other));
    pump_until(client_is_closed(guilty) && client_is_closed(other));
    pump_until(process.state == PROCESS_CLOSED);
    cr_assert_eq(process.exit_code, EXECUTOR_EXIT_LOST);
    pump_until(front.n_faults == 1);
    cr_assert(front.fault.has_client && front.fault.has_key && front.fault.has_pid);
    cr_assert_eq(front.fault.key[0], 1);
    cr_assert_eq(front.fault.pid, 4711);
    cr_assert(strstr(front.fault_text, "an illegal memory access"), "%s", front.fault_text);
}

Test(ending, F19_a_launch_that_nobody_waits_for_is_told_by_synchronize)
{
    const float value = 1;
    struct stream_synchronize_request request = {0};
    struct client *client = client_attach();
    uint64_t fusion = client_define_scale(client), x = client_upload(client, &value, 1);
    fake_device_hold(device, true);
    cr_assert_eq(client_answer(client, launch(client, fusion, x, false), METHOD_LAUNCH, NULL), 0);
    uint32_t id = client_ask(client, METHOD_STREAM_SYNCHRONIZE, &request);
    pump_settle();
    fake_device_lose(device, "gone");
    cr_assert_eq(client_answer(client, id, METHOD_STREAM_SYNCHRONIZE, NULL), STATUS_LAUNCH_FAILED);
}

Test(ending, F19_of_several_launches_all_are_listed_and_nobody_is_blamed)
{
    const float value = 1;
    struct client *first = client_attach(), *second = client_attach();
    uint64_t fusion = client_define_scale(first), x = client_upload(first, &value, 1);
    uint64_t other = client_define_scale(second), y = client_upload(second, &value, 1);
    fake_device_hold(device, true);
    uint32_t one = launch(first, fusion, x, true), two = launch(second, other, y, true);
    pump_until(device->n_queued == 2);
    fake_device_lose(device, "gone");
    cr_assert_eq(client_answer(first, one, METHOD_LAUNCH, NULL), STATUS_EXECUTOR_RESET);
    cr_assert_eq(client_answer(second, two, METHOD_LAUNCH, NULL), STATUS_EXECUTOR_RESET);
    const char *comma = strstr(client_error(first), "of client");
    cr_assert(comma && strstr(comma + 1, "of client"), "%s", client_error(first));
    pump_until(front.n_faults == 1);
    cr_assert_not(front.fault.has_client || front.fault.has_key);
}

Test(ending, F19_what_was_done_long_ago_is_not_under_way)
{
    const float value = 1;
    struct client *idle = client_attach(), *guilty = client_attach();
    uint64_t fusion = client_define_scale(idle), x = client_upload(idle, &value, 1);
    uint64_t other = client_define_scale(guilty), y = client_upload(guilty, &value, 1);
    /* Nobody ever asks about these. */
    for (int i = 0; i < 3; i++)
        cr_assert_eq(client_answer(idle, launch(idle, fusion, x, false), METHOD_LAUNCH, NULL), 0);
    pump_until(device->n_launched == 3);
    pump_settle();
    fake_device_hold(device, true);
    uint32_t id = launch(guilty, other, y, true);
    pump_until(device->n_queued == 1);
    fake_device_lose(device, "gone");
    cr_assert_eq(client_answer(guilty, id, METHOD_LAUNCH, NULL), STATUS_LAUNCH_FAILED);
    pump_until(front.n_faults == 1);
    cr_assert(front.fault.has_client);
}

Test(ending, F19_requests_after_it_are_told_to_open_the_device_again)
{
    struct buffer_allocate_request request = {.size = 8, .has_size = true};
    struct client *client = client_attach();
    client_allocate(client, 8);
    fake_device_lose(device, "gone");
    cr_assert_eq(client_call(client, METHOD_BUFFER_ALLOCATE, &request, NULL), STATUS_EXECUTOR_RESET);
}

Test(ending, F19_who_waits_for_a_kernel_is_told_too)
{
    struct fusion_define_request request = {.has_key = true};
    struct client *client = client_attach();
    memset(request.key, 1, sizeof request.key);
    front.held = true;
    uint32_t id = client_ask(client, METHOD_FUSION_DEFINE, &request);
    pump_until(front.n_asked == 1);
    fake_device_lose(device, "gone");
    cr_assert_eq(client_answer(client, id, METHOD_FUSION_DEFINE, NULL), STATUS_EXECUTOR_RESET);
}

Test(ending, F19_a_run_that_is_not_queued_to_the_end)
{
    const float value = 1;
    struct scale_launch launch;
    struct run_request run = {.launch = &launch.request, .repeats = 1000, .has_repeats = true};
    struct client *client = client_attach();
    uint64_t fusion = client_define_scale(client), x = client_upload(client, &value, 1);
    scale_launch_init(&launch, fusion, x, 0, 1, 2);
    fake_device_hold(device, true);
    uint32_t id = client_ask(client, METHOD_RUN, &run);
    pump_until(device->n_queued > 0);
    fake_device_lose(device, "gone");
    cr_assert_eq(client_answer(client, id, METHOD_RUN, NULL), STATUS_EXECUTOR_RESET);
}
