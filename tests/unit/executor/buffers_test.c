/* buffer.*: allocated, imported, exported, written, read. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/executor/fixture.h"

TestSuite(buffers, .init = executor_start, .fini = executor_finish, .timeout = 120);

static int memfd(size_t size, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(fd, (off_t)size), 0);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* ---- allocating ---- */

Test(buffers, sizes)
{
    struct buffer_allocate_request request = {.has_size = true};
    struct client *client = client_attach();
    cr_assert_eq(client_call(client, METHOD_BUFFER_ALLOCATE, &request, NULL), STATUS_INVALID_FIELD);
    cr_assert(strstr(client_error(client), "size: 0"), "%s", client_error(client));
    client_allocate(client, 1);
    device->memory_limit = 1000;
    request.size = 1001;
    cr_assert_eq(client_call(client, METHOD_BUFFER_ALLOCATE, &request, NULL), STATUS_OUT_OF_MEMORY);
    client_allocate(client, 900);
}

Test(buffers, F22_idle_kernels_make_room)
{
    struct buffer_allocate_request request = {.size = 900, .has_size = true};
    struct client *user = client_attach(), *client = client_attach();
    device->module_bytes = 200;
    device->memory_limit = 1000;
    client_define_scale(user);
    cr_assert_eq(client_call(client, METHOD_BUFFER_ALLOCATE, &request, NULL), STATUS_OUT_OF_MEMORY);
    cr_assert_eq(device->n_modules, 1, "it is used");
    client_leave(user);
    pump_until(process.channels == 1);
    cr_assert_eq(client_call(client, METHOD_BUFFER_ALLOCATE, &request, NULL), 0, "%s", client_error(client));
    cr_assert_eq(device->n_modules, 0);
}

Test(buffers, there_is_a_limit_of_numbers)
{
    struct buffer_allocate_request request = {.size = 1, .has_size = true};
    struct client *client = client_attach();
    uint32_t id = 0;
    for (unsigned i = 0; i < LIMIT_HANDLES; i++)
        id = client_ask(client, METHOD_BUFFER_ALLOCATE, &request);
    cr_assert_eq(client_answer(client, id, METHOD_BUFFER_ALLOCATE, NULL), 0);
    cr_assert_eq(client_call(client, METHOD_BUFFER_ALLOCATE, &request, NULL), STATUS_BUSY);
    cr_assert(strstr(client_error(client), "65536"), "%s", client_error(client));
    client_allocate(client_attach(), 1);
}

/* ---- sharing ---- */

Test(buffers, exported_memory_is_the_buffers)
{
    struct buffer_allocate_request allocate = {.size = 100, .has_size = true, .exportable = true};
    struct buffer_allocate_reply allocated;
    struct buffer_export_reply exported;
    char got[4];
    struct client *client = client_attach();
    cr_assert_eq(client_call(client, METHOD_BUFFER_ALLOCATE, &allocate, &allocated), 0);
    struct buffer_export_request export = {.buffer = allocated.buffer, .has_buffer = true};
    cr_assert_eq(client_call(client, METHOD_BUFFER_EXPORT, &export, &exported), 0, "%s", client_error(client));
    cr_assert_eq(exported.kind, MEMORY_KIND_MEMFD);
    cr_assert_eq(exported.fds, 1);
    cr_assert_geq(exported.size, 100);
    int fd = client_take_fd(client);
    cr_assert_eq(pwrite(fd, "here", 4, 0), 4);
    client_read(client, allocated.buffer, got, 4);
    cr_assert_eq(memcmp(got, "here", 4), 0);
    close(fd);
}

