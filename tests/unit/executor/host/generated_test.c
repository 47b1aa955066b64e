/* Generated kernels, as they are published from 2020 on, on the host device with the preamble: each unmodified, with
 * indices of 32 and of 64 bits, against a loop of plain C. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <string.h>

#include "tests/unit/executor/host/proof.h"

static int widths[] = {32, 64};

#define BOTH_WIDTHS(test)                                                                                              \
    ParameterizedTestParameters(host_generated, test)                                                                  \
    {                                                                                                                  \
        return cr_make_param_array(int, widths, 2);                                                                    \
    }                                                                                                                  \
    ParameterizedTest(int *bits, host_generated, test)

BOTH_WIDTHS(B4_2_scale_bias_relu_2021)
{
    struct host_image *image = proof_open("host/scale_bias_relu.cu", *bits, "kernel4");
    enum { R = 17, C = 29 };
    float *x = proof_floats(R * C, 1), *bias = proof_floats(C, 2), *out = proof_memory(R * C * 4);
    double scale = 1.5;
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(bias, C, *bits), t3 = tensor2(out, R, C, *bits);
    proof_run(
        &(struct host_kernel_run){image, "kernel4", {4}, {64}, 0, false, (const void *[]){&t0, &t1, &scale, &t3}});
    for (size_t i = 0; i < R * C; i++)
        expect_value("out", i, (double)out[i], fmax(0, (double)x[i] * 1.5 + (double)bias[i % C]), 1e-6, 1e-6);
}

BOTH_WIDTHS(B4_2_column_sum_2023)
{
    const char *name = "nvfuser_reduction_f0_c1_r0_g0";
    struct host_image *image = proof_open("host/column_sum.cu", *bits, name);
    enum { R = 100, C = 75 };
    float *x = proof_floats(R * C, 3);
    double *out = proof_memory(C * 8);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(out, C, *bits);
    proof_run(&(struct host_kernel_run){image, name, {3}, {32, 6}, 32 * 6 * 8, false, (const void *[]){&t0, &t1}});
    for (size_t c = 0; c < C; c++) {
        double sum = 0;
        for (size_t r = 0; r < R; r++)
            sum += (double)x[r * C + c];
        expect_value("out", c, out[c], sum, 1e-12, 1e-12);
    }
}

BOTH_WIDTHS(B4_2_log_softmax)
{
    struct host_image *image = proof_open("host/log_softmax.cu", *bits, "log_softmax");
    enum { R = 5, C = 301 };
    uint16_t *x = proof_halves(R * C, 4);
    float *out = proof_memory(R * C * 4);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor2(out, R, C, *bits);
    proof_run(&(struct host_kernel_run){image, "log_softmax", {R}, {96}, C * 4, false, (const void *[]){&t0, &t1}});
    for (size_t r = 0; r < R; r++) {
        double sum = 0;
        for (size_t i = 0; i < C; i++)
            sum += exp(half_value(x[r * C + i]));
        for (size_t i = 0; i < C; i++)
            expect_value("out", r * C + i, (double)out[r * C + i], half_value(x[r * C + i]) - log(sum), 1e-5, 1e-5);
    }
}

BOTH_WIDTHS(B4_2_dropout_2025)
{
    const char *name = "nvfuser_pointwise_f2_c1_r0_g0";
    struct host_image *image = proof_open("host/dropout.cu", *bits, name);
    enum { N = 2000 };
    uint16_t *x = proof_bfloats(N, 5), *out = proof_memory(N * 2);
    bool *kept = proof_memory(N);
    int64_t seed = 12345;
    double p = 0.25;
    size_t n_kept = 0;
    struct tensor_argument t0 = tensor1(x, N, *bits), t3 = tensor1(out, N, *bits), t4 = tensor1(kept, N, *bits);
    proof_run(&(struct host_kernel_run){image, name, {4}, {128}, 0, false, (const void *[]){&t0, &seed, &p, &t3, &t4}});
    for (size_t i = 0; i < N; i++) {
        uint32_t h = (uint32_t)i * 2654435761u + 12345u;
        h = (h ^ h >> 15) * 2246822519u;
        h ^= h >> 13;
        bool keep = h / 4294967296.0 >= p;
        n_kept += keep;
        cr_assert_eq(kept[i], keep);
        expect_value("out", i, bfloat_value(out[i]), keep ? bfloat_value(x[i]) / 0.75 : 0, 0, 0.004);
    }
    cr_expect(n_kept > 1400 && n_kept < 1600, "%zu", n_kept);
}

BOTH_WIDTHS(B4_2_sum_by_atomics)
{
    struct host_image *image = proof_open("host/atomic_mean.cu", *bits, "atomic_mean");
    enum { N = 12345 };
    float *x = proof_floats(N, 6), *out = proof_memory(4);
    double sum = 0;
    struct tensor_argument t0 = tensor1(x, N, *bits);
    *out = 0;
    proof_run(&(struct host_kernel_run){image, "atomic_mean", {9}, {160}, 160 * 4, false, (const void *[]){&t0, &out}});
    for (size_t i = 0; i < N; i++)
        sum += (double)x[i];
    expect_value("mean", 0, (double)*out, sum / N, 1e-5, 1e-4);
}

/* ---- tests/fusions/compat ---- */

