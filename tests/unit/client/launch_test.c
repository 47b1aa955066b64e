/* Loading and launching through the public interface, on the tests' fake driver (tests/support/fake_cuda). */
#include <criterion/criterion.h>
#include <dlfcn.h>

#include "client/connection.h"
#include "tests/unit/client/peer.h"

/* ---- a kernel, as the daemon would send it ---- */

static void send_kernel(struct peer *peer)
{
    struct kernel_entry entry = {.name = TEXT_OF("transpose"), .lowered = TEXT_OF("_Z9transpose")};
    const char *index = getenv("FAKE_CUDA_INDEX");
    struct kernel kernel = {.has_key = true,
                            .target = TEXT_OF("sm_90a"),
                            .image_kind = peer->data ? IMAGE_KIND_PTX : IMAGE_KIND_CUBIN,
                            .index_type = index ? INDEX_TYPE_INT64 : INDEX_TYPE_INT32,
                            .entries = &entry,
                            .n_entries = 1,
                            .compiler = TEXT_OF("NVRTC 13.0"),
                            .has_build = true,
                            .has_created_unix_s = true,
                            .image = {(const uint8_t *)"IMAGE", 5},
                            .image_size = 5,
                            .has_image_size = true};
    struct compile_request request;
    peer_greet(peer);
    uint32_t id = peer_expect(peer, METHOD_COMPILE, &request);
    assert(text_is(request.fusion->target, "cc_9.0")); /* the fake device's */
    struct compile_reply reply = {.kernel = &kernel, .outcome = OUTCOME_COMPILED};
    peer_reply(peer, id, METHOD_COMPILE, &reply, NULL, 0);
    peer_expect_end(peer);
}