Test(buffers, what_cannot_be_exported)
{
    struct buffer_import_request import = {
        .kind = MEMORY_KIND_MEMFD, .size = 16, .has_size = true, .fds = 1, .has_fds = true};
    struct buffer_import_reply imported;
    struct client *client = client_attach();
    struct buffer_export_request export = {.buffer = client_allocate(client, 16), .has_buffer = true};
    cr_assert_eq(client_call(client, METHOD_BUFFER_EXPORT, &export, NULL), STATUS_INVALID_BUFFER);
    int fd = memfd(16, F_SEAL_SHRINK);
    uint32_t id = client_ask_with_fds(client, METHOD_BUFFER_IMPORT, &import, &fd, 1);
    cr_assert_eq(client_answer(client, id, METHOD_BUFFER_IMPORT, &imported), 0);
    close(fd);
    export.buffer = imported.buffer;
    cr_assert_eq(client_call(client, METHOD_BUFFER_EXPORT, &export, NULL), STATUS_INVALID_BUFFER);
    cr_assert(strstr(client_error(client), "it was imported"), "%s", client_error(client));
}

Test(buffers, imported_memory_is_the_clients)
{
    struct buffer_import_request import = {.kind = MEMORY_KIND_MEMFD,
                                           .size = 4,
                                           .has_size = true,
                                           .offset = 8,
                                           .has_offset = true,
                                           .fds = 1,
                                           .has_fds = true};
    struct buffer_import_reply imported;
    char got[4];
    struct client *client = client_attach();
    int fd = memfd(16, F_SEAL_SHRINK);
    cr_assert_eq(pwrite(fd, "theirs", 6, 8), 6);
    uint32_t id = client_ask_with_fds(client, METHOD_BUFFER_IMPORT, &import, &fd, 1);
    cr_assert_eq(client_answer(client, id, METHOD_BUFFER_IMPORT, &imported), 0);
    client_read(client, imported.buffer, got, 4);
    cr_assert_eq(memcmp(got, "thei", 4), 0);
    struct buffer_write_request write = {
        .buffer = imported.buffer, .has_buffer = true, .bytes = {(const uint8_t *)"ours", 4}};
    cr_assert_eq(client_call(client, METHOD_BUFFER_WRITE, &write, NULL), 0);
    char whole[7] = "";
    cr_assert_eq(pread(fd, whole, 6, 8), 6);
    cr_assert_str_eq(whole, "oursrs");
    close(fd);
}

Test(buffers, imports_that_make_no_sense)
{
    static const uint8_t handle[64];
    struct client *client = client_attach();
    struct buffer_import_request import = {.kind = MEMORY_KIND_MEMFD, .size = 16, .has_size = true};
    cr_assert_eq(client_call(client, METHOD_BUFFER_IMPORT, &import, NULL), STATUS_INVALID_FIELD);
    import.kind = MEMORY_KIND_IPC;
    cr_assert_eq(client_call(client, METHOD_BUFFER_IMPORT, &import, NULL), STATUS_INVALID_FIELD);
    import.handle = (struct bytes){handle, 63};
    cr_assert_eq(client_call(client, METHOD_BUFFER_IMPORT, &import, NULL), STATUS_INVALID_FIELD);
    import.handle.size = 64;
    cr_assert_eq(client_call(client, METHOD_BUFFER_IMPORT, &import, NULL), STATUS_INVALID_BUFFER, "not this device's");
    import = (struct buffer_import_request){
        .kind = MEMORY_KIND_MEMFD, .size = 17, .has_size = true, .fds = 1, .has_fds = true};
    int fds[] = {memfd(16, F_SEAL_SHRINK), STDERR_FILENO};
    uint32_t id = client_ask_with_fds(client, METHOD_BUFFER_IMPORT, &import, fds, 1);
    cr_assert_eq(client_answer(client, id, METHOD_BUFFER_IMPORT, NULL), STATUS_INVALID_BUFFER);
    import.fds = 2;
    id = client_ask_with_fds(client, METHOD_BUFFER_IMPORT, &import, fds, 2);
    cr_assert_eq(client_answer(client, id, METHOD_BUFFER_IMPORT, NULL), STATUS_INVALID_FIELD);
    close(fds[0]);
    cr_assert_eq(device->n_memory, 0);
}

/* ---- writing and reading ---- */

