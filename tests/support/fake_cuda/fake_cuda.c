/*
 * A CUDA driver for tests on machines without one: libcuda.so.1 with the entry points of daemon/launch/driver.def,
 * "device memory" from malloc, and one kernel, transpose of tests/fusions, done in plain C from its argument bytes.
 *
 * Environment: FAKE_CUDA_FAIL=cuModuleLoadDataEx:209 makes a call fail with that number, every time;
 * FAKE_CUDA_MPS=1 says that MPS runs; FAKE_CUDA_WRONG=1 makes the kernel write one wrong number; FAKE_CUDA_INDEX=64
 * says that the image has 64-bit indices.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda/fake_cuda.h"

/* What the tests may look at, by dlsym. */
EXPORT int fake_cuda_jit_registers, fake_cuda_jit_level; /* of the last load; -1: not told */
EXPORT int fake_cuda_modules, fake_cuda_allocations, fake_cuda_retained, fake_cuda_pushed, fake_cuda_events;

static int a_context, a_module, a_function;
static void *current;
static int max_dynamic_shared = 48 << 10;

int fake_cuda_scripted(const char *call)
{
    const char *fail = getenv("FAKE_CUDA_FAIL");
    size_t size = strlen(call);
    if (!fail || strncmp(fail, call, size) != 0 || fail[size] != ':')
        return 0;
    return atoi(fail + size + 1);
}

static int index_size(void)
{
    const char *index = getenv("FAKE_CUDA_INDEX");
    return index && strcmp(index, "64") == 0 ? 8 : 4;
}

EXPORT int cuInit(unsigned flags)
{
    int failed = fake_cuda_scripted("cuInit");
    if (failed)
        return failed;
    return flags ? 1 : 0;
}

EXPORT int cuDriverGetVersion(int *version)
{
    int failed = fake_cuda_scripted("cuDriverGetVersion");
    if (failed)
        return failed;
    *version = 13000;
    return 0;
}

EXPORT int cuGetErrorName(int result, const char **name)
{
    *name = "CUDA_ERROR_SCRIPTED";
    return result ? 0 : 1;
}

EXPORT int cuGetErrorString(int result, const char **text)
{
    *text = "as the test wants";
    return result ? 0 : 1;
}

EXPORT int cuDeviceGetCount(int *count)
{
    int failed = fake_cuda_scripted("cuDeviceGetCount");
    if (failed)
        return failed;
    *count = 1;
    return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    int failed = fake_cuda_scripted("cuDeviceGet");
    if (failed)
        return failed;
    *device = 7;
    return ordinal == 0 ? 0 : 101;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    int failed = fake_cuda_scripted("cuDeviceGetName");
    if (failed)
        return failed;
    snprintf(name, (size_t)size, "fake device");
    return device == 7 ? 0 : 101;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const int values[133] = {[1] = 1024,  [2] = 1024, [3] = 1024, [4] = 64, [5] = 2147483647, [6] = 65535,
                                    [7] = 65535, [16] = 132, [75] = 9,   [76] = 0, [97] = 232448};
    int failed = fake_cuda_scripted("cuDeviceGetAttribute");
    if (failed)
        return failed;
    if (attribute < 0 || attribute > 133)
        return 1;
    *value = attribute == 133 ? getenv("FAKE_CUDA_MPS") != NULL : values[attribute];
    return device == 7 ? 0 : 101;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    int failed = fake_cuda_scripted("cuDevicePrimaryCtxRetain");
    if (failed)
        return failed;
    *context = &a_context;
    fake_cuda_retained++;
    return device == 7 ? 0 : 101;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    fake_cuda_retained--;
    int failed = fake_cuda_scripted("cuDevicePrimaryCtxRelease_v2");
    if (failed)
        return failed;
    return device == 7 ? 0 : 101;
}

EXPORT int cuCtxGetCurrent(void **context)
{
    int failed = fake_cuda_scripted("cuCtxGetCurrent");
    if (failed)
        return failed;
    *context = current;
    return 0;
}

EXPORT int cuCtxGetDevice(int *device)
{
    int failed = fake_cuda_scripted("cuCtxGetDevice");
    if (failed)
        return failed;
    *device = 7;
    return current ? 0 : 201;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
    int failed = fake_cuda_scripted("cuCtxPushCurrent_v2");
    if (failed)
        return failed;
    fake_cuda_pushed++;
    current = context;
    return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
    *context = current;
    if (--fake_cuda_pushed == 0)
        current = NULL;
    int failed = fake_cuda_scripted("cuCtxPopCurrent_v2");
    if (failed)
        return failed;
    return 0;
}

EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned n_options, int *options, void **values)
{
    int result = fake_cuda_scripted("cuModuleLoadDataEx");
    for (unsigned i = 0; result && i < n_options; i++) {
        if (options[i] == 5)
            strcpy(values[i], "the loader's own words");
    }
    if (result)
        return result;
    if (!image || !current)
        return 1;
    fake_cuda_jit_registers = fake_cuda_jit_level = -1;
    for (unsigned i = 0; i < n_options; i++) {
        if (options[i] == 0)
            fake_cuda_jit_registers = (int)(intptr_t)values[i];
        if (options[i] == 7)
            fake_cuda_jit_level = (int)(intptr_t)values[i];
    }
    *module = &a_module;
    fake_cuda_modules++;
    return 0;
}

