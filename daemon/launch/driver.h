/* The CUDA driver, opened at run time through a table. Used by the executor and by clients that launch themselves. */
#ifndef DAEMON_LAUNCH_DRIVER_H
#define DAEMON_LAUNCH_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

/* ---- structs of the interface, as the driver lays them out ---- */

/* CUmemAllocationProp: a pinned allocation on a device, shareable by descriptor. */
struct driver_allocation {
    int type;         /* 1: pinned */
    int handle_types; /* 1: POSIX descriptor */
    struct {
        int type; /* 1: device */
        int id;
    } location;
    void *win32;
    unsigned char compression, direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

/* CUmemAccessDesc */
struct driver_access {
    struct {
        int type;
        int id;
    } location;
    int flags; /* 3: read and write */
};

/* CUipcMemHandle, which is passed by value. */
struct driver_ipc_handle {
    char bytes[64];
};

struct driver {
#define DRIVER(field, symbol, need, params) int(*field) params;
#include "daemon/launch/driver.def"
#undef DRIVER
    int version; /* 13000 is 13.0 */
};

/* Numbers of the driver's interface. */
enum {
    DEVICE_MAX_THREADS_PER_BLOCK = 1,
    DEVICE_MAX_BLOCK_X = 2, /* y, z follow */
    DEVICE_MAX_GRID_X = 5,  /* y, z follow */
    DEVICE_MULTIPROCESSORS = 16,
    DEVICE_CAPABILITY_MAJOR = 75,
    DEVICE_CAPABILITY_MINOR = 76,
    DEVICE_MAX_SHARED_PER_BLOCK_OPTIN = 97,
    DEVICE_MPS_ENABLED = 133, /* drivers before 12.2 do not know it */
    FUNCTION_MAX_THREADS_PER_BLOCK = 0,
    FUNCTION_STATIC_SHARED = 1,
    FUNCTION_REGISTERS = 4,
    FUNCTION_MAX_DYNAMIC_SHARED = 8,
    JIT_MAX_REGISTERS = 0,
    JIT_INFO_LOG_BUFFER = 3,
    JIT_INFO_LOG_SIZE = 4,
    JIT_ERROR_LOG_BUFFER = 5,
    JIT_ERROR_LOG_SIZE = 6,
    JIT_OPTIMIZATION_LEVEL = 7,
};

/* Open a driver library and initialise it. It is never closed: threads of its own may still run in it.
 * -1 with NO_DRIVER when there is none, it lacks an entry point, or it finds no device. */
int driver_open(const char *library, struct driver *ret, struct error *error);

/* The process's driver, libcuda.so.1, opened by the first call. NULL with NO_DRIVER, always the same one. */
const struct driver *driver_get(struct error *error);

/* An error for a failed call: DRIVER, "cuModuleLoadDataEx: CUDA_ERROR_…: meaning". Returns -1. */
int driver_failed(const struct driver *driver, const char *call, int result, struct error *error);

/* 90 for compute capability 9.0. */
int driver_capability(const struct driver *driver, int device, unsigned *ret, struct error *error);

/* The device (not its ordinal) that a call without a choice means: the current context's, else the first. */
int driver_default_device(const struct driver *driver, int *ret_device, struct error *error);

#endif
