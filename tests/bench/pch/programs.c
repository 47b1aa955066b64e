#include "tests/bench/pch/programs.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preamble/preamble.h"

static const char *const standard_kinds[] = {
    "extern \"C\" __global__ void k(float *p) {\n"
    "    cuda::std::tuple<float, int, float> t(p[0], %u, p[1]);\n"
    "    p[2] = cuda::std::get<0>(t) * float(cuda::std::get<1>(t)) + cuda::std::get<2>(t);\n}\n",
    "extern \"C\" __global__ void k(cuda::std::complex<float> *p) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    p[i] = p[i] * p[i] + cuda::std::complex<float>(%u.0f, 1.0f);\n}\n",
    "template <class T> __device__ T twice(T x) {\n"
    "    if constexpr (cuda::std::is_integral<T>::value) return x << 1; else return x + x;\n}\n"
    "extern \"C\" __global__ void k(int *p, double *q) { *p = twice(*p + %u); *q = twice(*q); }\n",
    "struct most { float value; int at; };\n"
    "extern \"C\" __global__ void k(const float *p, most *out) {\n"
    "    auto best = cuda::std::make_tuple(p[0], 0);\n"
    "    for (int i = 1; i < %u + 3; i++)\n"
    "        if (p[i] > cuda::std::get<0>(best)) best = cuda::std::make_tuple(p[i], i);\n"
    "    *out = most{cuda::std::get<0>(best), cuda::std::get<1>(best)};\n}\n",
    NULL,
};

static const char *const block_kinds[] = {
    "extern \"C\" __global__ void k(const float *p, float *out) {\n"
    "    typedef cub::BlockReduce<float, 128> reduce;\n"
    "    __shared__ typename reduce::TempStorage storage;\n"
    "    float sum = reduce(storage).Sum(p[threadIdx.x] * %u.0f);\n"
    "    if (threadIdx.x == 0) out[blockIdx.x] = sum;\n}\n",
    "struct larger { __device__ int operator()(int a, int b) const { return a > b ? a : b; } };\n"
    "extern \"C\" __global__ void k(const int *p, int *out) {\n"
    "    typedef cub::BlockReduce<int, 256, cub::BLOCK_REDUCE_RAKING> reduce;\n"
    "    __shared__ typename reduce::TempStorage storage;\n"
    "    int most = reduce(storage).Reduce(p[threadIdx.x] ^ %u, larger());\n"
    "    if (threadIdx.x == 0) *out = most;\n}\n",
    "extern \"C\" __global__ void k(const double *p, double *out) {\n"
    "    typedef cub::BlockReduce<double, 64, cub::BLOCK_REDUCE_WARP_REDUCTIONS> reduce;\n"
    "    __shared__ typename reduce::TempStorage storage;\n"
    "    double own[4];\n"
    "    for (int i = 0; i < 4; i++) own[i] = p[threadIdx.x * 4 + i] / (%u + 1);\n"
    "    double sum = reduce(storage).Sum(own);\n"
    "    if (threadIdx.x == 0) *out = sum;\n}\n",
    NULL,
};

static const char *const group_kinds[] = {
    "namespace cg = cooperative_groups;\n"
    "extern \"C\" __global__ void k(int *p) {\n"
    "    auto tile = cg::tiled_partition<16>(cg::this_thread_block());\n"
    "    int x = p[threadIdx.x] + %u;\n"
    "    for (int i = tile.size() / 2; i > 0; i /= 2) x += tile.shfl_down(x, i);\n"
    "    if (tile.thread_rank() == 0) p[threadIdx.x] = x;\n}\n",
    "extern \"C\" __global__ void k(__half *p) {\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    p[i] = __hfma(p[i], __float2half(%u.0f), p[i]);\n}\n",
    "namespace cg = cooperative_groups;\n"
    "extern \"C\" __global__ void k(float *p) {\n"
    "    cg::grid_group grid = cg::this_grid();\n"
    "    p[grid.thread_rank()] += %u.0f;\n"
    "    grid.sync();\n"
    "    if (grid.thread_rank() == 0) p[0] = p[grid.size() - 1];\n}\n",
    "extern \"C\" __global__ void k(__half2 *p, float *out) {\n"
    "    float2 f = __half22float2(__hmul2(p[threadIdx.x], p[threadIdx.x + %u]));\n"
    "    out[threadIdx.x] = f.x + f.y;\n}\n",
    NULL,
};

