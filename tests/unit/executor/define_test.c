/* fusion.define: what is refused, fetching a kernel once for all, loading it. */
#include <string.h>

#include "daemon/executor/executor.h"
#include "tests/unit/executor/fixture.h"

TestSuite(define, .init = executor_start, .fini = executor_finish, .timeout = 60);

/* A description to be changed: x (tensor, rank 1), out (output, rank 1), by (scalar), w (intermediate) last. */
struct description {
    struct param params[4];
    struct output output;
    struct intermediate intermediate;
    struct launch launch;
    struct text sizes[2], grid[1], block[1];
    struct fusion_define_request request;
};

static struct description *describe(uint8_t key)
{
    static struct description d;
    d = (struct description){
        .params =
            {{.name = {"x", 1}, .kind = PARAM_KIND_TENSOR, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true},
             {.name = {"out", 3}, .kind = PARAM_KIND_OUTPUT, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true},
             {.name = {"by", 2}, .kind = PARAM_KIND_SCALAR, .dtype = DTYPE_FLOAT32},
             {.name = {"w", 1}, .kind = PARAM_KIND_INTERMEDIATE, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true}},
        .sizes = {TEXT_OF("x.size[0]"), TEXT_OF("out.size[0] * 2")},
        .grid = {TEXT_OF("ceilDiv(x.size[0], 256)")},
        .block = {TEXT_OF("256")},
    };
    d.output = (struct output){.name = {"out", 3}, .sizes = &d.sizes[0], .n_sizes = 1};
    d.intermediate = (struct intermediate){.name = {"w", 1}, .sizes = &d.sizes[1], .n_sizes = 1};
    d.launch = (struct launch){.grid = d.grid, .n_grid = 1, .block = d.block, .n_block = 1};
    d.request = (struct fusion_define_request){
        .has_key = true, .params = d.params, .n_params = 3, .outputs = &d.output, .n_outputs = 1, .launch = &d.launch};
    memset(d.request.key, key, sizeof d.request.key);
    return &d;
}

static void with_intermediate(struct description *d)
{
    d->request.n_params = 4;
    d->request.intermediates = &d->intermediate;
    d->request.n_intermediates = 1;
    front_knows(1, "scale 16 16 4 16\n", "scale", INDEX_TYPE_INT32);
}

/* ---- what is refused ---- */

static void refused(struct client *client, struct description *d, enum status code, const char *why)
{
    size_t asked = front.n_asked;
    cr_assert_eq(client_call(client, METHOD_FUSION_DEFINE, &d->request, NULL), code, "%s: %s", why,
                 client_error(client));
    cr_assert(strstr(client_error(client), why), "\"%s\" is not in \"%s\"", why, client_error(client));
    if (code == STATUS_INVALID_FIELD)
        cr_assert_eq(front.n_asked, asked, "%s: a kernel was fetched", why);
}

Test(define, mistakes_are_named)
{
    struct client *client = client_attach();
    struct description *d = describe(1);
    d->params[2].name = (struct text){"x", 1};
    refused(client, d, STATUS_INVALID_FIELD, "params[2].name: \"x\" is there twice");

    d = describe(1);
    d->params[2].rank = 1;
    d->params[2].has_rank = true;
    refused(client, d, STATUS_INVALID_FIELD, "params[2].rank: a scalar has none");

    d = describe(1);
    d->request.n_params = 4;
    refused(client, d, STATUS_INVALID_FIELD, "the intermediate \"w\" is not described");

    d = describe(1);
    d->output.name = (struct text){"x", 1};
    refused(client, d, STATUS_INVALID_FIELD, "outputs[0].name: no parameter of kind output is called \"x\"");

    d = describe(1);
    d->output.n_sizes = 2;
    refused(client, d, STATUS_INVALID_FIELD, "outputs[0].sizes: 2, but parameter \"out\" has rank 1");

    d = describe(1);
    d->output.strides = d->sizes;
    d->output.n_strides = 2;
    refused(client, d, STATUS_INVALID_FIELD, "outputs[0].strides: 2");

    d = describe(1);
    d->output.alias = (struct text){"by", 2};
    refused(client, d, STATUS_INVALID_FIELD, "outputs[0].alias: no tensor is called \"by\"");

    d = describe(1);
    with_intermediate(d);
    d->intermediate.n_sizes = 0;
    d->intermediate.strides = d->sizes;
    d->intermediate.n_strides = 2;
    refused(client, d, STATUS_INVALID_FIELD, "intermediates[0].strides: 2");
}

