/* For tests of devices: the front's side with executors that follow a script (tests/support/fake_executor.c), and
 * clients on their channels. */
#ifndef TESTS_UNIT_DAEMON_DEVICES_FIXTURE_H
#define TESTS_UNIT_DAEMON_DEVICES_FIXTURE_H

#include "daemon/devices/devices.h"

#define MAX_OPENS 24

/* One device_open, and the client's end of the channel that it gave. */
struct test_open {
    struct device_open open;
    int n_done;
    struct error error;
    char device[DEVICE_LABEL];
    pid_t executor;
    int fd; /* -1: none */
    uint32_t last_id;
};

extern struct kernel_store *store;
extern struct devices *devices;
extern struct devices_options options;
extern struct stats_reply stats;
extern struct test_open opens[MAX_OPENS];
extern int n_done; /* of all opens */

/* For .init and .fini. The end fails the test when an executor, a channel, a handle or a descriptor is left. */
void devices_setup(void);
void devices_teardown(void);

/* What executors that are started from now on do. */
void script(const char *words);
void start(const char *words);
/* The same, until it is known what there is. */
void start_known(const char *words);
void close_devices(void);

/* Begin to open a device, as the client of that number. */
struct test_open *begin(int number, const char *name, uid_t uid, bool session);
/* And wait for what comes of it. */
struct test_open *open_as(int number, const char *name, uid_t uid, bool session);
struct test_open *open_well(int number, const char *name);
/* The error's text. */
const char *open_badly(int number, const char *name, enum status code);
void hang_up(int number);

/* The client speaks; the loop turns meanwhile. */
void ask(struct test_open *test, enum method method, const void *params);
/* The executor answers. */
bool works(struct test_open *test);
void channel_ends(struct test_open *test);
/* The executor gets the kernel of the number (held.h), whose image has that size: 0, or the failure's code. */
unsigned define(struct test_open *test, unsigned number, size_t image_size);
/* End the executor: with a fault of the kernel that was defined last, and without a word. */
void fault(struct test_open *test);
void exit_silently(struct test_open *test);

#endif
