/* launch: entries and their keys, memory, bounds, what the kernel is given. */
#include <limits.h>
#include <string.h>

#include "tests/unit/executor/fixture.h"

/* ---- a fusion of the test's own ----
 * Parameters: x (float32, tensor), out (float32, output), n (int32), by (float32), w (int32, intermediate, zeroed when
 * asked), all of rank 1. out has n elements, w 2 * n. The kernel records. */

static struct {
    size_t n;
    uint64_t x, out, w;
    int32_t out_size, w_size;
    int32_t n_argument;
    float by;
    int32_t first_of_w;
    uint32_t first_of_out;
    struct launch_params params;
} seen;

static const char *record(const struct launch_params *params, void *const *arguments)
{
    struct {
        uint64_t data;
        int32_t size, stride;
    } x, out, w;
    memcpy(&x, arguments[0], sizeof x);
    memcpy(&out, arguments[1], sizeof out);
    memcpy(&seen.n_argument, arguments[2], sizeof seen.n_argument);
    memcpy(&seen.by, arguments[3], sizeof seen.by);
    memcpy(&w, arguments[4], sizeof w);
    seen.n++;
    seen.x = x.data;
    seen.out = out.data;
    seen.w = w.data;
    seen.out_size = out.size;
    seen.w_size = w.size;
    seen.params = *params;
    if (w.size) {
        memcpy(&seen.first_of_w, (void *)(uintptr_t)w.data, 4);
        memset((void *)(uintptr_t)w.data, 0x55, (size_t)w.size * 4);
    }
    if (out.size) {
        memcpy(&seen.first_of_out, (void *)(uintptr_t)out.data, 4);
        memset((void *)(uintptr_t)out.data, 1, (size_t)out.size * 4);
    }
    return NULL;
}

static struct param params[] = {
    {.name = {"x", 1}, .kind = PARAM_KIND_TENSOR, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true},
    {.name = {"out", 3}, .kind = PARAM_KIND_OUTPUT, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true},
    {.name = {"n", 1}, .kind = PARAM_KIND_SCALAR, .dtype = DTYPE_INT32},
    {.name = {"by", 2}, .kind = PARAM_KIND_SCALAR, .dtype = DTYPE_FLOAT32},
    {.name = {"w", 1}, .kind = PARAM_KIND_INTERMEDIATE, .dtype = DTYPE_INT32, .rank = 1, .has_rank = true},
};
static struct text out_size = TEXT_OF("n"), w_size = TEXT_OF("2 * n"), grid = TEXT_OF("ceilDiv(x.size[0], 4)"),
                   block = TEXT_OF("32");

static struct client *client;
static struct output output;
static struct intermediate intermediate;
static struct launch how;
static struct fusion_define_request definition;

static void setup(void)
{
    executor_start();
    fake_device_add(device, "record", record);
    front_knows(2, "record 16 16 4 4 16\n", "record", INDEX_TYPE_INT32);
    output = (struct output){.name = {"out", 3}, .sizes = &out_size, .n_sizes = 1};
    intermediate = (struct intermediate){.name = {"w", 1}, .sizes = &w_size, .n_sizes = 1, .zero = true};
    how = (struct launch){.grid = &grid, .n_grid = 1, .block = &block, .n_block = 1};
    definition = (struct fusion_define_request){.has_key = true,
                                                .params = params,
                                                .n_params = 5,
                                                .outputs = &output,
                                                .n_outputs = 1,
                                                .intermediates = &intermediate,
                                                .n_intermediates = 1,
                                                .launch = &how};
    memset(definition.key, 2, sizeof definition.key);
    client = client_attach();
}

TestSuite(launch, .init = setup, .fini = executor_finish, .timeout = 60);

static uint64_t define(void)
{
    struct fusion_define_reply reply;
    cr_assert_eq(client_call(client, METHOD_FUSION_DEFINE, &definition, &reply), 0, "%s", client_error(client));
    return reply.fusion;
}

