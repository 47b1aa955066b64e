/*
 * libfusiond: compile GPU kernels through the node's fusiond, and launch them in a CUDA context of the process.
 *
 * Every call blocks. A function that can fail returns 0, or -1 and fills *error (which may be NULL); results that are
 * returned through pointers are untouched on failure. No function prints, exits, or raises SIGPIPE.
 *
 * A connection, and everything got from it, is used by one thread at a time; fusiond_cancel alone may be called from
 * another one. Different connections are independent. A connection used in a forked child reconnects by itself, and so
 * does one whose daemon was restarted.
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
#define FUSIOND_UNREACHABLE 80
#define FUSIOND_DISCONNECTED 81
#define FUSIOND_INVALID_FILE 83
#define FUSIOND_NO_DRIVER 84

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

/* "sm_90a", "compute_80", "cc_9.0" (what suits a device of that capability). Without one, the local device's. */
FUSIOND_API int fusiond_fusion_set_target(struct fusiond_fusion *fusion, const char *target,
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

struct fusiond_compile_options {
    unsigned parts;       /* what to fetch; 0: metadata only */
    uint32_t deadline_ms; /* for the compiler, from its start; 0: the daemon's default */
    const struct fusiond_sample *samples;
    size_t n_samples;
};

/* Get the kernel of a fusion, compiled now or found. `options` NULL: {FUSIOND_IMAGE}. A fusion without a target is
 * compiled for the local CUDA device: NO_DRIVER when there is none. COMPILE_FAILED leaves log and diagnostics with the
 * connection (below). */
FUSIOND_API int fusiond_compile(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                                const struct fusiond_compile_options *options, struct fusiond_kernel **ret,
                                struct fusiond_error *error);

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

/* ---- launching in this process ---- */

/* A kernel loaded into a CUDA context. The driver is opened on first use; the process need not be linked with it. */
struct fusiond_module;

/* Load the image (the kernel must have been fetched with FUSIOND_IMAGE, and outlive nothing: it is copied by the
 * driver). device >= 0: into that device's primary context; -1: into the context that is current. NO_DRIVER, DRIVER. */
FUSIOND_API int fusiond_load(const struct fusiond_kernel *kernel, int device, struct fusiond_module **ret,
                             struct fusiond_error *error);
/* Unload; the kernel must not be running. NULL is fine. */
FUSIOND_API void fusiond_module_destroy(struct fusiond_module *module);

/* The CUfunction of an entry, for launching by other means. index < fusiond_kernel_entries(). */
FUSIOND_API void *fusiond_module_function(const struct fusiond_module *module, size_t index);

/* Launch parameters: blocks, threads, bytes. */
struct fusiond_launch {
    unsigned grid[3], block[3];
    unsigned dynamic_shared_memory;
};

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
