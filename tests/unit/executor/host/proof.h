/* What the tests of real kernels share: opening one, the bytes of tensors, inputs, and comparing with a reference. */
#ifndef TESTS_UNIT_EXECUTOR_HOST_PROOF_H
#define TESTS_UNIT_EXECUTOR_HOST_PROOF_H

#include <stddef.h>
#include <stdint.h>

#include "tests/support/host_kernel.h"

/* The kernel of a file of tests/fusions; skips the test without g++, fails it with the compiler's words. index_bits as
 * in struct host_kernel_source. */
struct host_image *proof_open(const char *file, int index_bits, const char *entry);

/* Run; fails the test when the launch does. */
void proof_run(const struct host_kernel_run *run);

/* A dense tensor argument as kernels see it. */
struct tensor_argument {
    _Alignas(8) unsigned char bytes[64];
};
struct tensor_argument tensor1(const void *data, int64_t size, int index_bits);
struct tensor_argument tensor2(const void *data, int64_t rows, int64_t columns, int index_bits);

/* Memory that is aligned as a device's, full of a pattern, and lives until the test ends. */
void *proof_memory(size_t size);

/* Numbers between -2 and 2, the same in every run. */
float *proof_floats(size_t n, unsigned seed);
unsigned proof_random(unsigned *state);
/* Bits of finite numbers of that size. */
uint16_t *proof_halves(size_t n, unsigned seed);
uint16_t *proof_bfloats(size_t n, unsigned seed);
double half_value(uint16_t bits);
double bfloat_value(uint16_t bits);

/* Fails the test when a value is not within absolute + relative * |want|. */
void expect_value(const char *what, size_t at, double got, double want, double absolute, double relative);

#endif
