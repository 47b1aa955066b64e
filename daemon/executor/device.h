/*
 * A device back end: what the executor asks of a device, be it a GPU behind the CUDA driver or the CPU.
 *
 * Two of them: daemon/executor/cuda/ and daemon/executor/host/. Everything here is called on the executor's loop and
 * returns without waiting for the device; what takes time is queued on a stream and reported by a mark.
 *
 *   queue work on a stream … ──► device_ops.mark ──► (the device gets there) ──► mark->done, on the loop, once
 *
 * Work of one stream runs in the order in which it was queued; streams are independent of each other. A back end may
 * hold its own threads, uv_async and uv_idle handles on the loop; `close` ends them.
 */
#ifndef DAEMON_EXECUTOR_DEVICE_H
#define DAEMON_EXECUTOR_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/list.h"
#include "daemon/launch/launch.h"
#include "proto/error.h"
#include "proto/message.h"

struct device_ops;

/* What the device is. Texts live as long as the device. */
struct device_facts {
    enum device_kind kind;
    unsigned ordinal;
    struct text name, uuid;
    unsigned capability; /* 90 is 9.0; 0: the host device */
    uint64_t memory_bytes;
    unsigned multiprocessors; /* of the host device: CPU threads that run blocks */
    unsigned driver;          /* 13000 is 13.0; 0: none */
};

/* The same as a message. */
struct device device_describe(const struct device_facts *facts);

/* The beginning of every back end's own struct. Owner: the executor's main. */
struct backend {
    const struct device_ops *ops;
    struct device_facts facts;
    /* Set by the executor before its first call. The device is lost: a kernel has faulted, or the driver has, in a way
     * that only a new process recovers from. Called once, on the loop; every mark still under way is then called with
     * the same error, and every later call fails with it. */
    void (*on_lost)(struct backend *backend, const struct error *error);
    void *owner;
};

/* An image on the device. Made by load, ended by unload. */
struct device_module;

/* One entry of a module; lives as long as that. */
struct device_function {
    void *handle;
    const void *own; /* the back end's */
    struct launch_limits limits;
    unsigned registers; /* 0: unknown */
    uint32_t static_shared_memory;
    bool has_params; /* whether the image tells its parameters: */
    size_t n_params;
    size_t param_sizes[LIMIT_PARAMS];
};

/* Memory that kernels can use, whole: buffers are this and nothing smaller. Made by allocate or import, ended by
 * release, which must come after a mark that everything using it is done. */
struct device_memory {
    uint64_t address; /* what a kernel is given: of the buffer's first byte */
    uint64_t size;    /* of the buffer, as asked for */
    bool exportable;
    void *own; /* the back end's */
};

/* Memory of another process, and which part of it. */
struct device_import {
    enum memory_kind kind;
    int fd;                   /* borrowed; -1: none */
    struct bytes handle;      /* of an IPC allocation */
    uint64_t allocation_size; /* 0: the allocation ends with the part */
    uint64_t offset, size;
};

struct device_stream;

/* Reports that everything queued on a stream before it is done. Embedded in whoever waits; must live until done. */
struct device_mark {
    struct list link; /* the back end's */
    /* error: the first thing that failed among the work since the previous mark of this stream, LAUNCH_FAILED for a
     * kernel; NULL when nothing did. */
    void (*done)(struct device_mark *mark, const struct error *error);
};

/* A moment of a stream, by the device's clock. Made by stamp; may be compared once a mark queued after it is done. */
struct device_stamp;

/* How to make machine code of PTX. No padding: it is a part of a hash's key. */
struct load_options {
    uint32_t max_registers; /* per thread; 0: no limit */
    uint32_t level;         /* 1 + the optimiser's level; 0: the loader's own */
};

/* All return 0, or -1 with an error and *ret untouched. Those without an error cannot fail. */
struct device_ops {
    void (*close)(struct backend *backend, void (*on_closed)(void *context), void *context);

    /* fd: a sealed memfd of the image; borrowed. options: for PTX. LOAD_FAILED holds the loader's log. */
    int (*load)(struct backend *backend, enum image_kind kind, int fd, size_t size, const struct load_options *options,
                struct device_module **ret, struct error *error);
    void (*unload)(struct backend *backend, struct device_module *module);
    /* lowered: the symbol; name: the name expression as the client wrote it (the host device looks entries up by it).
     */
    int (*find)(struct device_module *module, const char *lowered, const char *name, struct device_function *ret,
                struct error *error);

    /* OUT_OF_MEMORY, INVALID_BUFFER. Descriptors are borrowed by import, and the caller's after export. */
    int (*allocate)(struct backend *backend, uint64_t size, bool exportable, struct device_memory *ret,
                    struct error *error);
    int (*import)(struct backend *backend, const struct device_import *from, struct device_memory *ret,
                  struct error *error);
    int (*export)(struct backend *backend, const struct device_memory *memory, enum memory_kind *ret_kind,
                  uint64_t *ret_size, int *ret_fd, struct error *error);
    void (*release)(struct backend *backend, struct device_memory *memory);

    int (*stream_create)(struct backend *backend, int64_t priority, struct device_stream **ret, struct error *error);
    /* After a mark: nothing may be queued on it any more. */
    void (*stream_destroy)(struct device_stream *stream);

    /* Queue. Argument bytes and parameters are copied; parameters have passed launch_params_check. `from` and `to` must
     * live until a mark queued afterwards is done. fill sets every byte. */
    int (*launch)(struct device_stream *stream, const struct device_function *function,
                  const struct launch_params *params, bool cooperative, const struct argument_bytes *arguments,
                  struct error *error);
    int (*write)(struct device_stream *stream, uint64_t address, const void *from, uint64_t size, struct error *error);
    int (*read)(struct device_stream *stream, void *to, uint64_t address, uint64_t size, struct error *error);
    int (*fill)(struct device_stream *stream, uint64_t address, uint8_t value, uint64_t size, struct error *error);
    /* Never calls back before it has returned. */
    void (*mark)(struct device_stream *stream, struct device_mark *mark);

    int (*stamp)(struct device_stream *stream, struct device_stamp **ret, struct error *error);
    int (*elapsed)(const struct device_stamp *from, const struct device_stamp *to, uint64_t *ret_ns,
                   struct error *error);
    /* NULL is fine, and so is one that the stream has not reached. */
    void (*stamp_destroy)(struct device_stamp *stamp);
};

/* Describe the devices of a kind without keeping them (for --probe): appended to ret. problem: a sentence when there is
 * none. Texts live as long as the process. */
size_t cuda_devices_probe(struct device *ret, size_t room, bool *ret_mps, char problem[ERROR_TEXT]);
size_t host_devices_probe(struct device *ret, size_t room, char problem[ERROR_TEXT]);

/* Open a back end. NO_DEVICE, NO_DRIVER. `threads` 0: as many as the process may use. */
int cuda_device_open(uv_loop_t *loop, unsigned ordinal, struct backend **ret, struct error *error);
int host_device_open(uv_loop_t *loop, unsigned threads, struct backend **ret, struct error *error);

#endif
