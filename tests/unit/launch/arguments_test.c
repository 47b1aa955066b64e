/* B6.2 and B6.3: the bytes of arguments, computed shapes, and when a 32-bit index is not enough. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/launch/arguments.h"

static struct param tensor(const char *name, enum param_kind kind, unsigned rank, unsigned alloc_rank)
{
    return (struct param){.name = text_of(name),
                          .kind = kind,
                          .dtype = DTYPE_FLOAT32,
                          .rank = rank,
                          .has_rank = true,
                          .alloc_rank = alloc_rank,
                          .has_alloc_rank = true};
}

static struct param scalar(const char *name, enum dtype dtype)
{
    return (struct param){.name = text_of(name), .kind = PARAM_KIND_SCALAR, .dtype = dtype};
}

/* One argument's size; its bytes are compared with `expected` when that is given. */
static size_t layout(struct param param, struct argument argument, enum index_type index_type, const void *expected)
{
    struct fusion fusion = {.params = &param, .n_params = 1};
    struct call call;
    struct argument_bytes bytes;
    struct error error = {0};
    cr_assert_eq(call_init(&fusion, &argument, 1, &call, &error), 0, "%s", error.text);
    cr_assert_eq(argument_bytes_init(&fusion, &argument, &call, index_type, &bytes, &error), 0, "%s", error.text);
    size_t size = bytes.sizes[0];
    if (expected)
        cr_assert_eq(memcmp(bytes.pointers[0], expected, size), 0, "other bytes");
    argument_bytes_finish(&bytes);
    call_finish(&call);
    return size;
}

static const int64_t sizes[] = {5, 6, 7, 8}, strides[] = {100, 10, 3, 2};

Test(arguments, B6_2_tensor_bytes_with_int32)
{
    struct {
        uint64_t address;
        int32_t size[2], stride[1];
        uint32_t padding;
    } expected = {0x123456789a, {5, 6}, {100}, 0};
    struct argument argument = {.address = 0x123456789a, .sizes = sizes, .strides = strides};
    cr_assert_eq(layout(tensor("x", PARAM_KIND_TENSOR, 2, 1), argument, INDEX_TYPE_INT32, &expected), 24);
}

Test(arguments, B6_2_tensor_bytes_with_int64)
{
    struct {
        uint64_t address;
        int64_t size[2], stride[2];
    } expected = {0x10, {5, 6}, {100, 10}};
    struct argument argument = {.address = 0x10, .sizes = sizes, .strides = strides};
    cr_assert_eq(layout(tensor("x", PARAM_KIND_TENSOR, 2, 2), argument, INDEX_TYPE_INT64, &expected), 40);
}

Test(arguments, B6_2_sizes_of_all_ranks)
{
    static const struct {
        unsigned rank, alloc_rank;
        size_t narrow, wide;
    } rows[] = {{0, 0, 8, 8},   {1, 1, 16, 24}, {1, 2, 24, 32}, {2, 1, 24, 32}, {2, 2, 24, 40},
                {2, 3, 32, 48}, {3, 2, 32, 48}, {3, 3, 32, 56}, {4, 4, 40, 72}};
    struct argument argument = {.address = 16, .sizes = sizes, .strides = strides};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct param param = tensor("x", PARAM_KIND_OUTPUT, rows[i].rank, rows[i].alloc_rank);
        cr_assert_eq(layout(param, argument, INDEX_TYPE_INT32, NULL), rows[i].narrow, "row %zu", i);
        cr_assert_eq(layout(param, argument, INDEX_TYPE_INT64, NULL), rows[i].wide, "row %zu", i);
    }
}

Test(arguments, B6_2_scalars_are_their_bytes)
{
    double d = 1e-5;
    int64_t i = -3;
    uint8_t b = 1;
    double complex_pair[2] = {1, 2};
    struct argument of_double = {.scalar = &d, .scalar_size = sizeof d};
    struct argument of_int = {.scalar = &i, .scalar_size = sizeof i};
    struct argument of_bool = {.scalar = &b, .scalar_size = 1};
    struct argument of_complex = {.scalar = complex_pair, .scalar_size = 16};
    cr_assert_eq(layout(scalar("d", DTYPE_FLOAT64), of_double, INDEX_TYPE_INT32, &d), 8);
    cr_assert_eq(layout(scalar("i", DTYPE_INT64), of_int, INDEX_TYPE_INT64, &i), 8);
    cr_assert_eq(layout(scalar("b", DTYPE_BOOL), of_bool, index_type_absent, &b), 1);
    cr_assert_eq(layout(scalar("c", DTYPE_COMPLEX128), of_complex, INDEX_TYPE_INT64, complex_pair), 16);
}

