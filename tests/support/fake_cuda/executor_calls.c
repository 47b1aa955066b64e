/*
 * The entry points that only an executor uses: streams that do everything at once, pinned memory from malloc, virtual
 * memory on memfds, IPC handles that hold an address.
 *
 * FAKE_CUDA_STUCK=1: no completion number is written, as if a kernel never ended.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_cuda/fake_cuda.h"

#define SCRIPTED(call)                                                                                                 \
    int failed = fake_cuda_scripted(call);                                                                             \
    if (failed)                                                                                                        \
    return failed

EXPORT int fake_cuda_streams, fake_cuda_pinned, fake_cuda_virtual, fake_cuda_opened;

/* ---- the device ---- */

EXPORT int cuDeviceGetUuid(uint8_t uuid[16], int device)
{
    SCRIPTED("cuDeviceGetUuid");
    for (int i = 0; i < 16; i++)
        uuid[i] = (uint8_t)(0xa0 + i);
    return device == 7 ? 0 : 101;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int size, int device)
{
    SCRIPTED("cuDeviceGetPCIBusId");
    snprintf(id, (size_t)size, "0000:1b:00.0");
    return device == 7 ? 0 : 101;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    SCRIPTED("cuDeviceTotalMem_v2");
    *bytes = (size_t)1 << 30;
    return device == 7 ? 0 : 101;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SCRIPTED("cuCtxGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return 0;
}

/* ---- streams ---- */

EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    SCRIPTED("cuStreamCreateWithPriority");
    *stream = &fake_cuda_streams;
    fake_cuda_streams++;
    return flags == 1 && priority <= 0 && priority >= -5 ? 0 : 1;
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
    fake_cuda_streams--;
    SCRIPTED("cuStreamDestroy_v2");
    return stream == &fake_cuda_streams ? 0 : 400;
}

EXPORT int cuStreamQuery(void *stream)
{
    SCRIPTED("cuStreamQuery");
    return stream != &fake_cuda_streams ? 400 : getenv("FAKE_CUDA_STUCK") ? 600 : 0;
}

EXPORT int cuStreamSynchronize(void *stream)
{
    (void)stream;
    SCRIPTED("cuStreamSynchronize");
    return 0;
}

EXPORT int cuStreamWriteValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    SCRIPTED("cuStreamWriteValue32_v2");
    if (stream != &fake_cuda_streams || flags)
        return 1;
    if (!getenv("FAKE_CUDA_STUCK"))
        *(volatile uint32_t *)(uintptr_t)address = value;
    return 0;
}

EXPORT int cuEventQuery(void *event)
{
    (void)event;
    SCRIPTED("cuEventQuery");
    return 0;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream)
{
    (void)stream;
    SCRIPTED("cuMemcpyHtoDAsync_v2");
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream)
{
    (void)stream;
    SCRIPTED("cuMemcpyDtoHAsync_v2");
    memcpy(to, (const void *)(uintptr_t)from, size);
    return 0;
}

EXPORT int cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, void *stream)
{
    (void)stream;
    SCRIPTED("cuMemsetD8Async");
    memset((void *)(uintptr_t)address, value, size);
    return 0;
}

/* ---- launches ---- */

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int block_size, size_t shared_bytes)
{
    (void)function, (void)shared_bytes;
    SCRIPTED("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *blocks = 2048 / block_size;
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra);

EXPORT int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned shared, void *stream, void **params)
{
    SCRIPTED("cuLaunchCooperativeKernel");
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, params, NULL);
}

/* ---- pinned memory ---- */

EXPORT int cuMemHostAlloc(void **at, size_t size, unsigned flags)
{
    (void)flags;
    SCRIPTED("cuMemHostAlloc");
    *at = calloc(1, size);
    fake_cuda_pinned++;
    return *at ? 0 : 2;
}

EXPORT int cuMemFreeHost(void *at)
{
    free(at);
    fake_cuda_pinned--;
    SCRIPTED("cuMemFreeHost");
    return 0;
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *address, void *at, unsigned flags)
{
    (void)flags;
    SCRIPTED("cuMemHostGetDevicePointer_v2");
    *address = (uint64_t)(uintptr_t)at;
    return 0;
}

/* ---- the pool; FAKE_CUDA_NO_POOL=1: there is none ---- */

int cuMemAlloc_v2(uint64_t *address, size_t size);
int cuMemFree_v2(uint64_t address);