static const char *const fusion_kinds[] = {
    "__global__ void k(Tensor<__half, 1, 1> a, Tensor<__half, 1, 1> b) {\n"
    "    nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < a.logical_size[0]) b[i] = __float2half(__half2float(a[i]) * %u.0f);\n}\n",
    "__global__ void k(Tensor<float, 2, 2> a, Tensor<float, 1, 1> b) {\n"
    "    nvfuser_index_t i = blockIdx.x;\n"
    "    float most = -__int_as_float(0x7f800000);\n"
    "    for (nvfuser_index_t j = 0; j < a.logical_size[1]; j++)\n"
    "        most = fmax(most, a[i * a.alloc_stride[0] + j] + %u.0f);\n"
    "    b[i] = most;\n}\n",
    "__global__ void k(Tensor<float, 1, 1> a, Tensor<float, 1, 1> b) {\n"
    "    nvfuser_index_t i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;\n"
    "    Array<float, 4, 4> in, out;\n"
    "    loadGlobalToLocal<float, 4, false, CacheOp::AllLevels>(&in[0], &a[i]);\n"
    "    for (int j = 0; j < 4; j++) out[j] = in[j] * %u.0f + float(ceilDiv(i, 3));\n"
    "    loadLocalToGlobal<float, 4, false>(&b[i], &out[0]);\n}\n",
    NULL,
};

const struct program_set program_sets[] = {
    {"cuda/std", "#include <cuda/std/complex>\n#include <cuda/std/tuple>\n#include <cuda/std/type_traits>\n",
     standard_kinds, 0},
    {"cub block", "#include <cub/block/block_reduce.cuh>\n", block_kinds, 0},
    {"groups+fp16", "#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n", group_kinds, 0},
    {"preamble", "", fusion_kinds, 1},
};
const size_t n_program_sets = sizeof program_sets / sizeof program_sets[0];

static void write_modules(FILE *out, const uint8_t *which, size_t n)
{
    const struct preamble_module *modules = preamble_modules();
    fputs("#include \"fusiond/index_int64.cuh\"\n", out);
    for (size_t i = 0; i < n; i++)
        if (strncmp(modules[which[i]].name, "index_int", 9) != 0)
            fprintf(out, "#include \"%s\"\n", modules[which[i]].include);
}

static void write_prefix(FILE *out, const struct program_set *set)
{
    uint8_t all[PREAMBLE_MAX];
    for (size_t i = 0; i < preamble_count; i++)
        all[i] = (uint8_t)i;
    fputs(set->includes, out);
    if (set->preamble)
        write_modules(out, all, preamble_count);
}

static FILE *open_text(char **ret, size_t *ret_size)
{
    FILE *out = open_memstream(ret, ret_size);
    if (!out)
        abort();
    return out;
}

char *program_prefix(const struct program_set *set)
{
    char *text;
    size_t size;
    FILE *out = open_text(&text, &size);
    write_prefix(out, set);
    fclose(out);
    return text;
}

/* The kernel alone, with its number. */
static char *kernel_text(const struct program_set *set, unsigned i)
{
    char *text;
    size_t size, n_kinds = 0;
    FILE *out = open_text(&text, &size);
    while (set->kinds[n_kinds])
        n_kinds++;
    const char *kind = set->kinds[i % n_kinds], *number = strstr(kind, "%u");
    fprintf(out, "%.*s%u%s", (int)(number - kind), kind, i + 1, number + 2);
    fclose(out);
    return text;
}

char *program_text(const struct program_set *set, unsigned i, int with_header)
{
    uint8_t used[PREAMBLE_MAX];
    char *text, *kernel = kernel_text(set, i);
    size_t size;
    FILE *out = open_text(&text, &size);
    if (set->preamble && !with_header)
        write_modules(out, used, preamble_closure(kernel, strlen(kernel), used));
    else
        write_prefix(out, set);
    fprintf(out, set->preamble ? "namespace fusiond {\n%s}\n" : "%s", kernel);
    fclose(out);
    free(kernel);
    return text;
}
