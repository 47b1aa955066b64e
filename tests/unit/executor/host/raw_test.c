/* Hand-written CUDA kernels of different tastes on the host device, each against a loop of plain C. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/executor/host/proof.h"

Test(host_raw, B6_7_cooperative_grid_meets)
{
    struct host_image *image = proof_open("host/cooperative_norm.cu", 0, "cooperative_norm");
    int n = 10007;
    float *x = proof_floats((size_t)n, 1), *out = proof_memory((size_t)n * 4);
    float *partial = proof_memory(8 * sizeof *partial);
    proof_run(&(struct host_kernel_run){
        image, "cooperative_norm", {8}, {96}, 0, true, (const void *[]){&x, &partial, &out, &n}});
    double squares = 0;
    for (int i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    for (int i = 0; i < n; i++)
        expect_value("out", (size_t)i, (double)out[i], (double)x[i] / sqrt(squares / n), 1e-6, 1e-5);
}

Test(host_raw, vectors_with_a_tail)
{
    struct host_image *image = proof_open("host/gelu_float4.cu", 0, "gelu_float4");
    int n = 4099, columns = 37;
    float *x = proof_floats((size_t)n, 2), *bias = proof_floats(37, 3), *out = proof_memory((size_t)n * 4);
    proof_run(&(struct host_kernel_run){
        image, "gelu_float4", {3}, {256}, 0, false, (const void *[]){&x, &bias, &out, &n, &columns}});
    for (int i = 0; i < n; i++) {
        double y = (double)x[i] + (double)bias[i % columns];
        expect_value("out", (size_t)i, (double)out[i], 0.5 * y * (1 + erf(y / sqrt(2))), 1e-6, 1e-5);
    }
}

static void check_welford(const char *entry, unsigned width)
{
    struct host_image *image = proof_open("host/welford.cu", 0, entry);
    int n = 333, rows = 12;
    float *x = proof_floats((size_t)(n * rows), 4), *mean = proof_memory(12 * 4), *variance = proof_memory(12 * 4);
    proof_run(
        &(struct host_kernel_run){image, entry, {3}, {width, 4}, 0, false, (const void *[]){&x, &mean, &variance, &n}});
    for (int r = 0; r < rows; r++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < n; i++)
            sum += (double)x[r * n + i];
        for (int i = 0; i < n; i++)
            squares += pow((double)x[r * n + i] - sum / n, 2);
        expect_value("mean", (size_t)r, (double)mean[r], sum / n, 1e-6, 1e-4);
        expect_value("variance", (size_t)r, (double)variance[r], squares / n, 1e-6, 1e-4);
    }
}

Test(host_raw, shuffles_of_a_warp)
{
    check_welford("welford<float, 32>", 32);
}

Test(host_raw, shuffles_of_parts_of_a_warp)
{
    check_welford("welford<float, 8>", 8);
}

Test(host_raw, device_variables_constants_and_atomics)
{
    struct host_image *image = proof_open("host/embedding.cu", 0, "embedding");
    enum { ROWS = 50, COLUMNS = 70, N = 64 };
    int rows = ROWS, columns = COLUMNS, *wrong = proof_memory(4);
    float *table = proof_floats(ROWS * COLUMNS, 5), *out = proof_memory(N * COLUMNS * 4);
    long long *index = proof_memory(N * sizeof *index);
    int n_wrong = 0;
    *wrong = 0;
    for (int i = 0; i < N; i++) {
        index[i] = (i * 7919) % 120 - 60;
        n_wrong += index[i] < -ROWS || index[i] >= ROWS;
    }
    proof_run(&(struct host_kernel_run){image,
                                        "embedding",
                                        {N / 4},
                                        {32, 4},
                                        0,
                                        false,
                                        (const void *[]){&table, &index, &out, &wrong, &rows, &columns}});
    cr_expect_gt(n_wrong, 0);
    cr_expect_eq(*wrong, n_wrong, "%d, not %d", *wrong, n_wrong);
    for (int i = 0; i < N; i++)
        for (int c = 0; c < COLUMNS; c++) {
            long long at = index[i] < 0 ? index[i] + ROWS : index[i];
            double want = at < 0 || at >= ROWS ? 0 : (double)table[at * COLUMNS + c] * (at % 2 ? 0.5 : 1);
            expect_value("out", (size_t)(i * COLUMNS + c), (double)out[i * COLUMNS + c], want, 0, 1e-7);
        }
}

Test(host_raw, shuffles_of_8_bytes)
{
    struct host_image *image = proof_open("host/argmax.cu", 0, "argmax");
    int n = 1000;
    float *x = proof_floats(5000, 6);
    long long *out = proof_memory(5 * sizeof *out);
    for (int i = 0; i < 5000; i++)
        x[i] = floorf(x[i] * 20); /* so that the largest is there more than once */
    proof_run(&(struct host_kernel_run){image, "argmax", {5}, {128}, 0, false, (const void *[]){&x, &out, &n}});
    for (int r = 0; r < 5; r++) {
        int best = 0;
        for (int i = 1; i < n; i++)
            best = x[r * n + i] > x[r * n + best] ? i : best;
        cr_expect_eq(out[r], best, "row %d: %lld, not %d", r, out[r], best);
    }
}