Test(define, B6_4_expressions_are_checked_at_once)
{
    struct client *client = client_attach();
    struct description *d = describe(1);
    d->grid[0] = TEXT_OF("ceilDiv(y.size[0], 256)");
    refused(client, d, STATUS_INVALID_LAUNCH, "launch.grid[0]: \"ceilDiv(y.size[0], 256)\": no tensor has this name");

    d = describe(1);
    d->block[0] = TEXT_OF("256 +");
    refused(client, d, STATUS_INVALID_LAUNCH, "launch.block[0]: ");

    d = describe(1);
    d->launch.dynamic_shared_memory = TEXT_OF("by");
    refused(client, d, STATUS_INVALID_LAUNCH, "launch.dynamic_shared_memory: \"by\": the scalar is not an integer");

    d = describe(1);
    d->sizes[0] = TEXT_OF("x.size");
    refused(client, d, STATUS_INVALID_LAUNCH, "output out: sizes[0]: ");

    d = describe(1);
    with_intermediate(d);
    d->sizes[1] = TEXT_OF("nothing");
    refused(client, d, STATUS_INVALID_LAUNCH, "intermediate w: sizes[0]: ");

    d = describe(1);
    with_intermediate(d);
    cr_assert_eq(client_call(client, METHOD_FUSION_DEFINE, &d->request, NULL), 0, "%s", client_error(client));
}

Test(define, B6_2_another_rank_or_index_type_than_the_kernels)
{
    struct client *client = client_attach();
    struct description *d = describe(1);
    d->params[0].rank = 2;
    refused(client, d, STATUS_INVALID_LAUNCH, "parameter x: 24 bytes, but the kernel's has 16");
    d = describe(1);
    d->request.n_params = 2;
    refused(client, d, STATUS_INVALID_LAUNCH, "the kernel has 3 parameters and the fusion 2");
    front_knows(2, "scale 16 16 4\n", "scale", INDEX_TYPE_INT64);
    refused(client, describe(2), STATUS_INVALID_LAUNCH, "parameter x: 24 bytes, but the kernel's has 16");
    /* Where the image does not tell, nothing can be compared. */
    front_knows(3, "scale ?\n", "scale", INDEX_TYPE_INT64);
    cr_assert_eq(client_call(client, METHOD_FUSION_DEFINE, &describe(3)->request, NULL), 0, "%s", client_error(client));
}

Test(define, an_entry_that_the_kernel_has_not)
{
    struct client *client = client_attach();
    struct description *d = describe(1);
    d->request.entry = TEXT_OF("other");
    refused(client, d, STATUS_NOT_FOUND, "entry: the kernel has none called \"other\"");
    d->request.entry = TEXT_OF("scale");
    cr_assert_eq(client_call(client, METHOD_FUSION_DEFINE, &d->request, NULL), 0);
}

/* ---- fetching ---- */

