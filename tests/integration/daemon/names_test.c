/* B7.2 through the whole daemon: kernels that differ in names alone share a compile and a row, and each client is given
 * his own names, whatever he asks for. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/resolve/entry_names.h"
#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct base_line base;
static struct wire wire;

static void setup(void)
{
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.args = (const char *const[]){"--workers", "2", NULL}});
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

static void daemon_is_well(void)
{
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

TestSuite(names, .init = setup, .fini = teardown);
TestSuite(names_shown);

static bool has(struct bytes bytes, const char *words)
{
    return bytes.size && memmem(bytes.at, bytes.size, words, strlen(words));
}

/* Two kernels, one of them a template, under these names. */
static struct compile_request *two_kernels(struct sample *sample, const char *first, const char *second)
{
    static char entries[8][128];
    static size_t n;
    char *entry = entries[n++ % 8]; /* a request's texts must stay */
    sample_code(sample, "", first);
    snprintf(sample->code, sizeof sample->code,
             "// %s and what comes after it\n"
             "extern \"C\" __global__ void %s(float *x)\n{ __shared__ float s[32]; s[threadIdx.x] = x[threadIdx.x];\n"
             "__syncthreads(); x[threadIdx.x] = s[31 - threadIdx.x]; }\n"
             "template <int N> __global__ void %s(float *x) { *x = N; }\n",
             first, first, second);
    snprintf(entry, sizeof entries[0], "%s<3>", second);
    sample->fusion.code = text_of(sample->code);
    sample->entries[1] = text_of(entry);
    sample->fusion.n_entries = 2;
    sample->request.with_image = sample->request.with_ptx = sample->request.with_log = true;
    return &sample->request;
}

/* Everything is of these names, and nothing of the others or of placeholders. */
static void expect_names(const struct kernel *kernel, const char *first, const char *second, const char *other)
{
    char template[128], mangled[128];
    snprintf(template, sizeof template, "%s<3>", second);
    snprintf(mangled, sizeof mangled, "_Z%zu%sILi3EEvPf", strlen(second), second);
    cr_assert_str_eq(kernel->entries[0].name.at, first);
    cr_assert_str_eq(kernel->entries[0].lowered.at, first);
    cr_assert_str_eq(kernel->entries[1].name.at, template);
    cr_assert_str_eq(kernel->entries[1].lowered.at, mangled);
    cr_assert(kernel->n_renamed == 2 && text_is(kernel->renamed[0], first) && text_is(kernel->renamed[1], second));
    const struct bytes log = {(const uint8_t *)kernel->log.at, kernel->log.size},
                       parts[] = {kernel->image, kernel->ptx, log};
    for (size_t i = 0; i < 3; i++) {
        cr_assert(has(parts[i], first) && has(parts[i], mangled), "part %zu has not %s and %s", i, first, mangled);
        cr_assert(!has(parts[i], other) && !has(parts[i], PLACEHOLDER_STEM), "part %zu", i);
    }
    cr_assert_eq(kernel->image.size, kernel->image_size);
    cr_assert_eq(kernel->ptx.size, kernel->ptx_size);
}

Test(names, B7_2_another_name_hits_and_is_shown)
{
    struct sample a, b;
    uint8_t key[DIGEST_SIZE];
    struct compile_reply reply = get_kernel(&wire, two_kernels(&a, "softmax", "norm"));
    cr_assert_eq(reply.outcome, OUTCOME_COMPILED);
    memcpy(key, reply.kernel->key, sizeof key);
    expect_names(reply.kernel, "softmax", "norm", "forward_17");
    reply = get_kernel(&wire, two_kernels(&b, "forward_17", "back"));
    cr_assert_eq(reply.outcome, OUTCOME_HIT_MEMORY);
    cr_assert_arr_eq(reply.kernel->key, key, sizeof key);
    expect_names(reply.kernel, "forward_17", "back", "softmax");
    /* What is kept of the last answer is for its names; twice, as the request is known the second time. */
    for (int i = 0; i < 2; i++) {
        expect_names(get_kernel(&wire, &a.request).kernel, "softmax", "norm", "forward_17");
        expect_names(get_kernel(&wire, &b.request).kernel, "forward_17", "back", "softmax");
    }
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert_eq(stats.compiles_total, 1);
    cr_assert_eq(stats.database_kernels, 1);

    /* The same from the database, in another daemon. */
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, &(struct daemon_options){0});
    base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
    reply = get_kernel(&wire, &b.request);
    cr_assert_eq(reply.outcome, OUTCOME_HIT_DATABASE);
    expect_names(reply.kernel, "forward_17", "back", "softmax");
    daemon_is_well();
}

