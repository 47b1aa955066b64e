/*
 * libfusiond: compile GPU kernels through the node's fusiond, and launch them: on a device of the daemon, or in a CUDA
 * context of the process.
 *
 * Every call blocks. A function that can fail returns 0, or -1 and fills *error (which may be NULL); results that are
 * returned through pointers are untouched on failure. No function prints, exits, or raises SIGPIPE.
 *
 * A connection, and everything got from it, is used by one thread at a time; fusiond_cancel alone may be called from
 * another one. Different connections are independent. A connection used in a forked child reconnects by itself, and so
 * does one whose daemon was restarted. A device, and everything made of it, is another such unit: independent of the
 * connection that opened it, but it does not reconnect.
 *
 * Texts and bytes that an accessor returns belong to the object and live as long as it does. All texts are UTF-8 and
 * end with a NUL. Sizes are bytes, times are nanoseconds unless their name says otherwise.
 */
#ifndef CLIENT_FUSIOND_H
#define CLIENT_FUSIOND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FUSIOND_API __attribute__((visibility("default")))

/* ---- errors ---- */

/* Room for an error's text, its NUL included. */
#define FUSIOND_ERROR_TEXT 512

/* What went wrong. `code` and `name` are those of the protocol's table of errors and never change their meaning:
 * 40 "COMPILE_FAILED", 80 "UNREACHABLE", … `text` is one sentence that says who, what, value and limit. */
struct fusiond_error {
    int code;
    const char *name; /* static */
    bool retryable;   /* the same request may succeed later without being changed */
    char text[FUSIOND_ERROR_TEXT];
};

/* Codes that callers commonly tell apart. */
#define FUSIOND_INVALID_FIELD 6
#define FUSIOND_UNKNOWN_FIELD 7
#define FUSIOND_NOT_FOUND 27
#define FUSIOND_CANCELLED 28
#define FUSIOND_COMPILE_FAILED 40
#define FUSIOND_TIMEOUT 41
#define FUSIOND_COMPILER_UNAVAILABLE 45
#define FUSIOND_NO_DEVICE 70
#define FUSIOND_EXECUTOR_UNAVAILABLE 71
#define FUSIOND_EXECUTOR_RESET 72
#define FUSIOND_LAUNCH_FAILED 74
#define FUSIOND_INVALID_BUFFER 76
#define FUSIOND_UNREACHABLE 80
#define FUSIOND_DISCONNECTED 81
#define FUSIOND_INVALID_FILE 83
#define FUSIOND_NO_DRIVER 84
#define FUSIOND_INVALID_LAUNCH 86

/* ---- connections ---- */

struct fusiond_connection;

/* Zeroed is the default. */
struct fusiond_connect_options {
    const char *client;  /* a name for the daemon's log; NULL: the program's */
    uint32_t timeout_ms; /* for connecting and greeting together; 0: 5000 */
};

/* Connect and greet. `socket` NULL: $FUSIOND_SOCKET, else the user's daemon ($XDG_RUNTIME_DIR/fusiond/fusiond.sock, or
 * /tmp/fusiond-<uid>/fusiond.sock where there is no such folder), else the system's /run/fusiond/fusiond.sock.
 * `options` may be NULL. UNREACHABLE when nobody answers, UNSUPPORTED_VERSION when no protocol version is common.
 * $FUSIOND_SPIN_US: poll for an answer that long before sleeping (default 0; at most 10000). */
FUSIOND_API int fusiond_connect(const char *socket, const struct fusiond_connect_options *options,
                                struct fusiond_connection **ret, struct fusiond_error *error);

/* NULL is fine. Objects got from the connection stay good. */
FUSIOND_API void fusiond_close(struct fusiond_connection *connection);

/* The path it is connected to, and the daemon's version. */
FUSIOND_API const char *fusiond_socket(const struct fusiond_connection *connection);
FUSIOND_API const char *fusiond_version(const struct fusiond_connection *connection);

/* One round trip that does nothing. */
FUSIOND_API int fusiond_ping(struct fusiond_connection *connection, struct fusiond_error *error);

/* From any thread: ask the daemon to drop the request that another thread waits for, which then fails with CANCELLED,
 * or succeeds if it was done already. 0 also when there is none. */
FUSIOND_API int fusiond_cancel(struct fusiond_connection *connection, struct fusiond_error *error);

/* ---- fusions ---- */

/* A kernel's source and how to compile and launch it; see docs/fusion-file.md for every field's meaning. Everything
 * given is copied. Limits are checked by the daemon, which names field, value and limit. */
struct fusiond_fusion;

