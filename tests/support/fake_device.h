/*
 * Tests: a device for the executor whose kernels are functions of the test, whose memory is malloc's, and which works
 * only as far as the test lets it. Work of one stream runs in order; of several, round about.
 *
 * An image is a text of lines "LOWERED [SIZE of each parameter]", "LOWERED ?" when it does not tell; what runs is the
 * kernel that the test gave that name.
 */
#ifndef TESTS_SUPPORT_FAKE_DEVICE_H
#define TESTS_SUPPORT_FAKE_DEVICE_H

#include "daemon/executor/device.h"

#define FAKE_KERNELS 16

/* Calls of the back end that can be made to fail. */
enum fake_call {
    FAKE_LOAD,
    FAKE_FIND,
    FAKE_ALLOCATE,
    FAKE_IMPORT,
    FAKE_EXPORT,
    FAKE_STREAM,
    FAKE_LAUNCH,
    FAKE_WRITE,
    FAKE_READ,
    FAKE_FILL,
    FAKE_STAMP,
    FAKE_ELAPSED,
    FAKE_CALLS,
};

/* arguments: as for cuLaunchKernel. NULL is success; else why it traps. */
typedef const char *(*fake_kernel)(const struct launch_params *params, void *const *arguments);

struct fake_device {
    struct backend backend; /* first */
    uv_loop_t *loop;
    uv_async_t wake;
    bool held; /* nothing runs but by fake_device_step */
    struct list streams;
    struct list memory;
    struct {
        const char *name;
        fake_kernel kernel;
    } kernels[FAKE_KERNELS];
    struct {
        unsigned after; /* calls that still succeed */
        enum status code;
    } failures[FAKE_CALLS];
    uint64_t memory_limit; /* bytes that can be allocated at a time */
    uint64_t module_bytes; /* that a loaded module takes of them */
    struct error lost;     /* code 0: not lost */
    uint64_t clock_ns;     /* of the device: a launch takes 1000, all else 10 */

    /* What is there now, and what has been. */
    size_t n_modules, n_memory, n_streams, n_stamps, n_queued;
    uint64_t bytes;
    size_t n_loads, n_launched, n_fills;
    size_t deepest; /* the most that was queued at a time */
    bool last_cooperative;
    struct load_options last_options; /* of the last load */
    const char *misuse;               /* the first breach of device.h; NULL: none */
    void (*on_closed)(void *context);
    void *context;
};

/* Owner: the caller, until the executor has closed the back end; then fake_device_destroy. */
struct fake_device *fake_device_create(uv_loop_t *loop);
void fake_device_destroy(struct fake_device *device);
/* Close its handles, for a test in which nobody else does. */
void fake_device_close(struct fake_device *device);

void fake_device_add(struct fake_device *device, const char *lowered, fake_kernel kernel);

/* Fail a call, once, after so many successes. */
void fake_device_fail(struct fake_device *device, enum fake_call call, unsigned after, enum status code);

/* Run at most n operations now; as from the loop. Returns how many there were. */
size_t fake_device_step(struct fake_device *device, size_t n);
/* Hold what is queued from now on, or run it all. */
void fake_device_hold(struct fake_device *device, bool held);
/* Lose the device: what is queued never happens. */
void fake_device_lose(struct fake_device *device, const char *text);

#endif