/* A launch that may be changed before it is asked for. */
static struct {
    struct launch_argument arguments[5];
    int64_t x_size, x_stride, out_size, out_stride;
    int32_t n;
    float by;
    struct launch_request request;
} call;

static void prepare(uint64_t fusion, uint64_t x, int64_t x_size, int32_t n)
{
    call.x_size = x_size;
    call.x_stride = 1;
    call.n = n;
    call.by = 1.5f;
    call.arguments[0] = (struct launch_argument){.buffer = x, .has_buffer = x > 0, .sizes = &call.x_size, .n_sizes = 1};
    call.arguments[1] = (struct launch_argument){0};
    call.arguments[2] = (struct launch_argument){.scalar = {(const uint8_t *)&call.n, 4}};
    call.arguments[3] = (struct launch_argument){.scalar = {(const uint8_t *)&call.by, 4}};
    call.arguments[4] = (struct launch_argument){0};
    call.request = (struct launch_request){
        .fusion = fusion, .has_fusion = true, .arguments = call.arguments, .n_arguments = 5, .wait = true};
}

static struct launch_reply launched(void)
{
    struct launch_reply reply;
    cr_assert_eq(client_call(client, METHOD_LAUNCH, &call.request, &reply), 0, "%s", client_error(client));
    return reply;
}

static void refused(enum status code, const char *why)
{
    size_t memory = device->n_memory, n = seen.n;
    cr_assert_eq(client_call(client, METHOD_LAUNCH, &call.request, NULL), code, "%s: %s", why, client_error(client));
    cr_assert(strstr(client_error(client), why), "\"%s\" is not in \"%s\"", why, client_error(client));
    cr_assert_eq(seen.n, n);
    cr_assert_eq(device->n_memory, memory, "%s: memory is left", why);
}

/* ---- entries ---- */

Test(launch, B6_5_the_same_sizes_again_are_found)
{
    uint64_t fusion = define(), x = client_allocate(client, 64), y = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    cr_assert_not(launched().cached);
    cr_assert(launched().cached);
    cr_assert_eq(seen.out_size, 3);
    cr_assert_eq(seen.w_size, 6);
    cr_assert_eq(seen.params.grid[0], 2);
    /* Another buffer, another value of a scalar that decides nothing: the kernel sees them, the entry is the same. */
    uint64_t address = seen.x;
    call.arguments[0].buffer = y;
    call.by = 7;
    cr_assert(launched().cached);
    cr_assert_neq(seen.x, address);
    cr_assert_eq(seen.by, 7);
}

Test(launch, B6_5_whatever_decides_makes_another_entry)
{
    uint64_t fusion = define(), x = client_allocate(client, 4096);
    const int64_t grid_given[] = {2};
    prepare(fusion, x, 8, 3);
    launched();
    call.x_size = 9;
    cr_assert_not(launched().cached, "a size");
    cr_assert_eq(seen.params.grid[0], 3);
    call.arguments[0].strides = &call.x_stride;
    call.arguments[0].n_strides = 1;
    call.x_stride = 2;
    cr_assert_not(launched().cached, "a stride");
    call.n = 4;
    cr_assert_not(launched().cached, "a scalar that an expression reads");
    cr_assert_eq(seen.out_size, 4);
    cr_assert_eq(seen.n_argument, 4);
    call.arguments[0].offset = 8;
    call.arguments[0].has_offset = true;
    cr_assert_not(launched().cached, "the alignment");
    call.arguments[0].offset = 24;
    cr_assert(launched().cached, "the same alignment");
    call.arguments[0].offset = 0;
    call.request.grid = (int64_t *)grid_given;
    call.request.n_grid = 1;
    call.request.force = true;
    cr_assert_not(launched().cached, "an override");
    cr_assert_eq(seen.params.grid[0], 2);
    call.request.dynamic_shared_memory = 16;
    call.request.has_dynamic_shared_memory = true;
    cr_assert_not(launched().cached, "another override");
    cr_assert(launched().cached);
}

