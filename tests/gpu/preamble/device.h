/* What the preamble's tests on a device share: a kernel of a file beside this one, compiled and loaded. */
#ifndef TESTS_GPU_PREAMBLE_DEVICE_H
#define TESTS_GPU_PREAMBLE_DEVICE_H

#include "tests/support/gpu.h"

/* Skips the test if there is no device or no NVRTC. */
void need_device(void);

/* The kernel `name` ("reduce<float>") of tests/gpu/preamble/<file>, with a 64-bit index. Fails the test if it does
 * not compile. `defines` as in rtc.h. */
const struct gpu_kernel *device_kernel(const char *file, const char *name, const char *const *defines);

#endif