Test(host_raw, sums_along_a_row)
{
    struct host_image *image = proof_open("host/cumsum.cu", 0, "cumsum");
    int n = 777, *x = proof_memory(3 * 777 * sizeof *x), *out = proof_memory(3 * 777 * sizeof *out);
    unsigned seed = 7;
    for (int i = 0; i < 3 * n; i++)
        x[i] = (int)(proof_random(&seed) % 1000) - 500;
    proof_run(&(struct host_kernel_run){image, "cumsum", {3}, {256}, 0, false, (const void *[]){&x, &out, &n}});
    for (int r = 0; r < 3; r++) {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            sum += x[r * n + i];
            cr_assert_eq(out[r * n + i], sum, "row %d, %d: %d, not %d", r, i, out[r * n + i], sum);
        }
    }
}

Test(host_raw, histogram_by_shared_atomics)
{
    struct host_image *image = proof_open("host/histogram.cu", 0, "histogram");
    int n = 100003;
    unsigned char *data = proof_memory((size_t)n);
    unsigned *bins = proof_memory(256 * sizeof *bins), want[256] = {0}, seed = 8;
    memset(bins, 0, 256 * sizeof *bins);
    for (int i = 0; i < n; i++) {
        data[i] = (unsigned char)(proof_random(&seed) % 256 & proof_random(&seed));
        want[data[i]]++;
    }
    proof_run(&(struct host_kernel_run){image, "histogram", {7}, {192}, 0, false, (const void *[]){&data, &bins, &n}});
    cr_expect_arr_eq(bins, want, sizeof want);
}

/* struct Matrix of the kernel's file. */
struct matrix {
    double *at;
    int rows, columns;
};

Test(host_raw, matrix_product_in_tiles)
{
    struct host_image *image = proof_open("host/matmul.cu", 0, "matmul<double>");
    enum { M = 45, N = 70, K = 33 };
    struct matrix a = {proof_memory(M * K * 8), M, K}, b = {proof_memory(K * N * 8), K, N};
    struct matrix c = {proof_memory(M * N * 8), M, N};
    unsigned seed = 9;
    for (int i = 0; i < M * K; i++)
        a.at[i] = proof_random(&seed) % 100;
    for (int i = 0; i < K * N; i++)
        b.at[i] = proof_random(&seed) % 100;
    proof_run(&(struct host_kernel_run){
        image, "matmul<double>", {(N + 15) / 16, (M + 15) / 16}, {16, 16}, 0, false, (const void *[]){&a, &b, &c}});
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += a.at[i * K + k] * b.at[k * N + j];
            expect_value("c", (size_t)(i * N + j), c.at[i * N + j], sum, 0, 0);
        }
}