Test(launch, B6_5_two_fusions_of_one_kernel_do_not_share_entries)
{
    uint64_t x = client_allocate(client, 64), first = define();
    grid = TEXT_OF("7");
    uint64_t second = define();
    grid = TEXT_OF("ceilDiv(x.size[0], 4)");
    prepare(first, x, 8, 3);
    launched();
    prepare(second, x, 8, 3);
    cr_assert_not(launched().cached);
    cr_assert_eq(seen.params.grid[0], 7);
}

/* The entry's bytes hold what the last launch put there: every launch must put all of it. */
Test(launch, B6_5_nothing_of_an_earlier_launch_is_left_in_an_entry)
{
    uint64_t fusion = define(), x = client_allocate(client, 64), out = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    call.arguments[1].buffer = out;
    call.arguments[1].has_buffer = true;
    launched();
    uint64_t given = seen.out;
    call.arguments[1].has_buffer = false;
    call.by = 9;
    struct launch_reply reply = launched();
    cr_assert(reply.cached);
    cr_assert_neq(seen.out, given);
    cr_assert_neq(reply.outputs[0].buffer, out);
    /* A scalar of another size than its type is refused although the entry is known. */
    call.arguments[3].scalar.size = 3;
    refused(STATUS_INVALID_LAUNCH, "parameter by: a scalar of 3 bytes; a float32 has 4");
    call.arguments[3].scalar = (struct bytes){NULL, 0};
    refused(STATUS_INVALID_LAUNCH, "parameter by: a scalar of 0 bytes");
}

/* ---- arguments ---- */

Test(launch, mistakes_name_the_parameter)
{
    uint64_t fusion = define(), x = client_allocate(client, 64);
    const int64_t sizes[] = {4, 4};
    prepare(fusion, x, 8, 3);
    call.request.n_arguments = 4;
    refused(STATUS_INVALID_LAUNCH, "4 arguments for 5 parameters");
    prepare(fusion + 1, x, 8, 3);
    refused(STATUS_UNKNOWN_HANDLE, "fusion: the channel has none");
    prepare(fusion, x, 8, 3);
    call.request.stream = 5;
    call.request.has_stream = true;
    refused(STATUS_UNKNOWN_HANDLE, "stream: the channel has none with number 5");
    prepare(fusion, 99, 8, 3);
    refused(STATUS_UNKNOWN_HANDLE, "parameter x: buffer: the channel has none with number 99");
    prepare(fusion, 0, 8, 3);
    refused(STATUS_INVALID_LAUNCH, "parameter x: its buffer is absent");
    prepare(fusion, x, 8, 3);
    call.arguments[0].sizes = (int64_t *)sizes;
    call.arguments[0].n_sizes = 2;
    refused(STATUS_INVALID_LAUNCH, "parameter x: 2 sizes and 0 strides; it has rank 1");
    prepare(fusion, x, 8, 3);
    call.arguments[0].n_sizes = 0;
    refused(STATUS_INVALID_LAUNCH, "parameter x: its sizes are absent");
    prepare(fusion, x, 8, 3);
    call.arguments[4].sizes = (int64_t *)sizes;
    call.arguments[4].n_sizes = 1;
    refused(STATUS_INVALID_LAUNCH, "parameter w: those of an intermediate are computed");
    prepare(fusion, x, 8, 3);
    call.arguments[4].buffer = x;
    call.arguments[4].has_buffer = true;
    refused(STATUS_INVALID_LAUNCH, "parameter w: a buffer; a intermediate takes none");
    prepare(fusion, x, 8, 3);
    call.arguments[0].scalar = call.arguments[2].scalar;
    refused(STATUS_INVALID_LAUNCH, "parameter x: a scalar of 4 bytes");
    prepare(fusion, x, 8, -1);
    refused(STATUS_INVALID_LAUNCH, "size[0] is -1");
    prepare(fusion, x, 8, 3);
    call.x_stride = -1;
    call.arguments[0].strides = &call.x_stride;
    call.arguments[0].n_strides = 1;
    refused(STATUS_INVALID_LAUNCH, "stride[0] is -1");
}