/* Element types, by the names that array libraries use. */
enum fusiond_dtype {
    FUSIOND_BOOL = 1,
    FUSIOND_INT8 = 2,
    FUSIOND_INT16 = 3,
    FUSIOND_INT32 = 4,
    FUSIOND_INT64 = 5,
    FUSIOND_UINT8 = 6,
    FUSIOND_UINT16 = 7,
    FUSIOND_UINT32 = 8,
    FUSIOND_UINT64 = 9,
    FUSIOND_FLOAT16 = 10,
    FUSIOND_BFLOAT16 = 11,
    FUSIOND_FLOAT32 = 12,
    FUSIOND_FLOAT64 = 13,
    FUSIOND_COMPLEX64 = 14,
    FUSIOND_COMPLEX128 = 15,
    FUSIOND_FLOAT8_E4M3 = 16,
    FUSIOND_FLOAT8_E5M2 = 17,
};

enum fusiond_param_kind {
    FUSIOND_TENSOR = 1,
    FUSIOND_SCALAR = 2,
    FUSIOND_OUTPUT = 3,
    FUSIOND_POINTER = 4,
    FUSIOND_INTERMEDIATE = 5,
};

/* NULL when memory ran out. */
FUSIOND_API struct fusiond_fusion *fusiond_fusion_create(void);
FUSIOND_API void fusiond_fusion_destroy(struct fusiond_fusion *fusion);

/* Read a fusion file (JSON beside its code). INVALID_FILE, or the error of the field that is wrong, with its place. */
FUSIOND_API int fusiond_fusion_load(const char *path, struct fusiond_fusion **ret, struct fusiond_error *error);

/* CUDA C++. Unstructured (the default): kernels and helpers in the preamble's dialect; the daemon puts preamble, index
 * type and namespace around it. Structured: a whole translation unit, compiled as it is. */
FUSIOND_API int fusiond_fusion_set_code(struct fusiond_fusion *fusion, const char *code, size_t size, bool structured,
                                        struct fusiond_error *error);

/* A __global__ function, or a name expression as `f<float, 4>`. */
FUSIOND_API int fusiond_fusion_add_entry(struct fusiond_fusion *fusion, const char *name, struct fusiond_error *error);

/* What `#include "name"` gives. Headers that are large or many are sent once and referred to by digest afterwards. */
FUSIOND_API int fusiond_fusion_add_header(struct fusiond_fusion *fusion, const char *name, const void *bytes,
                                          size_t size, struct fusiond_error *error);

/* "sm_90a", "compute_80", "cc_9.0" (what suits a device of that capability), "host"; fusiond_device_target gives that
 * of a device. Without one, the local CUDA device's. */
FUSIOND_API int fusiond_fusion_set_target(struct fusiond_fusion *fusion, const char *target,
                                          struct fusiond_error *error);

/* Find what the code includes, and what that includes, in its own folder (of `source_path`; NULL: of the fusion file's
 * code, else the current one) and in `folders`, and add it as headers. The compiler never sees these folders: each
 * file gets a name, by which the texts refer to it. Conditions are not decided, so files may be added that are not
 * used. What is found nowhere is left to the compiler, but for a quoted name outside of every condition: INVALID_FILE.
 * So are a pipe or a device, and a file that cannot be read. Headers that the fusion has already are used as they are.
 */
FUSIOND_API int fusiond_fusion_add_include_tree(struct fusiond_fusion *fusion, const char *source_path,
                                                const char *const *folders, size_t n_folders,
                                                struct fusiond_error *error);

/* One option of the fusion file by its JSON name, with its value as JSON text: ("compile.block_size", "256"),
 * ("index_type", "int32") or ("index_type", "\"int32\""), ("label", "softmax"), ("compile.fast_math", "true"),
 * ("side_effects_only", "true"). UNKNOWN_FIELD when there is no such field. */
FUSIOND_API int fusiond_fusion_set_option(struct fusiond_fusion *fusion, const char *name, const char *value,
                                          struct fusiond_error *error);

/* A preprocessor definition; value NULL: 1. */
FUSIOND_API int fusiond_fusion_add_define(struct fusiond_fusion *fusion, const char *name, const char *value,
                                          struct fusiond_error *error);

/* A kernel parameter, in order. `rank` counts logical dimensions, `alloc_rank` those with a stride; scalars: 0, 0. */
FUSIOND_API int fusiond_fusion_add_param(struct fusiond_fusion *fusion, const char *name, enum fusiond_param_kind kind,
                                         enum fusiond_dtype dtype, unsigned rank, unsigned alloc_rank,
                                         struct fusiond_error *error);

/* The sizes of an output parameter, integer expressions as "x.size[0] * 2"; strides are row-major. */
FUSIOND_API int fusiond_fusion_add_output(struct fusiond_fusion *fusion, const char *name, const char *const *sizes,
                                          unsigned rank, struct fusiond_error *error);

