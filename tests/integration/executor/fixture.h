/*
 * For tests of executors through the real daemon: clients at a device, kernels in a few lines. The device is
 * $FUSIOND_TEST_DEVICE, "host" when that is not set; what is true of one kind of device alone is skipped on others.
 */
#ifndef TESTS_INTEGRATION_EXECUTOR_FIXTURE_H
#define TESTS_INTEGRATION_EXECUTOR_FIXTURE_H

#include <criterion/criterion.h>

#include "client/fusiond.h"
#include "tests/support/daemon_process.h"

#define OK(call) cr_assert_eq(call, 0, "%s: %s", error.name, error.text)

extern struct daemon_process the_daemon;

/* For .init and .fini. */
void executor_setup(void);
void executor_teardown(void);
/* Skip the test unless the device is the CPU. */
void only_on_host(void);

/* A client: a connection and a device of its own. */
struct seat {
    struct fusiond_connection *connection;
    struct fusiond_device *device;
};

void seat_open(struct seat *ret, bool isolated);
/* The same once the executor, which is about to end or has ended, is replaced. */
void seat_reopen(struct seat *seat);
void seat_close(struct seat *seat);
pid_t seat_executor(const struct seat *seat);

/*
 * The kernels of the tests, all of float32 tensors of rank 1 and int64 scalars:
 *   add       x, out, n         out = x + n
 *   bump      x, n              x += n, in place: out is an alias
 *   count     out, w            every thread adds 1 to w, an intermediate that begins zeroed; out = what it held before
 *   wait      out, n            takes n milliseconds, and sets out to 1
 *   poke      x, n              writes to address n unless it is 0
 *   trap      x                 fails
 */
struct fusiond_defined *define(struct seat *seat, const char *name);

/* A buffer of n floats, the i-th i. */
struct fusiond_buffer *floats(struct seat *seat, size_t n);
float read_float(struct seat *seat, struct fusiond_buffer *buffer, size_t index);

/* Launches of add, and of bump and poke (without `out`); `size` elements of x. `options` may be NULL. */
int launch_add(struct fusiond_defined *defined, struct fusiond_buffer *x, struct fusiond_buffer *out, int64_t size,
               int64_t n, const struct fusiond_launch_options *options, struct fusiond_error *error);
int launch_wait(struct fusiond_defined *defined, struct fusiond_buffer *out, int64_t ms,
                const struct fusiond_launch_options *options, struct fusiond_error *error);
int launch_count(struct fusiond_defined *defined, struct fusiond_buffer *out,
                 const struct fusiond_launch_options *options, struct fusiond_error *error);
int launch_trap(struct fusiond_defined *defined, struct fusiond_buffer *x, const struct fusiond_launch_options *options,
                struct fusiond_error *error);

/* What /proc says of the executor: mappings of memory that is shared as files. */
size_t shared_mappings(pid_t pid);

#endif