Test(host_raw, scan_in_dynamic_shared_memory)
{
    struct host_image *image = proof_open("host/scan.cu", 0, "scan");
    int n = 1024, *in = proof_memory(1024 * 4), *out = proof_memory(1024 * 4), *total = proof_memory(4), sum = 0;
    for (int i = 0; i < n; i++)
        in[i] = i * i % 101 - 50;
    proof_run(
        &(struct host_kernel_run){image, "scan", {1}, {512}, 4096, false, (const void *[]){&in, &out, &total, &n}});
    for (int i = 0; i < n; i++) {
        cr_assert_eq(out[i], sum, "%d: %d, not %d", i, out[i], sum);
        sum += in[i];
    }
    cr_expect_eq(*total, sum);
}

Test(host_raw, stencil_whose_threads_leave_early)
{
    struct host_image *image = proof_open("host/stencil.cu", 0, "stencil");
    int height = 21, width = 75;
    float *in = proof_floats(21 * 75, 10), *out = proof_memory(21 * 75 * 4);
    proof_run(&(struct host_kernel_run){
        image, "stencil", {3, 3}, {32, 8}, 0, false, (const void *[]){&in, &out, &height, &width}});
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            int up = y ? y - 1 : 0, down = y < height - 1 ? y + 1 : y, left = x ? x - 1 : 0;
            int right = x < width - 1 ? x + 1 : x;
            double want = 0.5 * (double)in[y * width + x] +
                          0.125 * ((double)in[up * width + x] + (double)in[down * width + x] +
                                   (double)in[y * width + left] + (double)in[y * width + right]);
            expect_value("out", (size_t)(y * width + x), (double)out[y * width + x], want, 1e-6, 1e-6);
        }
}

