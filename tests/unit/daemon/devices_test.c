#include "daemon/devices/devices.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/daemon/devices_fixture.h"
#include "tests/unit/daemon/pump.h"

TestSuite(devices, .init = devices_setup, .fini = devices_teardown, .timeout = 120);

/* ---- what there is ---- */

struct test_look {
    struct device_look look;
    int n_done;
    bool has_facts;
    size_t n_devices, n_problems;
};

static void on_looked(struct device_look *look, const struct executor_ready *facts)
{
    struct test_look *test = container_of(look, struct test_look, look);
    test->n_done++;
    test->has_facts = facts != NULL;
    test->n_devices = facts ? facts->n_devices : 0;
    test->n_problems = facts ? facts->n_problems : 0;
}

static void look(struct test_look *test)
{
    struct error error;
    *test = (struct test_look){.look.done = on_looked};
    cr_assert_eq(devices_look(devices, &test->look, &error), 0);
    cr_assert_eq(test->n_done, 0, "later");
}

Test(devices, the_probe_tells_what_there_is)
{
    struct test_look test;
    start("");
    look(&test);
    pump_until(test.n_done == 1);
    cr_assert(test.has_facts);
    cr_assert_eq(test.n_devices, 3);
    cr_assert_eq(test.n_problems, 0);
    look(&test);
    pump_until(test.n_done == 1);
    cr_assert_eq(test.n_devices, 3);
    cr_assert_eq(stats.executors, 0, "a probe is no executor");
    cr_assert_eq(stats.executor_starts_total, 0);
}

Test(devices, a_machine_without_a_gpu_has_the_host_and_a_problem)
{
    struct test_look test;
    start("no-gpu");
    look(&test);
    pump_until(test.n_done == 1);
    cr_assert_eq(test.n_devices, 1);
    cr_assert_eq(test.n_problems, 1);
    cr_assert_str_eq(open_well(0, NULL)->device, "host");
    cr_assert_str_eq(open_badly(1, "0", STATUS_NO_DEVICE),
                     "device: no \"0\"; there is \"host\"; there is no CUDA driver here");
}

Test(devices, a_machine_without_any_device)
{
    start("nothing");
    cr_assert_str_eq(open_badly(0, NULL, STATUS_NO_DEVICE),
                     "device: none to choose; there is none; there is no CUDA driver here");
    cr_assert_null(devices_problem(devices), "it is known that there is none");
}

static void expect_no_probe(const char *words, const char *why)
{
    struct test_look test;
    start(words);
    look(&test);
    begin(0, "host", 1000, false);
    pump_until(test.n_done == 1 && n_done == 1);
    cr_assert_not(test.has_facts);
    cr_assert_str_eq(devices_problem(devices), why);
    cr_assert_eq(opens[0].error.code, STATUS_EXECUTOR_UNAVAILABLE);
    cr_assert_not_null(strstr(opens[0].error.text, why), "%s", opens[0].error.text);
    cr_assert(status_retryable(opens[0].error.code));
    /* And at once from then on. */
    open_badly(1, "host", STATUS_EXECUTOR_UNAVAILABLE);
}

Test(devices, a_probe_that_dies)
{
    expect_no_probe("probe-dies", "the devices are not known: exit status 1: no reason given");
}

Test(devices, a_probe_with_an_error)
{
    expect_no_probe("probe-error", "the devices are not known: there is no device here");
}

Test(devices, a_probe_of_another_build)
{
    expect_no_probe("wrong-protocol", "the devices are not known: its protocol version is not the daemon's: the two "
                                      "executables are of different builds");
}

Test(devices, a_program_that_is_missing)
{
    options.executor = "/nonexistent/fusiond-executor";
    expect_no_probe("", "the devices are not known: exit status 127: /nonexistent/fusiond-executor: no such file or "
                        "directory");
}

Test(devices, F16_a_probe_that_cannot_be_started_for_want_of_descriptors)
{
    struct rlimit limit;
    struct error error;
    script("");
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 4;
    setrlimit(RLIMIT_NOFILE, &limit);
    cr_assert_eq(devices_create(loop, &options, &devices, &error), 0);
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    open_badly(0, "host", STATUS_EXECUTOR_UNAVAILABLE);
    pump_until(devices_facts(devices));
    open_well(1, "host");
}

Test(devices, a_probe_that_failed_is_made_again)
{
    char words[600];
    snprintf(words, sizeof words, "probe-once=%s", folder_path("was-here"));
    start(words);
    open_badly(0, "host", STATUS_EXECUTOR_UNAVAILABLE);
    cr_assert_not_null(devices_problem(devices));
    pump_until(devices_facts(devices));
    pump_until(!devices_problem(devices));
    open_well(1, "host");
}

Test(devices, a_probe_that_does_not_end_is_ended)
{
    start_known("probe-stays");
    open_well(0, "host");
}

Test(devices, closing_while_the_probe_runs)
{
    struct test_look test;
    start("probe-silent");
    look(&test);
    begin(0, "host", 1000, false);
    close_devices();
    cr_assert_eq(test.n_done, 1);
    cr_assert_not(test.has_facts);
    cr_assert_eq(opens[0].n_done, 1);
    cr_assert_eq(opens[0].error.code, STATUS_SHUTTING_DOWN);
}