BOTH_WIDTHS(B4_2_pointwise_2020)
{
    struct host_image *image = proof_open("compat/pointwise_2020.cu", *bits, "CUDAGeneratedKernel");
    enum { R = 11, C = 50 };
    float *x = proof_floats(R * C, 7), *bias = proof_floats(C, 8), *out = proof_memory(R * C * 4), by = 3.5f;
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(bias, C, *bits), t4 = tensor2(out, R, C, *bits);
    proof_run(&(struct host_kernel_run){
        image, "CUDAGeneratedKernel", {5}, {128}, 0, false, (const void *[]){&t0, &t1, &by, &t4}});
    for (size_t i = 0; i < R * C; i++) {
        double y = ((double)x[i] + (double)bias[i % C]) * 3.5;
        expect_value("out", i, (double)out[i], fmin(fmax(y, 0), 6), 1e-5, 1e-6);
    }
}

BOTH_WIDTHS(B4_2_max_2021)
{
    struct host_image *image = proof_open("compat/max_2021.cu", *bits, "kernel1");
    enum { R = 6, C = 311 };
    float *x = proof_floats(R * C, 9), *out = proof_memory(R * 4);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(out, R, *bits);
    proof_run(&(struct host_kernel_run){image, "kernel1", {R}, {80}, 80 * 4, false, (const void *[]){&t0, &t1}});
    for (size_t r = 0; r < R; r++) {
        double most = -INFINITY;
        for (size_t i = 0; i < C; i++)
            most = fmax(most, (double)x[r * C + i]);
        expect_value("out", r, (double)out[r], most, 0, 0);
    }
}

BOTH_WIDTHS(B4_2_softmax_2022)
{
    struct host_image *image = proof_open("compat/softmax_2022.cu", *bits, "kernel2");
    enum { R = 7, C = 252 };
    uint16_t *x = proof_halves(R * C, 10), *out = proof_memory(R * C * 2);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t9 = tensor2(out, R, C, *bits);
    proof_run(&(struct host_kernel_run){image, "kernel2", {R}, {64}, 64 * 4, false, (const void *[]){&t0, &t9}});
    for (size_t r = 0; r < R; r++) {
        double sum = 0;
        for (size_t i = 0; i < C; i++)
            sum += exp(half_value(x[r * C + i]));
        for (size_t i = 0; i < C; i++)
            expect_value("out", r * C + i, half_value(out[r * C + i]), exp(half_value(x[r * C + i])) / sum, 1e-7, 1e-3);
    }
}

BOTH_WIDTHS(B4_2_sum_2023_05)
{
    struct host_image *image = proof_open("compat/sum_2023_05.cu", *bits, "kernel3");
    enum { R = 4, C = 100 };
    double *x = proof_memory(R * C * 8), *out = proof_memory(8), sum = 0;
    for (size_t i = 0; i < R * C; i++)
        sum += x[i] = (double)(i % 13) + 0.5; /* the kernel negates the sum unless all are positive */
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(out, 1, *bits);
    proof_run(&(struct host_kernel_run){image, "kernel3", {1}, {24, 4}, 96 * 8, false, (const void *[]){&t0, &t1}});
    expect_value("out", 0, *out, sum, 0, 0);
}

