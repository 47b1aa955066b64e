/* The CUDA back end: what its files share. */
#ifndef DAEMON_EXECUTOR_CUDA_DEVICE_H
#define DAEMON_EXECUTOR_CUDA_DEVICE_H

#include "daemon/executor/device.h"
#include "daemon/launch/driver.h"

/* Owned by the executor, through its first member. */
struct cuda_device {
    struct backend backend;
    const struct driver *driver;
    uv_loop_t *loop;
    int device; /* the driver's number for it */
    void *context;
    char name[256], uuid[48];

    /* Completion: streams that owe marks, and who looks at them. */
    struct list owing; /* struct device_stream */
    uv_idle_t spin;    /* looks again and again, for a while */
    uv_timer_t poll;   /* then now and then */
    uint64_t spin_until_ns;
    void *memory_stream; /* where plain memory comes and goes; NULL: the driver has no pools */
    struct list pages;   /* of completion counters */
    struct list ipc;     /* memory opened by handle */
    struct list staging; /* pinned slots that are free */

    struct error lost; /* code STATUS_OK: it is not */
    bool told;         /* the executor knows */
    int open_handles;
    void (*on_closed)(void *context_of_close);
    void *close_context;
};

static inline struct cuda_device *cuda_device_of(struct backend *backend)
{
    return container_of(backend, struct cuda_device, backend);
}

/* 0 when the result is success. Else -1 with the error (OUT_OF_MEMORY for the driver's, else DRIVER); one after which
 * the process is of no use is remembered and told to the executor, on the loop's next turn. */
int cuda_check(struct cuda_device *device, const char *call, int result, struct error *error);

/* modules.c */
int cuda_load(struct backend *backend, enum image_kind kind, int fd, size_t size, const struct load_options *options,
              struct device_module **ret, struct error *error);
void cuda_unload(struct backend *backend, struct device_module *module);
int cuda_find(struct device_module *module, const char *lowered, const char *name, struct device_function *ret,
              struct error *error);
/* Before a launch with more than 48 KiB of dynamic shared memory. */
int cuda_allow_shared(struct cuda_device *device, const struct device_function *function, int64_t bytes,
                      struct error *error);

/* memory.c */
/* A stream and a pool for memory that is not shared; without them every free waits for the whole device. */
int cuda_memory_open(struct cuda_device *device, struct error *error);
void cuda_memory_close(struct cuda_device *device);
int cuda_allocate(struct backend *backend, uint64_t size, bool exportable, struct device_memory *ret,
                  struct error *error);
int cuda_import(struct backend *backend, const struct device_import *from, struct device_memory *ret,
                struct error *error);
int cuda_export(struct backend *backend, const struct device_memory *memory, enum memory_kind *ret_kind,
                uint64_t *ret_size, int *ret_fd, struct error *error);
void cuda_release(struct backend *backend, struct device_memory *memory);

/* stream.c */
int cuda_stream_create(struct backend *backend, int64_t priority, struct device_stream **ret, struct error *error);
void cuda_stream_destroy(struct device_stream *stream);
int cuda_launch(struct device_stream *stream, const struct device_function *function,
                const struct launch_params *params, bool cooperative, const struct argument_bytes *arguments,
                struct error *error);
int cuda_write(struct device_stream *stream, uint64_t address, const void *from, uint64_t size, struct error *error);
int cuda_read(struct device_stream *stream, void *to, uint64_t address, uint64_t size, struct error *error);
int cuda_fill(struct device_stream *stream, uint64_t address, uint8_t value, uint64_t size, struct error *error);
void cuda_mark(struct device_stream *stream, struct device_mark *mark);
int cuda_stamp(struct device_stream *stream, struct device_stamp **ret, struct error *error);
int cuda_elapsed(const struct device_stamp *from, const struct device_stamp *to, uint64_t *ret_ns, struct error *error);
void cuda_stamp_destroy(struct device_stamp *stamp);

/* Look at what streams owe: from the device's handles. */
void cuda_streams_look(struct cuda_device *device, bool thoroughly);
/* The device is lost: every mark under way is called with the error. */
void cuda_streams_fail(struct cuda_device *device);
/* Something is owed: begin to look. */
void cuda_device_watch(struct cuda_device *device);
/* Free counters and slots. No stream is left. */
void cuda_streams_finish(struct cuda_device *device);

#endif
