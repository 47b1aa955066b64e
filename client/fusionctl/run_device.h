/* Device memory and timing for `fusionctl run`. */
#ifndef CLIENT_FUSIONCTL_RUN_DEVICE_H
#define CLIENT_FUSIONCTL_RUN_DEVICE_H

#include "client/fusionctl/run_call.h"
#include "daemon/launch/driver.h"

/* A tensor's memory on both sides. */
struct run_buffer {
    uint64_t address;
    size_t size;      /* bytes; 0 for an empty tensor or another parameter */
    uint8_t *host;    /* inputs: what was copied to the device; outputs: filled by run_device_read */
    int64_t elements; /* logical ones */
};

/* The primary context of a device, current in this thread until finish. Owner: the verb. */
struct run_device {
    const struct driver *driver;
    int device;
    void *context;
    char name[128];
    size_t n;
    struct run_buffer *buffers; /* one per parameter */
};

/* -1 with NO_DRIVER when there is no driver or no such device. */
int run_device_init(int ordinal, struct run_device *ret, struct error *error);
void run_device_finish(struct run_device *device);

/* Allocate every tensor: inputs with random numbers that follow from the seed, outputs with all bits set (NaN, -1).
 * Fills in the addresses of the call's arguments. */
int run_device_fill(struct run_device *device, struct run_call *run, uint64_t seed, struct error *error);

/* Copy an output back, all of its memory. */
int run_device_read(struct run_device *device, size_t param, struct error *error);

int run_device_wait(struct run_device *device, struct error *error);

/* Launch n times back to back and give the device times between the launches' ends, in nanoseconds, ascending. */
struct run_launcher {
    int (*launch)(void *data, struct error *error);
    void *data;
};
int run_device_time(struct run_device *device, const struct run_launcher *launcher, size_t n, uint64_t *ret_ns,
                    struct error *error);

#endif
