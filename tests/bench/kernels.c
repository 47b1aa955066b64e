/* Kernels of chosen sizes, and how large their frames are. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "kernels_db/kernel_key.h"
#include "proto/envelope.h"
#include "proto/frame.h"
#include "tests/bench/bench.h"

/* Code of the wanted length that is code throughout, and an image of the wanted length through a table that cannot be
 * left out. */
struct fusiond_fusion *make_fusion(const char *label, size_t code_bytes, size_t image_bytes)
{
    struct fusiond_error error;
    char *code = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&code, &size);
    if (image_bytes) {
        fprintf(out, "__device__ int bench_table[%zu] = {1", image_bytes / 4);
        for (size_t i = 1; i < 64; i++)
            fprintf(out, ", %zu", i);
        fprintf(out, "};\n");
    }
    fprintf(out, "__global__ void bench(Tensor<float, 1, 1> in, Tensor<float, 1, 1> out) {\n"
                 "  nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                 "  if (i >= in.logical_size[0]) return;\n  float v = in[i];\n");
    for (unsigned i = 0; (size_t)ftell(out) + 80 < code_bytes; i++)
        fprintf(out, "  v = v * 1.%04uf + 0.%04uf; // step %u of the chain\n", i % 10000, (i * 7) % 10000, i);
    fprintf(out, "  out[i] = v%s;\n}\n", image_bytes ? " + bench_table[i & 63]" : "");
    fclose(out);
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    if (!fusion || fusiond_fusion_set_code(fusion, code, size, false, &error) < 0 ||
        fusiond_fusion_add_entry(fusion, "bench", &error) < 0 ||
        fusiond_fusion_set_target(fusion, "sm_90a", &error) < 0 ||
        fusiond_fusion_set_option(fusion, "side_effects_only", "true", &error) < 0 ||
        fusiond_fusion_set_option(fusion, "label", label, &error) < 0)
        die("building a fusion: %s", error.text);
    free(code);
    return fusion;
}

struct fusiond_kernel *get_kernel(struct fusiond_connection *connection, struct fusiond_fusion *fusion, unsigned parts)
{
    struct fusiond_error error;
    struct fusiond_kernel *kernel;
    struct fusiond_compile_options options = {.parts = parts};
    if (fusiond_compile(connection, fusion, &options, &kernel, &error) < 0)
        die("compile: %s %s", error.name, error.text);
    return kernel;
}

/* ---- frame sizes, from a raw conversation ---- */

static size_t exchange(int fd, msgpack_sbuffer *request)
{
    uint8_t header[LIMIT_FRAME_HEADER], scrap[65536];
    if (send(fd, request->data, request->size, MSG_NOSIGNAL) != (ssize_t)request->size)
        die("sending to the daemon");
    if (recv(fd, header, sizeof header, MSG_WAITALL) != sizeof header)
        die("the daemon closed the connection");
    size_t size = (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
    for (size_t left = size; left;) {
        ssize_t n = recv(fd, scrap, left < sizeof scrap ? left : sizeof scrap, 0);
        if (n <= 0)
            die("the daemon closed the connection");
        left -= (size_t)n;
    }
    return sizeof header + size;
}

void frame_sizes(const struct bench *bench, const char *key, unsigned parts, size_t *ret_request, size_t *ret_reply)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", bench->socket);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("connecting to %s", bench->socket);
    msgpack_sbuffer frame;
    msgpack_sbuffer_init(&frame);
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    envelope_write_request(&frame, 1, METHOD_HELLO, &hello);
    exchange(fd, &frame);
    msgpack_sbuffer_clear(&frame);
    struct kernel_get_request get = {
        .has_key = true, .with_image = parts & FUSIOND_IMAGE, .with_log = parts & FUSIOND_LOG};
    if (key_from_hex(key, get.key) < 0)
        die("not a key: %s", key);
    envelope_write_request(&frame, 2, METHOD_KERNEL_GET, &get);
    *ret_request = frame.size;
    *ret_reply = exchange(fd, &frame);
    msgpack_sbuffer_destroy(&frame);
    close(fd);
}