Test(launch, tensors_must_lie_inside_their_buffers)
{
    uint64_t fusion = define(), x = client_allocate(client, 64), out = client_allocate(client, 8);
    prepare(fusion, x, 16, 2);
    launched();
    call.x_size = 17;
    refused(STATUS_INVALID_BUFFER, "parameter x: it spans 68 bytes, but buffer");
    cr_assert(strstr(client_error(client), "has 64 from byte 0 on"), "%s", client_error(client));
    /* Known sizes do not make it right. */
    refused(STATUS_INVALID_BUFFER, "parameter x: it spans 68 bytes");
    call.x_size = 16;
    call.arguments[0].offset = 4;
    call.arguments[0].has_offset = true;
    refused(STATUS_INVALID_BUFFER, "parameter x: it spans 64 bytes, but buffer");
    cr_assert(strstr(client_error(client), "has 60 from byte 4 on"), "%s", client_error(client));
    call.arguments[0].offset = 65;
    refused(STATUS_INVALID_BUFFER, "parameter x");
    call.arguments[0].offset = UINT64_MAX - 3;
    refused(STATUS_INVALID_BUFFER, "parameter x");
    /* Strides count: 6 elements, 3 apart, are 16. */
    prepare(fusion, x, 6, 2);
    call.arguments[0].strides = &call.x_stride;
    call.arguments[0].n_strides = 1;
    call.x_stride = 3;
    launched();
    call.x_stride = 4;
    refused(STATUS_INVALID_BUFFER, "parameter x: it spans 84 bytes");
    /* So do outputs. */
    prepare(fusion, x, 8, 3);
    call.arguments[1].buffer = out;
    call.arguments[1].has_buffer = true;
    refused(STATUS_INVALID_BUFFER, "parameter out: it spans 12 bytes");
    /* And what does not fit 64 bits. */
    prepare(fusion, x, 2, 2);
    call.arguments[0].strides = &call.x_stride;
    call.arguments[0].n_strides = 1;
    call.x_stride = INT64_MAX;
    refused(STATUS_INDEX_TYPE, "parameter x");
}

Test(launch, an_element_must_be_aligned)
{
    uint64_t fusion = define(), x = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    call.arguments[0].offset = 2;
    call.arguments[0].has_offset = true;
    refused(STATUS_INVALID_BUFFER, "parameter x: its first byte is aligned to 2 bytes; an element of float32 needs 4");
}

Test(launch, B6_3_what_32_bit_indices_cannot_reach_is_refused)
{
    uint64_t fusion = define(), x = client_allocate(client, 64);
    prepare(fusion, x, 2, 2);
    call.arguments[0].strides = &call.x_stride;
    call.arguments[0].n_strides = 1;
    call.x_stride = INT_MAX / 2 + 1;
    refused(STATUS_INDEX_TYPE, "parameter x: its extent of 1073741824 elements needs an int64 index");
    /* A small input can have a large output, or a large intermediate. */
    prepare(fusion, x, 2, INT_MAX / 2 + 2);
    refused(STATUS_INDEX_TYPE, "parameter out");
    prepare(fusion, x, 2, INT_MAX / 4 + 2);
    refused(STATUS_INDEX_TYPE, "parameter w");
}

Test(launch, B6_4_parameters_are_checked_and_given_ones_must_agree)
{
    uint64_t fusion = define(), x = client_allocate(client, 64);
    int64_t given[] = {3, 1, 1}, large[] = {2048};
    prepare(fusion, x, 8, 3);
    call.request.grid = given;
    call.request.n_grid = 3;
    refused(STATUS_INVALID_LAUNCH, "grid.x: 3 is given, but the fusion computes 2");
    given[0] = 2;
    cr_assert_eq(launched().grid[0], 2);
    call.request.block = large;
    call.request.n_block = 1;
    call.request.force = true;
    refused(STATUS_INVALID_LAUNCH, "block.x: 2048; possible are 1 to 1024");
    call.request.n_block = 0;
    call.request.dynamic_shared_memory = 100001;
    call.request.has_dynamic_shared_memory = true;
    refused(STATUS_INVALID_LAUNCH,
            "dynamic_shared_memory: 100001 bytes; beside the kernel's static part the device has");
}