Test(buffers, parts_are_written_and_read)
{
    struct client *client = client_attach();
    uint64_t buffer = client_allocate(client, 16);
    struct buffer_write_request write = {.buffer = buffer, .has_buffer = true};
    struct buffer_read_request read = {
        .buffer = buffer, .has_buffer = true, .offset = 6, .has_offset = true, .size = 4, .has_size = true};
    struct buffer_read_reply reply;
    write.bytes = (struct bytes){(const uint8_t *)"0123456789abcdef", 16};
    cr_assert_eq(client_call(client, METHOD_BUFFER_WRITE, &write, NULL), 0);
    write.bytes = (struct bytes){(const uint8_t *)"XY", 2};
    write.offset = 7;
    write.has_offset = true;
    cr_assert_eq(client_call(client, METHOD_BUFFER_WRITE, &write, NULL), 0);
    cr_assert_eq(client_call(client, METHOD_BUFFER_READ, &read, &reply), 0);
    cr_assert_eq(reply.bytes.size, 4);
    cr_assert_eq(memcmp(reply.bytes.at, "6XY9", 4), 0);
    /* Nothing, at the very end. */
    read.offset = 16;
    read.size = 0;
    cr_assert_eq(client_call(client, METHOD_BUFFER_READ, &read, &reply), 0);
    cr_assert_eq(reply.bytes.size, 0);
}

Test(buffers, what_lies_outside_is_refused_with_numbers)
{
    static const struct {
        uint64_t offset, size;
    } outside[] = {{0, 17}, {16, 1}, {17, 0}, {LIMIT_BUFFER, 1}, {15, 2}};
    struct client *client = client_attach();
    uint64_t buffer = client_allocate(client, 16);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        struct buffer_read_request read = {.buffer = buffer,
                                           .has_buffer = true,
                                           .offset = outside[i].offset,
                                           .has_offset = true,
                                           .size = outside[i].size,
                                           .has_size = true};
        struct buffer_write_request write = {.buffer = buffer,
                                             .has_buffer = true,
                                             .offset = outside[i].offset,
                                             .has_offset = true,
                                             .bytes = {(const uint8_t *)"0123456789abcdefg", outside[i].size}};
        cr_assert_eq(client_call(client, METHOD_BUFFER_READ, &read, NULL), STATUS_INVALID_BUFFER, "case %zu", i);
        cr_assert(strstr(client_error(client), "but it has 16"), "%s", client_error(client));
        cr_assert_eq(client_call(client, METHOD_BUFFER_WRITE, &write, NULL), STATUS_INVALID_BUFFER, "case %zu", i);
    }
}

Test(buffers, bytes_through_a_memfd)
{
    enum { SIZE = 3 << 20 };
    static char bytes[SIZE], got[SIZE];
    struct client *client = client_attach();
    uint64_t buffer = client_allocate(client, SIZE);
    struct buffer_write_request write = {
        .buffer = buffer, .has_buffer = true, .size = SIZE, .has_size = true, .fds = 1, .has_fds = true};
    struct buffer_read_request read = {
        .buffer = buffer, .has_buffer = true, .size = SIZE, .has_size = true, .fds = 1, .has_fds = true};
    struct buffer_read_reply reply;
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 7 + i / 4096);
    int from = memfd(SIZE, F_SEAL_SHRINK), to = memfd(SIZE, F_SEAL_SHRINK | F_SEAL_GROW);
    cr_assert_eq(pwrite(from, bytes, SIZE, 0), SIZE);
    uint32_t id = client_ask_with_fds(client, METHOD_BUFFER_WRITE, &write, &from, 1);
    cr_assert_eq(client_answer(client, id, METHOD_BUFFER_WRITE, NULL), 0, "%s", client_error(client));
    id = client_ask_with_fds(client, METHOD_BUFFER_READ, &read, &to, 1);
    cr_assert_eq(client_answer(client, id, METHOD_BUFFER_READ, &reply), 0, "%s", client_error(client));
    cr_assert_null(reply.bytes.at);
    cr_assert_eq(pread(to, got, SIZE, 0), SIZE);
    cr_assert_eq(memcmp(got, bytes, SIZE), 0);
    close(from);
    close(to);
}