Test(define, a_kernel_is_fetched_and_loaded_once_for_all_clients)
{
    struct fusion_define_reply reply;
    struct client *first = client_attach(), *second = client_attach(), *third = client_attach();
    front.held = true;
    uint32_t one = client_ask(first, METHOD_FUSION_DEFINE, &describe(1)->request);
    uint32_t two = client_ask(second, METHOD_FUSION_DEFINE, &describe(1)->request);
    uint32_t again = client_ask(second, METHOD_FUSION_DEFINE, &describe(1)->request);
    pump_until(front.n_asked == 1);
    pump_settle();
    cr_assert_eq(front.n_asked, 1);
    front_answer();
    cr_assert_eq(client_answer(first, one, METHOD_FUSION_DEFINE, &reply), 0);
    cr_assert_eq(reply.fusion, 1);
    cr_assert_eq(reply.index_type, INDEX_TYPE_INT32);
    cr_assert_eq(reply.registers, 16);
    cr_assert_eq(reply.max_threads, 1024);
    cr_assert_gt(reply.load_ns, 0);
    cr_assert_eq(client_answer(second, two, METHOD_FUSION_DEFINE, &reply), 0);
    cr_assert_eq(client_answer(second, again, METHOD_FUSION_DEFINE, &reply), 0);
    cr_assert_eq(reply.fusion, 2);
    cr_assert_eq(client_call(third, METHOD_FUSION_DEFINE, &describe(1)->request, &reply), 0);
    cr_assert_eq(reply.load_ns, 0, "it was loaded already");
    cr_assert_eq(device->n_loads, 1);
    /* And for whoever comes when all these have left. */
    client_leave(first);
    client_leave(second);
    client_leave(third);
    pump_until(list_empty(&process.sessions));
    client_define_scale(client_attach());
    cr_assert_eq(device->n_loads, 1);
    cr_assert_eq(front.n_asked, 1);
}

/* ---- PTX is made into machine code here ---- */

static void define_with(struct client *client, unsigned max_registers, unsigned block_size, int level)
{
    struct description *d = describe(1);
    d->request.has_max_registers = max_registers > 0;
    d->request.max_registers = max_registers;
    d->request.has_block_size = block_size > 0;
    d->request.block_size = block_size;
    d->request.has_opt_level = level >= 0;
    d->request.opt_level = level >= 0 ? (uint64_t)level : 0;
    cr_assert_eq(client_call(client, METHOD_FUSION_DEFINE, &d->request, NULL), 0, "%s", client_error(client));
}

static void expect_loads(size_t n, unsigned max_registers, unsigned level)
{
    cr_assert_eq(device->n_loads, n, "%zu loads", device->n_loads);
    cr_assert_eq(device->last_options.max_registers, max_registers, "%u", device->last_options.max_registers);
    cr_assert_eq(device->last_options.level, level, "%u", device->last_options.level);
}

Test(define, B2_3_options_of_ptx_make_the_executable)
{
    struct client *client = client_attach();
    front.kernels[0].ptx = true;
    define_with(client, 0, 0, -1);
    expect_loads(1, 0, 0);
    define_with(client, 0, 500, -1);
    expect_loads(2, 128, 0);
    define_with(client, 0, 400, -1); /* the same class */
    expect_loads(2, 128, 0);
    define_with(client, 128, 300, -1); /* the same limit, the fusion's own */
    expect_loads(2, 128, 0);
    define_with(client, 64, 0, -1);
    expect_loads(3, 64, 0);
    define_with(client, 64, 0, 0);
    expect_loads(4, 64, 1);
    define_with(client, 255, 256, -1); /* no limit at all */
    expect_loads(4, 64, 1);
    define_with(client_attach(), 64, 0, 0);
    expect_loads(4, 64, 1);
}

Test(define, B2_3_options_mean_nothing_to_a_cubin)
{
    struct client *client = client_attach();
    define_with(client, 64, 0, 0);
    define_with(client, 0, 0, -1);
    define_with(client, 0, 1024, 4);
    cr_assert_eq(device->n_loads, 1);
}

Test(define, B2_3_options_out_of_range)
{
    struct client *client = client_attach();
    struct description *d = describe(1);
    d->request.has_max_registers = true;
    refused(client, d, STATUS_INVALID_FIELD, "max_registers: is 0; the limits are 1 and 255");
    d->request.max_registers = 256;
    refused(client, d, STATUS_INVALID_FIELD, "max_registers");
    d = describe(1);
    d->request.has_block_size = true;
    refused(client, d, STATUS_INVALID_FIELD, "block_size: is 0; the limits are 1 and 1024");
    d = describe(1);
    d->request.has_opt_level = true;
    d->request.opt_level = 5;
    refused(client, d, STATUS_INVALID_FIELD, "opt_level");
}