BOTH_WIDTHS(B4_2_vector_2023_10)
{
    const char *name = "nvfuser_pointwise_f0_c1_r0_g0";
    struct host_image *image = proof_open("compat/vector_2023_10.cu", *bits, name);
    enum { R = 2, C = 1024 };
    uint16_t *x = proof_halves(R * C, 11), *y = proof_halves(R * C, 12), *out = proof_memory(R * C * 2);
    double by = -1.25;
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor2(y, R, C, *bits), t8 = tensor2(out, R, C, *bits);
    proof_run(&(struct host_kernel_run){image, name, {2}, {128}, 0, false, (const void *[]){&t0, &t1, &by, &t8}});
    for (size_t i = 0; i < R * C; i++)
        expect_value("out", i, half_value(out[i]), half_value(x[i]) * -1.25 + half_value(y[i]) / 2, 1e-4, 6e-4);
}

static void layer_norm_row(const double *x, size_t n, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
    *mean = sum / (double)n;
    *deviation = sqrt(squares / (double)n + 1e-5);
}

BOTH_WIDTHS(B4_2_layer_norm_2025_01)
{
    const char *name = "nvfuser_inner_persistent_f0_c1_r0_g0";
    struct host_image *image = proof_open("compat/layer_norm_2025_01.cu", *bits, name);
    enum { R = 5, C = 248 };
    uint16_t *x = proof_bfloats(R * C, 13), *weight = proof_bfloats(C, 14), *bias = proof_bfloats(C, 15);
    uint16_t *out = proof_memory(R * C * 2);
    float *rstd = proof_memory(R * 4);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(weight, C, *bits), t2 = tensor1(bias, C, *bits);
    struct tensor_argument t20 = tensor2(out, R, C, *bits), t21 = tensor2(rstd, R, 1, *bits);
    proof_run(&(struct host_kernel_run){
        image, name, {R}, {64}, 64 * 4 + C * 2 + 64, false, (const void *[]){&t0, &t1, &t2, &t20, &t21}});
    for (size_t r = 0; r < R; r++) {
        double row[C], mean, deviation;
        for (size_t i = 0; i < C; i++)
            row[i] = bfloat_value(x[r * C + i]);
        layer_norm_row(row, C, &mean, &deviation);
        expect_value("rstd", r, (double)rstd[r], 1 / deviation, 0, 1e-4);
        for (size_t i = 0; i < C; i++)
            expect_value("out", r * C + i, bfloat_value(out[r * C + i]),
                         (row[i] - mean) / deviation * bfloat_value(weight[i]) + bfloat_value(bias[i]), 1e-4, 5e-3);
    }
}

BOTH_WIDTHS(B4_2_roles_2025)
{
    const char *name = "nvfuser_inner_outer_persistent_f0_c1_r0_g0";
    struct host_image *image = proof_open("compat/roles_2025.cu", *bits, name);
    enum { R = 3, C = 256 };
    struct {
        _Alignas(64) uint64_t opaque[16];
    } map = {{77}};
    float *x = proof_floats(R * C, 16), *out = proof_memory(R * 4);
    int64_t by = 2, *seen = proof_memory(8);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t5 = tensor1(out, R, *bits), t6 = tensor1(seen, 1, *bits);
    proof_run(&(struct host_kernel_run){
        image, name, {R}, {384}, 6272 + 1024 + 128, false, (const void *[]){&t0, &map, &by, &t5, &t6}});
    cr_expect_eq(*seen, 77);
    for (size_t r = 0; r < R; r++) {
        double sum = 0, most = -INFINITY;
        for (size_t i = 0; i < C; i++) {
            sum += (double)x[r * C + i];
            most = fmax(most, (double)x[r * C + i]);
        }
        expect_value("out", r, (double)out[r], sum + most * sum * 2, 1e-3, 1e-4);
    }
}

