/* The collectives of a block on a device, against loops on the host. The rule of each value is that of block.cu. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/preamble/device.h"

#define MAX_THREADS 1024

static const unsigned blocks[][3] = {
    {1, 1, 1},   {3, 1, 1},  {31, 1, 1},  {32, 1, 1}, {33, 1, 1},  {1024, 1, 1}, {1, 7, 1},
    {1, 1, 5},   {7, 5, 3},  {32, 4, 8},  {96, 3, 2}, {64, 2, 1},  {128, 8, 1},  {1, 33, 2},
    {16, 1, 40}, {2, 1, 64}, {5, 200, 1}, {32, 1, 1}, {992, 1, 1}, {32, 32, 1},  {8, 8, 16},
};
#define N_BLOCKS (sizeof(blocks) / sizeof(blocks[0]))
/* Where a launch costs milliseconds, only every so many of them. */
#ifndef BLOCK_STEP
#define BLOCK_STEP 1
#endif

static int value_of(int salt, unsigned position)
{
    return (int)((position * 2654435761u + (unsigned)salt * 40503u) >> 20 & 63) - 20;
}
static bool reads(int preds, unsigned position)
{
    return !(preds & 1) || position % 3 != 1;
}
static bool writes(int preds, unsigned position)
{
    return !(preds & 2) || position % 5 != 2;
}

/* A thread's position within its block, and the position of the first thread of its reduction. */
struct thread {
    unsigned position;
    unsigned first;
};
static struct thread thread_at(const unsigned block[3], unsigned position, int flags)
{
    unsigned index[3] = {position % block[0], position / block[0] % block[1], position / block[0] / block[1]};
    for (int d = 0; d < 3; d++)
        if (flags >> d & 1)
            index[d] = 0;
    return (struct thread){position, index[0] + block[0] * (index[1] + block[1] * index[2])};
}

/* What reduce_thrice leaves in each thread. */
static void expect_thrice(const unsigned block[3], int flags, int preds, bool same_pred, double *ret)
{
    unsigned n = block[0] * block[1] * block[2];
    double sum[MAX_THREADS] = {0};
    double largest[MAX_THREADS];
    double other[MAX_THREADS] = {0};
    for (unsigned i = 0; i < n; i++)
        largest[i] = -1000;
    for (unsigned i = 0; i < n; i++) {
        unsigned first = thread_at(block, i, flags).first;
        if (reads(preds, i)) {
            sum[first] += value_of(1, i);
            if (value_of(2, i) + 90 > largest[first])
                largest[first] = value_of(2, i) + 90;
        }
        other[first] += value_of(3, i);
    }
    for (unsigned i = 0; i < n; i++) {
        bool holds = thread_at(block, i, flags).first == i;
        bool written = holds && (same_pred ? reads(preds, i) : writes(preds, i));
        ret[3 * i] = written ? 100 + sum[i] : 100;
        ret[3 * i + 1] = written && largest[i] > 100 ? largest[i] : 100;
        ret[3 * i + 2] = holds ? 100 + other[i] : 100;
    }
}

static double as_double(const void *values, size_t i, char type)
{
    switch (type) {
    case 'f':
        return ((const float *)values)[i];
    case 'd':
        return ((const double *)values)[i];
    case 'i':
        return ((const int *)values)[i];
    default:
        return (double)((const int64_t *)values)[i];
    }
}

static void reduce_all(const char *name, char type)
{
    need_device();
    const struct gpu_kernel *kernel = device_kernel("block.cu", name, NULL);
    size_t element = type == 'f' || type == 'i' ? 4 : 8;
    gpu_pointer result = gpu_alloc(2 * 3 * MAX_THREADS * 8);
    static double expected[3 * MAX_THREADS];
    static unsigned char got[2 * 3 * MAX_THREADS * 8];
    size_t wrong = 0;
    for (size_t b = 0; b < N_BLOCKS; b += BLOCK_STEP) {
        unsigned n = blocks[b][0] * blocks[b][1] * blocks[b][2];
        for (int flags = 1; flags < 8; flags++)
            for (int form = 0; form < 8; form++)
                for (int preds = 0; preds < 4; preds++) {
                    gpu_run(kernel, (unsigned[3]){2, 1, 1}, blocks[b], (unsigned)(n * element),
                            (void *[]){&flags, &form, &preds, &result});
                    gpu_read(got, result, 2 * 3 * n * element);
                    expect_thrice(blocks[b], flags, preds, form >= 5, expected);
                    for (size_t i = 0; i < 2 * 3 * n; i++)
                        if (as_double(got, i, type) != expected[i % (3 * n)] && ++wrong < 10)
                            cr_log_error("%s: block %u x %u x %u, flags %d, form %d, preds %d, thread %zu, result %zu: "
                                         "%g, not %g",
                                         name, blocks[b][0], blocks[b][1], blocks[b][2], flags, form, preds,
                                         i % (3 * n) / 3, i % 3, as_double(got, i, type), expected[i % (3 * n)]);
                }
    }
    gpu_free(result);
    cr_expect_eq(wrong, 0, "%zu wrong results", wrong);
}

