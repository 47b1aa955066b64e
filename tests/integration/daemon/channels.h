/* Tests: devices of a daemon, and the channels to their executors. */
#ifndef TESTS_INTEGRATION_DAEMON_CHANNELS_H
#define TESTS_INTEGRATION_DAEMON_CHANNELS_H

#include "tests/integration/daemon/fixture.h"

/* One of the devices of the client `from`, by its name (NULL: the default one): 0, and the device (unless NULL), its
 * executor and the channel; or the failure's code. The device is good until the next call. */
unsigned channel_try(struct wire *from, const char *name, bool session, const struct device **ret_device,
                     pid_t *ret_pid, struct wire *ret, struct failure *ret_failure);
/* The same, which must succeed. The executor's pid. */
pid_t channel_open(struct wire *from, const char *name, bool session, struct wire *ret);
/* Its executor answers. */
bool channel_works(struct wire *channel);

/* Within 10 s the daemon counts so many. */
void executors_become(const struct daemon_process *daemon, uint64_t executors, uint64_t channels, uint64_t faults);
/* None of the processes is there any more, but perhaps for whoever must reap it. */
void no_process_is_left(const pid_t *pids, size_t n);

#endif