Test(arguments, B6_2_pointers_and_rank_0_are_addresses)
{
    uint64_t address = 0xabcdef;
    struct argument argument = {.address = address};
    struct param pointer = {.name = TEXT_OF("p"), .kind = PARAM_KIND_POINTER, .dtype = DTYPE_INT64};
    cr_assert_eq(layout(pointer, argument, index_type_absent, &address), 8);
    cr_assert_eq(layout(tensor("x", PARAM_KIND_TENSOR, 0, 0), argument, index_type_absent, &address), 8);
}

Test(arguments, B6_2_zero_sizes_are_fine)
{
    const int64_t empty[] = {0, 6};
    struct {
        uint64_t address;
        int32_t size[2], stride[2];
    } expected = {0, {0, 6}, {6, 1}};
    struct argument argument = {.sizes = empty};
    cr_assert_eq(layout(tensor("x", PARAM_KIND_TENSOR, 2, 2), argument, INDEX_TYPE_INT32, &expected), 24);
}

/* ---- errors ---- */

static void expect_error(const struct fusion *fusion, const struct argument *arguments, size_t n,
                         enum index_type index_type, enum status code, const char *text)
{
    struct call call;
    struct argument_bytes bytes;
    struct error error = {0};
    int result = call_init(fusion, arguments, n, &call, &error);
    if (result == 0) {
        result = argument_bytes_init(fusion, arguments, &call, index_type, &bytes, &error);
        call_finish(&call);
    }
    cr_assert_eq(result, -1);
    cr_assert_eq(error.code, code, "%s", error.text);
    cr_assert(strstr(error.text, text), "\"%s\" is not in \"%s\"", text, error.text);
}

Test(arguments, B6_3_int32_that_does_not_reach)
{
    struct param param = tensor("x", PARAM_KIND_TENSOR, 2, 2);
    struct fusion fusion = {.params = &param, .n_params = 1};
    const int64_t most[] = {32768, 32768}, more[] = {32768, 32769}, wide[] = {3000000000, 1}, zeros[] = {0, 0};
    struct argument argument = {.sizes = most};
    cr_assert_eq(layout(param, argument, INDEX_TYPE_INT32, NULL), 24, "2^30 - 1 is INT_MAX / 2");
    argument.sizes = more;
    expect_error(&fusion, &argument, 1, INDEX_TYPE_INT32, STATUS_INDEX_TYPE, "parameter x");
    cr_assert_eq(layout(param, argument, INDEX_TYPE_INT64, NULL), 40);
    argument = (struct argument){.sizes = wide, .strides = zeros};
    expect_error(&fusion, &argument, 1, INDEX_TYPE_INT32, STATUS_INDEX_TYPE, "int64");
}

Test(arguments, mistakes_name_the_parameter)
{
    struct param params[] = {tensor("x", PARAM_KIND_TENSOR, 1, 1), scalar("eps", DTYPE_FLOAT64)};
    struct fusion fusion = {.params = params, .n_params = 2};
    const int64_t one[] = {4}, negative[] = {-1};
    double eps = 0;
    struct argument good[] = {{.sizes = one}, {.scalar = &eps, .scalar_size = 8}};
    struct argument bad[2];
    expect_error(&fusion, good, 1, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH, "1 arguments for 2 parameters");
    memcpy(bad, good, sizeof bad);
    bad[1].scalar_size = 4;
    expect_error(&fusion, bad, 2, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH, "parameter eps: a scalar of 4 bytes");
    memcpy(bad, good, sizeof bad);
    bad[0].sizes = NULL;
    expect_error(&fusion, bad, 2, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH, "parameter x: its sizes are absent");
    bad[0].sizes = negative;
    expect_error(&fusion, bad, 2, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH, "parameter x: size[0] is -1");
    bad[0] = (struct argument){.sizes = one, .strides = negative};
    expect_error(&fusion, bad, 2, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH, "parameter x: stride[0] is -1");
    expect_error(&fusion, good, 2, index_type_absent, STATUS_INVALID_LAUNCH, "no index type");
    params[0].alloc_rank = 2;
    expect_error(&fusion, good, 2, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH, "strides must be given");
}

/* ---- computed outputs ---- */