Test(launch, B6_9_without_a_description_grid_and_block_are_given)
{
    int64_t blocks[] = {3}, threads[] = {16, 2};
    definition.launch = NULL;
    uint64_t fusion = define(), x = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    refused(STATUS_INVALID_LAUNCH, "grid and block must be given");
    call.request.grid = blocks;
    call.request.n_grid = 1;
    call.request.block = threads;
    call.request.n_block = 2;
    launched();
    cr_assert_eq(seen.params.grid[0], 3);
    cr_assert_eq(seen.params.block[1], 2);
}

Test(launch, B6_7_a_cooperative_one_is_launched_as_such)
{
    how.cooperative = true;
    uint64_t fusion = define(), x = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    launched();
    cr_assert(device->last_cooperative);
}

/* ---- nothing to do ---- */

Test(launch, B6_2_zero_sizes_are_fine)
{
    uint64_t fusion = define();
    prepare(fusion, 0, 0, 0);
    struct launch_reply reply = launched();
    cr_assert_eq(seen.n, 0, "an empty grid launches nothing");
    cr_assert_eq(reply.grid[0], 0);
    cr_assert_eq(reply.outputs[0].bytes, 0);
    cr_assert_eq(reply.outputs[0].sizes[0], 0);
    struct buffer_free_request release = {.buffer = reply.outputs[0].buffer, .has_buffer = true};
    cr_assert_eq(client_call(client, METHOD_BUFFER_FREE, &release, NULL), 0, "the output has a number all the same");
    call.request.wait = false;
    launched();
    cr_assert_eq(client_synchronize(client, 0), 0);
}

/* ---- outputs ---- */

Test(launch, B6_6_outputs_are_allocated_or_given_with_their_strides)
{
    uint64_t fusion = define(), x = client_allocate(client, 64), out = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    struct launch_reply reply = launched();
    cr_assert_eq(reply.outputs[0].bytes, 12);
    uint32_t got[3];
    client_read(client, reply.outputs[0].buffer, got, 12);
    cr_assert_eq(got[2], 0x01010101);
    call.out_size = 4;
    call.out_stride = 2;
    call.arguments[1] = (struct launch_argument){.buffer = out,
                                                 .has_buffer = true,
                                                 .offset = 16,
                                                 .has_offset = true,
                                                 .sizes = &call.out_size,
                                                 .n_sizes = 1,
                                                 .strides = &call.out_stride,
                                                 .n_strides = 1};
    reply = launched();
    cr_assert_eq(reply.outputs[0].buffer, out);
    cr_assert_eq(reply.outputs[0].offset, 16);
    cr_assert_eq(reply.outputs[0].bytes, 28);
    cr_assert_eq(reply.outputs[0].sizes[0], 4);
    cr_assert_eq(reply.outputs[0].strides[0], 2);
    cr_assert_eq(seen.out_size, 4);
}

Test(launch, B6_6_an_alias_is_its_tensors_memory)
{
    output = (struct output){.name = {"out", 3}, .alias = {"x", 1}};
    uint64_t fusion = define(), x = client_allocate(client, 64), other = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    call.arguments[0].offset = 32;
    call.arguments[0].has_offset = true;
    call.request.fill = FILL_NAN;
    struct launch_reply reply = launched();
    cr_assert_eq(seen.out, seen.x);
    cr_assert_eq(seen.out_size, 8);
    cr_assert_neq(seen.first_of_out, UINT32_MAX, "what is written in place is not filled");
    cr_assert_eq(reply.outputs[0].buffer, x);
    cr_assert_eq(reply.outputs[0].offset, 32);
    call.arguments[1].buffer = other;
    call.arguments[1].has_buffer = true;
    refused(STATUS_INVALID_LAUNCH, "parameter out: another buffer or offset than that of x");
    call.arguments[1].buffer = x;
    call.arguments[1].offset = 32;
    call.arguments[1].has_offset = true;
    launched();
}

