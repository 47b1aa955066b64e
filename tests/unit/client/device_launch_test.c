/* Defining, launching, submitting and collecting on a device. Against a peer that is the executor. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/client/device_peer.h"

static const char key[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/* A device with scale defined as 3 and two buffers, 10 and 11. */
struct scene {
    struct peer peer;
    struct fusiond_device *device;
    struct fusiond_fusion *fusion;
    struct fusiond_defined *defined;
    struct fusiond_buffer *x, *out;
    struct fusiond_device_argument arguments[3];
};

static const int64_t sizes[] = {3, 4}, strides[] = {8, 1};
static const float by = 2.0f;

static void serve_scene(struct peer *peer)
{
    serve_open(peer);
    serve_define(peer, 3);
    serve_allocate(peer, 10);
    serve_allocate(peer, 11);
}

static void scene_init(struct scene *scene, void (*script)(struct peer *peer), void *data)
{
    struct fusiond_error error;
    scene->device = device_start(&scene->peer, script, data);
    scene->fusion = scale_fusion();
    cr_assert_eq(fusiond_define(scene->device, key, NULL, scene->fusion, &scene->defined, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_allocate(scene->device, 96, false, &scene->x, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_allocate(scene->device, 48, false, &scene->out, &error), 0, "%s", error.text);
    scene->arguments[0] = (struct fusiond_device_argument){.buffer = scene->x, .sizes = sizes};
    scene->arguments[1] = (struct fusiond_device_argument){.buffer = scene->out};
    scene->arguments[2] = (struct fusiond_device_argument){.scalar = &by, .scalar_size = sizeof by};
}

static void scene_finish(struct scene *scene)
{
    fusiond_device_close(scene->device);
    fusiond_buffer_free(scene->x);
    fusiond_buffer_free(scene->out);
    fusiond_defined_destroy(scene->defined);
    fusiond_fusion_destroy(scene->fusion);
    peer_join(&scene->peer);
}

/* ---- defining ---- */

static void check_define(struct peer *peer)
{
    struct fusion_define_request request;
    struct fusion_define_reply reply = {.fusion = 7,
                                        .has_fusion = true,
                                        .index_type = INDEX_TYPE_INT32,
                                        .registers = 40,
                                        .has_registers = true,
                                        .static_shared_memory = 1024,
                                        .has_static_shared_memory = true,
                                        .max_threads = 512,
                                        .has_max_threads = true,
                                        .load_ns = 5000,
                                        .has_load_ns = true};
    serve_open(peer);
    uint32_t id = peer_expect(peer, METHOD_FUSION_DEFINE, &request);
    assert(request.key[1] == 0x11 && request.key[31] == 0xff && text_is(request.entry, "scale<float>"));
    assert(request.n_params == 4 && text_is(request.params[3].name, "work"));
    assert(request.params[3].kind == PARAM_KIND_INTERMEDIATE && request.params[3].rank == 1);
    assert(request.n_outputs == 1 && text_is(request.outputs[0].sizes[1], "x.size[1]"));
    assert(request.n_intermediates == 1 && request.intermediates[0].zero);
    assert(text_is(request.intermediates[0].sizes[0], "x.size[0]"));
    assert(text_is(request.launch->grid[0], "x.size[0]") && request.launch->cooperative);
    assert(text_is(request.launch->dynamic_shared_memory, "16") && text_is(request.label, "scale"));
    assert(request.has_block_size && request.block_size == 384 && request.has_opt_level && request.opt_level == 1);
    assert(!request.has_max_registers);
    peer_reply(peer, id, METHOD_FUSION_DEFINE, &reply, NULL, 0);
    id = peer_expect(peer, METHOD_FUSION_DEFINE, &request);
    assert(!request.entry.at);
    peer_refuse(peer, id, STATUS_NOT_FOUND, "no kernel 001122334455");
    peer_expect_end(peer);
}

Test(device_launch, a_definition_tells_how_to_launch)
{
    struct peer peer;
    struct fusiond_defined *defined, *none = NULL;
    struct fusiond_error error;
    const char *size = "x.size[0]";
    struct fusiond_device *device = device_start(&peer, check_define, NULL);
    struct fusiond_fusion *fusion = scale_fusion();
    cr_assert_eq(fusiond_fusion_add_param(fusion, "work", FUSIOND_INTERMEDIATE, FUSIOND_FLOAT32, 1, 1, &error), 0);
    cr_assert_eq(fusiond_fusion_add_intermediate(fusion, "work", &size, 1, true, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "launch.cooperative", "true", &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "compile.block_size", "384", &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "compile.opt_level", "1", &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_define(device, key, "scale<float>", fusion, &defined, &error), 0, "%s", error.text);
    struct fusiond_defined_info info = fusiond_defined_info(defined);
    cr_assert_str_eq(info.index_type, "int32");
    cr_assert(info.registers == 40 && info.static_shared_memory == 1024 && info.max_threads == 512);
    cr_assert_eq(info.load_ns, 5000);
    cr_assert_eq(fusiond_define(device, key, NULL, fusion, &none, &error), -1);
    cr_assert_eq(error.code, FUSIOND_NOT_FOUND);
    cr_assert_eq(fusiond_define(device, "abc", NULL, fusion, &none, &error), -1);
    cr_assert_str_eq(error.name, "INVALID_FIELD");
    cr_assert_null(none);
    fusiond_defined_destroy(defined);
    fusiond_defined_destroy(NULL);
    fusiond_fusion_destroy(fusion);
    fusiond_device_close(device);
    peer_join(&peer);
}

/* ---- launching ---- */

static void check_launches(struct peer *peer)
{
    struct launch_request request;
    serve_scene(peer);
    serve_stream(peer, 6);
    uint32_t id = peer_expect(peer, METHOD_LAUNCH, &request);
    assert(request.fusion == 3 && !request.has_stream && request.n_arguments == 3 && request.n_grid == 0);
    assert(!request.force && !request.wait && request.fill == fill_absent && !request.has_dynamic_shared_memory);
    const struct launch_argument *x = &request.arguments[0], *scalar = &request.arguments[2];
    assert(x->buffer == 10 && !x->has_offset && x->n_sizes == 2 && x->sizes[1] == 4 && x->n_strides == 0);
    assert(!request.arguments[1].has_buffer && request.arguments[1].n_sizes == 0);
    assert(scalar->scalar.size == 4 && memcmp(scalar->scalar.at, &by, 4) == 0 && !scalar->has_buffer);
    answer_launch(peer, id, &request, 77);
    /* Everything that can be said. */
    id = peer_expect(peer, METHOD_LAUNCH, &request);
    assert(request.stream == 6 && request.force && request.wait && request.fill == FILL_NAN);
    assert(request.n_grid == 3 && request.grid[0] == 9 && request.block[1] == 2);
    assert(request.dynamic_shared_memory == 0 && request.has_dynamic_shared_memory);
    assert(request.arguments[0].offset == 32 && request.arguments[0].n_strides == 2);
    assert(request.arguments[0].strides[0] == 8 && request.arguments[1].buffer == 11);
    answer_launch(peer, id, &request, 0);
    /* Nobody wants the results: what was allocated is freed. */
    id = peer_expect(peer, METHOD_LAUNCH, &request);
    answer_launch(peer, id, &request, 78);
    serve_free(peer, 78);
    serve_free(peer, 77);
    peer_expect_end(peer);
}

Test(device_launch, requests_and_results)
{
    struct scene scene;
    struct fusiond_error error;
    struct fusiond_launched *launched;
    struct fusiond_stream *stream;
    const uint64_t *times;
    scene_init(&scene, check_launches, NULL);
    cr_assert_eq(fusiond_stream_create(scene.device, 0, &stream, &error), 0, "%s", error.text);

    scene.arguments[1].buffer = NULL;
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 3, NULL, &launched, &error), 0, "%s",
                 error.text);
    cr_assert_eq(fusiond_launched_outputs(launched), 1);
    struct fusiond_output output = fusiond_launched_output(launched, 0);
    cr_assert(output.param == 1 && output.allocated && output.bytes == 48 && output.offset == 0);
    cr_assert(output.rank == 2 && output.sizes[0] == 3 && output.alloc_rank == 2 && output.strides[0] == 4);
    cr_assert_eq(fusiond_buffer_size(output.buffer), 48);
    struct fusiond_launch params = fusiond_launched_params(launched);
    cr_assert(params.grid[0] == 3 && params.block[0] == 64 && params.block[2] == 1);
    cr_assert_eq(params.dynamic_shared_memory, 16);
    cr_assert(fusiond_launched_cached(launched));
    cr_assert_eq(fusiond_launched_times(launched, &times), 0);
    struct fusiond_buffer *taken = fusiond_launched_take(launched, 0);
    cr_assert_eq(taken, output.buffer);
    cr_assert_null(fusiond_launched_take(launched, 0), "once");
    fusiond_launched_destroy(launched);

    struct fusiond_launch given = {.grid = {9, 1, 1}, .block = {32, 2, 1}};
    struct fusiond_launch_options options = {
        .stream = stream, .launch = &given, .force = true, .wait = true, .fill = FUSIOND_FILL_NAN};
    scene.arguments[0].offset = 32;
    scene.arguments[0].strides = strides;
    scene.arguments[1].buffer = scene.out;
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 3, &options, &launched, &error), 0, "%s",
                 error.text);
    output = fusiond_launched_output(launched, 0);
    cr_assert(output.buffer == scene.out && !output.allocated);
    cr_assert_null(fusiond_launched_take(launched, 0), "it is the caller's already");
    fusiond_launched_destroy(launched);

    scene.arguments[1].buffer = NULL;
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 3, NULL, NULL, &error), 0, "%s", error.text);
    fusiond_buffer_free(taken);
    fusiond_launched_destroy(NULL);
    scene_finish(&scene);
    fusiond_stream_destroy(stream);
}

