/* What a profiler sees of launches: the names of kernels, by CUPTI's callbacks. No CUDA header needed. */
#ifndef TESTS_GPU_CLIENT_LAUNCH_TRACE_H
#define TESTS_GPU_CLIENT_LAUNCH_TRACE_H

#include <stdbool.h>

/* Watch this process's launches from now on. false with a sentence in `why` when there is no CUPTI. */
bool launch_trace_open(char why[static 256]);

/* The name of the kernel that was launched last, mangled as it is in the image; "" when there was none since the last
 * call. */
const char *launch_trace_take(void);

#endif