Test(gpu_block, B4_1_block_reduce_float)
{
    reduce_all("reduce<float>", 'f');
}

Test(gpu_block, B4_1_block_reduce_double)
{
    reduce_all("reduce<double>", 'd');
}

Test(gpu_block, B4_1_block_reduce_int)
{
    reduce_all("reduce<int>", 'i');
}

Test(gpu_block, B4_1_block_reduce_int64)
{
    reduce_all("reduce<long long>", 'l');
}

Test(gpu_block, B4_1_block_broadcast)
{
    need_device();
    const struct gpu_kernel *kernel = device_kernel("block.cu", "spread", NULL);
    gpu_pointer result = gpu_alloc(2 * MAX_THREADS * sizeof(double));
    static double got[2 * MAX_THREADS];
    size_t wrong = 0;
    for (size_t b = 0; b < N_BLOCKS; b += BLOCK_STEP) {
        unsigned n = blocks[b][0] * blocks[b][1] * blocks[b][2];
        for (int flags = 1; flags < 8; flags++)
            for (int form = 0; form < 3; form++) {
                gpu_run(kernel, (unsigned[3]){1, 1, 1}, blocks[b], n * 8, (void *[]){&flags, &form, &result});
                gpu_read(got, result, 2 * n * sizeof(double));
                for (unsigned i = 0; i < n; i++) {
                    unsigned first = thread_at(blocks[b], i, flags).first;
                    bool pred = first == i || i % 4 != 3;
                    double one = pred ? value_of(4, first) : 100;
                    wrong += got[2 * i] != one;
                    wrong += got[2 * i + 1] != value_of(5, first);
                }
                cr_expect_eq(wrong, 0, "block %u x %u x %u, flags %d, form %d", blocks[b][0], blocks[b][1],
                             blocks[b][2], flags, form);
            }
    }
    gpu_free(result);
}

static void grouped(const char *name, char type, int n_values)
{
    need_device();
    const struct gpu_kernel *kernel = device_kernel("block.cu", name, NULL);
    size_t element = type == 'f' ? 4 : 8;
    static const unsigned shapes[][3] = {{1, 1, 1},  {32, 1, 1}, {32, 8, 1}, {7, 9, 1},
                                         {1, 33, 1}, {64, 2, 1}, {16, 17, 1}};
    gpu_pointer result = gpu_alloc(2 * 16 * 512 * 8);
    static unsigned char got[2 * 16 * 512 * 8];
    for (size_t b = 0; b < sizeof(shapes) / sizeof(shapes[0]); b++) {
        unsigned n = shapes[b][0] * shapes[b][1];
        for (int preds = 0; preds < 4; preds++) {
            gpu_run(kernel, (unsigned[3]){1, 1, 1}, shapes[b], (unsigned)(n * (unsigned)n_values * element),
                    (void *[]){&preds, &result});
            gpu_read(got, result, 2 * n * (unsigned)n_values * element);
            size_t wrong = 0;
            for (unsigned i = 0; i < n; i++)
                for (int v = 0; v < n_values; v++) {
                    double sum[2] = {0, 0};
                    for (unsigned k = i % shapes[b][0]; k < n; k += shapes[b][0]) {
                        sum[0] += reads(preds, k) ? value_of(10 + v, k) : 0;
                        sum[1] += value_of(10 + v, k);
                    }
                    bool holds = i < shapes[b][0];
                    double first = as_double(got, (size_t)(2 * i) * (size_t)n_values + (size_t)v, type);
                    double second = as_double(got, (size_t)(2 * i + 1) * (size_t)n_values + (size_t)v, type);
                    wrong += first != (holds && writes(preds, i) ? 100 + sum[0] : 100);
                    wrong += second != (holds ? 100 + sum[1] : 100);
                }
            cr_expect_eq(wrong, 0, "%s: block %u x %u, preds %d: %zu wrong", name, shapes[b][0], shapes[b][1], preds,
                         wrong);
        }
    }
    gpu_free(result);
}

Test(gpu_block, B4_1_grouped_reduce_over_y)
{
    grouped("grouped<2, float>", 'f', 2);
    grouped("grouped<4, float>", 'f', 4);
    grouped("grouped<8, float>", 'f', 8);
    grouped("grouped<16, float>", 'f', 16);
    grouped("grouped<2, double>", 'd', 2);
    grouped("grouped<16, double>", 'd', 16);
}