static struct fusiond_fusion *make_fusion(void)
{
    const char *sizes[] = {"x.size[1]", "x.size[0]"};
    const char *grid[3] = {"ceilDiv(x.size[0], 64) * ceilDiv(x.size[1], 64)"}, *block[3] = {"64", "8"};
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    cr_assert_eq(fusiond_fusion_set_code(fusion, "code", 4, false, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_entry(fusion, "transpose", NULL), 0);
    cr_assert_eq(fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 2, 2, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_param(fusion, "out", FUSIOND_OUTPUT, FUSIOND_FLOAT32, 2, 2, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_output(fusion, "out", sizes, 2, NULL), 0);
    cr_assert_eq(fusiond_fusion_set_launch(fusion, grid, block, NULL, NULL), 0);
    return fusion;
}

static struct fusiond_kernel *fetch(struct fusiond_fusion *fusion, bool ptx)
{
    struct peer peer;
    struct fusiond_connection *connection;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    peer_start(&peer, send_kernel, ptx ? "" : NULL);
    cr_assert_eq(fusiond_connect(peer.path, NULL, &connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), 0, "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
    return kernel;
}

/* A counter of the fake driver. */
static int count_of(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    cr_assert_not_null(library);
    int *counter = dlsym(library, name);
    cr_assert_not_null(counter, "libcuda.so.1 is not the fake driver");
    return *counter;
}

/* What was said of registers and the optimiser for a fusion's PTX reaches the loader, and nothing of a cubin's does. */
static void load_with(bool ptx, const char *field, const char *value, int registers, int level)
{
    struct fusiond_module *module;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = make_fusion();
    if (field)
        cr_assert_eq(fusiond_fusion_set_option(fusion, field, value, &error), 0, "%s", error.text);
    struct fusiond_kernel *kernel = fetch(fusion, ptx);
    cr_assert_eq(fusiond_load(kernel, 0, &module, &error), 0, "%s", error.text);
    cr_expect_eq(count_of("fake_cuda_jit_registers"), registers, "%s", field);
    cr_expect_eq(count_of("fake_cuda_jit_level"), level, "%s", field);
    fusiond_kernel_destroy(kernel);
    fusiond_module_destroy(module);
    fusiond_fusion_destroy(fusion);
}

Test(launch, B2_3_options_of_ptx_go_to_the_loader)
{
    load_with(true, NULL, NULL, -1, -1);
    load_with(true, "compile.block_size", "500", 128, -1);
    load_with(true, "compile.max_registers", "40", 40, -1);
    load_with(true, "compile.opt_level", "0", -1, 0);
    load_with(false, "compile.block_size", "500", -1, -1);
    load_with(false, "compile.opt_level", "0", -1, -1);
}

static void expect_nothing_left(void)
{
    cr_assert_eq(count_of("fake_cuda_modules"), 0, "modules");
    cr_assert_eq(count_of("fake_cuda_retained"), 0, "contexts");
    cr_assert_eq(count_of("fake_cuda_pushed"), 0, "pushed contexts");
}

/* ---- right numbers ---- */

#define ROWS 70
#define COLUMNS 3

static int transpose(const struct fusiond_module *module, struct fusiond_fusion *fusion,
                     const struct fusiond_launch *launch, struct fusiond_error *error)
{
    float in[ROWS * COLUMNS], out[ROWS * COLUMNS] = {0};
    const int64_t sizes[] = {ROWS, COLUMNS};
    struct fusiond_argument arguments[] = {{.address = (uint64_t)(uintptr_t)in, .sizes = sizes},
                                           {.address = (uint64_t)(uintptr_t)out}};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        in[i] = (float)i;
    if (fusiond_launch(module, 0, fusion, arguments, 2, launch, NULL, error) < 0)
        return -1;
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++)
            cr_assert_eq(out[c * ROWS + r], in[r * COLUMNS + c]);
    }
    return 0;
}

static void load_and_launch(bool ptx)
{
    struct fusiond_module *module;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = make_fusion();
    struct fusiond_kernel *kernel = fetch(fusion, ptx);
    cr_assert_eq(fusiond_load(kernel, 0, &module, &error), 0, "%s", error.text);
    fusiond_kernel_destroy(kernel); /* the module does not need it */
    cr_assert_not_null(fusiond_module_function(module, 0));
    cr_assert_eq(transpose(module, fusion, NULL, &error), 0, "%s", error.text);
    struct fusiond_launch launch = {{2, 1, 1}, {64, 8, 1}, 0};
    cr_assert_eq(transpose(module, fusion, &launch, &error), 0, "%s", error.text);
    fusiond_module_destroy(module);
    fusiond_fusion_destroy(fusion);
    expect_nothing_left();
}

Test(launch, a_kernel_is_loaded_and_launched)
{
    load_and_launch(false);
}

Test(launch, B6_2_with_64_bit_indices)
{
    setenv("FAKE_CUDA_INDEX", "64", 1);
    load_and_launch(false);
}

Test(launch, ptx_is_loaded_as_text)
{
    load_and_launch(true);
}

/* ---- wrong calls ---- */

Test(launch, mistakes_are_named_before_anything_is_launched)
{
    struct fusiond_module *module;
    struct fusiond_error error;
    struct fusiond_launch launch;
    const int64_t sizes[] = {4, 4};
    struct fusiond_argument arguments[] = {{.address = 16, .sizes = sizes}, {.address = 16}};
    struct fusiond_fusion *fusion = make_fusion();
    struct fusiond_kernel *kernel = fetch(fusion, false);
    cr_assert_eq(fusiond_load(kernel, -1, &module, &error), -1, "no context is current");
    cr_assert_str_eq(error.name, "INVALID_LAUNCH");
    cr_assert_eq(fusiond_load(kernel, 5, &module, &error), -1, "there is one device");
    cr_assert(strstr(error.text, "device 5"), "%s", error.text);
    cr_assert_eq(fusiond_load(kernel, 0, &module, &error), 0, "%s", error.text);

    cr_assert_eq(fusiond_launch(module, 1, fusion, arguments, 2, NULL, NULL, &error), -1);
    cr_assert(strstr(error.text, "entry: 1; the kernel has 1"), "%s", error.text);
    cr_assert_eq(fusiond_launch(module, 0, fusion, arguments, 1, NULL, NULL, &error), -1);
    cr_assert(strstr(error.text, "1 arguments for 2"), "%s", error.text);
    launch = (struct fusiond_launch){{1, 1, 1}, {1024, 2, 1}, 0};
    cr_assert_eq(fusiond_launch(module, 0, fusion, arguments, 2, &launch, NULL, &error), -1);
    cr_assert(strstr(error.text, "2048 threads"), "%s", error.text);
    launch = (struct fusiond_launch){{1, 1, 1}, {64, 8, 1}, 220000};
    cr_assert_eq(fusiond_launch(module, 0, fusion, arguments, 2, &launch, NULL, &error), -1);
    cr_assert(strstr(error.text, "220000 bytes; beside the kernel's static part the device has 215808"), "%s",
              error.text);
    /* The image says otherwise than the fusion. */
    setenv("FAKE_CUDA_INDEX", "64", 1);
    cr_assert_eq(fusiond_launch(module, 0, fusion, arguments, 2, NULL, NULL, &error), -1);
    cr_assert(strstr(error.text, "parameter x: 24 bytes, but the kernel's has 40"), "%s", error.text);

    cr_assert_eq(fusiond_launch_params(fusion, arguments, 2, &launch, &error), 0, "%s", error.text);
    cr_assert_eq(launch.grid[0], 1);
    cr_assert_eq(launch.block[1], 8);
    fusiond_module_destroy(module);
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);
    expect_nothing_left();
}

