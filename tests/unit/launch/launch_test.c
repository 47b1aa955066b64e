/* B6.4 and B6.7: launch parameters against their limits, and what reaches the driver. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/launch/launch.h"

/* ---- a driver that records ---- */

static struct {
    int shared_attribute; /* last value set; -1: never */
    int launches;
    unsigned grid_x, block_x, shared;
    void **params;
    int fail; /* what launch_kernel returns */
    size_t param_sizes[4], n_params;
} seen;

static int fake_set_attribute(void *function, int attribute, int value)
{
    cr_assert_eq(function, &seen);
    cr_assert_eq(attribute, FUNCTION_MAX_DYNAMIC_SHARED);
    seen.shared_attribute = value;
    return 0;
}

static int fake_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void *stream, void **params, void **extra)
{
    (void)function, (void)gy, (void)gz, (void)by, (void)bz, (void)stream, (void)extra;
    seen.launches++;
    seen.grid_x = gx;
    seen.block_x = bx;
    seen.shared = shared;
    seen.params = params;
    return seen.fail;
}

static int fake_param_info(void *function, size_t index, size_t *offset, size_t *size)
{
    (void)function;
    if (index >= seen.n_params)
        return 1;
    *offset = 0;
    *size = seen.param_sizes[index];
    return 0;
}

static int fake_name(int result, const char **name)
{
    *name = result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
    return result == 700 ? 0 : 1;
}

static int fake_device_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == DEVICE_MAX_THREADS_PER_BLOCK          ? 1024
             : attribute == DEVICE_MAX_SHARED_PER_BLOCK_OPTIN   ? 232448
             : attribute == DEVICE_MAX_GRID_X                   ? 2147483647
             : attribute > DEVICE_MAX_GRID_X && attribute <= 7  ? 65535
             : attribute == DEVICE_MAX_BLOCK_X + 2              ? 64
             : attribute >= DEVICE_MAX_BLOCK_X && attribute < 5 ? 1024
                                                                : 0;
    return 0;
}

static int fake_function_attribute(int *value, int attribute, void *function)
{
    (void)function;
    *value = attribute == FUNCTION_MAX_THREADS_PER_BLOCK ? 768 : attribute == FUNCTION_STATIC_SHARED ? 48 : 0;
    return 0;
}

static const struct driver driver = {
    .function_set_attribute = fake_set_attribute,
    .launch_kernel = fake_launch,
    .function_get_param_info = fake_param_info,
    .get_error_name = fake_name,
    .get_error_string = fake_name,
    .device_get_attribute = fake_device_attribute,
    .function_get_attribute = fake_function_attribute,
};

static void reset(void)
{
    memset(&seen, 0, sizeof seen);
    seen.shared_attribute = -1;
}

TestSuite(launch, .init = reset);

/* ---- evaluation ---- */

Test(launch, B6_4_expressions_give_the_parameters)
{
    const int64_t sizes[] = {1000, 64};
    struct scope_tensor x = {.name = TEXT_OF("x"), .sizes = sizes, .n_sizes = 2};
    struct scope scope = {.tensors = &x, .n_tensors = 1};
    struct text grid[] = {TEXT_OF("ceilDiv(x.size[0], 128)"), TEXT_OF("x.size[1]")}, block[] = {TEXT_OF("128")};
    struct launch launch = {
        .grid = grid, .n_grid = 2, .block = block, .n_block = 1, .dynamic_shared_memory = TEXT_OF("4 * x.size[1]")};
    struct launch_params params;
    struct error error;
    cr_assert_eq(launch_params_evaluate(&launch, &scope, &params, &error), 0, "%s", error.text);
    cr_assert_eq(params.grid[0], 8);
    cr_assert_eq(params.grid[1], 64);
    cr_assert_eq(params.grid[2], 1);
    cr_assert_eq(params.block[0], 128);
    cr_assert_eq(params.dynamic_shared_memory, 256);
    grid[1] = TEXT_OF("x.size[1] / 0");
    cr_assert_eq(launch_params_evaluate(&launch, &scope, &params, &error), -1);
    cr_assert(strstr(error.text, "grid.y: \"x.size[1] / 0\": division by zero"), "%s", error.text);
    cr_assert_eq(launch_params_evaluate(NULL, &scope, &params, &error), -1);
}