/* An output parameter that is the memory of a tensor parameter, which the kernel overwrites. */
FUSIOND_API int fusiond_fusion_add_alias(struct fusiond_fusion *fusion, const char *name, const char *tensor,
                                         struct fusiond_error *error);

/* The sizes of an intermediate parameter: memory that only the kernel uses. `zero`: zeroed before every launch. */
FUSIOND_API int fusiond_fusion_add_intermediate(struct fusiond_fusion *fusion, const char *name,
                                                const char *const *sizes, unsigned rank, bool zero,
                                                struct fusiond_error *error);

/* The launch parameters as integer expressions; NULL is 1 (dynamic_shared_memory: 0), in bytes. */
FUSIOND_API int fusiond_fusion_set_launch(struct fusiond_fusion *fusion, const char *const grid[3],
                                          const char *const block[3], const char *dynamic_shared_memory,
                                          struct fusiond_error *error);

/* ---- compiling ---- */

struct fusiond_kernel;

/* Parts of a kernel beside its metadata. */
#define FUSIOND_IMAGE 1u
#define FUSIOND_PTX 2u
#define FUSIOND_LOG 4u
#define FUSIOND_CODE 8u     /* fusiond_kernel_get only */
#define FUSIOND_DETAILS 16u /* compiler arguments, preamble modules, headers, phase times; for people */

/* Sizes and strides (in elements; NULL: row-major) of one tensor of a call, for the choice of the index type. */
struct fusiond_sample {
    unsigned rank;
    const int64_t *sizes;
    const int64_t *strides;
};

/* Whose compile comes first when more wait than can be served; FUSIOND_INTERACTIVE is meant by 0, too. */
enum fusiond_priority {
    FUSIOND_INTERACTIVE = 1, /* somebody waits for it */
    FUSIOND_NORMAL = 2,      /* it will be wanted soon */
    FUSIOND_BACKGROUND = 3,  /* it may be wanted some day */
};

/* What to do with kernels that are there already; FUSIOND_CACHE_USE is meant by 0, too. */
enum fusiond_cache_mode {
    FUSIOND_CACHE_USE = 1,     /* take what is there, else compile */
    FUSIOND_CACHE_REQUIRE = 2, /* compile nothing: CACHE_MISS when it is not there */
    FUSIOND_CACHE_BYPASS = 3,  /* compile anew, and keep nothing */
    FUSIOND_CACHE_REFRESH = 4, /* compile anew, and replace what is kept */
};

enum fusiond_compile_state {
    FUSIOND_QUEUED = 1,  /* it waits for a worker */
    FUSIOND_STARTED = 2, /* a worker compiles it */
    FUSIOND_DONE = 3,    /* the compiler has ended; the answer follows */
};

struct fusiond_progress {
    enum fusiond_compile_state state;
    uint32_t ahead; /* FUSIOND_QUEUED: how many compiles come before it, if no others arrive */
};

struct fusiond_compile_options {
    unsigned parts;       /* what to fetch; 0: metadata only */
    uint32_t deadline_ms; /* for the compiler, from its start; 0: the daemon's default */
    const struct fusiond_sample *samples;
    size_t n_samples;
    enum fusiond_priority priority;
    enum fusiond_cache_mode cache;
    /* How far it is, while the call waits; not called for what is found. It must not use the connection, but for
     * fusiond_cancel. NULL: not asked for. */
    void (*on_progress)(void *context, const struct fusiond_progress *progress);
    void *context;
};

/* Get the kernel of a fusion, compiled now or found. `options` NULL: {FUSIOND_IMAGE}. A fusion without a target is
 * compiled for the local CUDA device: NO_DRIVER when there is none. COMPILE_FAILED leaves log and diagnostics with the
 * connection (below). */
FUSIOND_API int fusiond_compile(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                                const struct fusiond_compile_options *options, struct fusiond_kernel **ret,
                                struct fusiond_error *error);

struct fusiond_explanation;

/* Which key fusiond_compile would look for, of which parts, whether it is there, and what is nearest when it is not.
 * Nothing is compiled, and no header need be sent. */
FUSIOND_API int fusiond_explain(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                                const struct fusiond_compile_options *options, struct fusiond_explanation **ret,
                                struct fusiond_error *error);
/* NULL is fine. */
FUSIOND_API void fusiond_explanation_destroy(struct fusiond_explanation *explanation);
FUSIOND_API const char *fusiond_explanation_key(const struct fusiond_explanation *explanation); /* 64 hex digits */
/* "memory", "database"; "": it would be compiled. */
FUSIOND_API const char *fusiond_explanation_found(const struct fusiond_explanation *explanation);
/* All of it as JSON: explain_reply of PROTOCOL.md. */
FUSIOND_API const char *fusiond_explanation_json(const struct fusiond_explanation *explanation);

/* One finding of the compiler. `file` is "fusion.cu" (the fusion's code), the include name of a header, or a module of
 * the preamble; NULL: none. `line` and `column` count from 1; 0: unknown. */
