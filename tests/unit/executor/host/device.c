/* tests/gpu/preamble/device.h and the part of tests/support/gpu.h that its tests use, on the host device: the same
 * tests prove the preamble's numbers there. */
#include "tests/gpu/preamble/device.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/host_kernel.h"

struct gpu_kernel {
    struct host_image *image;
    char name[64];
    struct gpu_kernel *previous;
};

/* They live until the process ends. */
static struct gpu_kernel *kernels;

void need_device(void)
{
    char why[256];
    if (host_kernel_is_missing(why))
        cr_skip_test("%s", why);
}

const struct gpu_kernel *device_kernel(const char *file, const char *name, const char *const *defines)
{
    char path[256], log[HOST_KERNEL_LOG];
    const char *const entries[] = {name, NULL};
    struct gpu_kernel *kernel = malloc(sizeof *kernel);
    cr_assert(kernel);
    snprintf(path, sizeof path, "tests/gpu/preamble/%s", file);
    char *code = host_kernel_read(path);
    const struct host_kernel_source source = {.code = code, .index_bits = 64, .entries = entries, .defines = defines};
    kernel->image = host_kernel_build(&source, log);
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->previous = kernels;
    kernels = kernel;
    free(code);
    cr_assert(kernel->image, "%s of %s: %s", name, file, log);
    return kernel;
}

gpu_pointer gpu_alloc(size_t size)
{
    void *memory = aligned_alloc(256, (size + 255) / 256 * 256);
    cr_assert(memory);
    return (uintptr_t)memory;
}

void gpu_free(gpu_pointer pointer)
{
    free((void *)(uintptr_t)pointer);
}

void gpu_write(gpu_pointer to, const void *from, size_t size)
{
    memcpy((void *)(uintptr_t)to, from, size);
}

void gpu_read(void *to, gpu_pointer from, size_t size)
{
    memcpy(to, (const void *)(uintptr_t)from, size);
}

void gpu_run(const struct gpu_kernel *kernel, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
             void **args)
{
    const struct host_kernel_run run = {.image = kernel->image,
                                        .entry = kernel->name,
                                        .grid = {grid[0], grid[1], grid[2]},
                                        .block = {block[0], block[1], block[2]},
                                        .dynamic_shared = shared_bytes,
                                        .arguments = (const void *const *)args};
    const char *why = host_kernel_run(&run);
    cr_assert(!why, "%s: %s", kernel->name, why);
}
