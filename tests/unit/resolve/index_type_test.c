#include <criterion/criterion.h>
#include <string.h>

#include "daemon/launch/extent.h"
#include "daemon/resolve/index_type.h"
#include "tests/unit/resolve/fixture.h"

#define INT32 INDEX_TYPE_INT32
#define INT64 INDEX_TYPE_INT64
#define NONE index_type_absent
#define DIMS 4

struct shape {
    size_t n_sizes;
    int64_t sizes[DIMS];
    size_t n_strides;
    int64_t strides[DIMS];
};

static struct sample_tensor tensor_of(const struct shape *shape, int64_t sizes[DIMS], int64_t strides[DIMS])
{
    memcpy(sizes, shape->sizes, sizeof shape->sizes);
    memcpy(strides, shape->strides, sizeof shape->strides);
    return (struct sample_tensor){sizes, shape->n_sizes, strides, shape->n_strides};
}

Test(index_type, B6_3_extent)
{
    static const struct {
        struct shape shape;
        int64_t extent;
    } cases[] = {
        {{0}, 0},
        {{1, {1}, 0, {0}}, 0},
        {{1, {10}, 0, {0}}, 9},
        {{2, {3, 4}, 0, {0}}, 11},
        {{2, {3, 4}, 2, {4, 1}}, 11},
        {{2, {3, 4}, 2, {1, 3}}, 11},
        {{2, {3, 4}, 2, {100, 1}}, 203},
        /* Broadcast dimensions have stride 0 and do not count, nor do sizes of 1, whatever their stride. */
        {{2, {1LL << 40, 4}, 2, {0, 1}}, 3},
        {{2, {1, 4}, 2, {1LL << 60, 1}}, 3},
        /* A tensor without elements. */
        {{2, {0, 5}, 0, {0}}, 4},
        {{2, {5, 0}, 0, {0}}, 4},
        {{2, {1LL << 31, 1LL << 31}, 0, {0}}, (1LL << 62) - 1},
        {{1, {INT64_MAX}, 0, {0}}, INT64_MAX - 1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t sizes[DIMS], strides[DIMS], extent = -1;
        struct sample_tensor tensor = tensor_of(&cases[i].shape, sizes, strides);
        struct error error = {0};
        cr_assert_eq(tensor_extent(&tensor, 7, &extent, &error), 0, "case %zu: %s", i, error.text);
        cr_expect_eq(extent, cases[i].extent, "case %zu: %lld", i, (long long)extent);
    }
}

Test(index_type, B6_3_extent_refused)
{
    static const struct {
        struct shape shape;
        enum status code;
        const char *names;
    } cases[] = {
        {{2, {3, -4}, 0, {0}}, STATUS_INVALID_FIELD, "sample[7].sizes[1]: is -4"},
        {{2, {3, 4}, 2, {-4, 1}}, STATUS_INVALID_FIELD, "sample[7].strides[0]: is -4"},
        {{1, {1}, 1, {INT64_MIN}}, STATUS_INVALID_FIELD, "sample[7].strides[0]"},
        {{2, {3, 4}, 1, {1}}, STATUS_INVALID_FIELD, "sample[7].strides: has 1"},
        {{0, {0}, 1, {1}}, STATUS_INVALID_FIELD, "sample[7].strides: has 1"},
        {{2, {INT64_MAX, INT64_MAX}, 2, {INT64_MAX, 1}}, STATUS_INDEX_TYPE, "sample[7]"},
        {{2, {INT64_MAX, 2}, 2, {1, INT64_MAX}}, STATUS_INDEX_TYPE, "sample[7]"},
        {{3, {2, INT64_MAX, INT64_MAX}, 0, {0}}, STATUS_INDEX_TYPE, "sample[7]"},
        {{4, {1LL << 32, 1LL << 32, 1, 2}, 0, {0}}, STATUS_INDEX_TYPE, "sample[7]"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t sizes[DIMS], strides[DIMS], extent = -77;
        struct sample_tensor tensor = tensor_of(&cases[i].shape, sizes, strides);
        struct error error = {0};
        cr_assert_eq(tensor_extent(&tensor, 7, &extent, &error), -1, "case %zu", i);
        cr_expect_eq(error.code, cases[i].code, "case %zu: %s", i, error.text);
        cr_expect_neq(strstr(error.text, cases[i].names), NULL, "case %zu: %s", i, error.text);
        cr_expect_eq(extent, -77, "case %zu: ret was touched", i);
    }
}

/* One-dimensional tensors of the given sizes. */
static struct sample_tensor line(int64_t *size)
{
    return (struct sample_tensor){size, 1, NULL, 0};
}

Test(index_type, B6_3_index_type)
{
    enum { LIMIT = EXTENT_INT32_MAX };
    static const struct {
        enum index_type requested;
        size_t n_params; /* of tensor, output, scalar, pointer */
        size_t n_sample;
        int64_t sizes[3];
        enum index_type settled; /* NONE: INDEX_TYPE */
        size_t uncovered;
    } cases[] = {
        /* Nothing known. */
        {NONE, 4, 0, {0}, INT64, 0},
        {INT32, 4, 0, {0}, INT32, 0},
        {INT64, 4, 0, {0}, INT64, 0},
        /* All known: the limit is inclusive, in elements behind the first. */
        {NONE, 4, 2, {LIMIT + 1LL, 10}, INT32, 0},
        {NONE, 4, 2, {LIMIT + 2LL, 10}, INT64, 0},
        {NONE, 4, 2, {10, LIMIT + 2LL}, INT64, 0},
        {NONE, 4, 2, {0, 0}, INT32, 0},
        /* An intermediate counts too. */
        {NONE, 4, 3, {10, 10, LIMIT + 2LL}, INT64, 0},
        {NONE, 4, 3, {10, 10, 10}, INT32, 0},
        /* Small inputs can have a large output. */
        {NONE, 4, 1, {10}, INT64, 1},
        {INT32, 4, 1, {10}, INT32, 1},
        /* Without parameters the sample is all there is. */
        {NONE, 0, 1, {10}, INT32, 0},
        /* Requested. */
        {INT64, 4, 2, {10, 10}, INT64, 0},
        {INT32, 4, 2, {LIMIT + 1LL, 10}, INT32, 0},
        {INT32, 4, 2, {10, LIMIT + 2LL}, NONE, 0},
        {INT32, 4, 1, {LIMIT + 2LL}, NONE, 0},
    };
    static const struct param params[] = {
        {.name = TEXT_OF("x"), .kind = PARAM_KIND_TENSOR},
        {.name = TEXT_OF("out"), .kind = PARAM_KIND_OUTPUT},
        {.name = TEXT_OF("s"), .kind = PARAM_KIND_SCALAR},
        {.name = TEXT_OF("p"), .kind = PARAM_KIND_POINTER},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t sizes[3];
        memcpy(sizes, cases[i].sizes, sizeof sizes);
        struct sample_tensor sample[3] = {line(&sizes[0]), line(&sizes[1]), line(&sizes[2])};
        struct error error = {0};
        enum index_type settled = NONE;
        size_t uncovered = 77;
        int rc = index_type_settle(cases[i].requested, params, cases[i].n_params, sample, cases[i].n_sample, &settled,
                                   &uncovered, &error);
        cr_expect_eq(rc, cases[i].settled ? 0 : -1, "case %zu: %s", i, error.text);
        cr_expect_eq(settled, cases[i].settled, "case %zu: %d", i, (int)settled);
        if (rc == 0)
            cr_expect_eq(uncovered, cases[i].uncovered, "case %zu: %zu", i, uncovered);
        else
            cr_expect_eq(error.code, STATUS_INDEX_TYPE, "case %zu: %s", i, error.text);
    }
}

Test(index_type, B6_3_error_names_tensor_and_extent)
{
    int64_t sizes[2] = {10, 3000000000};
    struct sample_tensor sample[2] = {line(&sizes[0]), line(&sizes[1])};
    enum index_type settled;
    size_t uncovered;
    struct error error = {0};
    cr_assert_eq(index_type_settle(INT32, NULL, 0, sample, 2, &settled, &uncovered, &error), -1);
    cr_expect_neq(strstr(error.text, "sample[1]"), NULL, "%s", error.text);
    cr_expect_neq(strstr(error.text, "2999999999"), NULL, "%s", error.text);
    cr_expect_neq(strstr(error.text, "1073741823"), NULL, "%s", error.text);
}

Test(index_type, B6_3_sample_of_another_rank)
{
    struct param params[] = {
        {.name = TEXT_OF("x"), .kind = PARAM_KIND_TENSOR, .rank = 2, .has_rank = true},
        {.name = TEXT_OF("s"), .kind = PARAM_KIND_SCALAR},
        {.name = TEXT_OF("out"), .kind = PARAM_KIND_OUTPUT, .rank = 1, .has_rank = true},
    };
    int64_t sizes[3] = {4, 5, 6};
    struct sample_tensor sample[2] = {{sizes, 2, NULL, 0}, {sizes, 2, NULL, 0}};
    enum index_type settled;
    size_t uncovered;
    struct error error = {0};
    cr_expect_eq(index_type_settle(NONE, params, 3, sample, 2, &settled, &uncovered, &error), -1);
    cr_expect_eq(error.code, STATUS_INVALID_FIELD);
    cr_expect_neq(strstr(error.text, "sample[1].sizes"), NULL, "%s", error.text);
    /* The allocated dimensions may be more. */
    params[2].alloc_rank = 2;
    params[2].has_alloc_rank = true;
    cr_expect_eq(index_type_settle(NONE, params, 3, sample, 2, &settled, &uncovered, &error), 0, "%s", error.text);
}