struct fusiond_diagnostic {
    const char *severity; /* "note", "warning", "error" */
    const char *file;
    unsigned line, column;
    const char *text;
};

/* What the compiler said of the last fusiond_compile of the connection, if it failed; good until the next call with
 * the connection. The log is "" when there is none. */
FUSIOND_API const char *fusiond_failure_log(const struct fusiond_connection *connection);
FUSIOND_API size_t fusiond_failure_diagnostics(const struct fusiond_connection *connection);
/* index < fusiond_failure_diagnostics(). */
FUSIOND_API struct fusiond_diagnostic fusiond_failure_diagnostic(const struct fusiond_connection *connection,
                                                                 size_t index);

/* Send bytes that headers of later fusions refer to by digest (BLAKE2b-256); at most 64 MiB. */
FUSIOND_API int fusiond_blob_put(struct fusiond_connection *connection, const void *bytes, size_t size,
                                 uint8_t ret_digest[32], struct fusiond_error *error);

/* ---- kernels ---- */

/* Fetch a kernel by its key, 64 hex digits. NOT_FOUND. */
FUSIOND_API int fusiond_kernel_get(struct fusiond_connection *connection, const char *key, unsigned parts,
                                   struct fusiond_kernel **ret, struct fusiond_error *error);
/* NULL is fine. */
FUSIOND_API void fusiond_kernel_destroy(struct fusiond_kernel *kernel);

FUSIOND_API const char *fusiond_kernel_key(const struct fusiond_kernel *kernel); /* 64 hex digits */
FUSIOND_API const char *fusiond_kernel_target(const struct fusiond_kernel *kernel);
FUSIOND_API const char *fusiond_kernel_label(const struct fusiond_kernel *kernel); /* "" when it has none */
FUSIOND_API const char *fusiond_kernel_compiler(const struct fusiond_kernel *kernel);
/* "cubin", or "ptx": then the image is PTX text. */
FUSIOND_API const char *fusiond_kernel_image_kind(const struct fusiond_kernel *kernel);
/* "int32", "int64"; "" for structured code. */
FUSIOND_API const char *fusiond_kernel_index_type(const struct fusiond_kernel *kernel);
/* Where it came from: "compiled", "joined" (another client's compile), "hit_memory", "hit_database". */
FUSIOND_API const char *fusiond_kernel_outcome(const struct fusiond_kernel *kernel);
/* Committed to the database; false from a degraded daemon. Of fusiond_compile only. */
FUSIOND_API bool fusiond_kernel_stored(const struct fusiond_kernel *kernel);
/* What the compile took, and its wait in the queue; 0 for a hit. */
FUSIOND_API uint64_t fusiond_kernel_compile_ns(const struct fusiond_kernel *kernel);
FUSIOND_API uint64_t fusiond_kernel_queue_ns(const struct fusiond_kernel *kernel);

/* The file of the daemon's owner whose text was compiled in place of the fusion's code (docs/debugging.md); "". Of
 * fusiond_compile only, as the next two. */
FUSIOND_API const char *fusiond_kernel_overridden(const struct fusiond_kernel *kernel);
/* Which of the connection's different kernels of its label it is, from 1; 0: the daemon has no overrides. */
FUSIOND_API unsigned fusiond_kernel_ordinal(const struct fusiond_kernel *kernel);
/* Sentences about the answer: why an override was not used. */
FUSIOND_API size_t fusiond_kernel_notes(const struct fusiond_kernel *kernel);
FUSIOND_API const char *fusiond_kernel_note(const struct fusiond_kernel *kernel, size_t index);

/* Parts that were asked for; NULL and 0 otherwise. PTX, log and code are texts; *ret_size does not count the NUL that
 * log and code end with. An image may be used from any thread. */
FUSIOND_API const void *fusiond_kernel_image(const struct fusiond_kernel *kernel, size_t *ret_size);
FUSIOND_API const void *fusiond_kernel_ptx(const struct fusiond_kernel *kernel, size_t *ret_size);
FUSIOND_API const char *fusiond_kernel_log(const struct fusiond_kernel *kernel);
FUSIOND_API const char *fusiond_kernel_code(const struct fusiond_kernel *kernel);

/* What the assembler said of one entry: bytes per thread, except registers (per thread), shared memory (per block) and
 * constant memory. -1: unknown, as for PTX. */
struct fusiond_entry {
    const char *name;    /* as the fusion gives it */
    const char *lowered; /* the symbol in the image */
    int64_t registers;
    int64_t stack_frame, spill_stores, spill_loads, local_memory;
    int64_t shared_memory, constant_memory;
};

