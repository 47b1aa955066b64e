#include "tests/unit/executor/host/proof.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct host_image *proof_open(const char *file, int index_bits, const char *entry)
{
    char path[256], log[HOST_KERNEL_LOG], why[256];
    const char *const entries[] = {entry, NULL};
    if (host_kernel_is_missing(why))
        cr_skip_test("%s", why);
    snprintf(path, sizeof path, "tests/fusions/%s", file);
    char *code = host_kernel_read(path);
    struct host_image *image = host_kernel_build(
        &(struct host_kernel_source){.code = code, .index_bits = index_bits, .entries = entries}, log);
    free(code);
    cr_assert(image, "%s, index of %d bits: %s", file, index_bits, log);
    return image;
}

void proof_run(const struct host_kernel_run *run)
{
    const char *why = host_kernel_run(run);
    cr_assert(!why, "%s: %s", run->entry, why);
}

static struct tensor_argument pack(const void *data, const int64_t *numbers, int n, int index_bits)
{
    struct tensor_argument tensor = {{0}};
    unsigned char *at = tensor.bytes;
    memcpy(at, &data, sizeof data);
    at += sizeof data;
    for (int i = 0; i < n; i++) {
        int32_t narrow = (int32_t)numbers[i];
        if (index_bits == 32)
            memcpy(at, &narrow, 4);
        else
            memcpy(at, &numbers[i], 8);
        at += index_bits / 8;
    }
    return tensor;
}

struct tensor_argument tensor1(const void *data, int64_t size, int index_bits)
{
    return pack(data, (int64_t[]){size, 1}, 2, index_bits);
}

struct tensor_argument tensor2(const void *data, int64_t rows, int64_t columns, int index_bits)
{
    return pack(data, (int64_t[]){rows, columns, columns, 1}, 4, index_bits);
}

void *proof_memory(size_t size)
{
    static void *all[256];
    static size_t n;
    void *memory = aligned_alloc(256, (size + 255) / 256 * 256);
    cr_assert(memory && n < sizeof all / sizeof all[0]);
    all[n++] = memory; /* so that it is not lost */
    memset(memory, 0xee, size);
    return memory;
}

unsigned proof_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

float *proof_floats(size_t n, unsigned seed)
{
    float *values = proof_memory(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)proof_random(&seed) / (float)(1u << 22) - 2.0f;
    return values;
}

uint16_t *proof_halves(size_t n, unsigned seed)
{
    uint16_t *values = proof_memory(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = (uint16_t)((proof_random(&seed) & 0x83ff) | (11 + proof_random(&seed) % 5) << 10);
    return values;
}

uint16_t *proof_bfloats(size_t n, unsigned seed)
{
    uint16_t *values = proof_memory(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = (uint16_t)((proof_random(&seed) & 0x807f) | (123 + proof_random(&seed) % 5) << 7);
    return values;
}

double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    double size = exponent == 31  ? fraction ? NAN : INFINITY
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

double bfloat_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

void expect_value(const char *what, size_t at, double got, double want, double absolute, double relative)
{
    double bound = absolute + relative * fabs(want);
    cr_assert(fabs(got - want) <= bound, "%s[%zu]: %.9g, not %.9g", what, at, got, want);
}