static int by_value(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void expect_same_set(int *got, unsigned n_got, int *want, unsigned n_want)
{
    cr_assert_eq(n_got, n_want, "%u kept, not %u", n_got, n_want);
    qsort(got, n_got, sizeof *got, by_value);
    qsort(want, n_want, sizeof *want, by_value);
    cr_expect_arr_eq(got, want, n_want * sizeof *want);
}

Test(host_raw, compaction_by_ballots)
{
    struct host_image *image = proof_open("host/compaction.cu", 0, "compaction");
    int n = 5000, *in = proof_memory(5000 * 4), *out = proof_memory(5000 * 4), *want = proof_memory(5000 * 4);
    unsigned *count = proof_memory(4), n_want = 0, seed = 11;
    *count = 0;
    for (int i = 0; i < n; i++) {
        in[i] = (int)(proof_random(&seed) % 2001) - 1000;
        if (in[i] > 0)
            want[n_want++] = in[i];
    }
    proof_run(
        &(struct host_kernel_run){image, "compaction", {20}, {256}, 0, false, (const void *[]){&in, &out, &count, &n}});
    expect_same_set(out, *count, want, n_want);
}

Test(host_raw, whoever_is_active)
{
    struct host_image *image = proof_open("host/aggregate.cu", 0, "aggregate");
    int n = 3001, *in = proof_memory(3001 * 4), *out = proof_memory(3001 * 4), *want = proof_memory(3001 * 4);
    unsigned *count = proof_memory(4), *by_key = proof_memory(32), keys[8] = {0}, n_want = 0, seed = 12;
    *count = 0;
    memset(by_key, 0, 32);
    for (int i = 0; i < n; i++) {
        in[i] = (int)(proof_random(&seed) % 1000);
        keys[in[i] & 7]++;
        if (in[i] % 3 == 0)
            want[n_want++] = in[i];
    }
    proof_run(&(struct host_kernel_run){
        image, "aggregate", {12}, {256}, 0, false, (const void *[]){&in, &out, &count, &by_key, &n}});
    expect_same_set(out, *count, want, n_want);
    cr_expect_arr_eq(by_key, keys, sizeof keys);
}

Test(host_raw, volatile_memory_and_syncwarp)
{
    struct host_image *image = proof_open("host/warp_volatile.cu", 0, "warp_volatile<256>");
    unsigned n = 10001;
    float *in = proof_floats(n, 13), *out = proof_memory(6 * 4);
    double sum = 0, got = 0;
    proof_run(&(struct host_kernel_run){
        image, "warp_volatile<256>", {6}, {256}, 256 * 4, false, (const void *[]){&in, &out, &n}});
    for (unsigned i = 0; i < n; i++)
        sum += (double)in[i];
    for (int i = 0; i < 6; i++)
        got += (double)out[i];
    expect_value("sum", 0, got, sum, 1e-2, 1e-5);
}

Test(host_raw, the_last_block_adds_the_rest)
{
    struct host_image *image = proof_open("host/last_block.cu", 0, "last_block");
    unsigned n = 100000;
    double *in = proof_memory(n * 8), *parts = proof_memory(32 * 8), *out = proof_memory(8), sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += in[i] = i % 17;
    for (int again = 0; again < 3; again++) { /* the counter wraps for the next launch */
        *out = 0;
        proof_run(&(struct host_kernel_run){
            image, "last_block", {32}, {128}, 0, false, (const void *[]){&in, &parts, &out, &n}});
        expect_value("sum", 0, *out, sum, 0, 0);
    }
}

Test(host_raw, blocks_that_wait_for_earlier_blocks)
{
    struct host_image *image = proof_open("host/look_back.cu", 0, "look_back");
    enum { N = 64 * 100 };
    int *in = proof_memory(N * 4), *out = proof_memory(N * 4), *sums = proof_memory(100 * 4), sum = 0;
    unsigned *flags = proof_memory(100 * 4), *ticket = proof_memory(4);
    memset(flags, 0, 400);
    *ticket = 0;
    for (int i = 0; i < N; i++)
        in[i] = i % 23 - 11;
    proof_run(&(struct host_kernel_run){
        image, "look_back", {100}, {64}, 0, false, (const void *[]){&in, &out, &sums, &flags, &ticket}});
    for (int i = 0; i < N; i++) {
        sum += in[i];
        cr_assert_eq(out[i], sum, "%d: %d, not %d", i, out[i], sum);
    }
}

Test(host_raw, lanes_that_fight_for_a_lock)
{
    struct host_image *image = proof_open("host/lock.cu", 0, "lock");
    enum { N = 4 * 96 };
    int *counter = proof_memory(4), *trace = proof_memory(N * 4), seen[N] = {0};
    *counter = 0;
    proof_run(&(struct host_kernel_run){image, "lock", {4}, {96}, 0, false, (const void *[]){&counter, &trace}});
    cr_assert_eq(*counter, N);
    for (int i = 0; i < N; i++) {
        cr_assert(trace[i] >= 0 && trace[i] < N);
        cr_expect_eq(seen[trace[i]]++, 0, "thread %d was there twice", trace[i]);
    }
}

Test(host_raw, B6_2_arguments_of_all_sizes)
{
    const char *name = "arguments<long long, 4, Mode::Sum>";
    struct host_image *image = proof_open("host/arguments.cu", 0, name);
    struct odd {
        char c;
        short s;
        char d;
    } odd = {1, 2, 3};
    struct wide {
        _Alignas(32) float v[8];
    } wide = {{10, 20, 30, 40, 50, 60, 70, 80}};
    bool b = true;
    char c = 5;
    double d = 1000.5;
    long long *out = proof_memory(8), first = 1, second = 100000, *table[] = {&first, &second}, **tables = table;
    unsigned extents[3] = {2, 3, 5};
    const struct fusiond_host_entry *entry = host_image_find(image, name, strlen(name));
    static const unsigned sizes[] = {8, 1, 1, 6, 32, 8, 8, 12}, alignments[] = {8, 1, 1, 2, 32, 8, 8, 4};
    cr_assert(entry && entry->n_parameters == 8);
    for (unsigned i = 0; i < 8; i++) {
        cr_expect_eq(entry->parameters[i].size, sizes[i]);
        cr_expect_eq(entry->parameters[i].alignment, alignments[i]);
    }
    proof_run(&(struct host_kernel_run){
        image, name, {1}, {2}, 0, false, (const void *[]){&out, &b, &c, &odd, &wide, &d, &tables, extents}});
    cr_expect_eq(*out, 1 + 5 + 6 + 1000 + 3 + 4 + 360 + 100000 + 30, "%lld", *out);
}

Test(host_raw, no_arguments_at_all)
{
    struct host_image *image = proof_open("host/arguments.cu", 0, "nothing");
    proof_run(&(struct host_kernel_run){image, "nothing", {3}, {7}, 0, false, NULL});
}