FUSIOND_API size_t fusiond_kernel_entries(const struct fusiond_kernel *kernel);
/* index < fusiond_kernel_entries(). */
FUSIOND_API struct fusiond_entry fusiond_kernel_entry(const struct fusiond_kernel *kernel, size_t index);

FUSIOND_API size_t fusiond_kernel_warnings(const struct fusiond_kernel *kernel);
FUSIOND_API const char *fusiond_kernel_warning(const struct fusiond_kernel *kernel, size_t index);

struct fusiond_source;

/* The whole program that a kernel was compiled from, with the daemon's own texts in it: complete but for the fusion's
 * headers. */
FUSIOND_API int fusiond_kernel_source(struct fusiond_connection *connection, const char *key,
                                      struct fusiond_source **ret, struct fusiond_error *error);
FUSIOND_API void fusiond_source_destroy(struct fusiond_source *source);
/* NULL: it was compiled by a daemon that did not keep it. */
FUSIOND_API const char *fusiond_source_text(const struct fusiond_source *source);
/* The daemon's own texts have changed since that compile: the text shows those of now. */
FUSIOND_API bool fusiond_source_changed(const struct fusiond_source *source);

/* ---- listing and statistics ---- */

struct fusiond_kernel_list;

/* Zeroed: everything. */
struct fusiond_list_filter {
    const char *prefix; /* leading hex digits of the key */
    const char *label;
    const char *target;
    size_t limit; /* at most this many; 0: all */
};

struct fusiond_summary {
    const char *key;                                 /* 64 hex digits */
    const char *label, *target, *entry, *index_type; /* "" when there is none */
    unsigned max_registers;                          /* 0: no limit */
    uint64_t image_size;
    uint64_t created_unix_s, last_used_unix_s; /* 0: unknown */
    uint64_t compile_ns;                       /* 0: unknown */
};

/* Kernels in the database, in key order. `filter` may be NULL. */
FUSIOND_API int fusiond_kernel_list(struct fusiond_connection *connection, const struct fusiond_list_filter *filter,
                                    struct fusiond_kernel_list **ret, struct fusiond_error *error);
FUSIOND_API void fusiond_kernel_list_destroy(struct fusiond_kernel_list *list);
FUSIOND_API size_t fusiond_kernel_list_count(const struct fusiond_kernel_list *list);
FUSIOND_API struct fusiond_summary fusiond_kernel_list_at(const struct fusiond_kernel_list *list, size_t index);

struct fusiond_stats;

/* The daemon's counters and gauges. */
FUSIOND_API int fusiond_stats(struct fusiond_connection *connection, struct fusiond_stats **ret,
                              struct fusiond_error *error);
FUSIOND_API void fusiond_stats_destroy(struct fusiond_stats *stats);
/* The value of a number by its name, as "compiles_total"; false when the daemon has none of that name. */
FUSIOND_API bool fusiond_stats_get(const struct fusiond_stats *stats, const char *name, uint64_t *ret);
/* All of them: names and values by position; false past the end. */
FUSIOND_API bool fusiond_stats_at(const struct fusiond_stats *stats, size_t index, const char **ret_name,
                                  uint64_t *ret_value);
/* Sentences about what does not work in the daemon; none: it is healthy. */
FUSIOND_API size_t fusiond_stats_degraded(const struct fusiond_stats *stats);
FUSIOND_API const char *fusiond_stats_degraded_at(const struct fusiond_stats *stats, size_t index);

/* ---- launch parameters ---- */

/* Blocks, threads, bytes. */
struct fusiond_launch {
    unsigned grid[3], block[3];
    unsigned dynamic_shared_memory;
};

/* ---- devices of the daemon ---- */

/* What the daemon can launch on. Texts are "" and numbers 0 when they are unknown. */
struct fusiond_device_info {
    const char *kind; /* "cuda", or "host": the CPU, which runs the same kernels, slowly */
    unsigned ordinal; /* of a CUDA device, as the daemon counts; 0 of the host device */
    const char *name, *uuid;
    unsigned capability; /* 90 is 9.0; 0: the host device */
    uint64_t memory_bytes;
    unsigned multiprocessors; /* of the host device: CPU threads that run blocks */
    unsigned driver;          /* 13000 is 13.0; 0: none */
};

struct fusiond_device_list;

FUSIOND_API int fusiond_devices(struct fusiond_connection *connection, struct fusiond_device_list **ret,
                                struct fusiond_error *error);
FUSIOND_API void fusiond_device_list_destroy(struct fusiond_device_list *list);
FUSIOND_API size_t fusiond_device_list_count(const struct fusiond_device_list *list);
FUSIOND_API struct fusiond_device_info fusiond_device_list_at(const struct fusiond_device_list *list, size_t index);
/* One sentence for each kind of device that is not there. */
FUSIOND_API size_t fusiond_device_list_problems(const struct fusiond_device_list *list);
FUSIOND_API const char *fusiond_device_list_problem(const struct fusiond_device_list *list, size_t index);
/* Whether CUDA's Multi-Process Service runs: without it, kernels of different processes take turns on a GPU, and a
 * framework that keeps its own context busy had better launch there (below). */
