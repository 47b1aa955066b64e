/* F19: kernels that fail, and what they take with them. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/executor/fixture.h"

TestSuite(executor_faults, .init = executor_setup, .fini = executor_teardown, .timeout = 400);

static const struct fusiond_launch_options waiting = {.wait = true};

/* ---- the kernel alone ---- */

Test(executor_faults, a_kernel_that_traps_fails_alone)
{
    struct fusiond_error error;
    struct seat seat, other;
    only_on_host(); /* a GPU's context does not survive it */
    seat_open(&seat, false);
    seat_open(&other, false);
    struct fusiond_defined *trap = define(&seat, "trap"), *add = define(&other, "add");
    struct fusiond_buffer *x = floats(&seat, 1), *y = floats(&other, 10), *out = floats(&other, 10);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(launch_trap(trap, x, &waiting, &error), -1);
        cr_assert_eq(error.code, FUSIOND_LAUNCH_FAILED, "%s: %s", error.name, error.text);
        cr_assert(strstr(error.text, "trap (") && strstr(error.text, "__trap() was called"), "%s", error.text);
        OK(launch_add(add, y, out, 10, i, &waiting, &error));
    }
    /* Not waited for, it is told by synchronize, once. */
    OK(launch_trap(trap, x, NULL, &error));
    cr_assert_eq(fusiond_device_synchronize(seat.device, NULL, &error), -1);
    cr_assert_eq(error.code, FUSIOND_LAUNCH_FAILED, "%s", error.text);
    OK(fusiond_device_synchronize(seat.device, NULL, &error));
    OK(fusiond_device_synchronize(other.device, NULL, &error));
    fusiond_buffer_free(x);
    fusiond_buffer_free(y);
    fusiond_buffer_free(out);
    fusiond_defined_destroy(trap);
    fusiond_defined_destroy(add);
    seat_close(&seat);
    seat_close(&other);
}

/* ---- the executor ---- */

Test(executor_faults, F19_a_hundred_faults_and_the_front_goes_on)
{
    enum { CYCLES = 100 };
    struct fusiond_error error;
    struct seat seat;
    seat_open(&seat, false);
    fusiond_defined_destroy(define(&seat, "poke")); /* compiled */
    pid_t front = the_daemon.pid, last = 0;
    size_t descriptors = 0;
    for (int i = 0; i < CYCLES; i++) {
        struct fusiond_defined *poke = define(&seat, "poke");
        struct fusiond_buffer *x = floats(&seat, 64);
        cr_assert_neq(seat_executor(&seat), last, "the executor survived");
        last = seat_executor(&seat);
        /* First a good one: the new executor works. */
        OK(launch_add(poke, x, NULL, 64, 0, &waiting, &error));
        cr_assert_eq(read_float(&seat, x, 0), 1);
        cr_assert_eq(launch_add(poke, x, NULL, 64, 8, &waiting, &error), -1);
        cr_assert(error.code == FUSIOND_EXECUTOR_RESET || error.code == FUSIOND_LAUNCH_FAILED, "%s: %s", error.name,
                  error.text);
        fusiond_buffer_free(x);
        fusiond_defined_destroy(poke);
        seat_reopen(&seat);
        if (i == 4)
            descriptors = process_descriptors(front);
    }
    cr_assert_eq(kill(front, 0), 0);
    cr_assert_leq(process_descriptors(front), descriptors + 2, "%zu descriptors after 5 faults, %zu after %d",
                  descriptors, process_descriptors(front), CYCLES);
    seat_close(&seat);
}

Test(executor_faults, F19_others_are_told_to_open_the_device_again)
{
    struct fusiond_error error;
    struct seat guilty, other;
    seat_open(&guilty, false);
    seat_open(&other, false);
    struct fusiond_defined *poke = define(&guilty, "poke"), *add = define(&other, "add");
    struct fusiond_buffer *x = floats(&guilty, 64), *y = floats(&other, 10), *out = floats(&other, 10);
    OK(launch_add(add, y, out, 10, 1, &waiting, &error));
    cr_assert_eq(launch_add(poke, x, NULL, 64, 8, &waiting, &error), -1);
    cr_assert_eq(launch_add(add, y, out, 10, 1, &waiting, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET, "%s: %s", error.name, error.text);
    cr_assert(error.retryable);
    fusiond_buffer_free(y);
    fusiond_buffer_free(out);
    fusiond_defined_destroy(add);
    seat_reopen(&other);
    add = define(&other, "add");
    y = floats(&other, 10);
    out = floats(&other, 10);
    OK(launch_add(add, y, out, 10, 1, &waiting, &error));
    cr_assert_eq(read_float(&other, out, 9), 10);
    fusiond_buffer_free(x);
    fusiond_buffer_free(y);
    fusiond_buffer_free(out);
    fusiond_defined_destroy(poke);
    fusiond_defined_destroy(add);
    seat_close(&guilty);
    seat_close(&other);
}

Test(executor_faults, F19_a_session_of_its_own_is_not_touched)
{
    struct fusiond_error error;
    struct seat guilty, apart;
    seat_open(&guilty, false);
    seat_open(&apart, true);
    cr_assert_neq(seat_executor(&guilty), seat_executor(&apart));
    struct fusiond_defined *poke = define(&guilty, "poke"), *add = define(&apart, "add");
    struct fusiond_buffer *x = floats(&guilty, 64), *y = floats(&apart, 10), *out = floats(&apart, 10);
    OK(launch_add(add, y, out, 10, 1, &waiting, &error));
    cr_assert_eq(launch_add(poke, x, NULL, 64, 8, &waiting, &error), -1);
    OK(launch_add(add, y, out, 10, 2, &waiting, &error));
    cr_assert_eq(read_float(&apart, out, 9), 11);
    fusiond_buffer_free(x);
    fusiond_buffer_free(y);
    fusiond_buffer_free(out);
    fusiond_defined_destroy(poke);
    fusiond_defined_destroy(add);
    seat_close(&guilty);
    seat_close(&apart);
}

/* ---- a kernel that does not end ---- */

static bool is_gone(void *context)
{
    return kill(*(pid_t *)context, 0) < 0;
}

Test(executor_faults, a_kernel_that_runs_on_does_not_hold_the_daemons_end_up)
{
    struct fusiond_error error;
    struct seat seat;
    seat_open(&seat, false);
    struct fusiond_defined *wait = define(&seat, "wait");
    struct fusiond_buffer *out = floats(&seat, 1);
    pid_t executor = seat_executor(&seat);
    OK(launch_wait(wait, out, 600000, NULL, &error));
    long start = clock_ms();
    daemon_stop_in_order(&the_daemon);
    cr_assert_lt(clock_ms() - start, 5000);
    cr_assert(becomes_true(is_gone, &executor, 5000));
    fusiond_buffer_free(out);
    fusiond_defined_destroy(wait);
    seat_close(&seat);
    daemon_start(&the_daemon, &(struct daemon_options){0});
}