static void check_alias(struct peer *peer)
{
    struct fusion_define_request define;
    struct fusion_define_reply defined = {.fusion = 4, .has_fusion = true};
    struct launch_request request;
    serve_scene(peer);
    uint32_t id = peer_expect(peer, METHOD_FUSION_DEFINE, &define);
    assert(define.n_outputs == 1 && text_is(define.outputs[0].alias, "x") && define.outputs[0].n_sizes == 0);
    peer_reply(peer, id, METHOD_FUSION_DEFINE, &defined, NULL, 0);
    for (int i = 0; i < 2; i++) {
        id = peer_expect(peer, METHOD_LAUNCH, &request);
        assert(request.fusion == 4 && !request.arguments[1].has_buffer);
        assert(request.arguments[2].buffer == 11 && request.arguments[2].offset == 4);
        assert(request.arguments[2].n_sizes == 0 && !request.arguments[3].has_buffer);
        answer_launch(peer, id, &request, 10);
    }
    serve_synchronize(peer);
    peer_expect_end(peer);
}

Test(device_launch, an_alias_is_the_tensors_buffer)
{
    struct scene scene;
    struct fusiond_error error;
    struct fusiond_defined *defined;
    struct fusiond_launched *launched;
    scene_init(&scene, check_alias, NULL);
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    cr_assert_eq(fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 2, 2, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_param(fusion, "out", FUSIOND_OUTPUT, FUSIOND_FLOAT32, 2, 2, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_param(fusion, "state", FUSIOND_POINTER, FUSIOND_UINT64, 0, 0, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_param(fusion, "work", FUSIOND_INTERMEDIATE, FUSIOND_FLOAT32, 1, 1, NULL), 0);
    cr_assert_eq(fusiond_fusion_add_alias(fusion, "out", "x", &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_define(scene.device, key, NULL, fusion, &defined, &error), 0, "%s", error.text);
    struct fusiond_device_argument arguments[4] = {
        {.buffer = scene.x, .sizes = sizes}, {0}, {.buffer = scene.out, .offset = 4, .sizes = sizes}, {0}};
    cr_assert_eq(fusiond_device_launch(defined, arguments, 4, NULL, &launched, &error), 0, "%s", error.text);
    struct fusiond_output output = fusiond_launched_output(launched, 0);
    cr_assert(output.buffer == scene.x && !output.allocated);
    fusiond_launched_destroy(launched);
    cr_assert_eq(fusiond_device_submit(defined, arguments, 4, NULL, NULL, &error), 0, "it needs no buffer: %s",
                 error.text);
    cr_assert_eq(fusiond_device_synchronize(scene.device, NULL, &error), 0, "%s", error.text);
    fusiond_defined_destroy(defined);
    fusiond_fusion_destroy(fusion);
    scene_finish(&scene);
}

static void serve_one_more_device(struct peer *peer)
{
    serve_open(peer);
    serve_allocate(peer, 10);
    serve_stream(peer, 1);
    peer_expect_end(peer);
}

static void refuse_launch(struct peer *peer)
{
    struct launch_request request;
    struct launched_output output = {.param = 3, .has_param = true, .buffer = 5, .has_buffer = true};
    struct launch_reply reply = {.outputs = &output, .n_outputs = 1};
    serve_scene(peer);
    uint32_t id = peer_expect(peer, METHOD_LAUNCH, &request);
    peer_refuse(peer, id, STATUS_INVALID_LAUNCH, "grid[0] is 0");
    id = peer_expect(peer, METHOD_LAUNCH, &request);
    peer_reply(peer, id, METHOD_LAUNCH, &reply, NULL, 0);
    peer_expect_end(peer);
}

Test(device_launch, mistakes_are_named)
{
    struct scene scene;
    struct peer peer;
    struct fusiond_error error;
    struct fusiond_buffer *foreign;
    struct fusiond_stream *stream;
    struct fusiond_launched *launched = NULL;
    struct fusiond_launch_options options = {.fill = (enum fusiond_fill)9};
    struct fusiond_device *other = device_start(&peer, serve_one_more_device, NULL);
    cr_assert_eq(fusiond_buffer_allocate(other, 64, false, &foreign, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_stream_create(other, 0, &stream, &error), 0, "%s", error.text);
    scene_init(&scene, refuse_launch, NULL);
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 2, NULL, &launched, &error), -1);
    cr_assert(strstr(error.text, "2 arguments for 3 parameters"), "%s", error.text);
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 3, &options, &launched, &error), -1);
    cr_assert(strstr(error.text, "fill: 9"), "%s", error.text);
    options = (struct fusiond_launch_options){.stream = stream};
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 3, &options, &launched, &error), -1);
    cr_assert_str_eq(error.name, "UNKNOWN_HANDLE", "%s", error.text);
    scene.arguments[0].buffer = foreign;
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 3, NULL, &launched, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER);
    cr_assert(strstr(error.text, "parameter x"), "%s", error.text);
    scene.arguments[0].buffer = scene.x;
    /* What the executor says, and what it may not say. */
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 3, NULL, &launched, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_LAUNCH);
    cr_assert_str_eq(error.text, "grid[0] is 0");
    cr_assert_eq(fusiond_device_launch(scene.defined, scene.arguments, 3, NULL, &launched, &error), -1);
    cr_assert_str_eq(error.name, "MALFORMED");
    cr_assert(strstr(error.text, "parameter 3 of 3"), "%s", error.text);
    cr_assert_null(launched);
    scene_finish(&scene);
    fusiond_device_close(other);
    fusiond_buffer_free(foreign);
    fusiond_stream_destroy(stream);
    peer_join(&peer);
}