FUSIOND_API bool fusiond_device_list_mps(const struct fusiond_device_list *list);

/* ---- launching in the daemon ----
 *
 * A device is a channel to the process that launches for the daemon, its executor. Buffers, streams and defined fusions
 * belong to the device that they were made with. The channel ends with the executor, which dies of a kernel that faults
 * and is then replaced: every later call fails with EXECUTOR_RESET. Close the device, open it again and make everything
 * anew. In a forked child a device fails in the same way; only closing and destroying are possible there.
 *
 * Closing a device leaves what was made with it inert: calls with it fail, and it must still be destroyed. All
 * functions that close, destroy or free take NULL. */

struct fusiond_device;
struct fusiond_buffer;
struct fusiond_stream;
struct fusiond_defined;
struct fusiond_launched;

/* Zeroed is the default. */
struct fusiond_device_options {
    bool isolation_session; /* an executor for this device alone, not one shared with the user's other processes */
};

/* `device`: "host", an ordinal as this process counts ("0"; CUDA_VISIBLE_DEVICES holds), a UUID ("GPU-…"), or NULL:
 * the first CUDA device, or the host device where there is none. `options` may be NULL. NO_DEVICE,
 * EXECUTOR_UNAVAILABLE. */
FUSIOND_API int fusiond_device_open(struct fusiond_connection *connection, const char *device,
                                    const struct fusiond_device_options *options, struct fusiond_device **ret,
                                    struct fusiond_error *error);
FUSIOND_API void fusiond_device_close(struct fusiond_device *device);

FUSIOND_API struct fusiond_device_info fusiond_device_info(const struct fusiond_device *device);
/* What to compile for it: "host" or "cc_9.0"; for fusiond_fusion_set_target. */
FUSIOND_API const char *fusiond_device_target(const struct fusiond_device *device);
/* The executor's process id; 0: unknown. */
FUSIOND_API unsigned fusiond_device_executor(const struct fusiond_device *device);

/* Memory. A size is at least 1 byte. `exportable`: for fusiond_buffer_export and fusiond_buffer_map. OUT_OF_MEMORY. */
FUSIOND_API int fusiond_buffer_allocate(struct fusiond_device *device, uint64_t size, bool exportable,
                                        struct fusiond_buffer **ret, struct fusiond_error *error);
/* Freed when what is queued has used it. Costs no round trip. */
FUSIOND_API void fusiond_buffer_free(struct fusiond_buffer *buffer);
FUSIOND_API uint64_t fusiond_buffer_size(const struct fusiond_buffer *buffer);

enum fusiond_memory_kind {
    FUSIOND_MEMFD = 1,  /* of the host device; must be sealed against shrinking (F_SEAL_SHRINK) */
    FUSIOND_VMM_FD = 2, /* what cuMemExportToShareableHandle gives: a POSIX file descriptor */
    FUSIOND_IPC = 3,    /* a CUipcMemHandle; import only */
};

/* Memory that travels between processes. */
struct fusiond_memory {
    enum fusiond_memory_kind kind;
    int fd;                   /* but of FUSIOND_IPC */
    unsigned char handle[64]; /* of FUSIOND_IPC */
    uint64_t offset;          /* import: where the buffer begins in the allocation, in bytes */
    uint64_t size;            /* import: of the buffer; export: of the allocation, which the buffer begins */
    uint64_t allocation_size; /* import of FUSIOND_VMM_FD: of the whole allocation; 0: it ends with the buffer */
};

/* Make a buffer of this process's memory, which stays shared. The descriptor remains the caller's. INVALID_BUFFER. */
FUSIOND_API int fusiond_buffer_import(struct fusiond_device *device, const struct fusiond_memory *memory,
                                      struct fusiond_buffer **ret, struct fusiond_error *error);
/* Share a buffer with this process, or by its descriptor with others. The caller closes ret->fd. INVALID_BUFFER when
 * the buffer is not exportable. */
FUSIOND_API int fusiond_buffer_export(struct fusiond_buffer *buffer, struct fusiond_memory *ret,
                                      struct fusiond_error *error);
/* An exportable buffer of the host device as memory of this process, until the buffer is freed; the same address every
 * time. Nothing is copied: write before the launch, and read after fusiond_device_synchronize. UNSUPPORTED on a GPU. */
FUSIOND_API int fusiond_buffer_map(struct fusiond_buffer *buffer, void **ret, struct fusiond_error *error);

/* Copy bytes to and from a buffer, in the order of the stream (NULL: the device's first one), and wait until that is
 * done. More than 1 MiB travels through shared memory. */