EXPORT int cuModuleUnload(void *module)
{
    fake_cuda_modules--;
    int failed = fake_cuda_scripted("cuModuleUnload");
    if (failed)
        return failed;
    return module == &a_module ? 0 : 400;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
    int failed = fake_cuda_scripted("cuModuleGetFunction");
    if (failed)
        return failed;
    *function = &a_function;
    return module == &a_module && strstr(name, "transpose") ? 0 : 500;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    int failed = fake_cuda_scripted("cuFuncGetAttribute");
    if (failed)
        return failed;
    *value = attribute == 0 ? 1024 : attribute == 1 ? 16640 : attribute == 8 ? max_dynamic_shared : 0;
    return function == &a_function ? 0 : 400;
}

EXPORT int cuFuncSetAttribute(void *function, int attribute, int value)
{
    int failed = fake_cuda_scripted("cuFuncSetAttribute");
    if (failed)
        return failed;
    if (function != &a_function || attribute != 8)
        return 1;
    max_dynamic_shared = value;
    return 0;
}

EXPORT int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size)
{
    int failed = fake_cuda_scripted("cuFuncGetParamInfo");
    if (failed)
        return failed;
    if (function != &a_function || index > 1)
        return 1;
    *size = 8 + 4 * (size_t)index_size();
    *offset = index * *size;
    return 0;
}

/* One size or stride of a tensor's bytes. */
static int64_t index_at(const void *tensor, int i)
{
    int32_t narrow;
    int64_t wide;
    const char *at = (const char *)tensor + 8 + i * index_size();
    if (index_size() == 8) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static float *data_of(const void *tensor)
{
    uint64_t address;
    memcpy(&address, tensor, sizeof address);
    return (float *)(uintptr_t)address;
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra)
{
    (void)stream;
    int failed = fake_cuda_scripted("cuLaunchKernel");
    if (failed)
        return failed;
    if (function != &a_function || !current || extra || bx != 64 || by != 8 || bz != 1 || gy != 1 || gz != 1)
        return 1;
    if (shared > (unsigned)max_dynamic_shared)
        return 1;
    int64_t rows = index_at(params[0], 0), columns = index_at(params[0], 1);
    if ((int64_t)gx != (rows + 63) / 64 * ((columns + 63) / 64))
        return 1;
    const float *from = data_of(params[0]);
    float *to = data_of(params[1]);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column++)
            to[column * index_at(params[1], 2) + row * index_at(params[1], 3)] =
                from[row * index_at(params[0], 2) + column * index_at(params[0], 3)];
    }
    if (getenv("FAKE_CUDA_WRONG"))
        to[rows * columns - 1] += 1.0f;
    return 0;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    int failed = fake_cuda_scripted("cuMemAlloc_v2");
    if (failed)
        return failed;
    void *memory = malloc(size);
    if (!memory)
        return 2;
    *address = (uint64_t)(uintptr_t)memory;
    fake_cuda_allocations++;
    return 0;
}

EXPORT int cuMemFree_v2(uint64_t address)
{
    free((void *)(uintptr_t)address);
    fake_cuda_allocations--;
    int failed = fake_cuda_scripted("cuMemFree_v2");
    if (failed)
        return failed;
    return 0;
}

EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
    int failed = fake_cuda_scripted("cuMemcpyHtoD_v2");
    if (failed)
        return failed;
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}

EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
    int failed = fake_cuda_scripted("cuMemcpyDtoH_v2");
    if (failed)
        return failed;
    memcpy(to, (const void *)(uintptr_t)from, size);
    return 0;
}

EXPORT int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t size)
{
    int failed = fake_cuda_scripted("cuMemsetD8_v2");
    if (failed)
        return failed;
    memset((void *)(uintptr_t)address, value, size);
    return 0;
}

EXPORT int cuCtxSetCurrent(void *context)
{
    int failed = fake_cuda_scripted("cuCtxSetCurrent");
    if (failed)
        return failed;
    current = context;
    return 0;
}

EXPORT int cuCtxSynchronize(void)
{
    int failed = fake_cuda_scripted("cuCtxSynchronize");
    if (failed)
        return failed;
    return 0;
}

EXPORT int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    int failed = fake_cuda_scripted("cuEventCreate");
    if (failed)
        return failed;
    *event = &fake_cuda_events;
    fake_cuda_events++;
    return 0;
}

EXPORT int cuEventDestroy_v2(void *event)
{
    fake_cuda_events--;
    int failed = fake_cuda_scripted("cuEventDestroy_v2");
    if (failed)
        return failed;
    return event == &fake_cuda_events ? 0 : 400;
}

EXPORT int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    int failed = fake_cuda_scripted("cuEventRecord");
    if (failed)
        return failed;
    return event == &fake_cuda_events ? 0 : 400;
}

EXPORT int cuEventSynchronize(void *event)
{
    int failed = fake_cuda_scripted("cuEventSynchronize");
    if (failed)
        return failed;
    return event == &fake_cuda_events ? 0 : 400;
}

EXPORT int cuEventElapsedTime(float *ms, void *start, void *end)
{
    (void)start, (void)end;
    int failed = fake_cuda_scripted("cuEventElapsedTime");
    if (failed)
        return failed;
    *ms = 0.125f;
    return 0;
}
