/* The driver through a small table of its own. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu.h"

static struct {
    int (*init)(unsigned flags);
    int (*error_name)(int code, const char **name);
    int (*device_get)(int *device, int ordinal);
    int (*attribute)(int *value, int attribute, int device);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*alloc)(gpu_pointer *pointer, size_t size);
    int (*free)(gpu_pointer pointer);
    int (*write)(gpu_pointer to, const void *from, size_t size);
    int (*read)(void *to, gpu_pointer from, size_t size);
    int (*load)(void **module, const void *image);
    int (*function)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **args, void **extra);
    int (*set_attribute)(void *function, int attribute, int value);
    int (*synchronize)(void);
    int (*function_name)(const char **name, const void *function); /* NULL before CUDA 12.3 */
} cu;

static const struct {
    const char *symbol;
    void *slot;
} entries[] = {
    {"cuInit", &cu.init},
    {"cuGetErrorName", &cu.error_name},
    {"cuDeviceGet", &cu.device_get},
    {"cuDeviceGetAttribute", &cu.attribute},
    {"cuDevicePrimaryCtxRetain", &cu.retain},
    {"cuCtxSetCurrent", &cu.set_current},
    {"cuMemAlloc_v2", &cu.alloc},
    {"cuMemFree_v2", &cu.free},
    {"cuMemcpyHtoD_v2", &cu.write},
    {"cuMemcpyDtoH_v2", &cu.read},
    {"cuModuleLoadData", &cu.load},
    {"cuModuleGetFunction", &cu.function},
    {"cuLaunchKernel", &cu.launch},
    {"cuFuncSetAttribute", &cu.set_attribute},
    {"cuCtxSynchronize", &cu.synchronize},
};

enum {
    CAPABILITY_MAJOR = 75, /* device attributes */
    CAPABILITY_MINOR = 76,
    MAX_DYNAMIC_SHARED = 8, /* a function attribute */
};

static char target[16];

static const char *name_of(int code)
{
    const char *name = NULL;
    return cu.error_name && cu.error_name(code, &name) == 0 && name ? name : "an unknown error";
}

static void check(int code, const char *what)
{
    if (code == 0)
        return;
    fprintf(stderr, "%s: %s\n", what, name_of(code));
    abort();
}

bool gpu_open(char why[static 256])
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, 256, "no CUDA driver (libcuda.so.1)");
        return false;
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *entry = dlsym(library, entries[i].symbol);
        if (!entry) {
            snprintf(why, 256, "this CUDA driver has no %s", entries[i].symbol);
            return false;
        }
        memcpy(entries[i].slot, &entry, sizeof(entry));
    }
    void *function_name = dlsym(library, "cuFuncGetName");
    memcpy(&cu.function_name, &function_name, sizeof function_name);
    int code = cu.init(0);
    int device = 0;
    if (code == 0)
        code = cu.device_get(&device, 0);
    if (code != 0) {
        snprintf(why, 256, "no CUDA device: %s", name_of(code));
        return false;
    }
    int major = 0;
    int minor = 0;
    void *context = NULL;
    check(cu.attribute(&major, CAPABILITY_MAJOR, device), "cuDeviceGetAttribute");
    check(cu.attribute(&minor, CAPABILITY_MINOR, device), "cuDeviceGetAttribute");
    check(cu.retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cu.set_current(context), "cuCtxSetCurrent");
    snprintf(target, sizeof(target), "sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
    return true;
}

const char *gpu_target(void)
{
    return target;
}

gpu_pointer gpu_alloc(size_t size)
{
    gpu_pointer pointer = 0;
    check(cu.alloc(&pointer, size), "cuMemAlloc");
    return pointer;
}

void gpu_free(gpu_pointer pointer)
{
    check(cu.free(pointer), "cuMemFree");
}

void gpu_write(gpu_pointer to, const void *from, size_t size)
{
    check(cu.write(to, from, size), "cuMemcpyHtoD");
}

void gpu_read(void *to, gpu_pointer from, size_t size)
{
    check(cu.read(to, from, size), "cuMemcpyDtoH");
}

const char *gpu_kernel_name(const struct gpu_kernel *kernel)
{
    const char *name = NULL;
    if (cu.function_name)
        check(cu.function_name(&name, kernel), "cuFuncGetName");
    return name;
}

const struct gpu_kernel *gpu_load(const void *image, const char *symbol)
{
    void *module = NULL;
    void *function = NULL;
    check(cu.load(&module, image), "cuModuleLoadData");
    check(cu.function(&function, module, symbol), symbol);
    return function;
}

void gpu_run(const struct gpu_kernel *kernel, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
             void **args)
{
    void *function = (void *)kernel;
    if (shared_bytes > 48 * 1024)
        check(cu.set_attribute(function, MAX_DYNAMIC_SHARED, (int)shared_bytes), "cuFuncSetAttribute");
    check(cu.launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, NULL, args, NULL),
          "cuLaunchKernel");
    check(cu.synchronize(), "cuCtxSynchronize");
}