static unsigned write_from(struct client *client, uint64_t buffer, int fd, uint64_t size)
{
    struct buffer_write_request write = {
        .buffer = buffer, .has_buffer = true, .size = size, .has_size = true, .fds = 1, .has_fds = true};
    return client_answer(client, client_ask_with_fds(client, METHOD_BUFFER_WRITE, &write, &fd, 1), METHOD_BUFFER_WRITE,
                         NULL);
}

Test(buffers, descriptors_that_cannot_be_trusted)
{
    struct client *client = client_attach();
    uint64_t buffer = client_allocate(client, 4096);
    struct buffer_read_request read = {
        .buffer = buffer, .has_buffer = true, .size = 16, .has_size = true, .fds = 1, .has_fds = true};
    int may_shrink = memfd(4096, 0), short_one = memfd(100, F_SEAL_SHRINK),
        constant = memfd(4096, F_SEAL_SHRINK | F_SEAL_WRITE), pipe_ends[2];
    cr_assert_eq(pipe2(pipe_ends, O_CLOEXEC), 0);
    cr_assert_eq(write_from(client, buffer, may_shrink, 16), STATUS_INVALID_FIELD);
    cr_assert(strstr(client_error(client), "F_SEAL_SHRINK"), "%s", client_error(client));
    cr_assert_eq(write_from(client, buffer, short_one, 101), STATUS_INVALID_FIELD);
    cr_assert(strstr(client_error(client), "the memfd has 100 bytes"), "%s", client_error(client));
    cr_assert_eq(write_from(client, buffer, pipe_ends[0], 16), STATUS_INVALID_FIELD);
    cr_assert_eq(write_from(client, buffer, constant, 16), 0, "%s", client_error(client));
    /* Into what is sealed against writing nothing can be read. */
    uint32_t id = client_ask_with_fds(client, METHOD_BUFFER_READ, &read, &constant, 1);
    cr_assert_neq(client_answer(client, id, METHOD_BUFFER_READ, NULL), 0);
    close(may_shrink);
    close(short_one);
    close(constant);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

Test(buffers, requests_that_make_no_sense)
{
    struct client *client = client_attach();
    uint64_t buffer = client_allocate(client, 2 << 20);
    struct buffer_write_request write = {.buffer = buffer, .has_buffer = true};
    struct buffer_read_request read = {
        .buffer = buffer, .has_buffer = true, .size = LIMIT_INLINE + 1, .has_size = true};
    cr_assert_eq(client_call(client, METHOD_BUFFER_WRITE, &write, NULL), STATUS_INVALID_FIELD);
    write.bytes = (struct bytes){(const uint8_t *)"a", 1};
    write.stream = 7;
    write.has_stream = true;
    cr_assert_eq(client_call(client, METHOD_BUFFER_WRITE, &write, NULL), STATUS_UNKNOWN_HANDLE);
    cr_assert_eq(client_call(client, METHOD_BUFFER_READ, &read, NULL), STATUS_INVALID_FIELD);
    cr_assert(strstr(client_error(client), "bring a memfd"), "%s", client_error(client));
}

Test(buffers, F23_calls_of_the_device_that_fail)
{
    struct client *client = client_attach();
    uint64_t buffer = client_allocate(client, 16);
    struct buffer_write_request write = {.buffer = buffer, .has_buffer = true, .bytes = {(const uint8_t *)"abc", 3}};
    fake_device_fail(device, FAKE_WRITE, 0, STATUS_DRIVER);
    cr_assert_eq(client_call(client, METHOD_BUFFER_WRITE, &write, NULL), STATUS_DRIVER);
    fake_device_fail(device, FAKE_READ, 0, STATUS_DRIVER);
    cr_assert_eq(client_answer(client, client_ask_read(client, buffer, 0, 3), METHOD_BUFFER_READ, NULL), STATUS_DRIVER);
    cr_assert_eq(client_call(client, METHOD_BUFFER_WRITE, &write, NULL), 0);
    cr_assert_eq(client_synchronize(client, 0), 0);
}
