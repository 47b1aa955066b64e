/* F24: allocation number n fails, for every n of a session with a bit of everything: the client is answered or its
 * channel closed, nothing crashes, nothing is left. The linker leads the executor's allocations here (--wrap). */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/executor/fixture.h"

static long countdown = -1; /* allocations that still succeed before one fails; -1: all */
static bool on_loop, outside;
static size_t n_failed;

static bool fails(void)
{
    if (!on_loop || outside || countdown < 0 || countdown-- > 0)
        return false;
    n_failed++;
    return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size)
{
    return fails() ? NULL : __real_realloc(at, size);
}

bool __real_msgpack_zone_init(msgpack_zone *zone, size_t size);
bool __wrap_msgpack_zone_init(msgpack_zone *zone, size_t size);
bool __wrap_msgpack_zone_init(msgpack_zone *zone, size_t size)
{
    return !fails() && __real_msgpack_zone_init(zone, size);
}

void *__real_msgpack_zone_malloc_expand(msgpack_zone *zone, size_t size);
void *__wrap_msgpack_zone_malloc_expand(msgpack_zone *zone, size_t size);
void *__wrap_msgpack_zone_malloc_expand(msgpack_zone *zone, size_t size)
{
    return fails() ? NULL : __real_msgpack_zone_malloc_expand(zone, size);
}

/* The fake device's own, by the names that it is compiled with. */
void *test_calloc(size_t n, size_t size);
void *test_calloc(size_t n, size_t size)
{
    return __real_calloc(n, size);
}

int __real_uv_run(uv_loop_t *which, uv_run_mode mode);
int __wrap_uv_run(uv_loop_t *which, uv_run_mode mode);
int __wrap_uv_run(uv_loop_t *which, uv_run_mode mode)
{
    on_loop = true;
    int result = __real_uv_run(which, mode);
    on_loop = false;
    return result;
}

static void set_outside(bool is_outside)
{
    outside = is_outside;
}

/* ---- the session ---- */

/* Whether the client may go on: it has an answer, whatever that is. */
static bool step(struct client *client, uint32_t id, enum method method, void *ret, bool *ret_good)
{
    pump_until(client_is_answered(client, id) || client_is_closed(client) || process.state == PROCESS_CLOSED);
    if (!client_is_answered(client, id))
        return false;
    unsigned code = client_answer(client, id, method, ret);
    cr_assert(code == 0 || code == STATUS_OUT_OF_MEMORY || code == STATUS_SHUTTING_DOWN, "%s: %u %s",
              methods[method].name, code, client_error(client));
    *ret_good = code == 0;
    return true;
}

static bool call(struct client *client, enum method method, const void *params, void *ret, bool *ret_good)
{
    *ret_good = false;
    return !client_is_closed(client) && step(client, client_ask(client, method, params), method, ret, ret_good);
}

struct parts {
    uint64_t fusion, x, stream;
};

static bool prepare(struct client *client, struct parts *ret)
{
    static const float value = 2;
    struct fusion_define_request define;
    struct fusion_define_reply defined;
    struct buffer_allocate_request allocate = {.size = 4, .has_size = true, .exportable = true};
    struct buffer_allocate_reply allocated;
    struct stream_create_request create = {0};
    struct stream_create_reply created;
    bool good;
    if (!call(client, METHOD_FUSION_DEFINE, scale_definition(&define), &defined, &good) || !good ||
        !call(client, METHOD_BUFFER_ALLOCATE, &allocate, &allocated, &good) || !good ||
        !call(client, METHOD_STREAM_CREATE, &create, &created, &good) || !good)
        return false;
    struct buffer_write_request write = {
        .buffer = allocated.buffer, .has_buffer = true, .bytes = {(const uint8_t *)&value, sizeof value}};
    *ret = (struct parts){defined.fusion, allocated.buffer, created.stream};
    return call(client, METHOD_BUFFER_WRITE, &write, NULL, &good);
}

static void use(struct client *client, const struct parts *parts)
{
    struct scale_launch launch;
    struct run_request run = {
        .launch = &launch.request, .warmups = 1, .has_warmups = true, .repeats = 40, .has_repeats = true};
    struct buffer_import_request import = {
        .kind = MEMORY_KIND_MEMFD, .size = 16, .has_size = true, .fds = 1, .has_fds = true};
    struct buffer_export_request export = {.buffer = parts->x, .has_buffer = true};
    struct stream_synchronize_request synchronize = {0};
    struct stream_destroy_request destroy = {.stream = parts->stream, .has_stream = true};
    struct buffer_free_request release = {.buffer = parts->x, .has_buffer = true};
    bool good;
    scale_launch_init(&launch, parts->fusion, parts->x, 0, 1, 3);
    call(client, METHOD_LAUNCH, &launch.request, NULL, &good);
    launch.request.wait = true;
    launch.request.fill = FILL_NAN;
    call(client, METHOD_LAUNCH, &launch.request, NULL, &good);
    call(client, METHOD_RUN, &run, NULL, &good);
    if (!client_is_closed(client))
        step(client, client_ask_read(client, parts->x, parts->stream, 4), METHOD_BUFFER_READ, NULL, &good);
    int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(fd >= 0 && ftruncate(fd, 16) == 0);
    if (!client_is_closed(client))
        step(client, client_ask_with_fds(client, METHOD_BUFFER_IMPORT, &import, &fd, 1), METHOD_BUFFER_IMPORT, NULL,
             &good);
    close(fd);
    call(client, METHOD_BUFFER_EXPORT, &export, NULL, &good);
    call(client, METHOD_STREAM_SYNCHRONIZE, &synchronize, NULL, &good);
    call(client, METHOD_STREAM_DESTROY, &destroy, NULL, &good);
    call(client, METHOD_BUFFER_FREE, &release, NULL, &good);
}

Test(memory, F24_no_allocation_is_one_too_many, .timeout = 300)
{
    long n = 0;
    bool all = false;
    executor_outside = set_outside;
    for (; !all && n < 5000; n++) {
        struct parts parts;
        executor_start();
        struct client *client = client_attach();
        n_failed = 0;
        countdown = n;
        if (prepare(client, &parts))
            use(client, &parts);
        all = n_failed == 0;
        countdown = -1;
        executor_finish();
    }
    cr_assert(all);
    cr_assert_gt(n, 50, "only %ld allocations were tried", n);
}