static void warp_reduce(const char *name, char type)
{
    need_device();
    const struct gpu_kernel *kernel = device_kernel("block.cu", name, NULL);
    static const unsigned shapes[][3] = {{32, 1, 1}, {32, 5, 3}, {64, 1, 1}, {96, 2, 3}, {1024, 1, 1}, {256, 4, 1}};
    gpu_pointer result = gpu_alloc(2 * MAX_THREADS * 8);
    static unsigned char got[2 * MAX_THREADS * 8];
    for (size_t b = 0; b < sizeof(shapes) / sizeof(shapes[0]); b++) {
        unsigned n = shapes[b][0] * shapes[b][1] * shapes[b][2];
        for (int single = 0; single <= (shapes[b][0] == 32); single++)
            for (int form = 0; form < 3; form++)
                for (int preds = 0; preds < 2; preds++) {
                    gpu_run(kernel, (unsigned[3]){1, 1, 1}, shapes[b], n / 32 * 8,
                            (void *[]){&single, &form, &preds, &result});
                    gpu_read(got, result, 2 * n * (type == 'f' ? 4u : 8u));
                    size_t wrong = 0;
                    for (unsigned i = 0; i < n; i++) {
                        if (!single && i % shapes[b][0] != 0)
                            continue; /* the result is for threadIdx.x == 0 */
                        unsigned first = i / shapes[b][0] * shapes[b][0];
                        double sum = 100;
                        for (unsigned k = first; k < first + shapes[b][0]; k++)
                            sum += reads(preds, k) ? value_of(6, k) : 0;
                        wrong += as_double(got, 2 * i, type) != sum;
                        wrong += as_double(got, 2 * i + 1, type) != sum;
                    }
                    cr_expect_eq(wrong, 0, "%s: block %u x %u x %u, single %d, form %d, preds %d: %zu wrong", name,
                                 shapes[b][0], shapes[b][1], shapes[b][2], single, form, preds, wrong);
                }
    }
    gpu_free(result);
}

Test(gpu_block, B4_1_warp_reduce_x)
{
    warp_reduce("warp_reduce<float>", 'f');
    warp_reduce("warp_reduce<double>", 'd');
    warp_reduce("warp_reduce<long long>", 'l');
}

Test(gpu_block, B4_1_warp_reduce_xy)
{
    need_device();
    const struct gpu_kernel *kernel = device_kernel("block.cu", "warp_reduce_xy", NULL);
    gpu_pointer result = gpu_alloc(96 * sizeof(double));
    double got[96];
    double sum = 100;
    for (unsigned i = 0; i < 96; i++)
        sum += value_of(7, i);
    gpu_run(kernel, (unsigned[3]){1, 1, 1}, (unsigned[3]){12, 8, 1}, 3 * 8, (void *[]){&result});
    gpu_read(got, result, sizeof(got));
    cr_expect_eq(got[0], sum, "%g, not %g", got[0], sum);
    gpu_free(result);
}

/* Rows of 128 compute threads beside 32 threads that leave at once. */
Test(gpu_block, B4_1_collectives_of_compute_threads_only)
{
    need_device();
    const struct gpu_kernel *kernel = device_kernel("block.cu", "roles", NULL);
    gpu_pointer result = gpu_alloc(3 * 320 * sizeof(float));
    static float got[3 * 320];
    gpu_run(kernel, (unsigned[3]){1, 1, 1}, (unsigned[3]){160, 2, 1}, 256 * 4, (void *[]){&result});
    gpu_read(got, result, sizeof(got));
    float total = 100;
    for (unsigned y = 0; y < 2; y++) {
        float largest = -1000;
        float sum = 0;
        for (unsigned x = 0; x < 128; x++) {
            int value = value_of(8, x + 160 * y);
            largest = (float)value > largest ? (float)value : largest;
            sum += (float)value;
        }
        total += sum;
        for (unsigned x = 0; x < 128; x++) {
            const float *own = &got[3 * (x + 160 * y)];
            cr_expect_eq(own[0], largest, "row %u, thread %u: largest %g, not %g", y, x, own[0], largest);
            cr_expect_eq(own[1], sum + 1000 * 3 * 128, "row %u, thread %u: group %g", y, x, own[1]);
        }
    }
    cr_expect_eq(got[2], total, "%g, not %g", got[2], total);
    for (unsigned x = 1; x < 128; x++)
        cr_expect_eq(got[3 * x + 2], 100, "thread %u: %g", x, got[3 * x + 2]);
    gpu_free(result);
}
