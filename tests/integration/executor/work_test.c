/* Real kernels: order, memory, and clients that do not wait for each other. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/executor/fixture.h"

TestSuite(executor_work, .init = executor_setup, .fini = executor_teardown, .timeout = 200);

static const struct fusiond_launch_options waiting = {.wait = true};

/* ---- order ---- */

Test(executor_work, B6_12_thousands_of_launches_in_order)
{
    enum { N = 100, TIMES = 5000 };
    struct fusiond_error error;
    struct seat seat;
    struct fusiond_device_argument arguments[3] = {0};
    const int64_t size = N, one = 1;
    seat_open(&seat, false);
    struct fusiond_defined *bump = define(&seat, "bump");
    struct fusiond_buffer *x = floats(&seat, N);
    arguments[0] = (struct fusiond_device_argument){.buffer = x, .sizes = &size};
    arguments[2] = (struct fusiond_device_argument){.scalar = &one, .scalar_size = sizeof one};
    /* More than the executor takes at a time: the client waits in between, and nothing is lost. */
    for (int i = 0; i < TIMES; i++)
        OK(fusiond_device_submit(bump, arguments, 3, NULL, NULL, &error));
    cr_assert_eq(read_float(&seat, x, N - 1), N - 1 + TIMES);
    OK(fusiond_device_synchronize(seat.device, NULL, &error));
    fusiond_buffer_free(x);
    fusiond_defined_destroy(bump);
    seat_close(&seat);
}

Test(executor_work, B6_12_streams_do_not_wait_for_each_other)
{
    struct fusiond_error error;
    struct seat seat;
    struct fusiond_stream *other;
    seat_open(&seat, false);
    struct fusiond_defined *wait = define(&seat, "wait"), *add = define(&seat, "add");
    struct fusiond_buffer *slow = floats(&seat, 1), *x = floats(&seat, 10), *out = floats(&seat, 10);
    OK(fusiond_stream_create(seat.device, 0, &other, &error));
    OK(launch_add(add, x, out, 10, 1, &waiting, &error));
    long start = clock_ms();
    OK(launch_wait(wait, slow, 2000, NULL, &error));
    struct fusiond_launch_options elsewhere = {.wait = true, .stream = other};
    for (int i = 0; i < 20; i++)
        OK(launch_add(add, x, out, 10, i, &elsewhere, &error));
    long quick = clock_ms() - start;
    OK(fusiond_device_synchronize(seat.device, NULL, &error));
    long slowly = clock_ms() - start;
    cr_assert_lt(quick, slowly / 2, "%ld ms beside a kernel that took %ld", quick, slowly);
    cr_assert_eq(read_float(&seat, out, 9), 9 + 19);
    cr_assert_eq(read_float(&seat, slow, 0), 1);
    fusiond_stream_destroy(other);
    fusiond_buffer_free(slow);
    fusiond_buffer_free(x);
    fusiond_buffer_free(out);
    fusiond_defined_destroy(wait);
    fusiond_defined_destroy(add);
    seat_close(&seat);
}

Test(executor_work, B6_12_a_client_does_not_wait_for_another)
{
    struct fusiond_error error;
    struct seat busy, seat;
    seat_open(&busy, false);
    seat_open(&seat, false);
    cr_assert_eq(seat_executor(&busy), seat_executor(&seat));
    struct fusiond_defined *wait = define(&busy, "wait"), *add = define(&seat, "add");
    struct fusiond_buffer *slow = floats(&busy, 1), *x = floats(&seat, 1000), *out = floats(&seat, 1000);
    OK(launch_add(add, x, out, 1000, 1, &waiting, &error));
    long start = clock_ms();
    for (int i = 0; i < 4; i++)
        OK(launch_wait(wait, slow, 500, NULL, &error));
    for (int i = 0; i < 20; i++) {
        struct fusiond_buffer *buffer;
        OK(fusiond_buffer_allocate(seat.device, 4096, false, &buffer, &error));
        OK(launch_add(add, x, out, 1000, i, &waiting, &error));
        fusiond_buffer_free(buffer);
    }
    long quick = clock_ms() - start;
    OK(fusiond_device_synchronize(busy.device, NULL, &error));
    long slowly = clock_ms() - start;
    cr_assert_lt(quick, slowly / 2, "%ld ms beside kernels that took %ld", quick, slowly);
    fusiond_buffer_free(slow);
    fusiond_buffer_free(x);
    fusiond_buffer_free(out);
    fusiond_defined_destroy(wait);
    fusiond_defined_destroy(add);
    seat_close(&busy);
    seat_close(&seat);
}

/* ---- memory ---- */

Test(executor_work, B6_6_intermediates_begin_zeroed_every_time)
{
    struct fusiond_error error;
    struct seat seat;
    seat_open(&seat, false);
    struct fusiond_defined *count = define(&seat, "count");
    struct fusiond_buffer *out = floats(&seat, 64);
    for (int i = 0; i < 50; i++) {
        OK(launch_count(count, out, i % 2 ? &waiting : NULL, &error));
        cr_assert_eq(read_float(&seat, out, 63), 0, "launch %d", i);
    }
    fusiond_buffer_free(out);
    fusiond_defined_destroy(count);
    seat_close(&seat);
}