BOTH_WIDTHS(B4_2_grouped_2025)
{
    const char *name = "nvfuser_reduction_f0_c1_r0_g0";
    struct host_image *image = proof_open("compat/grouped_2025.cu", *bits, name);
    enum { R = 37, C = 128 };
    float *x = proof_floats(R * C, 17), *out = proof_memory(C * 4), *copy = proof_memory(C * 4);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(out, C, *bits), t9 = tensor1(copy, C, *bits);
    proof_run(
        &(struct host_kernel_run){image, name, {2}, {16, 8}, 16 * 8 * 16, false, (const void *[]){&t0, &t1, &t9}});
    for (size_t c = 0; c < C; c++) {
        double sum = 0;
        for (size_t r = 0; r < R; r++)
            sum += (double)x[r * C + c];
        expect_value("out", c, (double)out[c], sum, 1e-5, 1e-5);
        expect_value("copy", c, (double)copy[c], sum, 1e-5, 1e-5);
    }
}

BOTH_WIDTHS(B4_2_own_helpers)
{
    struct host_image *image = proof_open("compat/own_helpers.cu", *bits, "gated");
    int n = 500;
    float *x = proof_floats(500, 18), *out = proof_memory(500 * 4);
    struct tensor_argument t0 = tensor1(x, n, *bits), t1 = tensor1(out, n, *bits);
    proof_run(&(struct host_kernel_run){image, "gated", {2}, {64}, 0, false, (const void *[]){&t0, &t1, &n}});
    for (size_t i = 0; i < 500; i++) {
        double v = (double)x[i], sigmoid = 1 / (1 + exp(-v)), relu = fmax(v, 0);
        double y = relu + sigmoid + fmin(relu, 1) + (v + 0.5 * (1 - v)) + v * sigmoid + relu;
        y += 1 / v + fabs(v) + 1 + fmin(v, 2);
        expect_value("out", i, (double)out[i], y, 1e-4, 1e-5);
    }
}

BOTH_WIDTHS(B4_2_scalars_2024)
{
    const char *name = "nvfuser_transpose_f0_c1_r0_g0";
    struct host_image *image = proof_open("compat/scalars_2024.cu", *bits, name);
    enum { N = 64 };
    double *x = proof_memory(N * 8), *out = proof_memory(N * 8), d = 0.75;
    int *small = proof_memory(N * 4);
    int64_t *large = proof_memory(N * 8), *sums = proof_memory(N * 8), k = 9;
    bool *classes = proof_memory(N), flag = true;
    for (int i = 0; i < N; i++) {
        x[i] = i + 1.5;
        small[i] = i - 20;
        large[i] = 3 * i - 30;
    }
    struct tensor_argument t0 = tensor1(x, N, *bits), t1 = tensor1(small, N, *bits), t2 = tensor1(large, N, *bits);
    struct tensor_argument t3 = tensor1(classes, N, *bits), t7 = tensor1(out, N, *bits), t8 = tensor1(sums, N, *bits);
    proof_run(&(struct host_kernel_run){
        image, name, {1}, {16, 4}, 4096, false, (const void *[]){&t0, &t1, &t2, &t3, &d, &k, &flag, &t7, &t8}});
    /* The kernel indexes by x alone: only the first 16 are written, four times each; element 0 is the reductions'. */
    for (int i = 1; i < 16; i++) {
        double v = x[i], rest = v - 2 * ceil(v / 2), y = pow(v, d) + fmod(v, 3) + rest + (v + 0.25 * (d - v));
        y = (y <= 0.1 ? 0 : y) + 0.75 + nextafter(d, 2) + 1 / sqrt(d);
        y += fmax(v, d) + fmin(d, v) + d * d + v;
        y += d; /* print(…) gives its value; the half of 0.75 is exact */
        y += 2;
        expect_value("out", (size_t)i, out[i], y, 1e-9, 1e-9);
        cr_expect(classes[i]);
    }
    cr_expect_eq(out[0], (double)(int)out[0], "a sum of whole numbers, not %g", out[0]);
}

/* ---- the fusions of the main job ---- */