Test(arguments, outputs_are_computed_from_inputs_scalars_and_earlier_outputs)
{
    struct param params[] = {tensor("b", PARAM_KIND_OUTPUT, 2, 2), tensor("c", PARAM_KIND_OUTPUT, 1, 1),
                             tensor("x", PARAM_KIND_TENSOR, 2, 2), scalar("n", DTYPE_INT32)};
    struct text b_sizes[] = {TEXT_OF("x.size[1]"), TEXT_OF("n * x.size[0]")};
    struct text c_sizes[] = {TEXT_OF("b.size[1] + 1")}, c_strides[] = {TEXT_OF("2")};
    struct output outputs[] = {
        {.name = TEXT_OF("b"), .sizes = b_sizes, .n_sizes = 2},
        {.name = TEXT_OF("c"), .sizes = c_sizes, .n_sizes = 1, .strides = c_strides, .n_strides = 1}};
    struct fusion fusion = {.params = params, .n_params = 4, .outputs = outputs, .n_outputs = 2};
    const int64_t x[] = {3, 4};
    int32_t n = 5;
    struct argument arguments[] = {{0}, {0}, {.sizes = x}, {.scalar = &n, .scalar_size = 4}};
    struct call call;
    struct error error = {0};
    int64_t elements;
    cr_assert_eq(call_init(&fusion, arguments, 4, &call, &error), 0, "%s", error.text);
    cr_assert_eq(call.shapes[0].sizes[0], 4);
    cr_assert_eq(call.shapes[0].sizes[1], 15);
    cr_assert_eq(call.shapes[0].strides[0], 15);
    cr_assert_eq(call.shapes[1].sizes[0], 16);
    cr_assert_eq(call.shapes[1].strides[0], 2);
    cr_assert_eq(shape_elements(&call.shapes[1], false, &elements, &error), 0);
    cr_assert_eq(elements, 16);
    cr_assert_eq(shape_elements(&call.shapes[1], true, &elements, &error), 0);
    cr_assert_eq(elements, 31);
    call_finish(&call);

    n = 0;
    b_sizes[1] = TEXT_OF("8 / n");
    expect_error(&fusion, arguments, 4, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH,
                 "output b: sizes[1]: \"8 / n\": division by zero");
    b_sizes[1] = TEXT_OF("n - 1");
    expect_error(&fusion, arguments, 4, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH, "parameter b: size[1] is -1");
    fusion.n_outputs = 1;
    b_sizes[1] = TEXT_OF("1");
    expect_error(&fusion, arguments, 4, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH, "parameter c: it has no sizes");
}

Test(arguments, B6_6_an_alias_is_as_large_as_its_tensor)
{
    struct param params[] = {tensor("y", PARAM_KIND_OUTPUT, 2, 2), tensor("x", PARAM_KIND_TENSOR, 2, 2),
                             tensor("z", PARAM_KIND_OUTPUT, 1, 1)};
    struct text z_sizes[] = {TEXT_OF("y.size[0] + y.stride[0]")};
    struct output outputs[] = {{.name = TEXT_OF("y"), .alias = TEXT_OF("x")},
                               {.name = TEXT_OF("z"), .sizes = z_sizes, .n_sizes = 1}};
    struct fusion fusion = {.params = params, .n_params = 3, .outputs = outputs, .n_outputs = 2};
    struct argument arguments[] = {{0}, {.sizes = sizes, .strides = strides}, {0}};
    struct call call;
    struct error error = {0};
    cr_assert_eq(call_init(&fusion, arguments, 3, &call, &error), 0, "%s", error.text);
    cr_assert_eq(memcmp(call.shapes[0].sizes, sizes, 2 * sizeof sizes[0]), 0);
    cr_assert_eq(memcmp(call.shapes[0].strides, strides, 2 * sizeof strides[0]), 0);
    cr_assert_eq(call.shapes[2].sizes[0], 105);
    call_finish(&call);

    params[0].rank = params[0].alloc_rank = 1;
    expect_error(&fusion, arguments, 3, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH,
                 "parameter y: it is written into a tensor of another rank");
    outputs[0].alias = TEXT_OF("z");
    expect_error(&fusion, arguments, 3, INDEX_TYPE_INT64, STATUS_INVALID_LAUNCH,
                 "parameter y: the tensor that it is written into does not exist");
}

Test(arguments, integer_scalars_keep_their_sign)
{
    struct param params[] = {scalar("a", DTYPE_INT8), scalar("b", DTYPE_UINT8), scalar("c", DTYPE_UINT64),
                             scalar("d", DTYPE_FLOAT32)};
    struct fusion fusion = {.params = params, .n_params = 4};
    uint8_t byte = 0xfe;
    uint64_t large = UINT64_MAX;
    float real = 1;
    struct argument arguments[] = {{.scalar = &byte, .scalar_size = 1},
                                   {.scalar = &byte, .scalar_size = 1},
                                   {.scalar = &large, .scalar_size = 8},
                                   {.scalar = &real, .scalar_size = 4}};
    struct call call;
    cr_assert_eq(call_init(&fusion, arguments, 4, &call, NULL), 0);
    cr_assert(call.scalars[0].is_integer && call.scalars[0].value == -2);
    cr_assert(call.scalars[1].is_integer && call.scalars[1].value == 254);
    cr_assert_not(call.scalars[2].is_integer, "2^64 - 1 fits no signed 64-bit value");
    cr_assert_not(call.scalars[3].is_integer);
    call_finish(&call);
}
