/* The CUDA driver for tests that need a device: found and loaded if there is one, no CUDA header needed.
 * A process that has used it must not fork children that use CUDA: call gpu_open inside a test. */
#ifndef TESTS_SUPPORT_GPU_H
#define TESTS_SUPPORT_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t gpu_pointer;
struct gpu_kernel; /* lives until the process ends */

/* Initialise device 0. false with a sentence in `why` when there is no driver or no device. */
bool gpu_open(char why[static 256]);

/* The device's real target, "sm_90a" (with the suffix where the architecture has one). */
const char *gpu_target(void);

/* The rest ends the process with a message when the driver reports an error. */
gpu_pointer gpu_alloc(size_t size);
void gpu_free(gpu_pointer pointer);
void gpu_write(gpu_pointer to, const void *from, size_t size);
void gpu_read(void *to, gpu_pointer from, size_t size);

const struct gpu_kernel *gpu_load(const void *image, const char *symbol);
/* What the driver calls it; NULL when it does not tell. */
const char *gpu_kernel_name(const struct gpu_kernel *kernel);
/* Run one grid to its end. `args` are pointers to the arguments. */
void gpu_run(const struct gpu_kernel *kernel, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
             void **args);

#endif