/* ---- limits ---- */

static void expect_refused(struct launch_params params, const char *text)
{
    struct launch_limits limits;
    struct error error = {0};
    cr_assert_eq(launch_limits_read(&driver, 0, &seen, &limits, &error), 0);
    cr_assert_eq(launch_params_check(&params, &limits, &error), -1);
    cr_assert_eq(error.code, STATUS_INVALID_LAUNCH);
    cr_assert_str_eq(error.text, text);
}

Test(launch, B6_4_limits_of_device_and_function_in_every_dimension)
{
    struct launch_limits limits;
    struct error error;
    struct launch_params good = {{2147483647, 65535, 65535}, {768, 1, 1}, 232400};
    cr_assert_eq(launch_limits_read(&driver, 0, &seen, &limits, &error), 0);
    cr_assert_eq(launch_params_check(&good, &limits, &error), 0, "%s", error.text);
    expect_refused((struct launch_params){{2147483648, 1, 1}, {1, 1, 1}, 0},
                   "grid.x: 2147483648; possible are 0 to 2147483647");
    expect_refused((struct launch_params){{1, 65536, 1}, {1, 1, 1}, 0}, "grid.y: 65536; possible are 0 to 65535");
    expect_refused((struct launch_params){{1, 1, -1}, {1, 1, 1}, 0}, "grid.z: -1; possible are 0 to 65535");
    expect_refused((struct launch_params){{1, 1, 1}, {0, 1, 1}, 0}, "block.x: 0; possible are 1 to 1024");
    expect_refused((struct launch_params){{1, 1, 1}, {1, 1, 65}, 0}, "block.z: 65; possible are 1 to 64");
    expect_refused((struct launch_params){{1, 1, 1}, {32, 25, 1}, 0},
                   "block: 800 threads; device and kernel allow 768");
    expect_refused((struct launch_params){{1, 1, 1}, {1, 1, 1}, 232401},
                   "dynamic_shared_memory: 232401 bytes; beside the kernel's static part the device has 232400");
    expect_refused((struct launch_params){{1, 1, 1}, {1, 1, 1}, -1},
                   "dynamic_shared_memory: -1 bytes; beside the kernel's static part the device has 232400");
}

/* ---- the call ---- */

static int launch(struct launch_params params, struct error *error)
{
    void *pointers[1] = {NULL};
    struct argument_bytes bytes = {.pointers = pointers};
    return launch_kernel(&driver, &seen, &params, &bytes, NULL, error);
}

Test(launch, B1_3_shared_memory_above_48_KiB_raises_the_attribute)
{
    struct error error;
    cr_assert_eq(launch((struct launch_params){{3, 1, 1}, {64, 1, 1}, 49152}, &error), 0);
    cr_assert_eq(seen.shared_attribute, -1);
    cr_assert_eq(launch((struct launch_params){{3, 1, 1}, {64, 1, 1}, 49153}, &error), 0);
    cr_assert_eq(seen.shared_attribute, 49153);
    cr_assert_eq(seen.launches, 2);
    cr_assert_eq(seen.grid_x, 3);
    cr_assert_eq(seen.block_x, 64);
    cr_assert_eq(seen.shared, 49153);
}

Test(launch, an_empty_grid_launches_nothing)
{
    struct error error;
    cr_assert_eq(launch((struct launch_params){{0, 1, 1}, {64, 1, 1}, 0}, &error), 0);
    cr_assert_eq(seen.launches, 0);
}

