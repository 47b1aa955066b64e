#include "tests/unit/client/device_peer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct device host_device(void)
{
    return (struct device){.has_ordinal = true,
                           .name = TEXT_OF("host CPU"),
                           .kind = DEVICE_KIND_HOST,
                           .memory_bytes = 8ull << 30,
                           .has_memory_bytes = true,
                           .multiprocessors = 2,
                           .has_multiprocessors = true};
}

struct fusiond_device *device_start(struct peer *peer, void (*script)(struct peer *peer), void *data)
{
    struct fusiond_connection *connection;
    struct fusiond_device *device;
    struct fusiond_error error;
    peer_start(peer, script, data);
    if (fusiond_connect(peer->path, NULL, &connection, &error) < 0 ||
        fusiond_device_open(connection, "host", NULL, &device, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    fusiond_close(connection);
    return device;
}

struct fusiond_fusion *scale_fusion(void)
{
    const char *sizes[] = {"x.size[0]", "x.size[1]"}, *grid[3] = {"x.size[0]"}, *block[3] = {"64"};
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    int result = fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 2, 2, NULL) |
                 fusiond_fusion_add_param(fusion, "out", FUSIOND_OUTPUT, FUSIOND_FLOAT32, 2, 2, NULL) |
                 fusiond_fusion_add_param(fusion, "by", FUSIOND_SCALAR, FUSIOND_FLOAT32, 0, 0, NULL) |
                 fusiond_fusion_add_output(fusion, "out", sizes, 2, NULL) |
                 fusiond_fusion_set_launch(fusion, grid, block, "16", NULL) |
                 fusiond_fusion_set_option(fusion, "label", "scale", NULL);
    assert(result == 0);
    return fusion;
}

void serve_open(struct peer *peer)
{
    struct device device = host_device();
    peer_open_device(peer, &device);
}

void serve_define(struct peer *peer, uint64_t number)
{
    struct fusion_define_reply reply = {.fusion = number, .has_fusion = true};
    uint32_t id = peer_expect(peer, METHOD_FUSION_DEFINE, NULL);
    peer_reply(peer, id, METHOD_FUSION_DEFINE, &reply, NULL, 0);
}

void serve_allocate(struct peer *peer, uint64_t number)
{
    struct buffer_allocate_request request;
    uint32_t id = peer_expect(peer, METHOD_BUFFER_ALLOCATE, &request);
    struct buffer_allocate_reply reply = {.buffer = number, .has_buffer = true, .size = request.size, .has_size = true};
    peer_reply(peer, id, METHOD_BUFFER_ALLOCATE, &reply, NULL, 0);
}

void serve_stream(struct peer *peer, uint64_t number)
{
    struct stream_create_reply reply = {.stream = number, .has_stream = true};
    uint32_t id = peer_expect(peer, METHOD_STREAM_CREATE, NULL);
    peer_reply(peer, id, METHOD_STREAM_CREATE, &reply, NULL, 0);
}

void serve_free(struct peer *peer, uint64_t number)
{
    struct buffer_free_request request;
    uint32_t id = peer_expect(peer, METHOD_BUFFER_FREE, &request);
    assert(request.buffer == number);
    peer_reply(peer, id, METHOD_BUFFER_FREE, NULL, NULL, 0);
}

void serve_synchronize(struct peer *peer)
{
    uint32_t id = peer_expect(peer, METHOD_STREAM_SYNCHRONIZE, NULL);
    peer_reply(peer, id, METHOD_STREAM_SYNCHRONIZE, NULL, NULL, 0);
}

void answer_launch(struct peer *peer, uint32_t id, const struct launch_request *request, uint64_t number)
{
    int64_t grid[] = {3, 1, 1}, block[] = {64, 1, 1}, sizes[] = {3, 4}, strides[] = {4, 1};
    const struct launch_argument *out = &request->arguments[1];
    struct launched_output output = {.param = 1,
                                     .has_param = true,
                                     .buffer = out->has_buffer ? out->buffer : number,
                                     .has_buffer = true,
                                     .offset = out->offset,
                                     .has_offset = out->has_offset,
                                     .bytes = 48,
                                     .has_bytes = true,
                                     .sizes = sizes,
                                     .n_sizes = 2,
                                     .strides = strides,
                                     .n_strides = 2};
    struct launch_reply reply = {.outputs = &output,
                                 .n_outputs = 1,
                                 .grid = grid,
                                 .n_grid = 3,
                                 .block = block,
                                 .n_block = 3,
                                 .dynamic_shared_memory = 16,
                                 .has_dynamic_shared_memory = true,
                                 .cached = true};
    peer_reply(peer, id, METHOD_LAUNCH, &reply, NULL, 0);
}

void peer_refuse(struct peer *peer, uint32_t id, enum status code, const char *text)
{
    struct failure failure = {
        .code = code, .has_code = true, .name = text_of(status_name(code)), .text = text_of(text)};
    peer_fail(peer, id, &failure);
}