FUSIOND_API int fusiond_buffer_write(struct fusiond_buffer *buffer, uint64_t offset, const void *bytes, uint64_t size,
                                     struct fusiond_stream *stream, struct fusiond_error *error);
FUSIOND_API int fusiond_buffer_read(struct fusiond_buffer *buffer, uint64_t offset, void *bytes, uint64_t size,
                                    struct fusiond_stream *stream, struct fusiond_error *error);

/* What is queued on one stream runs in that order; streams are independent of each other. `priority`: lower is sooner,
 * as CUDA counts. */
FUSIOND_API int fusiond_stream_create(struct fusiond_device *device, int priority, struct fusiond_stream **ret,
                                      struct fusiond_error *error);
FUSIOND_API void fusiond_stream_destroy(struct fusiond_stream *stream);
/* Wait until everything queued on the stream (NULL: the first one) is done. Fails with an error of what was queued
 * there since it was last called: a kernel's (LAUNCH_FAILED), or that of a launch that was submitted without a ticket.
 */
FUSIOND_API int fusiond_device_synchronize(struct fusiond_device *device, struct fusiond_stream *stream,
                                           struct fusiond_error *error);

/* Tell the device how to launch an entry of a compiled kernel: once, then launch it any number of times. The key is
 * that of fusiond_kernel_key; the fusion gives params, outputs, intermediates and launch, and may be destroyed
 * afterwards. `entry` NULL: the first. The kernel is loaded now: NOT_FOUND, LOAD_FAILED, INVALID_LAUNCH. */
FUSIOND_API int fusiond_define(struct fusiond_device *device, const char *key, const char *entry,
                               struct fusiond_fusion *fusion, struct fusiond_defined **ret,
                               struct fusiond_error *error);
FUSIOND_API void fusiond_defined_destroy(struct fusiond_defined *defined);

/* What the device says of the function; 0 and "" when it does not tell. */
struct fusiond_defined_info {
    const char *index_type;        /* "int32", "int64" */
    unsigned registers;            /* per thread */
    unsigned static_shared_memory; /* bytes per block */
    unsigned max_threads;          /* per block */
    uint64_t load_ns;              /* what loading took; 0: it was loaded already */
};
FUSIOND_API struct fusiond_defined_info fusiond_defined_info(const struct fusiond_defined *defined);

/* What one parameter is given. Tensors, outputs, pointers: a buffer and an offset in bytes; sizes and strides (in
 * elements) as many as the parameter's rank and allocated rank, strides NULL: row-major. Outputs may have sizes NULL:
 * they are computed; and buffer NULL: allocated. Scalars: `scalar_size` bytes at `scalar`. Intermediates: nothing. */
struct fusiond_device_argument {
    struct fusiond_buffer *buffer;
    uint64_t offset;
    const int64_t *sizes;
    const int64_t *strides;
    const void *scalar;
    size_t scalar_size;
};

/* What outputs and intermediates hold before the kernel runs; nothing is what was there. */
enum fusiond_fill {
    FUSIOND_FILL_NOTHING = 0,
    FUSIOND_FILL_ZERO = 1,
    FUSIOND_FILL_NAN = 2, /* every byte 0xff: NaN in every floating-point type */
    FUSIOND_FILL_MAX = 3, /* every byte 0x7f: a large number in every type */
};

/* Zeroed is the default. */
struct fusiond_launch_options {
    struct fusiond_stream *stream;       /* NULL: the first one */
    const struct fusiond_launch *launch; /* NULL: as the fusion's expressions say; else it must agree with them, … */
    bool force;                          /* … unless this is set */
    bool wait;                           /* return when the kernel is done, not when it is queued */
    enum fusiond_fill fill;
};

/* Launch with `n` arguments in the order of the fusion's params; `options` may be NULL. One round trip. *ret (which may
 * be NULL) tells the outputs, and owns the buffers of those that were allocated. INVALID_LAUNCH, INDEX_TYPE,
 * INVALID_BUFFER, OUT_OF_MEMORY; LAUNCH_FAILED when it waits, else that comes from fusiond_device_synchronize. */
FUSIOND_API int fusiond_device_launch(struct fusiond_defined *defined, const struct fusiond_device_argument *arguments,
                                      size_t n, const struct fusiond_launch_options *options,
                                      struct fusiond_launched **ret, struct fusiond_error *error);

/* The same without a round trip: return once the request is sent. With ret_ticket NULL every output needs a buffer (or
 * is an alias), and what goes wrong is said by fusiond_device_synchronize; else fusiond_device_collect must be called
 * with the ticket, once, and buffers that were given must live until then. INVALID_LAUNCH when 1024 tickets are not
 * collected. */
