/* Buffers: allocated, shared, mapped, copied. Against a peer that is the executor. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/client/device_peer.h"

#define MIB (1u << 20)

/* ---- life ---- */

static void serve_life(struct peer *peer)
{
    struct buffer_allocate_request request;
    struct buffer_allocate_reply reply = {.buffer = 1ull << 40, .has_buffer = true, .size = 256, .has_size = true};
    serve_open(peer);
    uint32_t id = peer_expect(peer, METHOD_BUFFER_ALLOCATE, &request);
    assert(request.size == 200 && request.exportable);
    peer_reply(peer, id, METHOD_BUFFER_ALLOCATE, &reply, NULL, 0);
    id = peer_expect(peer, METHOD_BUFFER_ALLOCATE, &request);
    assert(request.size == 1ull << 40 && !request.exportable);
    peer_refuse(peer, id, STATUS_OUT_OF_MEMORY, "a buffer of 1 TiB");
    serve_free(peer, 1ull << 40);
    peer_expect_end(peer);
}

Test(buffer, is_allocated_and_freed)
{
    struct peer peer;
    struct fusiond_buffer *buffer, *none = NULL;
    struct fusiond_error error;
    struct fusiond_device *device = device_start(&peer, serve_life, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, 200, true, &buffer, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_size(buffer), 200, "as asked for");
    cr_assert_eq(fusiond_buffer_allocate(device, 1ull << 40, false, &none, &error), -1);
    cr_assert_str_eq(error.name, "OUT_OF_MEMORY");
    cr_assert_null(none);
    fusiond_buffer_free(buffer);
    fusiond_buffer_free(NULL);
    fusiond_device_close(device);
    peer_join(&peer);
}

/* ---- copying ---- */

static void serve_small_copies(struct peer *peer)
{
    struct buffer_write_request write;
    struct buffer_read_request read;
    struct buffer_read_reply reply = {.bytes = {(const uint8_t *)"cdef", 4}};
    serve_open(peer);
    serve_allocate(peer, 5);
    serve_stream(peer, 6);
    uint32_t id = peer_expect(peer, METHOD_BUFFER_WRITE, &write);
    assert(write.buffer == 5 && write.offset == 2 && !write.has_stream && write.fds == 0);
    assert(write.bytes.size == 4 && memcmp(write.bytes.at, "cdef", 4) == 0);
    peer_reply(peer, id, METHOD_BUFFER_WRITE, NULL, NULL, 0);
    id = peer_expect(peer, METHOD_BUFFER_READ, &read);
    assert(read.buffer == 5 && read.offset == 2 && read.has_stream && read.stream == 6 && read.size == 4);
    peer_reply(peer, id, METHOD_BUFFER_READ, &reply, NULL, 0);
    /* Too few bytes. */
    id = peer_expect(peer, METHOD_BUFFER_READ, &read);
    peer_reply(peer, id, METHOD_BUFFER_READ, &reply, NULL, 0);
    id = peer_expect(peer, METHOD_BUFFER_WRITE, &write);
    peer_refuse(peer, id, STATUS_LAUNCH_FAILED, "an earlier kernel failed");
    peer_expect_end(peer);
}