Test(executor_work, B6_6_outputs_hold_the_pattern_that_was_asked_for)
{
    struct fusiond_error error;
    struct seat seat;
    struct fusiond_launched *launched;
    const int64_t size = 0, n = 0;
    unsigned char byte = 0;
    seat_open(&seat, false);
    struct fusiond_defined *add = define(&seat, "add"), *wait = define(&seat, "wait");
    /* Nothing is launched for no elements. */
    struct fusiond_device_argument arguments[] = {{.sizes = &size}, {0}, {.scalar = &n, .scalar_size = sizeof n}};
    OK(fusiond_device_launch(add, arguments, 3, &waiting, &launched, &error));
    cr_assert_eq(fusiond_launched_output(launched, 0).bytes, 0);
    cr_assert_eq(fusiond_launched_params(launched).grid[0], 0);
    fusiond_launched_destroy(launched);
    /* What the kernel does not write keeps the pattern: its output has 1 element, the buffer of the test 4. */
    struct fusiond_buffer *out = floats(&seat, 4);
    const struct fusiond_launch_options nan = {.wait = true, .fill = FUSIOND_FILL_NAN};
    OK(launch_wait(wait, out, 0, &nan, &error));
    cr_assert_eq(read_float(&seat, out, 0), 1);
    cr_assert_eq(read_float(&seat, out, 1), 1, "a fill beyond the output");
    OK(fusiond_buffer_read(out, 0, &byte, 1, NULL, &error));
    fusiond_buffer_free(out);
    fusiond_defined_destroy(add);
    fusiond_defined_destroy(wait);
    seat_close(&seat);
}

Test(executor_work, F22_more_memory_than_there_is)
{
    struct fusiond_error error;
    struct seat seat;
    struct fusiond_buffer *buffer;
    seat_open(&seat, false);
    pid_t executor = seat_executor(&seat);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(fusiond_buffer_allocate(seat.device, 1ull << 46, false, &buffer, &error), -1);
        cr_assert_str_eq(error.name, "OUT_OF_MEMORY", "%s: %s", error.name, error.text);
    }
    OK(fusiond_buffer_allocate(seat.device, 4096, false, &buffer, &error));
    fusiond_buffer_free(buffer);
    struct seat again;
    seat_open(&again, false);
    cr_assert_eq(seat_executor(&again), executor);
    seat_close(&again);
    seat_close(&seat);
}

/* ---- clients that come and go ---- */

/* A client of its own process: launches, checks every result. Its exit status. */
static int work_for_a_while(int number)
{
    struct fusiond_error error;
    struct seat seat;
    seat_open(&seat, false);
    struct fusiond_defined *add = define(&seat, "add");
    struct fusiond_buffer *x = floats(&seat, 500);
    for (int i = 0; i < 200; i++) {
        struct fusiond_buffer *out;
        if (fusiond_buffer_allocate(seat.device, 500 * sizeof(float), false, &out, &error) < 0 ||
            launch_add(add, x, out, 500, number * 1000 + i, i % 3 ? NULL : &waiting, &error) < 0)
            return 1;
        if (read_float(&seat, out, 499) != (float)(499 + number * 1000 + i))
            return 2;
        fusiond_buffer_free(out);
    }
    fusiond_buffer_free(x);
    fusiond_defined_destroy(add);
    seat_close(&seat);
    return 0;
}

Test(executor_work, many_clients_at_one_executor)
{
    enum { CLIENTS = 6 };
    pid_t children[CLIENTS];
    int status;
    for (int i = 0; i < CLIENTS; i++) {
        children[i] = fork_apart(NULL);
        if (children[i] == 0)
            _exit(work_for_a_while(i + 1));
    }
    for (int i = 0; i < CLIENTS; i++) {
        cr_assert(process_ends(children[i], 60000, &status));
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "client %d: status %#x", i, (unsigned)status);
    }
}

/* A client of its own process that is killed while its kernels run. */
static void die_at_work(void)
{
    struct fusiond_error error;
    struct seat seat;
    struct fusiond_buffer *imported = NULL;
    seat_open(&seat, false);
    struct fusiond_defined *wait = define(&seat, "wait");
    struct fusiond_buffer *out = floats(&seat, 1000);
    int fd = memfd_create("theirs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(fd, 1 << 20) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        _exit(1);
    struct fusiond_memory memory = {.kind = FUSIOND_MEMFD, .fd = fd, .size = 1 << 20};
    fusiond_buffer_import(seat.device, &memory, &imported, &error); /* a GPU refuses it */
    for (int i = 0; i < 3; i++)
        OK(launch_wait(wait, out, 100, NULL, &error));
    kill(getpid(), SIGKILL);
}

static pid_t executor;
static size_t mappings_before;

static bool mappings_are_gone(void *context)
{
    (void)context;
    return shared_mappings(executor) <= mappings_before;
}

Test(executor_work, F17_a_client_killed_while_its_kernels_run)
{
    struct fusiond_error error;
    struct seat seat, again;
    int status;
    seat_open(&seat, false);
    struct fusiond_defined *add = define(&seat, "add");
    struct fusiond_buffer *x = floats(&seat, 10), *out = floats(&seat, 10);
    OK(launch_add(add, x, out, 10, 1, &waiting, &error));
    fusiond_defined_destroy(define(&seat, "wait")); /* compiled, so that the child has it at once */
    executor = seat_executor(&seat);
    mappings_before = shared_mappings(executor);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork_apart(NULL);
        if (child == 0)
            die_at_work();
        cr_assert(process_ends(child, 60000, &status));
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %#x", (unsigned)status);
        OK(launch_add(add, x, out, 10, i, &waiting, &error));
        cr_assert_eq(read_float(&seat, out, 9), 9 + i);
        /* Its kernels take 0.3 s, and then a second is allowed. */
        cr_assert(becomes_true(mappings_are_gone, NULL, 1300), "%zu mappings; there were %zu",
                  shared_mappings(executor), mappings_before);
    }
    seat_open(&again, false);
    cr_assert_eq(seat_executor(&again), executor);
    seat_close(&again);
    fusiond_buffer_free(x);
    fusiond_buffer_free(out);
    fusiond_defined_destroy(add);
    seat_close(&seat);
}