EXPORT int cuDeviceGetDefaultMemPool(void **pool, int device)
{
    SCRIPTED("cuDeviceGetDefaultMemPool");
    *pool = &fake_cuda_pinned;
    return device == 7 && !getenv("FAKE_CUDA_NO_POOL") ? 0 : 801;
}

EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value)
{
    (void)value;
    SCRIPTED("cuMemPoolSetAttribute");
    return pool == &fake_cuda_pinned && attribute == 4 ? 0 : 1;
}

EXPORT int cuMemAllocAsync(uint64_t *address, size_t size, void *stream)
{
    SCRIPTED("cuMemAllocAsync");
    return stream == &fake_cuda_streams ? cuMemAlloc_v2(address, size) : 1;
}

EXPORT int cuMemFreeAsync(uint64_t address, void *stream)
{
    (void)stream;
    SCRIPTED("cuMemFreeAsync");
    return cuMemFree_v2(address);
}

/* ---- virtual memory: a handle is a memfd and one ---- */

EXPORT int cuMemGetAllocationGranularity(size_t *granularity, const void *allocation, int option)
{
    (void)allocation, (void)option;
    SCRIPTED("cuMemGetAllocationGranularity");
    *granularity = 65536;
    return 0;
}

EXPORT int cuMemCreate(uint64_t *handle, size_t size, const void *allocation, uint64_t flags)
{
    (void)allocation, (void)flags;
    SCRIPTED("cuMemCreate");
    int fd = memfd_create("fake", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        return 2;
    fake_cuda_virtual++;
    *handle = (uint64_t)fd + 1;
    return 0;
}

EXPORT int cuMemRelease(uint64_t handle)
{
    close((int)(handle - 1));
    fake_cuda_virtual--;
    SCRIPTED("cuMemRelease");
    return 0;
}

EXPORT int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wish, uint64_t flags)
{
    (void)alignment, (void)wish, (void)flags;
    SCRIPTED("cuMemAddressReserve");
    void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *address = (uint64_t)(uintptr_t)at;
    return at == MAP_FAILED ? 2 : 0;
}

EXPORT int cuMemAddressFree(uint64_t address, size_t size)
{
    munmap((void *)(uintptr_t)address, size);
    SCRIPTED("cuMemAddressFree");
    return 0;
}

EXPORT int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags)
{
    (void)flags;
    SCRIPTED("cuMemMap");
    /* As a real driver has it: an allocation is mapped as a whole. */
    if (offset || lseek((int)(handle - 1), 0, SEEK_END) != (off_t)size)
        return 801;
    void *at =
        mmap((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)(handle - 1), 0);
    return at == MAP_FAILED ? 2 : 0;
}

EXPORT int cuMemUnmap(uint64_t address, size_t size)
{
    SCRIPTED("cuMemUnmap");
    return mmap((void *)(uintptr_t)address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                   MAP_FAILED
               ? 1
               : 0;
}

EXPORT int cuMemSetAccess(uint64_t address, size_t size, const void *access, size_t n)
{
    (void)address, (void)size, (void)access;
    SCRIPTED("cuMemSetAccess");
    return n == 1 ? 0 : 1;
}

EXPORT int cuMemExportToShareableHandle(void *shareable, uint64_t handle, int type, uint64_t flags)
{
    (void)flags;
    SCRIPTED("cuMemExportToShareableHandle");
    int fd = dup((int)(handle - 1));
    memcpy(shareable, &fd, sizeof fd);
    return type == 1 && fd >= 0 ? 0 : 1;
}

EXPORT int cuMemImportFromShareableHandle(uint64_t *handle, void *shareable, int type)
{
    SCRIPTED("cuMemImportFromShareableHandle");
    int fd = dup((int)(intptr_t)shareable);
    if (type != 1 || fd < 0)
        return 1;
    fake_cuda_virtual++;
    *handle = (uint64_t)fd + 1;
    return 0;
}

/* ---- IPC ---- */

struct ipc_handle {
    char bytes[64];
};

EXPORT int cuIpcOpenMemHandle_v2(uint64_t *address, struct ipc_handle handle, unsigned flags)
{
    SCRIPTED("cuIpcOpenMemHandle_v2");
    memcpy(address, handle.bytes, sizeof *address);
    fake_cuda_opened++;
    return flags == 1 ? 0 : 1;
}

EXPORT int cuIpcCloseMemHandle(uint64_t address)
{
    (void)address;
    fake_cuda_opened--;
    SCRIPTED("cuIpcCloseMemHandle");
    return 0;
}