Test(buffer, small_copies_travel_inline)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_stream *stream;
    struct fusiond_error error;
    char bytes[8] = "";
    struct fusiond_device *device = device_start(&peer, serve_small_copies, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, 8, false, &buffer, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_stream_create(device, 0, &stream, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_write(buffer, 2, "cdef", 4, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_read(buffer, 2, bytes, 4, stream, &error), 0, "%s", error.text);
    cr_assert_str_eq(bytes, "cdef");
    cr_assert_eq(fusiond_buffer_read(buffer, 0, bytes, 8, NULL, &error), -1);
    cr_assert_str_eq(error.name, "MALFORMED", "%s", error.text);
    cr_assert_eq(fusiond_buffer_write(buffer, 0, "x", 1, NULL, &error), -1);
    cr_assert_str_eq(error.text, "an earlier kernel failed");
    /* None of these is sent. */
    cr_assert_eq(fusiond_buffer_write(buffer, 8, "", 0, NULL, &error), 0, "nothing, at the end");
    cr_assert_eq(fusiond_buffer_write(buffer, 5, bytes, 4, NULL, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER);
    cr_assert(strstr(error.text, "4 bytes at offset 5; it has 8"), "%s", error.text);
    cr_assert_eq(fusiond_buffer_read(buffer, UINT64_MAX, bytes, 2, NULL, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER, "the sum wraps");
    fusiond_device_close(device);
    fusiond_stream_destroy(stream);
    fusiond_buffer_free(buffer);
    peer_join(&peer);
}

/* A 40 MiB buffer of an executor that does what it is told. */
#define LARGE (40u * MIB)

static char pattern(size_t i)
{
    return (char)(i * 2654435761u >> 13);
}

static void copy_piece(int fd, char *memory, size_t size, bool to_memory)
{
    struct stat status;
    assert(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
    assert(fstat(fd, &status) == 0 && (size_t)status.st_size >= size);
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert(map != MAP_FAILED);
    memcpy(to_memory ? memory : map, to_memory ? map : memory, size);
    munmap(map, size);
    close(fd);
}

static void serve_large_copies(struct peer *peer)
{
    char *memory = calloc(LARGE, 1);
    uint64_t at = 3;
    const struct buffer_read_reply done = {0};
    serve_open(peer);
    serve_allocate(peer, 5);
    while (at < LARGE - 1) {
        struct buffer_write_request write;
        uint32_t id = peer_expect(peer, METHOD_BUFFER_WRITE, &write);
        assert(write.offset == at && !write.bytes.at && write.fds == 1 && write.size > MIB);
        copy_piece(peer_take_fd(peer), memory + at, write.size, true);
        at += write.size;
        peer_reply(peer, id, METHOD_BUFFER_WRITE, NULL, NULL, 0);
    }
    for (at = 0; at < LARGE;) {
        struct buffer_read_request read;
        uint32_t id = peer_expect(peer, METHOD_BUFFER_READ, &read);
        assert(read.offset == at && read.fds == 1 && read.size > MIB);
        copy_piece(peer_take_fd(peer), memory + at, read.size, false);
        at += read.size;
        peer_reply(peer, id, METHOD_BUFFER_READ, &done, NULL, 0);
    }
    free(memory);
    peer_expect_end(peer);
}

Test(buffer, large_copies_travel_through_shared_memory)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    char *in = malloc(LARGE), *out = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        in[i] = pattern(i);
    struct fusiond_device *device = device_start(&peer, serve_large_copies, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, LARGE, false, &buffer, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_write(buffer, 3, in, LARGE - 4, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_read(buffer, 0, out, LARGE, NULL, &error), 0, "%s", error.text);
    cr_assert(memcmp(out, "\0\0\0", 3) == 0 && out[LARGE - 1] == 0);
    cr_assert_eq(memcmp(out + 3, in, LARGE - 4), 0);
    fusiond_device_close(device);
    fusiond_buffer_free(buffer);
    peer_join(&peer);
    free(in);
    free(out);
}

static void refuse_second_piece(struct peer *peer)
{
    struct buffer_write_request write;
    serve_open(peer);
    serve_allocate(peer, 5);
    uint32_t id = peer_expect(peer, METHOD_BUFFER_WRITE, &write);
    close(peer_take_fd(peer));
    peer_reply(peer, id, METHOD_BUFFER_WRITE, NULL, NULL, 0);
    id = peer_expect(peer, METHOD_BUFFER_WRITE, &write);
    close(peer_take_fd(peer));
    peer_refuse(peer, id, STATUS_LAUNCH_FAILED, "the stream failed");
    peer_expect_end(peer);
}

Test(buffer, a_large_copy_ends_with_its_first_error)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    char *in = calloc(LARGE, 1);
    struct fusiond_device *device = device_start(&peer, refuse_second_piece, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, LARGE, false, &buffer, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_write(buffer, 0, in, LARGE, NULL, &error), -1);
    cr_assert_str_eq(error.text, "the stream failed");
    fusiond_device_close(device);
    fusiond_buffer_free(buffer);
    peer_join(&peer);
    free(in);
}

/* ---- sharing ---- */

static void serve_imports(struct peer *peer)
{
    struct buffer_import_request request;
    struct buffer_import_reply reply = {.buffer = 8, .has_buffer = true};
    char text[5] = "";
    serve_open(peer);
    uint32_t id = peer_expect(peer, METHOD_BUFFER_IMPORT, &request);
    assert(request.kind == MEMORY_KIND_MEMFD && request.size == 4 && request.offset == 1 && request.fds == 1);
    int fd = peer_take_fd(peer);
    assert(pread(fd, text, 4, 1) == 4 && strcmp(text, "hare") == 0);
    close(fd);
    peer_reply(peer, id, METHOD_BUFFER_IMPORT, &reply, NULL, 0);
    id = peer_expect(peer, METHOD_BUFFER_IMPORT, &request);
    assert(request.kind == MEMORY_KIND_IPC && request.fds == 0 && !request.has_offset && request.handle.size == 64);
    assert(request.handle.at[0] == 0 && request.handle.at[63] == 63 && peer->n_fds == 0);
    reply.buffer = 9;
    peer_reply(peer, id, METHOD_BUFFER_IMPORT, &reply, NULL, 0);
    id = peer_expect(peer, METHOD_BUFFER_IMPORT, &request);
    assert(request.kind == MEMORY_KIND_VMM_FD && request.fds == 1);
    close(peer_take_fd(peer));
    peer_refuse(peer, id, STATUS_INVALID_BUFFER, "no VMM memory on the host device");
    serve_free(peer, 9);
    serve_free(peer, 8);
    peer_expect_end(peer);
}

Test(buffer, is_made_of_memory_of_the_client)
{
    struct peer peer;
    struct fusiond_buffer *shared, *handle, *none = NULL;
    struct fusiond_error error;
    struct fusiond_memory memory = {
        .kind = FUSIOND_MEMFD, .fd = peer_memfd("share", 5, F_SEAL_SHRINK), .offset = 1, .size = 4};
    struct fusiond_device *device = device_start(&peer, serve_imports, NULL);
    cr_assert_eq(fusiond_buffer_import(device, &memory, &shared, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_size(shared), 4);
    cr_assert_geq(fcntl(memory.fd, F_GETFD), 0, "the descriptor stays the caller's");
    struct fusiond_memory ipc = {.kind = FUSIOND_IPC, .fd = -1, .size = 4096};
    for (unsigned i = 0; i < 64; i++)
        ipc.handle[i] = (unsigned char)i;
    cr_assert_eq(fusiond_buffer_import(device, &ipc, &handle, &error), 0, "%s", error.text);
    memory.kind = FUSIOND_VMM_FD;
    cr_assert_eq(fusiond_buffer_import(device, &memory, &none, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_BUFFER);
    memory.kind = (enum fusiond_memory_kind)77;
    cr_assert_eq(fusiond_buffer_import(device, &memory, &none, &error), -1);
    cr_assert_str_eq(error.name, "INVALID_FIELD");
    cr_assert(strstr(error.text, "kind 77"), "%s", error.text);
    cr_assert_null(none);
    close(memory.fd);
    fusiond_buffer_free(handle);
    fusiond_buffer_free(shared);
    fusiond_device_close(device);
    peer_join(&peer);
}

static void answer_export(struct peer *peer, enum memory_kind kind, const int *fds, size_t declared, size_t sent)
{
    struct buffer_export_request request;
    struct buffer_export_reply reply = {
        .kind = kind, .size = 4096, .has_size = true, .fds = declared, .has_fds = declared > 0};
    uint32_t id = peer_expect(peer, METHOD_BUFFER_EXPORT, &request);
    assert(request.buffer == 5);
    peer_reply(peer, id, METHOD_BUFFER_EXPORT, &reply, fds, sent);
}

static void serve_exports(struct peer *peer)
{
    int fds[] = {peer_memfd("exported", 8, F_SEAL_SHRINK), peer_memfd("exported", 8, F_SEAL_SHRINK)};
    serve_open(peer);
    serve_allocate(peer, 5);
    answer_export(peer, MEMORY_KIND_MEMFD, fds, 1, 1);
    answer_export(peer, MEMORY_KIND_MEMFD, fds, 0, 1);
    answer_export(peer, MEMORY_KIND_MEMFD, fds, 1, 0);
    answer_export(peer, MEMORY_KIND_MEMFD, fds, 2, 2);
    uint32_t id = peer_expect(peer, METHOD_BUFFER_EXPORT, NULL);
    peer_refuse(peer, id, STATUS_INVALID_BUFFER, "buffer 5 is not exportable");
    close(fds[0]);
    close(fds[1]);
    peer_expect_end(peer);
}

Test(buffer, is_exported_as_one_descriptor)
{
    static const char *const wrong[] = {"UNEXPECTED_FDS", "UNEXPECTED_FDS", "MALFORMED", "INVALID_BUFFER"};
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_memory memory;
    struct fusiond_error error;
    char text[9] = "";
    struct fusiond_device *device = device_start(&peer, serve_exports, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, 8, true, &buffer, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_export(buffer, &memory, &error), 0, "%s", error.text);
    cr_assert_eq(memory.kind, FUSIOND_MEMFD);
    cr_assert_eq(memory.size, 4096);
    cr_assert(pread(memory.fd, text, 8, 0) == 8 && strcmp(text, "exported") == 0);
    cr_assert(fcntl(memory.fd, F_GETFD) & FD_CLOEXEC);
    close(memory.fd);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_eq(fusiond_buffer_export(buffer, &memory, &error), -1);
        cr_assert_str_eq(error.name, wrong[i], "%zu: %s", i, error.text);
    }
    fusiond_device_close(device);
    fusiond_buffer_free(buffer);
    peer_join(&peer);
}

static void serve_maps(struct peer *peer)
{
    int unsealed = peer_memfd("exported", 8, 0), good = peer_memfd("exported", 8, F_SEAL_SHRINK);
    int small = peer_memfd("short", 5, F_SEAL_SHRINK);
    serve_open(peer);
    serve_allocate(peer, 5);
    answer_export(peer, MEMORY_KIND_MEMFD, &unsealed, 1, 1);
    answer_export(peer, MEMORY_KIND_MEMFD, &small, 1, 1);
    answer_export(peer, MEMORY_KIND_VMM_FD, &good, 1, 1);
    answer_export(peer, MEMORY_KIND_MEMFD, &good, 1, 1);
    serve_synchronize(peer);
    char text[9] = "";
    assert(pread(good, text, 8, 0) == 8 && strcmp(text, "eXported") == 0);
    assert(pwrite(good, "E", 1, 0) == 1);
    serve_synchronize(peer);
    serve_free(peer, 5);
    close(unsealed);
    close(small);
    close(good);
    peer_expect_end(peer);
}

Test(buffer, of_the_host_device_is_mapped_without_a_copy)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    void *map = NULL, *again;
    struct fusiond_device *device = device_start(&peer, serve_maps, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, 8, true, &buffer, &error), 0, "%s", error.text);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(fusiond_buffer_map(buffer, &map, &error), -1);
        cr_assert_str_eq(error.name, "MALFORMED", "%d: %s", i, error.text);
    }
    cr_assert_null(map);
    cr_assert_eq(fusiond_buffer_map(buffer, &map, &error), 0, "%s", error.text);
    cr_assert_eq(memcmp(map, "exported", 8), 0);
    ((char *)map)[1] = 'X';
    cr_assert_eq(fusiond_device_synchronize(device, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_device_synchronize(device, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(*(char *)map, 'E');
    cr_assert_eq(fusiond_buffer_map(buffer, &again, &error), 0, "%s", error.text);
    cr_assert_eq(again, map);
    fusiond_buffer_free(buffer);
    fusiond_device_close(device);
    peer_join(&peer);
}

static void serve_gpu(struct peer *peer)
{
    struct device device = {.has_ordinal = true, .name = TEXT_OF("NVIDIA H200"), .kind = DEVICE_KIND_CUDA};
    peer_open_device(peer, &device);
    serve_allocate(peer, 5);
    peer_expect_end(peer);
}

Test(buffer, of_a_gpu_cannot_be_mapped)
{
    struct peer peer;
    struct fusiond_buffer *buffer;
    struct fusiond_error error;
    void *map;
    struct fusiond_device *device = device_start(&peer, serve_gpu, NULL);
    cr_assert_eq(fusiond_buffer_allocate(device, 8, true, &buffer, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_buffer_map(buffer, &map, &error), -1);
    cr_assert_str_eq(error.name, "UNSUPPORTED");
    cr_assert(strstr(error.text, "NVIDIA H200"), "%s", error.text);
    fusiond_device_close(device);
    fusiond_buffer_free(buffer);
    peer_join(&peer);
}