Test(names, B7_2_a_key_alone_has_the_names_that_were_first)
{
    struct sample a, b;
    struct compile_request *request = two_kernels(&a, "softmax", "norm");
    struct kernel_get_request get = {
        .has_key = true, .with_image = true, .with_ptx = true, .with_log = true, .with_code = true};
    struct kernel_get_reply got;
    struct failure failure;
    memcpy(get.key, get_kernel(&wire, request).kernel->key, sizeof get.key);
    get_kernel(&wire, two_kernels(&b, "forward_17", "back"));
    cr_assert_eq(wire_call(&wire, METHOD_KERNEL_GET, &get, &got, NULL), 0);
    two_kernels(&a, "softmax", "norm");
    expect_names(got.kernel, "softmax", "norm", "forward_17");
    cr_assert_str_eq(got.kernel->code.at, a.code);

    struct text entries[] = {TEXT_OF("mine"), TEXT_OF("also_mine<3>")};
    get.entries = entries;
    get.n_entries = 2;
    cr_assert_eq(wire_call(&wire, METHOD_KERNEL_GET, &get, &got, NULL), 0);
    expect_names(got.kernel, "mine", "also_mine", "softmax");
    two_kernels(&a, "mine", "also_mine");
    cr_assert_str_eq(got.kernel->code.at, a.code);

    static const char *const wrong[][2] = {
        {"mine", "also_mine<4>"}, {"mine", "mine<3>"},   {"a::mine", "also_mine<3>"},
        {"mine", "also_mine"},    {"9", "also_mine<3>"}, {"", "a<3>"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        entries[0] = text_of(wrong[i][0]);
        entries[1] = text_of(wrong[i][1]);
        cr_expect_eq(wire_call(&wire, METHOD_KERNEL_GET, &get, &got, &failure), STATUS_INVALID_FIELD, "%s, %s",
                     wrong[i][0], wrong[i][1]);
    }
    get.n_entries = 1;
    cr_assert_eq(wire_call(&wire, METHOD_KERNEL_GET, &get, &got, &failure), STATUS_INVALID_FIELD);
    cr_assert_str_eq(failure.text.at, "entries: 1; the kernel has 2");

    struct kernel_list_request list = {0};
    struct kernel_list_reply listed;
    cr_assert_eq(wire_call(&wire, METHOD_KERNEL_LIST, &list, &listed, NULL), 0);
    cr_assert(listed.n_kernels == 1 && text_is(listed.kernels[0].entry, "softmax"));
    daemon_is_well();
}

/* Above what goes inline, images are descriptors; those have names, too. */
Test(names, B7_2_a_large_image_has_names)
{
    struct sample sample;
    for (int i = 0; i < 4; i++) {
        const char *name = i % 2 ? "first" : "second_one";
        char code[512];
        sample_code(&sample, code, name);
        snprintf(code, sizeof code,
                 "__device__ int table[100000] = {1, 2, 3};\n"
                 "extern \"C\" __global__ void %s(int *x) { *x = table[*x]++; }\n",
                 name);
        sample.fusion.code = text_of(code);
        sample.request.with_image = true;
        struct kernel *kernel = get_kernel(&wire, &sample.request).kernel;
        cr_assert(kernel->has_image_fd && wire.n_fds == 1);
        void *map = mmap(NULL, kernel->image_size, PROT_READ, MAP_PRIVATE, wire.fds[0], 0);
        cr_assert_neq(map, MAP_FAILED);
        struct bytes image = {map, kernel->image_size};
        cr_expect(has(image, name) && !has(image, i % 2 ? "second_one" : "first") && !has(image, PLACEHOLDER_STEM));
        munmap(map, kernel->image_size);
        close(wire.fds[0]);
        wire.n_fds = 0;
    }
    cr_assert_eq(wire_stats(daemon_.socket).compiles_total, 1);
    daemon_is_well();
}

Test(names, B3_2_diagnostics_speak_of_the_clients_name)
{
    struct sample sample;
    sample_code(&sample,
                "template <typename T> __device__ void f(T) { static_assert(sizeof(T) == 99, \"no\"); }\n"
                "template <typename T> __global__ void softmax(T x) { f(x); int unused = undeclared; }\n"
                "__global__ void softmax(int) { return 3; }\n",
                "softmax<float>");
    sample.request.with_log = true;
    struct failure failure = fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, NULL);
    cr_assert(strstr(failure.log.at, "softmax") && !strstr(failure.log.at, PLACEHOLDER_STEM), "%s", failure.log.at);
    cr_assert_null(strstr(failure.text.at, PLACEHOLDER_STEM), "%s", failure.text.at);
    cr_assert(failure.n_diagnostics > 0);
    for (size_t i = 0; i < failure.n_diagnostics; i++)
        cr_expect_null(strstr(failure.diagnostics[i].text.at, PLACEHOLDER_STEM), "%s", failure.diagnostics[i].text.at);
    daemon_is_well();
}