Test(devices, who_leaves_is_not_called)
{
    struct test_look test;
    start("");
    look(&test);
    begin(0, "host", 1000, false);
    device_look_leave(&test.look);
    device_open_leave(&opens[0].open);
    device_open_leave(&opens[0].open);
    pump_until(devices_facts(devices));
    pump_settle();
    cr_assert_eq(test.n_done, 0);
    cr_assert_eq(opens[0].n_done, 0);
    cr_assert_eq(stats.executor_starts_total, 0, "nobody wants one");
}

Test(devices, closed_ones_know_nothing)
{
    struct error error;
    struct device_open open = {0};
    struct device_look nothing = {0};
    cr_assert_null(devices_facts(NULL));
    cr_assert_null(devices_problem(NULL));
    cr_assert_eq(devices_sandbox(NULL), 0);
    cr_assert_eq(devices_open(NULL, &open, &error), -1);
    cr_assert_eq(error.code, STATUS_SHUTTING_DOWN);
    cr_assert_eq(devices_look(NULL, &nothing, &error), -1);
    device_open_leave(&open);
    device_look_leave(&nothing);
}

/* ---- executors ---- */

Test(devices, a_device_is_opened)
{
    start_known("");
    struct test_open *test = open_well(0, "1");
    cr_assert_str_eq(test->device, "1");
    cr_assert_gt(test->executor, 0);
    cr_assert(works(test));
    cr_assert_eq(stats.executors, 1);
    cr_assert_eq(stats.channels, 1);
    cr_assert_eq(stats.channels_total, 1);
    cr_assert_eq(fcntl(test->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

Test(devices, what_is_opened_before_anything_is_known)
{
    start("");
    struct test_open *test = open_well(0, NULL);
    cr_assert_str_eq(test->device, "0", "the first CUDA device");
    cr_assert(works(test));
}

Test(devices, the_client_counts)
{
    start_known("");
    begin(0, "0", 1000, false)->open.view = (struct device_view){"1,0", NULL};
    begin(1, "0", 1000, false)->open.view = (struct device_view){NULL, "PCI_BUS_ID"};
    begin(2, NULL, 1000, false)->open.view = (struct device_view){"", NULL};
    begin(3, "GPU-b", 1000, false);
    pump_until(n_done == 4);
    cr_assert_str_eq(opens[0].device, "1");
    cr_assert_str_eq(opens[1].device, "1");
    cr_assert_str_eq(opens[2].device, "host");
    cr_assert_str_eq(opens[3].device, "1");
    cr_assert_eq(stats.executor_starts_total, 2);
}

Test(devices, an_executor_is_shared_by_the_clients_of_a_user)
{
    start_known("");
    for (int i = 0; i < 4; i++)
        begin(i, "host", 1000, false);
    pump_until(n_done == 4);
    open_well(4, "host");
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(opens[i].executor, opens[0].executor);
        cr_assert(works(&opens[i]));
    }
    cr_assert_eq(stats.executor_starts_total, 1);
    cr_assert_eq(stats.channels, 5);
    hang_up(2);
    pump_until(stats.channels == 4);
    cr_assert(works(&opens[3]));
}

Test(devices, F27_not_by_other_users_nor_by_sessions_nor_other_devices)
{
    start_known("");
    pid_t first = open_well(0, "0")->executor;
    cr_assert_neq(open_as(1, "0", 1001, false)->executor, first);
    cr_assert_neq(open_as(2, "0", 1000, true)->executor, first);
    cr_assert_neq(open_as(3, "0", 1000, true)->executor, opens[2].executor);
    cr_assert_neq(open_well(4, "1")->executor, first);
    cr_assert_eq(open_well(5, "0")->executor, first, "not a session's, which started later");
    cr_assert_eq(stats.executors, 5);
    for (int i = 0; i < 6; i++)
        cr_assert(works(&opens[i]));
}

Test(devices, a_sessions_executor_ends_with_its_channel)
{
    start_known("");
    open_as(0, "host", 1000, true);
    open_well(1, "host");
    cr_assert_eq(stats.executors, 2);
    hang_up(0);
    pump_until(stats.executors == 1);
    cr_assert_eq(stats.channels, 1);
    cr_assert_eq(stats.executor_faults_total, 0);
    cr_assert(works(&opens[1]));
}

Test(devices, an_executor_is_told_what_it_is_for)
{
    char words[600], line[256];
    options.host_threads = 3;
    options.spin_us = 40;
    snprintf(words, sizeof words, "args=%s", folder_path("args"));
    start_known(words);
    open_well(0, "host");
    open_well(1, "1");
    FILE *file = fopen(folder_path("args"), "re");
    cr_assert_not_null(file);
    static const char *const expected[] = {
        "--fd 3 --probe environment 0\n",
        "--fd 3 --device host --threads 3 --spin-us 40 environment 0\n",
        "--fd 3 --device 1 --spin-us 40 environment 0\n",
    };
    for (size_t i = 0; i < 3; i++) {
        cr_assert_not_null(fgets(line, sizeof line, file));
        cr_expect_str_eq(line, expected[i]);
    }
    fclose(file);
}

Test(devices, how_the_host_device_is_shut_in_is_known)
{
    start_known("");
    cr_assert_eq(devices_sandbox(devices), 0);
    open_well(0, "0");
    cr_assert_eq(devices_sandbox(devices), 0, "of no GPU");
    open_well(1, "host");
    cr_assert_eq(devices_sandbox(devices), SANDBOX_FULL);
}