BOTH_WIDTHS(main_job_row_softmax)
{
    struct host_image *image = proof_open("row_softmax/row_softmax.cu", *bits, "row_softmax");
    for (int64_t columns = 1021; columns <= 1024; columns += 3) { /* one by one, and in vectors */
        float *x = proof_floats((size_t)(4 * columns), 19), *out = proof_memory((size_t)(4 * columns) * 4);
        struct tensor_argument t0 = tensor2(x, 4, columns, *bits), t1 = tensor2(out, 4, columns, *bits);
        proof_run(&(struct host_kernel_run){
            image, "row_softmax", {4}, {256}, (size_t)(1024 + 4 * columns), false, (const void *[]){&t0, &t1}});
        for (int64_t r = 0; r < 4; r++) {
            double sum = 0;
            for (int64_t i = 0; i < columns; i++)
                sum += exp((double)x[r * columns + i]);
            for (int64_t i = 0; i < columns; i++)
                expect_value("out", (size_t)(r * columns + i), (double)out[r * columns + i],
                             exp((double)x[r * columns + i]) / sum, 1e-9, 1e-5);
        }
    }
}

BOTH_WIDTHS(main_job_layer_norm)
{
    struct host_image *image = proof_open("layer_norm/layer_norm.cu", *bits, "layer_norm");
    enum { R = 3, C = 520 };
    uint16_t *x = proof_halves(R * C, 20), *weight = proof_halves(C, 21), *bias = proof_halves(C, 22);
    uint16_t *out = proof_memory(R * C * 2);
    float *means = proof_memory(R * 4), *rstds = proof_memory(R * 4);
    double epsilon = 1e-5;
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(weight, C, *bits), t2 = tensor1(bias, C, *bits);
    struct tensor_argument t4 = tensor2(out, R, C, *bits), t5 = tensor1(means, R, *bits), t6 = tensor1(rstds, R, *bits);
    proof_run(&(struct host_kernel_run){image,
                                        "layer_norm",
                                        {R},
                                        {128},
                                        128 * 4 + C * 4,
                                        false,
                                        (const void *[]){&t0, &t1, &t2, &epsilon, &t4, &t5, &t6}});
    for (size_t r = 0; r < R; r++) {
        double row[C], mean, deviation;
        for (size_t i = 0; i < C; i++)
            row[i] = half_value(x[r * C + i]);
        layer_norm_row(row, C, &mean, &deviation);
        expect_value("mean", r, (double)means[r], mean, 1e-6, 1e-4);
        expect_value("rstd", r, (double)rstds[r], 1 / deviation, 0, 1e-4);
        for (size_t i = 0; i < C; i++)
            expect_value("out", r * C + i, half_value(out[r * C + i]),
                         (row[i] - mean) / deviation * half_value(weight[i]) + half_value(bias[i]), 1e-3, 1e-3);
    }
}

BOTH_WIDTHS(main_job_bias_gelu_residual)
{
    struct host_image *image = proof_open("bias_gelu_residual/bias_gelu_residual.cu", *bits, "bias_gelu_residual");
    enum { R = 9, C = 130 };
    uint16_t *x = proof_bfloats(R * C, 23), *bias = proof_bfloats(C, 24), *rest = proof_bfloats(R * C, 25);
    uint16_t *out = proof_memory(R * C * 2);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor1(bias, C, *bits), t2 = tensor2(rest, R, C, *bits);
    struct tensor_argument t3 = tensor2(out, R, C, *bits);
    proof_run(&(struct host_kernel_run){
        image, "bias_gelu_residual", {(R * C + 1023) / 1024}, {128}, 0, false, (const void *[]){&t0, &t1, &t2, &t3}});
    for (size_t i = 0; i < R * C; i++) {
        double v = bfloat_value(x[i]) + bfloat_value(bias[i % C]);
        double gelu = v / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v)));
        expect_value("out", i, bfloat_value(out[i]), gelu + bfloat_value(rest[i]), 1e-4, 5e-3);
    }
}

BOTH_WIDTHS(main_job_transpose)
{
    struct host_image *image = proof_open("transpose/transpose.cu", *bits, "transpose");
    enum { R = 70, C = 133 };
    float *x = proof_floats(R * C, 26), *out = proof_memory(R * C * 4);
    struct tensor_argument t0 = tensor2(x, R, C, *bits), t1 = tensor2(out, C, R, *bits);
    proof_run(&(struct host_kernel_run){image, "transpose", {2 * 3}, {64, 8}, 0, false, (const void *[]){&t0, &t1}});
    for (size_t r = 0; r < R; r++)
        for (size_t c = 0; c < C; c++)
            expect_value("out", c * R + r, (double)out[c * R + r], (double)x[r * C + c], 0, 0);
}