/* What people call a kernel is not in its key. */
Test(names, B7_1_ids_and_labels_are_for_people)
{
    struct sample sample;
    struct fusion_ids ids = {.fusion = 3, .concrete = 1, .has_fusion = true, .has_concrete = true};
    struct kernel_list_request list = {.label = TEXT_OF("reduction_f3_c1_r0_g0")};
    struct kernel_list_reply listed;
    sample_kernel(&sample, 1);
    sample.fusion.scheduler = TEXT_OF("reduction");
    sample.fusion.ids = &ids;
    struct compile_reply reply = get_kernel(&wire, &sample.request);
    cr_assert_str_eq(reply.kernel->title.at, "reduction_f3_c1_r0_g0");
    cr_assert_str_eq(reply.kernel->label.at, "reduction_f3_c1_r0_g0");
    cr_assert(daemon_log_waits_for(&daemon_, "id=\"reduction_f3_c1_r0_g0\""));
    cr_assert_eq(wire_call(&wire, METHOD_KERNEL_LIST, &list, &listed, NULL), 0);
    cr_assert_eq(listed.n_kernels, 1);
    ids.fusion = 4;
    cr_assert_eq(get_kernel(&wire, &sample.request).outcome, OUTCOME_HIT_MEMORY);
    sample_kernel(&sample, 2);
    sample.fusion.label = TEXT_OF("softmax");
    reply = get_kernel(&wire, &sample.request);
    cr_assert_eq(strncmp(reply.kernel->title.at, "softmax_", 8), 0, "%s", reply.kernel->title.at);
    cr_assert_eq(strlen(reply.kernel->title.at), 16);
    daemon_is_well();
}

/* Who can see the name has it in his key, and sees his own. */
Test(names, B7_2_a_name_that_is_seen_stays)
{
    static const char *const codes[] = {
        "extern \"C\" __device__ int printf(const char *, ...);\n"
        "__global__ void %s(int *x) { printf(\"in %%%%s\", __func__); }\n",
        "__device__ char const *name = \"%s\";\n__global__ void %s(char *x) { *x = name[*x]; }\n",
        "#define STRING(x) #x\n#define KERNEL(x) __device__ const char *text = STRING(x); __global__ void x\n"
        "KERNEL(%s)(char *x) { *x = text[*x]; }\n",
    };
    struct sample sample;
    char code[512];
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        uint8_t keys[2][DIGEST_SIZE];
        for (int k = 0; k < 2; k++) {
            const char *name = k ? "forward_17" : "softmax";
            sample_code(&sample, code, name);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(code, sizeof code, codes[i], name, name);
#pragma GCC diagnostic pop
            sample.fusion.code = text_of(code);
            sample.request.with_image = true;
            struct kernel *kernel = get_kernel(&wire, &sample.request).kernel;
            memcpy(keys[k], kernel->key, DIGEST_SIZE);
            cr_expect_eq(kernel->n_renamed, 0);
            cr_expect(has(kernel->image, name) && !has(kernel->image, k ? "softmax" : "forward_17"));
        }
        cr_expect(memcmp(keys[0], keys[1], DIGEST_SIZE) != 0, "%s", codes[i]);
    }
    cr_assert_eq(wire_stats(daemon_.socket).compiles_total, 6);
    daemon_is_well();
}

/* An image that shows a name all the same: nobody is given it, and the request is compiled with its name in the key. */
Test(names_shown, I1_an_image_that_shows_names_is_compiled_with_them)
{
    struct sample sample;
    uint8_t keys[2][DIGEST_SIZE];
    daemon_start(&daemon_,
                 &(struct daemon_options){.args = (const char *const[]){"--compiler", FAKE_COMPILER, "--nvrtc",
                                                                        "/shows-names", "--workers", "1", NULL}});
    wire_open(&wire, daemon_.socket);
    for (int i = 0; i < 4; i++) {
        const char *name = i % 2 ? "forward_17" : "softmax";
        char expected[64];
        sample_code(&sample, "", name);
        snprintf(sample.code, sizeof sample.code, "extern \"C\" __global__ void %s(int *x) { *x = 1; }\n", name);
        sample.fusion.code = text_of(sample.code);
        sample.request.with_image = true;
        struct compile_reply reply = get_kernel(&wire, &sample.request);
        cr_assert_eq(reply.outcome, i < 2 ? OUTCOME_COMPILED : OUTCOME_HIT_MEMORY);
        int size = snprintf(expected, sizeof expected, "image of %s", name);
        cr_assert_eq(reply.kernel->image.size, (size_t)size);
        cr_assert_arr_eq(reply.kernel->image.at, expected, (size_t)size);
        cr_assert_eq(reply.kernel->n_renamed, 0);
        memcpy(keys[i % 2], reply.kernel->key, DIGEST_SIZE);
    }
    cr_assert(memcmp(keys[0], keys[1], DIGEST_SIZE) != 0);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_assert_eq(stats.database_kernels, 2);
    cr_assert_eq(stats.compiles_total, 2);
    cr_assert_eq(daemon_log_count(&daemon_, "result=names_shown"), 1, "the key without names is remembered");
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    daemon_finish(&daemon_);
}
