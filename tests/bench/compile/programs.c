/* The programs. Each text has one constant that its number decides, so no two numbers have the same kernel. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/compile/compile.h"
#include "tests/support/rtc.h"

#define INDEX_BITS 32

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...)
{
    va_list args;
    char *ret;
    va_start(args, format);
    int n = vasprintf(&ret, format, args);
    va_end(args);
    if (n < 0)
        die("no memory for a program");
    return ret;
}

/* 0.00001 to 0.99999: as many constants of one length. */
#define CONSTANT "0.%05uf"
static unsigned constant(unsigned i)
{
    return i % 99999 + 1;
}

/* ---- small ---- */

/* What a generator would write in front of its kernels if it wrote no more than it needs. */
#define FEWEST_TYPES                                                                                                   \
    "typedef int nvfuser_index_t;\n"                                                                                   \
    "template <class T, int D, int A> struct Tensor {\n"                                                               \
    "    T *data;\n"                                                                                                   \
    "    nvfuser_index_t logical_size[D], alloc_stride[A];\n"                                                          \
    "    T &operator[](nvfuser_index_t i) { return data[i]; }\n"                                                       \
    "};\n"

#define POINTWISE                                                                                                      \
    "__global__ void pointwise(Tensor<float, 1, 1> x, Tensor<float, 1, 1> y, Tensor<float, 1, 1> out)\n"               \
    "{\n"                                                                                                              \
    "    nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x;\n"                                                 \
    "    if (i < x.logical_size[0]) {\n"                                                                               \
    "        float a = x[i] * " CONSTANT " + y[i];\n"                                                                  \
    "        out[i] = a / (1.0f + expf(-a));\n"                                                                        \
    "    }\n"                                                                                                          \
    "}\n"

static char *write_pointwise(unsigned i)
{
    return text(POINTWISE, constant(i));
}

static char *write_bare_pointwise(unsigned i)
{
    return text(FEWEST_TYPES POINTWISE, constant(i));
}

const struct program program_pointwise = {
    .name = "pointwise", .entry = "pointwise", .write = write_pointwise, .write_bare = write_bare_pointwise};

#define BFLOAT_TYPE                                                                                                    \
    "struct __bfloat { unsigned short bits; };\n"                                                                      \
    "float __bfloat2float(__bfloat x) { return __uint_as_float((unsigned)x.bits << 16); }\n"                           \
    "__bfloat __float2bfloat(float x)\n"                                                                               \
    "{\n"                                                                                                              \
    "    __bfloat r;\n"                                                                                                \
    "    asm(\"cvt.rn.bf16.f32 %%0, %%1;\" : \"=h\"(r.bits) : \"f\"(x));\n"                                            \
    "    return r;\n"                                                                                                  \
    "}\n"

#define BFLOAT                                                                                                         \
    "__global__ void scale(Tensor<__bfloat, 2, 2> x, Tensor<__bfloat, 2, 2> out)\n"                                    \
    "{\n"                                                                                                              \
    "    nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x;\n"                                                 \
    "    if (i < x.logical_size[0] * x.logical_size[1])\n"                                                             \
    "        out[i] = __float2bfloat(__bfloat2float(x[i]) * " CONSTANT ");\n"                                          \
    "}\n"

static char *write_bfloat(unsigned i)
{
    return text(BFLOAT, constant(i));
}

static char *write_bare_bfloat(unsigned i)
{
    return text(FEWEST_TYPES BFLOAT_TYPE BFLOAT, constant(i));
}

const struct program program_bfloat = {
    .name = "bfloat", .entry = "scale", .write = write_bfloat, .write_bare = write_bare_bfloat};

/* The preamble's block reduction is most of this one, so there is no smaller form of it. */
static char *write_row_sum(unsigned i)
{
    return text("__global__ void row_sum(Tensor<float, 2, 2> x, Tensor<float, 1, 1> out)\n"
                "{\n"
                "    alignas(16) extern __shared__ char array[];\n"
                "    float sum = 0;\n"
                "    for (nvfuser_index_t k = threadIdx.x; k < x.logical_size[1]; k += blockDim.x)\n"
                "        sum += expf(x[blockIdx.x * x.logical_size[1] + k] * " CONSTANT ");\n"
                "    float all = 0;\n"
                "    blockReduce<true, false, false, true>(all, sum, [](float &a, float b) { a = a + b; },\n"
                "        reinterpret_cast<float *>(array), true, true, 0.0f, DefaultBlockDim());\n"
                "    if (threadIdx.x == 0)\n"
                "        out[blockIdx.x] = all;\n"
                "}\n",
                constant(i));
}

const struct program program_row_sum = {.name = "row_sum", .entry = "row_sum", .write = write_row_sum};

/* ---- behind large headers ---- */

static char *write_groups(unsigned i)
{
    return text("#include <cooperative_groups.h>\n"
                "#include <cuda_fp16.h>\n"
                "extern \"C\" __global__ void groups(__half *x)\n"
                "{\n"
                "    auto block = cooperative_groups::this_thread_block();\n"
                "    __half v = x[block.thread_rank()];\n"
                "    block.sync();\n"
                "    x[block.thread_rank()] = __hmul(v, __float2half(" CONSTANT "));\n"
                "}\n",
                constant(i));
}