Test(launch, B6_6_fills)
{
    static const struct {
        enum fill fill;
        uint32_t expected;
    } cases[] = {{FILL_ZERO, 0}, {FILL_NAN, 0xffffffff}, {FILL_MAX, 0x7f7f7f7f}};
    intermediate.zero = false;
    uint64_t fusion = define(), x = client_allocate(client, 64), out = client_allocate(client, 64);
    for (size_t i = 0; i < 3; i++) {
        prepare(fusion, x, 8, 3);
        call.request.fill = cases[i].fill;
        launched();
        cr_assert_eq(seen.first_of_out, cases[i].expected);
        cr_assert_eq((uint32_t)seen.first_of_w, cases[i].expected);
    }
    /* Between elements there may be somebody else's. */
    call.out_size = 4;
    call.out_stride = 2;
    call.arguments[1] = (struct launch_argument){.buffer = out,
                                                 .has_buffer = true,
                                                 .sizes = &call.out_size,
                                                 .n_sizes = 1,
                                                 .strides = &call.out_stride,
                                                 .n_strides = 1};
    refused(STATUS_INVALID_LAUNCH, "fill: parameter out has gaps between its elements");
    call.out_stride = 0;
    launched();
}

Test(launch, a_launch_that_fails_gives_its_outputs_back)
{
    uint64_t fusion = define(), x = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    launched();
    fake_device_fail(device, FAKE_LAUNCH, 0, STATUS_DRIVER);
    refused(STATUS_DRIVER, "the test makes call");
    fake_device_fail(device, FAKE_FILL, 0, STATUS_DRIVER);
    refused(STATUS_DRIVER, "the test makes call");
    fake_device_fail(device, FAKE_ALLOCATE, 0, STATUS_OUT_OF_MEMORY);
    refused(STATUS_OUT_OF_MEMORY, "output out");
    call.request.wait = false;
    fake_device_fail(device, FAKE_LAUNCH, 0, STATUS_DRIVER);
    refused(STATUS_DRIVER, "the test makes call");
    launched();
    cr_assert_eq(client_synchronize(client, 0), 0);
}

/* ---- intermediates ---- */

Test(launch, B6_6_intermediates_are_zeroed_each_time_and_share_memory)
{
    uint64_t fusion = define(), x = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    launched();
    cr_assert_eq(seen.first_of_w, 0);
    uint64_t w = seen.w;
    launched();
    cr_assert_eq(seen.first_of_w, 0, "the kernel before has left something there");
    cr_assert_eq(seen.w, w);
    call.request.fill = FILL_NAN;
    launched();
    cr_assert_eq(seen.first_of_w, 0, "zeroed is zeroed");
}

Test(launch, B6_6_intermediates_of_two_streams_are_apart)
{
    uint64_t fusion = define(), x = client_allocate(client, 64), stream = client_stream(client);
    prepare(fusion, x, 8, 3);
    launched();
    uint64_t w = seen.w;
    call.request.stream = stream;
    call.request.has_stream = true;
    launched();
    cr_assert_neq(seen.w, w);
}

Test(launch, B6_6_larger_intermediates_do_not_take_memory_from_launches_under_way)
{
    uint64_t fusion = define(), x = client_allocate(client, 64);
    prepare(fusion, x, 8, 3);
    fake_device_hold(device, true);
    uint32_t first = client_ask(client, METHOD_LAUNCH, &call.request);
    call.n = 3000;
    uint32_t second = client_ask(client, METHOD_LAUNCH, &call.request);
    pump_until(device->n_queued == 4);
    pump_settle();
    cr_assert_eq(device->n_memory, 5, "x, two outputs, two scratch memories");
    fake_device_hold(device, false);
    cr_assert_eq(client_answer(client, first, METHOD_LAUNCH, NULL), 0);
    cr_assert_eq(client_answer(client, second, METHOD_LAUNCH, NULL), 0);
    cr_assert_eq(device->n_memory, 4);
}
