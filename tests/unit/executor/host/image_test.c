/* Images of the host device: what is loaded and what is not, and what the compiler refuses. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preamble/preamble.h"
#include "tests/unit/executor/host/proof.h"

static struct host_image *build(const char *code, const char *entry, const char *define,
                                char log[static HOST_KERNEL_LOG])
{
    char why[256];
    const char *const entries[] = {entry, NULL}, *const defines[] = {define, NULL};
    if (host_kernel_is_missing(why))
        cr_skip_test("%s", why);
    return host_kernel_build(&(struct host_kernel_source){.code = code, .entries = entries, .defines = defines}, log);
}

static void expect_refusal(const char *code, const char *words)
{
    char log[HOST_KERNEL_LOG];
    cr_expect(!build(code, "k", NULL, log), "%s", code);
    cr_expect(strstr(log, words), "%s: not \"%s\" but: %s", code, words, log);
}

Test(host_image, no_image_is_an_error)
{
    struct host_image *image;
    struct error error;
    int fd = memfd_create("nothing", MFD_CLOEXEC);
    cr_assert(write(fd, "no image", 8) == 8);
    cr_expect_lt(host_image_load(fd, &image, &error), 0);
    cr_expect_eq(error.code, STATUS_INTERNAL);
    close(fd);
    cr_expect_lt(host_image_load(-1, &image, &error), 0);
}

Test(host_image, another_abi_is_refused)
{
    char log[HOST_KERNEL_LOG];
    cr_expect(!build("#undef FUSIOND_HOST_ABI\n#define FUSIOND_HOST_ABI 77\n__global__ void k() {}", "k", NULL, log));
    cr_expect(strstr(log, "ABI 77"), "%s", log);
}

/* Everything has the same names in both; nothing is shared between them. */
Test(host_image, images_share_no_variables)
{
    static const char code[] = "template <int n> __device__ int *counter() { static int count = N; return &count; }\n"
                               "__device__ int global = 10 * N;\n"
                               "template <typename T> __global__ void k(T *out) {\n"
                               "  __shared__ T s[N];\n"
                               "  s[N - 1] = *counter<1>() += 1;\n"
                               "  *out = s[N - 1] + 1000 * (global += 1);\n"
                               "}";
    char log[HOST_KERNEL_LOG];
    struct host_image *images[2];
    int out, *pointer = &out;
    images[0] = build(code, "k<int>", "-DN=3", log);
    cr_assert(images[0], "%s", log);
    images[1] = build(code, "k<int>", "-DN=3000", log);
    cr_assert(images[1], "%s", log);
    for (int i = 0; i < 6; i++) {
        int n = i % 2 ? 3000 : 3;
        proof_run(&(struct host_kernel_run){images[i % 2], "k<int>", {1}, {1}, 0, false, (const void *[]){&pointer}});
        cr_expect_eq(out, n + i / 2 + 1 + 1000 * (10 * n + i / 2 + 1), "%d: %d", i, out);
    }
}

Test(host_image, entries_by_their_names)
{
    char log[HOST_KERNEL_LOG];
    struct host_image *image = build("template <int a, int b> __global__ void k(int) {}", "k<1, 2>", NULL, log);
    cr_assert(image, "%s", log);
    cr_expect(host_image_find(image, "k<1, 2>", 7));
    cr_expect_null(host_image_find(image, "k<1, 2>", 6));
    cr_expect_null(host_image_find(image, "k<1,2>", 6));
    cr_expect_not(host_image_has_dynamic_shared(image));
    host_image_destroy(NULL);
}

Test(host_image, what_cannot_run_is_refused_with_a_sentence)
{
    expect_refusal("__global__ void k(unsigned *x) { asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(*x)); }",
                   "inline PTX (asm) cannot run on the host device");
    expect_refusal("__global__ void k(unsigned *x) { __asm__(\"exit;\"); }",
                   "inline PTX (asm) cannot run on the host device");
    expect_refusal("__global__ void k(float *x) { volatile float a[10000]; a[(int)*x] = 1; *x = a[(int)*x + 1]; }",
                   "frame size of");
    expect_refusal("#include <vector>\n__global__ void k() {}", "vector: No such file");
    expect_refusal("__global__ int k() { return 0; }", "an entry must be a __global__ function that returns void");
}

Test(host_image, asserts_are_off_with_NDEBUG)
{
    char log[HOST_KERNEL_LOG];
    struct host_image *image = build("__global__ void k() { assert(threadIdx.x > 0); }", "k", "-DNDEBUG", log);
    cr_assert(image, "%s", log);
    proof_run(&(struct host_kernel_run){image, "k", {1}, {1}, 0, false, NULL});
}

static void compile_each(int index_bits)
{
    char code[512], log[HOST_KERNEL_LOG];
    for (size_t i = 0; i < preamble_count; i++) {
        const char *name = preamble_modules()[i].name;
        if (strncmp(name, "index_", 6) == 0)
            continue;
        snprintf(code, sizeof code,
                 "#include \"fusiond/index_int%d.cuh\"\n#include \"fusiond/%s.cuh\"\n__global__ void k() {}",
                 index_bits, name);
        cr_expect(build(code, "k", NULL, log), "%s, index of %d bits: %s", name, index_bits, log);
    }
}

Test(host_preamble, B4_4_each_compiles_alone_for_the_host_int32)
{
    compile_each(32);
}

Test(host_preamble, B4_4_each_compiles_alone_for_the_host_int64)
{
    compile_each(64);
}