const struct program program_groups = {
    .name = "groups", .entry = "groups", .structured = true, .toolkit = true, .write = write_groups};

static char *write_standard(unsigned i)
{
    return text("#include <cuda/std/tuple>\n"
                "#include <cuda/std/complex>\n"
                "#include <cuda/std/limits>\n"
                "extern \"C\" __global__ void standard(float *x)\n"
                "{\n"
                "    cuda::std::complex<float> c(x[threadIdx.x], " CONSTANT ");\n"
                "    cuda::std::tuple<float, float> t((c * c).real(), cuda::std::numeric_limits<float>::max());\n"
                "    x[threadIdx.x] = cuda::std::get<0>(t) / cuda::std::get<1>(t);\n"
                "}\n",
                constant(i));
}

const struct program program_standard = {
    .name = "standard", .entry = "standard", .structured = true, .toolkit = true, .write = write_standard};

static char *write_block(unsigned i)
{
    return text("#include <cub/block/block_reduce.cuh>\n"
                "extern \"C\" __global__ void block(float *x)\n"
                "{\n"
                "    using Reduce = cub::BlockReduce<float, 256>;\n"
                "    __shared__ typename Reduce::TempStorage storage;\n"
                "    float sum = Reduce(storage).Sum(x[threadIdx.x] * " CONSTANT ");\n"
                "    if (threadIdx.x == 0)\n"
                "        x[0] = sum;\n"
                "}\n",
                constant(i));
}

const struct program program_block = {
    .name = "block", .entry = "block", .structured = true, .toolkit = true, .write = write_block};

/* ---- for the optimiser ---- */

static char *write_math(unsigned i)
{
    return text("extern \"C\" __global__ void math(float *x, int n)\n"
                "{\n"
                "    float a = x[threadIdx.x];\n"
                "#pragma unroll\n"
                "    for (int k = 0; k < 8; k++) {\n"
                "        a = sinf(a * " CONSTANT ") + cosf(a) * powf(fabsf(a), 1.1f + 0.1f * (float)k);\n"
                "        a = a + tanf(a) - lgammaf(fabsf(a) + 1.0f);\n"
                "    }\n"
                "    x[threadIdx.x] = a;\n"
                "}\n",
                constant(i));
}

const struct program program_math = {.name = "math", .entry = "math", .structured = true, .write = write_math};

static char *write_unrolled(unsigned i)
{
    return text("extern \"C\" __global__ void unrolled(const float *x, float *y, int n)\n"
                "{\n"
                "    float a[16], b[16];\n"
                "#pragma unroll\n"
                "    for (int k = 0; k < 16; k++) { a[k] = x[k * n + threadIdx.x]; b[k] = 0; }\n"
                "#pragma unroll\n"
                "    for (int s = 0; s < 16; s++)\n"
                "#pragma unroll\n"
                "        for (int k = 0; k < 16; k++)\n"
                "#pragma unroll\n"
                "            for (int m = 0; m < 4; m++)\n"
                "                b[k] = b[k] * " CONSTANT " + a[(k + s) & 15] * a[(k * m) & 15];\n"
                "#pragma unroll\n"
                "    for (int k = 0; k < 16; k++) y[k * n + threadIdx.x] = b[k];\n"
                "}\n",
                constant(i));
}

const struct program program_unrolled = {
    .name = "unrolled", .entry = "unrolled", .structured = true, .write = write_unrolled};

/* ---- in each form ---- */

char *program_unit(const struct program *program, unsigned i)
{
    char *code = program->write(i);
    if (program->structured)
        return code;
    char *unit = rtc_program(code, INDEX_BITS);
    free(code);
    if (!unit)
        die("no memory for a program");
    return unit;
}

char *program_name(const struct program *program, bool unit)
{
    return text("%s%s", unit && !program->structured ? "fusiond::" : "", program->entry);
}

struct fusiond_fusion *program_fusion(const struct program *program, unsigned i)
{
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    char *code = program->write(i);
    if (!fusion || fusiond_fusion_set_code(fusion, code, strlen(code), program->structured, &error) < 0 ||
        fusiond_fusion_add_entry(fusion, program->entry, &error) < 0 ||
        fusiond_fusion_set_target(fusion, "sm_90a", &error) < 0 ||
        (program->toolkit && fusiond_fusion_set_option(fusion, "compile.toolkit_headers", "true", &error) < 0) ||
        (!program->structured && fusiond_fusion_set_option(fusion, "index_type", "int32", &error) < 0) ||
        fusiond_fusion_set_option(fusion, "side_effects_only", "true", &error) < 0 ||
        fusiond_fusion_set_option(fusion, "label", program->name, &error) < 0)
        die("building the fusion %s: %s", program->name, error.text);
    free(code);
    return fusion;
}
