/* Where `fusionctl run` launches: a CUDA context of this process, or a device of the daemon. */
#ifndef CLIENT_FUSIONCTL_RUN_DEVICE_H
#define CLIENT_FUSIONCTL_RUN_DEVICE_H

#include "client/fusionctl/run_data.h"

struct run_device;

/* Called in this order, each once, but time any number of times. */
struct run_device_ops {
    int (*load)(struct run_device *device, struct fusiond_fusion *fusion, const struct fusiond_kernel *kernel,
                struct error *error);
    /* Memory for the call, with the inputs. Both stay the caller's and must outlive the device. */
    int (*place)(struct run_device *device, struct run_call *call, const struct run_data *data, struct error *error);
    /* Launch once, on outputs with all bits set (NaN), and wait. */
    int (*launch)(struct run_device *device, struct fusiond_launch *ret, struct error *error);
    /* Copy all outputs back. */
    int (*read)(struct run_device *device, struct run_data *data, struct error *error);
    /* Launch n times back to back and give the device times of each, ascending. */
    int (*time)(struct run_device *device, unsigned n, uint64_t *ret_ns, struct error *error);
    void (*destroy)(struct run_device *device);
};

/* The beginning of both. Owner: the verb. */
struct run_device {
    const struct run_device_ops *ops;
    char name[128];
    const char *target; /* what to compile for; NULL: what the fusion or the local device says */
};

/* The primary context of a device, current in this thread until it is destroyed. NO_DRIVER. */
int run_local_open(int ordinal, struct run_device **ret, struct error *error);

/* As fusiond_device_open. */
int run_daemon_open(struct fusiond_connection *connection, const char *name, struct run_device **ret,
                    struct error *error);

/* What the library said, for our own. Returns -1. */
int run_error(const struct fusiond_error *from, struct error *ret);

/* Ascending. */
void run_sort_times(uint64_t *times, size_t n);

#endif