static void serve_run(struct peer *peer)
{
    struct run_request request;
    int64_t times[] = {30, 10, 20};
    struct launch_reply launch = {0};
    struct run_reply reply = {.launch = &launch, .times_ns = times, .n_times_ns = 3, .bytes = 96, .has_bytes = true};
    serve_scene(peer);
    uint32_t id = peer_expect(peer, METHOD_RUN, &request);
    assert(request.warmups == 2 && request.repeats == 3 && request.launch->fusion == 3);
    assert(request.launch->arguments[0].buffer == 10);
    peer_reply(peer, id, METHOD_RUN, &reply, NULL, 0);
    id = peer_expect(peer, METHOD_RUN, &request);
    peer_refuse(peer, id, STATUS_INVALID_FIELD, "repeats: is 0; the least is 1");
    peer_expect_end(peer);
}

Test(device_launch, a_run_is_timed)
{
    struct scene scene;
    struct fusiond_error error;
    struct fusiond_launched *launched;
    const uint64_t *times;
    scene_init(&scene, serve_run, NULL);
    cr_assert_eq(fusiond_device_run(scene.defined, scene.arguments, 3, NULL, 2, 3, &launched, &error), 0, "%s",
                 error.text);
    cr_assert_eq(fusiond_launched_times(launched, &times), 3);
    cr_assert(times[0] == 30 && times[1] == 10 && times[2] == 20);
    cr_assert_eq(fusiond_launched_bytes(launched), 96);
    fusiond_launched_destroy(launched);
    cr_assert_eq(fusiond_device_run(scene.defined, scene.arguments, 3, NULL, 0, 0, &launched, &error), -1);
    cr_assert_str_eq(error.text, "repeats: is 0; the least is 1");
    scene_finish(&scene);
}