FUSIOND_API int fusiond_device_submit(struct fusiond_defined *defined, const struct fusiond_device_argument *arguments,
                                      size_t n, const struct fusiond_launch_options *options, uint64_t *ret_ticket,
                                      struct fusiond_error *error);
/* Wait for what fusiond_device_launch would have returned. */
FUSIOND_API int fusiond_device_collect(struct fusiond_device *device, uint64_t ticket, struct fusiond_launched **ret,
                                       struct fusiond_error *error);

/* Launch `warmups` + `repeats` times, one after the other, and time each repeat by the device's clock. At most 10000
 * each; repeats at least 1. */
FUSIOND_API int fusiond_device_run(struct fusiond_defined *defined, const struct fusiond_device_argument *arguments,
                                   size_t n, const struct fusiond_launch_options *options, unsigned warmups,
                                   unsigned repeats, struct fusiond_launched **ret, struct fusiond_error *error);

/* An output as it was launched. */
struct fusiond_output {
    size_t param;                  /* its position in the fusion's params */
    struct fusiond_buffer *buffer; /* the given one, an alias's tensor's, or one that the launch allocated */
    bool allocated;
    uint64_t offset, bytes;
    unsigned rank, alloc_rank; /* of sizes and strides */
    const int64_t *sizes, *strides;
};

/* Frees the buffers that the launch allocated and nobody took. */
FUSIOND_API void fusiond_launched_destroy(struct fusiond_launched *launched);
FUSIOND_API size_t fusiond_launched_outputs(const struct fusiond_launched *launched);
/* index < fusiond_launched_outputs(). */
FUSIOND_API struct fusiond_output fusiond_launched_output(const struct fusiond_launched *launched, size_t index);
/* Take over an allocated buffer of an output, to free it later. NULL when it was not allocated, or taken before. */
FUSIOND_API struct fusiond_buffer *fusiond_launched_take(struct fusiond_launched *launched, size_t index);
FUSIOND_API struct fusiond_launch fusiond_launched_params(const struct fusiond_launched *launched);
/* What the sizes lead to was known already. */
FUSIOND_API bool fusiond_launched_cached(const struct fusiond_launched *launched);
/* Of fusiond_device_run: each repeat's time, in their order, and the bytes of all tensors and outputs, once each. */
FUSIOND_API size_t fusiond_launched_times(const struct fusiond_launched *launched, const uint64_t **ret_ns);
FUSIOND_API uint64_t fusiond_launched_bytes(const struct fusiond_launched *launched);

/* ---- launching in this process ---- */

/* A kernel loaded into a CUDA context. The driver is opened on first use; the process need not be linked with it. */
struct fusiond_module;

/* Load the image (the kernel must have been fetched with FUSIOND_IMAGE, and outlive nothing: it is copied by the
 * driver). PTX of fusiond_compile is loaded with what the fusion says of registers and the optimiser's level, that of
 * fusiond_get without. device >= 0: into that device's primary context; -1: into the context that is current.
 * NO_DRIVER, DRIVER. */
FUSIOND_API int fusiond_load(const struct fusiond_kernel *kernel, int device, struct fusiond_module **ret,
                             struct fusiond_error *error);
/* Unload; the kernel must not be running. NULL is fine. */
FUSIOND_API void fusiond_module_destroy(struct fusiond_module *module);

/* The CUfunction of an entry, for launching by other means. index < fusiond_kernel_entries(). */
FUSIOND_API void *fusiond_module_function(const struct fusiond_module *module, size_t index);

/* One kernel argument. `address` is the device address of a tensor, output or pointer; sizes and strides (in elements)
 * have the parameter's rank and allocated rank, strides NULL: row-major. A scalar is `scalar_size` bytes of its type
 * at `scalar`. */
struct fusiond_argument {
    uint64_t address;
    const int64_t *sizes;
    const int64_t *strides;
    const void *scalar;
    size_t scalar_size;
};

/* What the fusion's expressions give for these arguments, one per parameter. Outputs may have sizes NULL: they are
 * computed. INVALID_LAUNCH with the expression's text. */
FUSIOND_API int fusiond_launch_params(struct fusiond_fusion *fusion, const struct fusiond_argument *arguments,
                                      size_t n_arguments, struct fusiond_launch *ret, struct fusiond_error *error);

/* Launch an entry on a CUstream (NULL: the default one) with arguments in the order of the fusion's params. `launch`
 * NULL: as the fusion's expressions say. Checked before: sizes against the index type, every argument's size against
 * the image (where the driver can tell), limits of device and function. Returns once the launch is queued. */
FUSIOND_API int fusiond_launch(const struct fusiond_module *module, size_t entry, struct fusiond_fusion *fusion,
                               const struct fusiond_argument *arguments, size_t n_arguments,
                               const struct fusiond_launch *launch, void *stream, struct fusiond_error *error);

#ifdef __cplusplus
}
#endif

#endif
