/* Benchmarks: each prints rows `name value unit ratio base`, every ratio against a base line of the same run. */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/fusiond.h"

/* Where the daemon is; NULL and 0 for rows that start their own. */
struct bench {
    const char *socket;
    uint64_t pid;
    bool quick;       /* as little as shows that the row works; its figures mean nothing */
    unsigned rounds;  /* interleaved repetitions of each measurement */
    unsigned spin_us; /* how long a reader polls before it sleeps, in the base line and in the library alike */
};

/* ---- time and order ---- */

uint64_t now_ns(void);
/* Sorts in place. p in 0…1. */
double percentile(double *samples, size_t n, double p);

/* ---- rows ---- */

void print_head(FILE *out);
/* ratio is value / base; base <= 0: there is none. */
void print_row(FILE *out, const char *name, double value, const char *unit, double base, const char *base_name);

/* End the program with a sentence. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the base line: a process that answers `request` bytes with `reply` bytes over a Unix socket ---- */

struct pingpong {
    int fd;
    int child;
    size_t request, reply;
    unsigned spin_us;
    uint8_t *bytes;
};

void pingpong_start(struct pingpong *pingpong, size_t request, size_t reply, unsigned spin_us);
void pingpong_once(struct pingpong *pingpong);
void pingpong_stop(struct pingpong *pingpong);

/* ---- kernels to hit ---- */

/* A fusion whose code has about `code_bytes` and whose image has at least `image_bytes`. */
struct fusiond_fusion *make_fusion(const char *label, size_t code_bytes, size_t image_bytes);
/* Compile it, or find it. */
struct fusiond_kernel *get_kernel(struct fusiond_connection *connection, struct fusiond_fusion *fusion, unsigned parts);

/* Bytes of the frames of kernel.get and compile for this kernel, as the daemon sends them. */
void frame_sizes(const struct bench *bench, const char *key, unsigned parts, size_t *ret_request, size_t *ret_reply);

/* ---- the rows ---- */

void bench_hits(const struct bench *bench);       /* P1, P1b, P2 */
void bench_throughput(const struct bench *bench); /* P3 */
void bench_idle(const struct bench *bench);       /* P15 */
void bench_launch(const struct bench *bench);     /* P9 */

#endif
