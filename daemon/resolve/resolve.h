/*
 * The resolve step: what a fusion, a sample and the facts of the compiler settle before a key is computed.
 * A library of pure functions: the front, the worker and a client that compiles by itself agree through it.
 */
#ifndef DAEMON_RESOLVE_RESOLVE_H
#define DAEMON_RESOLVE_RESOLVE_H

#include "daemon/resolve/entry_names.h"
#include "kernels_db/kernel_key.h"
#include "proto/message.h"

/* Who compiles: NVRTC for GPUs, without and with the headers of its toolkit; the system's C++ compiler for the host
 * device. */
enum compiler_kind {
    COMPILER_NVRTC,
    COMPILER_TOOLKIT,
    COMPILER_HOST,
    COMPILER_KINDS,
};

#define RESOLVE_TRANSFORMS 16u

/* What is known of one compiler, from its worker's first message. */
struct compiler_facts {
    enum compiler_kind kind;
    unsigned major, minor;
    const int64_t *archs; /* ascending: 75, 80, …; none of the host compiler */
    size_t n_archs;
    uint8_t build[DIGEST_SIZE];
    const struct key_part *transforms; /* what changes every text before it is compiled: name and digest */
    size_t n_transforms;               /* at most RESOLVE_TRANSFORMS */
    unsigned driver; /* the CUDA version (12080: 12.8) of the driver that loads for the node's devices; 0: not known */
};

/* The settled request. Texts live in the zone, as far as they are not the fusion's. */
struct resolved {
    struct text target; /* "sm_90a", "compute_90" or "host" */
    enum image_kind image_kind;
    enum index_type index_type;  /* absent for code that cannot depend on it: structured, or without the preamble */
    unsigned max_registers;      /* what the compiler is told; 0: no limit is sent. Always 0 for PTX */
    unsigned block_size;         /* 0: not given */
    unsigned load_max_registers; /* for PTX, what the driver is to be told when it loads; 0: nothing */
    int load_opt_level;          /* the same; -1: nothing */
    struct text *args;           /* the final compiler arguments, canonical order */
    size_t n_args;
    struct text *job_args; /* those that the compiler is given as arguments: unstructured code has its defines in the
                              program, behind the preamble */
    size_t n_job_args;
    struct text *key_args; /* those that can change the image */
    size_t n_key_args;
    uint8_t modules[64]; /* positions in preamble_modules(), the index module first */
    size_t n_modules;
    struct text code;               /* the fusion's, with placeholders for the names of its kernels; the key has it */
    struct text *entries;           /* the same; one per entry of the fusion */
    struct entry_names entry_names; /* what the placeholders stand for */
    struct text names_kept;         /* why some entry keeps its name, for who asks why a kernel missed; or absent */
    struct text *names;             /* name expressions, one per entry: "fusiond::softmax", with placeholders */
    size_t n_names;
    struct text *warnings; /* sentences for the client */
    size_t n_warnings;
    struct text program;           /* the assembled translation unit, "fusion.cu" */
    size_t code_at;                /* where the fusion's code begins in it */
    struct key_part *header_parts; /* one per header; resolved_key() fills in the digests */
};

/* "nvrtc", "nvrtc+toolkit", "g++" */
const char *compiler_name(enum compiler_kind kind);

/* Which compiler a fusion asks for, by its target and compile.toolkit_headers. */
enum compiler_kind compiler_for(const struct fusion *fusion);

/* Check and settle everything (B1.2's order of checks, the index type rules, the target rule, the option table, the
 * register limit, the modules, the program text). Only the digests of headers are not looked at.
 * `sample` describes every tensor and output parameter in the order of params, and then the intermediates; the words of
 * fusion->target are in target.h, among them "cc_9.0" for a device of that compute capability.
 * The facts are those of the compiler that compiler_for() names.
 * -1 with the error of the first check that fails; *ret is then untouched. The fusion must outlive *ret. */
int resolve(const struct fusion *fusion, const struct sample_tensor *sample, size_t n_sample,
            const struct compiler_facts *facts, msgpack_zone *zone, struct resolved *ret, struct error *error);

/* The same, and every name stays: for a program that was found to show the names of its kernels. */
int resolve_keeping_names(const struct fusion *fusion, const struct sample_tensor *sample, size_t n_sample,
                          const struct compiler_facts *facts, msgpack_zone *zone, struct resolved *ret,
                          struct error *error);

/* What stands around the code, the preamble's modules and the transforms, as the key has them; returns how many. */
#define RESOLVED_PARTS 128u
size_t resolved_parts(const struct resolved *resolved, const struct compiler_facts *facts,
                      struct key_part ret[RESOLVED_PARTS]);

/* The key of a resolved fusion, with the facts it was resolved with. `headers` are the digests of its headers, in the
 * fusion's order. */
void resolved_key(const struct fusion *fusion, const struct resolved *resolved, const struct compiler_facts *facts,
                  const uint8_t (*headers)[DIGEST_SIZE], uint8_t ret[KEY_SIZE]);

#endif