Test(launch, the_drivers_error_is_named)
{
    struct error error;
    seen.fail = 700;
    cr_assert_eq(launch((struct launch_params){{1, 1, 1}, {64, 1, 1}, 0}, &error), -1);
    cr_assert_eq(error.code, STATUS_DRIVER);
    cr_assert(strstr(error.text, "cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "%s", error.text);
    seen.fail = 12345;
    cr_assert_eq(launch((struct launch_params){{1, 1, 1}, {64, 1, 1}, 0}, &error), -1);
    cr_assert(strstr(error.text, "12345"), "%s", error.text);
}

Test(launch, B6_2_every_argument_is_compared_with_the_image)
{
    struct param params[] = {{.name = TEXT_OF("x")}, {.name = TEXT_OF("eps")}};
    struct fusion fusion = {.params = params, .n_params = 2};
    size_t sizes[] = {24, 8};
    struct argument_bytes bytes = {.n = 2, .sizes = sizes};
    struct error error;
    seen.param_sizes[0] = 24;
    seen.param_sizes[1] = 8;
    seen.n_params = 2;
    cr_assert_eq(argument_bytes_check(&driver, &seen, &fusion, &bytes, &error), 0, "%s", error.text);
    seen.param_sizes[0] = 40;
    cr_assert_eq(argument_bytes_check(&driver, &seen, &fusion, &bytes, &error), -1);
    cr_assert(strstr(error.text, "parameter x: 24 bytes, but the kernel's has 40"), "%s", error.text);
    seen.param_sizes[0] = 24;
    seen.n_params = 1;
    cr_assert_eq(argument_bytes_check(&driver, &seen, &fusion, &bytes, &error), -1);
    cr_assert(strstr(error.text, "the kernel has 1 parameters"), "%s", error.text);
    seen.n_params = 3;
    cr_assert_eq(argument_bytes_check(&driver, &seen, &fusion, &bytes, &error), -1);
    cr_assert(strstr(error.text, "more parameters"), "%s", error.text);
    struct driver old = driver;
    old.function_get_param_info = NULL;
    cr_assert_eq(argument_bytes_check(&old, &seen, &fusion, &bytes, &error), 0, "older drivers cannot tell");
}

Test(launch, no_driver_says_so)
{
    struct driver none;
    struct error error;
    cr_assert_eq(driver_open("libcuda-that-is-not-there.so.1", &none, &error), -1);
    cr_assert_eq(error.code, STATUS_NO_DRIVER);
    cr_assert(strstr(error.text, "libcuda-that-is-not-there.so.1"), "%s", error.text);
    cr_assert_eq(driver_open("libc.so.6", &none, &error), -1);
    cr_assert(strstr(error.text, "has no cuInit"), "%s", error.text);
}

/* ---- parameters that the caller brings ---- */

static const struct text grid_text[] = {{"8", 1}, {"2", 1}}, block_text[] = {{"256", 3}};
static const struct launch whole = {.grid = (struct text *)grid_text,
                                    .n_grid = 2,
                                    .block = (struct text *)block_text,
                                    .n_block = 1,
                                    .dynamic_shared_memory = {"1024", 4}};
static const struct scope nothing;

static int settle(const struct launch *launch, const struct launch_override *override, struct launch_params *ret,
                  struct error *error)
{
    *error = (struct error){0};
    return launch_params_settle(launch, &nothing, override, ret, error);
}

Test(launch, B6_4_what_is_given_must_agree_or_be_forced)
{
    const int64_t same_grid[] = {8, 2, 1}, other_grid[] = {8, 3}, other_block[] = {128}, same_block[] = {256};
    struct launch_params params = {0};
    struct error error;
    struct launch_override none = {0};
    cr_assert_eq(settle(&whole, &none, &params, &error), 0, "%s", error.text);
    cr_assert_eq(params.grid[1], 2);
    cr_assert_eq(params.dynamic_shared_memory, 1024);

    struct launch_override agrees = {.grid = same_grid, .n_grid = 3, .block = same_block, .n_block = 1};
    cr_assert_eq(settle(&whole, &agrees, &params, &error), 0, "%s", error.text);

    struct launch_override grid = {.grid = other_grid, .n_grid = 2};
    cr_assert_eq(settle(&whole, &grid, &params, &error), -1);
    cr_assert_eq(error.code, STATUS_INVALID_LAUNCH);
    cr_assert(strstr(error.text, "grid.y: 3 is given, but the fusion computes 2"), "%s", error.text);
    grid.force = true;
    cr_assert_eq(settle(&whole, &grid, &params, &error), 0);
    cr_assert_eq(params.grid[1], 3);
    cr_assert_eq(params.block[0], 256);

    struct launch_override block = {.block = other_block, .n_block = 1};
    cr_assert_eq(settle(&whole, &block, &params, &error), -1);
    cr_assert(strstr(error.text, "block.x: 128 is given, but the fusion computes 256"), "%s", error.text);

    struct launch_override shared = {.has_dynamic_shared_memory = true, .dynamic_shared_memory = 4096};
    cr_assert_eq(settle(&whole, &shared, &params, &error), -1);
    cr_assert(strstr(error.text, "dynamic_shared_memory: 4096 is given, but the fusion computes 1024"), "%s",
              error.text);
}

Test(launch, B6_9_a_kernel_that_does_not_say_how_takes_what_is_given)
{
    const int64_t grid[] = {5}, block[] = {64, 2};
    const struct launch cooperative = {.cooperative = true};
    struct launch_params params = {0};
    struct error error;
    struct launch_override both = {.grid = grid,
                                   .n_grid = 1,
                                   .block = block,
                                   .n_block = 2,
                                   .has_dynamic_shared_memory = true,
                                   .dynamic_shared_memory = 64};
    cr_assert_eq(settle(NULL, &both, &params, &error), 0, "%s", error.text);
    cr_assert_eq(params.grid[0], 5);
    cr_assert_eq(params.grid[1], 1);
    cr_assert_eq(params.block[1], 2);
    cr_assert_eq(params.dynamic_shared_memory, 64);
    /* Of what it says nothing about, nothing can contradict. */
    cr_assert_eq(settle(&cooperative, &both, &params, &error), 0, "%s", error.text);
    cr_assert_eq(params.grid[0], 5);
    both.n_block = 0;
    cr_assert_eq(settle(NULL, &both, &params, &error), -1);
    cr_assert(strstr(error.text, "grid and block must be given"), "%s", error.text);
}

Test(launch, B6_2_sizes_follow_from_ranks_and_index_type)
{
    struct param params[] = {
        {.name = {"x", 1}, .kind = PARAM_KIND_TENSOR, .dtype = DTYPE_FLOAT32, .rank = 2, .has_rank = true},
        {.name = {"s", 1}, .kind = PARAM_KIND_SCALAR, .dtype = DTYPE_FLOAT64},
        {.name = {"w", 1}, .kind = PARAM_KIND_INTERMEDIATE, .dtype = DTYPE_INT8, .rank = 1, .has_rank = true},
        {.name = {"p", 1}, .kind = PARAM_KIND_POINTER, .dtype = DTYPE_INT8},
    };
    const struct fusion fusion = {.params = params, .n_params = 4};
    const size_t int32[] = {24, 8, 16, 8}, int64[] = {40, 8, 24, 8};
    struct error error;
    cr_assert_eq(argument_sizes_check(&fusion, INDEX_TYPE_INT32, int32, 4, &error), 0, "%s", error.text);
    cr_assert_eq(argument_sizes_check(&fusion, INDEX_TYPE_INT64, int64, 4, &error), 0, "%s", error.text);
    cr_assert_eq(argument_sizes_check(&fusion, INDEX_TYPE_INT64, int32, 4, &error), -1);
    cr_assert(strstr(error.text, "parameter x: 40 bytes, but the kernel's has 24"), "%s", error.text);
    cr_assert_eq(argument_sizes_check(&fusion, INDEX_TYPE_INT32, int32, 3, &error), -1);
    cr_assert(strstr(error.text, "3 parameters and the fusion 4"), "%s", error.text);
    cr_assert_eq(argument_sizes_check(&fusion, index_type_absent, int64, 4, &error), -1);
    cr_assert(strstr(error.text, "no index type"), "%s", error.text);
}