/* ---- the driver's errors ---- */

Test(launch, F23_every_call_that_fails_is_named_and_leaves_nothing)
{
    static const char *const calls[] = {
        "cuDeviceGet",         "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuModuleLoadDataEx",
        "cuModuleGetFunction", "cuDeviceGetAttribute",     "cuFuncGetAttribute",  "cuLaunchKernel"};
    char script[64];
    struct fusiond_error error;
    struct fusiond_fusion *fusion = make_fusion();
    struct fusiond_kernel *kernel = fetch(fusion, false);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct fusiond_module *module = NULL;
        snprintf(script, sizeof script, "%s:%d", calls[i], 700);
        setenv("FAKE_CUDA_FAIL", script, 1);
        int result = fusiond_load(kernel, 0, &module, &error);
        if (result == 0)
            result = transpose(module, fusion, NULL, &error);
        unsetenv("FAKE_CUDA_FAIL");
        cr_assert_eq(result, -1, "%s", calls[i]);
        cr_assert_str_eq(error.name, "DRIVER", "%s: %s", calls[i], error.text);
        cr_assert(strstr(error.text, "700"), "%s: %s", calls[i], error.text);
        fusiond_module_destroy(module);
        expect_nothing_left();
    }
    struct fusiond_module *module;
    cr_assert_eq(fusiond_load(kernel, 0, &module, &error), 0, "without a script: %s", error.text);
    fusiond_module_destroy(module);
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);
}

Test(launch, the_loaders_own_words_are_passed_on)
{
    struct fusiond_module *module;
    struct fusiond_error error;
    struct fusiond_fusion *fusion = make_fusion();
    struct fusiond_kernel *kernel = fetch(fusion, false);
    setenv("FAKE_CUDA_FAIL", "cuModuleLoadDataEx:209", 1);
    cr_assert_eq(fusiond_load(kernel, 0, &module, &error), -1);
    cr_assert(strstr(error.text, "209") && strstr(error.text, "the loader's own words"), "%s", error.text);
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);
    expect_nothing_left();
}

Test(launch, a_driver_that_does_not_start_is_no_driver)
{
    struct fusiond_kernel *kernel;
    struct fusiond_connection *connection;
    struct fusiond_error error;
    struct peer peer;
    struct fusiond_fusion *fusion = make_fusion();
    setenv("FAKE_CUDA_FAIL", "cuInit:100", 1);
    peer_start(&peer, peer_greet, NULL);
    cr_assert_eq(fusiond_connect(peer.path, NULL, &connection, &error), 0);
    cr_assert_eq(fusiond_compile(connection, fusion, NULL, &kernel, &error), -1);
    cr_assert_eq(error.code, FUSIOND_NO_DRIVER);
    cr_assert(strstr(error.text, "cuInit") && strstr(error.text, "100"), "%s", error.text);
    fusiond_close(connection);
    peer_join(&peer);
    fusiond_fusion_destroy(fusion);
}