/* ---- pipelines ---- */

#define MANY 5000

static void serve_many(struct peer *peer)
{
    serve_scene(peer);
    for (int i = 0; i < MANY; i++) {
        struct launch_request request;
        uint32_t id = peer_expect(peer, METHOD_LAUNCH, &request);
        assert(request.dynamic_shared_memory == (uint64_t)i);
        answer_launch(peer, id, &request, 0);
        msgpack_zone_clear(peer->zone);
    }
    serve_synchronize(peer);
    peer_expect_end(peer);
}

Test(device_launch, P12_launches_without_tickets_are_one_stream_of_requests)
{
    struct scene scene;
    struct fusiond_error error;
    struct fusiond_launch params = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    struct fusiond_launch_options options = {.launch = &params};
    scene_init(&scene, serve_many, NULL);
    for (int i = 0; i < MANY; i++) {
        params.dynamic_shared_memory = (unsigned)i;
        cr_assert_eq(fusiond_device_submit(scene.defined, scene.arguments, 3, &options, NULL, &error), 0, "%s",
                     error.text);
    }
    cr_assert_eq(fusiond_device_synchronize(scene.device, NULL, &error), 0, "%s", error.text);
    scene_finish(&scene);
}

/* An executor that does not read while it has something to say. */
static void talk_before_reading(struct peer *peer)
{
    msgpack_sbuffer news;
    struct failure failure = {0};
    char *text = calloc(1, 8 << 10);
    serve_scene(peer);
    peer_expect(peer, METHOD_LAUNCH, NULL);
    memset(text, 'x', (8 << 10) - 1);
    failure.text = text_of(text);
    msgpack_sbuffer_init(&news);
    envelope_write_message(&news, &failure_type, &failure);
    for (int i = 0; i < 500; i++)
        peer_send(peer, news.data, news.size, NULL, 0);
    msgpack_sbuffer_destroy(&news);
    free(text);
    for (int i = 1; i < 900; i++)
        peer_expect(peer, METHOD_LAUNCH, NULL);
    peer_hang_up(peer);
}

