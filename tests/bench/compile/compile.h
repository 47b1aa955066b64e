/*
 * The rows of the compile service, and what they share: daemons of their own, programs that nobody has compiled yet,
 * bare NVRTC in processes of its own as the base line, and what /proc says about both.
 */
#ifndef TESTS_BENCH_COMPILE_COMPILE_H
#define TESTS_BENCH_COMPILE_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/fusiond.h"
#include "tests/bench/bench.h"

/* ---- programs ---- */

/* A family of programs that differ in one constant: number i of it is compiled once, so every compile is a cold one. */
struct program {
    const char *name;
    const char *entry;
    bool structured;
    bool toolkit; /* includes headers of the CUDA toolkit */
    /* What the client sends; free it. */
    char *(*write)(unsigned i);
    /* The translation unit without fusiond: the same kernel with no more types than it needs. NULL: there is none but
     * that of the daemon. Free it. */
    char *(*write_bare)(unsigned i);
};

/* Small kernels in the preamble's dialect: one of floats, one of bfloat, one with block reductions. */
extern const struct program program_pointwise, program_bfloat, program_row_sum;
/* Behind large headers: cooperative groups and fp16, C++ standard headers, block primitives. */
extern const struct program program_groups, program_standard, program_block;
/* For the optimiser: mathematics, and loops to unroll. */
extern const struct program program_math, program_unrolled;

/* The translation unit that the daemon makes of a program; free it. */
char *program_unit(const struct program *program, unsigned i);
/* The name expression for bare NVRTC; `unit`: of the daemon's translation unit. Free it. */
char *program_name(const struct program *program, bool unit);
struct fusiond_fusion *program_fusion(const struct program *program, unsigned i);

/* ---- a daemon of its own ---- */

struct own_daemon {
    pid_t pid;
    char folder[64];
    char socket[96];
};

/* With an empty database. `options` are more of its options; ends with NULL. Ended at the latest with the program. */
void own_daemon_start(struct own_daemon *ret, const char *const *options);
void own_daemon_stop(struct own_daemon *daemon);
struct fusiond_connection *own_daemon_connect(const struct own_daemon *daemon);
/* With all that is in it. */
void remove_folder(const char *path);

/* Compile number i, image included. The time that the client waited, in ms; *ret_kernel unless NULL. */
double cold_compile(struct fusiond_connection *connection, const struct program *program, unsigned i, unsigned parts,
                    struct fusiond_kernel **ret_kernel);
/* Whether the daemon compiles it at all; if not, a comment line says why the row is without it. */
bool can_compile(struct fusiond_connection *connection, const struct program *program, const char *row);

/* A number of the daemon's statistics; 0 when it has none of that name. */
uint64_t daemon_number(struct fusiond_connection *connection, const char *name);
/* Compile programs of this family until one begins from a precompiled header of the daemon's. false, with a comment
 * line, when none does within a minute. */
bool warm_prefix(struct fusiond_connection *connection, const struct program *program, const char *row);

/* The arguments that the daemon gave to its compiler for this program, from the kernel's record. */
struct arguments {
    const char **at;
    size_t n;
};
struct arguments arguments_of(struct fusiond_connection *connection, const struct program *program);
/* A copy, with one more; NULL: none. */
struct arguments arguments_with(const struct arguments *arguments, const char *more);
/* A copy, with the paths of the toolkit's headers ($CUDA_HOME, or /usr/local/cuda). */
struct arguments arguments_with_toolkit(const struct arguments *arguments);
void arguments_finish(struct arguments *arguments);

/* Number of a program that nobody has compiled: one more at each call. */
unsigned next_number(void);

/* ---- the base line: NVRTC in a process that does nothing else ---- */

/* What one process can be asked to compile. */
struct bare_variant {
    const struct program *program;
    bool unit; /* the daemon's translation unit, not the one of the fewest types */
    struct arguments arguments;
};

#define BARE_VARIANTS 8

struct bare {
    int fd;
    pid_t pid;
};

struct bare_result {
    double ms;
    uint64_t cpu_ns; /* of the whole process */
    uint64_t size;   /* of the image */
};

/* Starts it, and compiles each variant twice, so that it is warm. The variants live as long as it. */
void bare_start(struct bare *ret, const struct bare_variant *variants, size_t n);
struct bare_result bare_compile(struct bare *bare, unsigned variant, unsigned i);
void bare_stop(struct bare *bare);

/* In the calling process, which has opened the library (tests/support/rtc.h). */
struct bare_result bare_compile_here(const struct bare_variant *variant, unsigned i);

/* ---- processes ---- */

/* CPU time of a process's living threads, to the nanosecond. */
uint64_t process_cpu_ns(pid_t pid);
/* Of a process, all that descend from it, and those of them that are gone: to the clock tick. */
double tree_cpu_seconds(pid_t root);
/* Proportional memory of all that descend from a process, and how many there are. */
double tree_pss_mib(pid_t root, size_t *ret_count);
double process_pss_mib(pid_t pid);
unsigned cores(void);
/* Keep this process, and those that it starts from now on, on one CPU, and let it go again: virtual CPUs differ in
 * speed from moment to moment, and a process that wakes up goes back to its own, so that one that is compared with
 * another gains or loses up to half of its speed by chance. */
void pin_to_one_cpu(void);
void unpin(void);

/* ---- many clients ---- */

/* Compile `count` new programs with that many clients at once; seconds. */
double storm(const struct own_daemon *daemon, unsigned clients, unsigned count, const struct program *program);

/* ---- samples ---- */

struct series {
    double *at;
    size_t n;
};

void series_add(struct series *series, double sample);
double series_percentile(struct series *series, double p);
void series_finish(struct series *series);
/* Rows name.p50 and name.p99 against the same of the base; base NULL: there is none. */
void print_series(const char *name, struct series *series, const char *unit, struct series *base,
                  const char *base_name);

/* ---- the rows ---- */

void bench_small(const struct bench *bench);   /* P5, P17 */
void bench_heavy(const struct bench *bench);   /* P6 */
void bench_memory(const struct bench *bench);  /* P6b */
void bench_ranks(const struct bench *bench);   /* P7 */
void bench_tiers(const struct bench *bench);   /* P8 */
void bench_scaling(const struct bench *bench); /* P16 */

#endif