Test(define, an_image_comes_inline_or_as_a_file)
{
    front.kernels[0].by_fd = true;
    client_define_scale(client_attach());
    cr_assert_eq(device->n_loads, 1);
}

Test(define, a_key_that_nobody_knows)
{
    struct client *client = client_attach();
    refused(client, describe(9), STATUS_NOT_FOUND, "there is no kernel 09");
    refused(client, describe(9), STATUS_NOT_FOUND, "there is no kernel 09");
    cr_assert_eq(front.n_asked, 2, "it may have been compiled meanwhile");
}

Test(define, B6_1_an_image_that_does_not_load_is_dropped_and_the_loader_is_quoted)
{
    struct client *client = client_attach();
    front_knows(2, "broken", "scale", INDEX_TYPE_INT32);
    refused(client, describe(2), STATUS_LOAD_FAILED, "the loader says: broken");
    cr_assert_eq(device->n_modules, 0);
    front_knows(2, "scale 16 16 4\n", "scale", INDEX_TYPE_INT32);
    cr_assert_eq(client_call(client, METHOD_FUSION_DEFINE, &describe(2)->request, NULL), 0, "%s", client_error(client));
}

Test(define, answers_that_nobody_asked_for_do_no_harm)
{
    front.duplicated = true;
    client_define_scale(client_attach());
    pump_settle();
    client_define_scale(client_attach());
    cr_assert_eq(device->n_loads, 1);
}

Test(define, not_too_many_are_fetched_at_a_time)
{
    struct client *client = client_attach();
    uint32_t ids[100];
    front.held = true;
    for (uint8_t i = 0; i < 100; i++)
        ids[i] = client_ask(client, METHOD_FUSION_DEFINE, &describe((uint8_t)(100 + i))->request);
    pump_until(front.n_asked == EXECUTOR_FETCHES);
    pump_settle();
    cr_assert_eq(front.n_asked, EXECUTOR_FETCHES);
    front.held = false;
    front_answer();
    for (int i = 0; i < 100; i++)
        cr_assert_eq(client_answer(client, ids[i], METHOD_FUSION_DEFINE, NULL), STATUS_NOT_FOUND);
    cr_assert_eq(front.deepest, EXECUTOR_FETCHES);
}

Test(define, F22_a_device_without_room_for_a_kernel_unloads_what_nobody_uses)
{
    struct client *first = client_attach(), *second = client_attach();
    device->module_bytes = 600;
    device->memory_limit = 1000;
    front_knows(2, "scale 16 16 4\n", "scale", INDEX_TYPE_INT32);
    client_define_scale(first);
    refused(second, describe(2), STATUS_OUT_OF_MEMORY, "no room for a module");
    client_leave(first);
    pump_until(process.channels == 1);
    cr_assert_eq(device->n_modules, 1);
    cr_assert_eq(client_call(second, METHOD_FUSION_DEFINE, &describe(2)->request, NULL), 0, "%s", client_error(second));
    cr_assert_eq(device->n_modules, 1);
}

Test(define, a_loader_or_a_search_that_fails)
{
    struct client *client = client_attach();
    client_allocate(client, 8);
    fake_device_fail(device, FAKE_LOAD, 0, STATUS_DRIVER);
    refused(client, describe(1), STATUS_DRIVER, "the test makes call");
    fake_device_fail(device, FAKE_FIND, 0, STATUS_DRIVER);
    refused(client, describe(1), STATUS_DRIVER, "the test makes call");
    cr_assert_eq(client_call(client, METHOD_FUSION_DEFINE, &describe(1)->request, NULL), 0);
}