Test(device_launch, a_full_socket_never_blocks_both_ends)
{
    struct scene scene;
    struct fusiond_error error;
    char large[4096] = "";
    scene_init(&scene, talk_before_reading, NULL);
    scene.arguments[2] = (struct fusiond_device_argument){.scalar = large, .scalar_size = sizeof large};
    for (int i = 0; i < 900; i++) /* 3.6 MB */
        cr_assert_eq(fusiond_device_submit(scene.defined, scene.arguments, 3, NULL, NULL, &error), 0, "%d: %s", i,
                     error.text);
    cr_assert_eq(fusiond_device_synchronize(scene.device, NULL, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET, "%s", error.text);
    scene_finish(&scene);
}

static void refuse_some(struct peer *peer)
{
    uint32_t ids[4], id;
    struct launch_request request;
    serve_scene(peer);
    serve_stream(peer, 6);
    for (int i = 0; i < 4; i++)
        ids[i] = peer_expect(peer, METHOD_LAUNCH, &request);
    peer_refuse(peer, ids[1], STATUS_INVALID_LAUNCH, "first");
    peer_refuse(peer, ids[2], STATUS_INVALID_LAUNCH, "second");
    answer_launch(peer, ids[3], &request, 0);
    /* The answer to the synchronize overtakes one. */
    id = peer_expect(peer, METHOD_STREAM_SYNCHRONIZE, NULL);
    peer_reply(peer, id, METHOD_STREAM_SYNCHRONIZE, NULL, NULL, 0);
    serve_synchronize(peer);
    peer_refuse(peer, ids[0], STATUS_INVALID_LAUNCH, "of the other stream");
    serve_synchronize(peer);
    serve_synchronize(peer);
    peer_expect_end(peer);
}

Test(device_launch, what_is_refused_is_said_by_its_streams_synchronize)
{
    struct scene scene;
    struct fusiond_error error;
    struct fusiond_stream *stream;
    struct fusiond_launch_options options = {0};
    scene_init(&scene, refuse_some, NULL);
    cr_assert_eq(fusiond_stream_create(scene.device, 0, &stream, &error), 0, "%s", error.text);
    options.stream = stream;
    for (int i = 0; i < 4; i++)
        cr_assert_eq(fusiond_device_submit(scene.defined, scene.arguments, 3, i == 0 ? &options : NULL, NULL, &error),
                     0, "%s", error.text);
    cr_assert_eq(fusiond_device_synchronize(scene.device, NULL, &error), -1);
    cr_assert_str_eq(error.text, "first");
    cr_assert_eq(fusiond_device_synchronize(scene.device, stream, &error), -1);
    cr_assert_str_eq(error.text, "of the other stream");
    cr_assert_eq(fusiond_device_synchronize(scene.device, stream, &error), 0, "said once: %s", error.text);
    cr_assert_eq(fusiond_device_synchronize(scene.device, NULL, &error), 0, "said once: %s", error.text);
    /* What nobody would own is not launched. */
    scene.arguments[1].buffer = NULL;
    cr_assert_eq(fusiond_device_submit(scene.defined, scene.arguments, 3, NULL, NULL, &error), -1);
    cr_assert(strstr(error.text, "parameter out: an output without a buffer"), "%s", error.text);
    scene_finish(&scene);
    fusiond_stream_destroy(stream);
}

/* ---- tickets ---- */

static void answer_in_any_order(struct peer *peer)
{
    uint32_t ids[4];
    struct launch_request requests[4];
    serve_scene(peer);
    for (int i = 0; i < 4; i++)
        ids[i] = peer_expect(peer, METHOD_LAUNCH, &requests[i]);
    answer_launch(peer, ids[2], &requests[2], 72);
    peer_refuse(peer, ids[1], STATUS_OUT_OF_MEMORY, "no room for out");
    answer_launch(peer, ids[0], &requests[0], 70);
    serve_free(peer, 70);
    answer_launch(peer, ids[3], &requests[3], 0);
    serve_free(peer, 72);
    peer_expect_end(peer);
}

Test(device_launch, tickets_are_collected_in_any_order)
{
    struct scene scene;
    struct fusiond_error error;
    struct fusiond_launched *launched = NULL;
    uint64_t tickets[4];
    scene_init(&scene, answer_in_any_order, NULL);
    for (int i = 0; i < 4; i++) {
        scene.arguments[1].buffer = i == 3 ? scene.out : NULL;
        cr_assert_eq(fusiond_device_submit(scene.defined, scene.arguments, 3, NULL, &tickets[i], &error), 0, "%s",
                     error.text);
    }
    cr_assert_eq(fusiond_device_collect(scene.device, tickets[0], NULL, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_device_collect(scene.device, tickets[1], &launched, &error), -1);
    cr_assert_str_eq(error.text, "no room for out");
    cr_assert_null(launched);
    cr_assert_eq(fusiond_device_collect(scene.device, tickets[3], &launched, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_launched_output(launched, 0).buffer, scene.out);
    fusiond_launched_destroy(launched);
    cr_assert_eq(fusiond_device_collect(scene.device, tickets[2], &launched, &error), 0, "%s", error.text);
    cr_assert(fusiond_launched_output(launched, 0).allocated);
    fusiond_launched_destroy(launched);
    cr_assert_eq(fusiond_device_collect(scene.device, tickets[2], &launched, &error), -1, "once");
    cr_assert_str_eq(error.name, "UNKNOWN_HANDLE");
    cr_assert_eq(fusiond_device_collect(scene.device, 1ull << 40, &launched, &error), -1);
    cr_assert_str_eq(error.name, "UNKNOWN_HANDLE");
    scene_finish(&scene);
}

static void answer_all_and_more(struct peer *peer)
{
    serve_scene(peer);
    for (unsigned i = 0; i < DEVICE_WINDOW; i++) {
        struct launch_request request;
        uint32_t id = peer_expect(peer, METHOD_LAUNCH, &request);
        answer_launch(peer, id, &request, 0);
        msgpack_zone_clear(peer->zone);
    }
    serve_synchronize(peer);
    peer_expect_end(peer);
}

Test(device_launch, tickets_that_nobody_collects_have_a_limit)
{
    struct scene scene;
    struct fusiond_error error;
    uint64_t first = 0, ticket;
    scene_init(&scene, answer_all_and_more, NULL);
    for (unsigned i = 0; i < DEVICE_WINDOW; i++)
        cr_assert_eq(fusiond_device_submit(scene.defined, scene.arguments, 3, NULL, i ? &ticket : &first, &error), 0,
                     "%u: %s", i, error.text);
    cr_assert_eq(fusiond_device_submit(scene.defined, scene.arguments, 3, NULL, &ticket, &error), -1);
    cr_assert(strstr(error.text, "1024 launches were not collected"), "%s", error.text);
    cr_assert_eq(fusiond_device_collect(scene.device, first, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_device_synchronize(scene.device, NULL, &error), 0, "there is room again: %s", error.text);
    scene_finish(&scene);
}

static void answer_one_and_die(struct peer *peer)
{
    struct launch_request request;
    serve_scene(peer);
    uint32_t id = peer_expect(peer, METHOD_LAUNCH, &request);
    peer_expect(peer, METHOD_LAUNCH, NULL);
    answer_launch(peer, id, &request, 0);
    peer_hang_up(peer);
}

Test(device_launch, tickets_outlive_the_executor)
{
    struct scene scene;
    struct fusiond_error error;
    struct fusiond_launched *launched;
    uint64_t tickets[2];
    scene_init(&scene, answer_one_and_die, NULL);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(fusiond_device_submit(scene.defined, scene.arguments, 3, NULL, &tickets[i], &error), 0, "%s",
                     error.text);
    cr_assert_eq(fusiond_device_synchronize(scene.device, NULL, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET);
    cr_assert_eq(fusiond_device_collect(scene.device, tickets[0], &launched, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_launched_output(launched, 0).buffer, scene.out);
    fusiond_launched_destroy(launched);
    cr_assert_eq(fusiond_device_collect(scene.device, tickets[1], &launched, &error), -1);
    cr_assert_eq(error.code, FUSIOND_EXECUTOR_RESET, "%s", error.text);
    scene_finish(&scene);
}
