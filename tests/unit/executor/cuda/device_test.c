/* The CUDA back end over a driver that does what it is told (tests/support/fake_cuda). */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/executor/device.h"

static uv_loop_t loop;
static struct backend *backend;
static const struct load_options limited = {.max_registers = 64, .level = 3};
static int n_lost, n_done, n_failed;
static struct error last;

static void on_lost(struct backend *lost, const struct error *error)
{
    (void)lost;
    n_lost++;
    last = *error;
}

static void on_done(struct device_mark *mark, const struct error *error)
{
    (void)mark;
    n_done++;
    if (error) {
        n_failed++;
        last = *error;
    }
}

static int open_device(void)
{
    struct error error;
    if (cuda_device_open(&loop, 0, &backend, &error) < 0) {
        last = error;
        return -1;
    }
    backend->on_lost = on_lost;
    return 0;
}

static void setup(void)
{
    setenv("FAKE_CUDA_FAIL", "", 1);
    cr_assert_eq(uv_loop_init(&loop), 0);
}

static void on_closed(void *context)
{
    *(bool *)context = true;
}

static void close_device(void)
{
    bool closed = false;
    backend->ops->close(backend, on_closed, &closed);
    while (!closed)
        uv_run(&loop, UV_RUN_ONCE);
}

static void teardown(void)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_expect_eq(uv_loop_close(&loop), 0, "a handle is still open");
}

TestSuite(cuda_device, .init = setup, .fini = teardown, .timeout = 60);

static int counter(const char *name)
{
    int *at = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name);
    cr_assert_not_null(at, "%s", name);
    return *at;
}

/* Until as many marks are done, at most five seconds. */
static void pump(int wanted)
{
    uint64_t end = uv_hrtime() + 5000000000u;
    while (n_done < wanted && uv_hrtime() < end)
        uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_geq(n_done, wanted, "%d of %d marks are done", n_done, wanted);
}

static int image(void)
{
    int fd = memfd_create("image", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, 5000) == 0);
    return fd;
}

Test(cuda_device, tells_what_it_is)
{
    struct device devices[4];
    char problem[ERROR_TEXT] = "";
    bool mps;
    cr_assert_eq(cuda_devices_probe(devices, 4, &mps, problem), 1, "%s", problem);
    cr_expect(text_is(devices[0].uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf"), "%s", devices[0].uuid.at);
    cr_expect(text_is(devices[0].pci, "0000:1b:00.0"));
    cr_expect_not(mps);
    setenv("FAKE_CUDA_MPS", "1", 1);
    cr_assert_eq(cuda_devices_probe(devices, 4, &mps, problem), 1);
    cr_expect(mps);
    cr_assert_eq(open_device(), 0, "%s", last.text);
    cr_expect_eq(backend->facts.capability, 90);
    cr_expect_eq(backend->facts.memory_bytes, 1u << 30);
    close_device();
    cr_expect_eq(counter("fake_cuda_retained"), 0);
}

Test(cuda_device, B6_1_a_loader_is_quoted)
{
    struct device_module *module;
    struct error error;
    int fd = image();
    cr_assert_eq(open_device(), 0, "%s", last.text);
    setenv("FAKE_CUDA_FAIL", "cuModuleLoadDataEx:209", 1);
    cr_assert_eq(backend->ops->load(backend, IMAGE_KIND_CUBIN, fd, 5000, &limited, &module, &error), -1);
    cr_expect_eq(error.code, STATUS_LOAD_FAILED, "%s", error.text);
    cr_expect(strstr(error.text, "the loader's own words") && strstr(error.text, "(209)"), "%s", error.text);
    setenv("FAKE_CUDA_FAIL", "cuModuleLoadDataEx:222", 1);
    cr_assert_eq(backend->ops->load(backend, IMAGE_KIND_PTX, fd, 5000, &limited, &module, &error), -1);
    cr_expect_eq(error.code, STATUS_LOAD_FAILED, "%s", error.text);
    cr_expect(strstr(error.text, "PTX of a newer CUDA than the driver's (13.0)"), "%s", error.text);
    close(fd);
    close_device();
}

/* ---- a scenario that meets every kind of call ---- */

struct scene {
    struct device_module *module;
    struct device_stream *stream;
    struct device_memory x, out, shared, imported, opened;
    struct device_mark marks[2];
    float *numbers; /* 33 × 1000, more than a slot */
};

#define ROWS 33
#define COLUMNS 1000

static void release(struct device_memory *memory)
{
    if (memory->own)
        backend->ops->release(backend, memory);
}

static int share(struct scene *scene, struct error *error)
{
    const struct device_ops *ops = backend->ops;
    enum memory_kind kind;
    uint64_t size;
    uint8_t handle[64] = {0};
    int fd;
    if (ops->allocate(backend, 5000, true, &scene->shared, error) < 0 ||
        ops->export(backend, &scene->shared, &kind, &size, &fd, error) < 0)
        return -1;
    cr_assert(kind == MEMORY_KIND_VMM_FD && size == 65536);
    struct device_import from = {.kind = kind, .fd = fd, .allocation_size = size, .offset = 512, .size = 100};
    int status = ops->import(backend, &from, &scene->imported, error);
    close(fd);
    if (status < 0)
        return -1;
    memset((void *)(uintptr_t)scene->shared.address, 7, 5000);
    cr_assert_eq(*(uint8_t *)(uintptr_t)scene->imported.address, 7, "the same memory");
    memcpy(handle, &scene->x.address, sizeof scene->x.address);
    from = (struct device_import){
        .kind = MEMORY_KIND_IPC, .fd = -1, .handle = {handle, sizeof handle}, .offset = 8, .size = 100};
    if (ops->import(backend, &from, &scene->opened, error) < 0)
        return -1;
    cr_assert_eq(scene->opened.address, scene->x.address + 8);
    return 0;
}

static int launch(struct scene *scene, bool cooperative, struct error *error)
{
    struct device_function function;
    struct launch_params params = {{16, 1, 1}, {64, 8, 1}, 60000};
    uint8_t bytes[2][24];
    void *pointers[2] = {bytes[0], bytes[1]};
    size_t sizes[2] = {24, 24};
    struct argument_bytes arguments = {2, bytes[0], pointers, sizes};
    const int32_t from[4] = {ROWS, COLUMNS, COLUMNS, 1}, to[4] = {COLUMNS, ROWS, ROWS, 1};
    if (backend->ops->find(scene->module, "_Z9transpose", "transpose", &function, error) < 0)
        return -1;
    cr_assert(function.has_params && function.n_params == 2 && function.static_shared_memory == 16640);
    memcpy(bytes[0], &scene->x.address, 8);
    memcpy(bytes[0] + 8, from, sizeof from);
    memcpy(bytes[1], &scene->out.address, 8);
    memcpy(bytes[1] + 8, to, sizeof to);
    return backend->ops->launch(scene->stream, &function, &params, cooperative, &arguments, error);
}

static int play(struct scene *scene, struct error *error)
{
    const struct device_ops *ops = backend->ops;
    const uint64_t size = sizeof(float) * ROWS * COLUMNS;
    struct device_stamp *from = NULL, *to = NULL;
    float first = 0;
    uint64_t ns;
    int fd = image();
    int status = ops->load(backend, IMAGE_KIND_PTX, fd, 5000, &limited, &scene->module, error);
    close(fd);
    if (status < 0 || ops->stream_create(backend, -100, &scene->stream, error) < 0 ||
        ops->allocate(backend, size, false, &scene->x, error) < 0 ||
        ops->allocate(backend, size, false, &scene->out, error) < 0 || share(scene, error) < 0)
        return -1;
    scene->numbers = malloc(size);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        scene->numbers[i] = (float)i;
    /* Behind a large copy everything waits, in order. */
    if (ops->write(scene->stream, scene->x.address, scene->numbers, size, error) < 0 ||
        ops->fill(scene->stream, scene->out.address, 0xff, size, error) < 0 ||
        ops->stamp(scene->stream, &from, error) < 0 || launch(scene, false, error) < 0 ||
        launch(scene, true, error) < 0 || ops->stamp(scene->stream, &to, error) < 0 ||
        ops->read(scene->stream, &first, scene->out.address + 4, 4, error) < 0) {
        status = -1;
    } else {
        scene->marks[0].done = scene->marks[1].done = on_done;
        ops->mark(scene->stream, &scene->marks[0]);
        cr_assert_eq(n_done, 0);
        pump(1);
        status = n_failed ? -1 : ops->read(scene->stream, scene->numbers, scene->out.address, size, error);
        if (status == 0) {
            cr_assert_eq(first, (float)COLUMNS);
            ops->mark(scene->stream, &scene->marks[1]);
            pump(2);
            status = n_failed || ops->elapsed(from, to, &ns, error) < 0 ? -1 : 0;
        }
    }
    /* What was queued is done before its memory goes. */
    struct device_mark end = {.done = on_done};
    int wanted = n_done + 1;
    ops->mark(scene->stream, &end);
    pump(wanted);
    ops->stamp_destroy(from);
    ops->stamp_destroy(to);
    return status;
}

static void clear(struct scene *scene)
{
    if (scene->stream)
        backend->ops->stream_destroy(scene->stream);
    if (scene->module)
        backend->ops->unload(backend, scene->module);
    release(&scene->opened);
    release(&scene->imported);
    release(&scene->shared);
    release(&scene->out);
    release(&scene->x);
    free(scene->numbers);
}

static void expect_nothing_left(const char *after)
{
    static const char *const counters[] = {"fake_cuda_streams", "fake_cuda_pinned",      "fake_cuda_virtual",
                                           "fake_cuda_opened",  "fake_cuda_allocations", "fake_cuda_modules",
                                           "fake_cuda_events",  "fake_cuda_retained"};
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        cr_expect_eq(counter(counters[i]), 0, "%s: %s is %d", after, counters[i], counter(counters[i]));
}

Test(cuda_device, runs_in_order_and_leaves_nothing)
{
    struct scene scene = {0};
    struct error error = {0};
    cr_assert_eq(open_device(), 0, "%s", last.text);
    cr_assert_eq(play(&scene, &error), 0, "%s %s", error.text, last.text);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            cr_assert_eq(scene.numbers[column * ROWS + row], (float)(row * COLUMNS + column));
    cr_assert_eq(n_lost, 0);
    clear(&scene);
    close_device();
    expect_nothing_left("a good run");
}

/* What PTX is made into machine code with; a cubin is machine code. */
Test(cuda_device, B2_3_the_loader_of_ptx_is_told)
{
    static const struct load_options nothing;
    static const struct {
        enum image_kind kind;
        const struct load_options *options;
        int registers, level;
    } cases[] = {
        {IMAGE_KIND_PTX, &limited, 64, 2}, {IMAGE_KIND_PTX, &nothing, -1, -1}, {IMAGE_KIND_CUBIN, &limited, -1, -1}};
    struct device_module *module;
    struct error error;
    cr_assert_eq(open_device(), 0, "%s", last.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = image();
        cr_assert_eq(backend->ops->load(backend, cases[i].kind, fd, 5000, cases[i].options, &module, &error), 0, "%s",
                     error.text);
        close(fd);
        cr_expect_eq(counter("fake_cuda_jit_registers"), cases[i].registers, "case %zu", i);
        cr_expect_eq(counter("fake_cuda_jit_level"), cases[i].level, "case %zu", i);
        backend->ops->unload(backend, module);
    }
    close_device();
}

Test(cuda_device, without_a_pool_memory_comes_from_the_device)
{
    struct scene scene = {0};
    struct error error = {0};
    setenv("FAKE_CUDA_NO_POOL", "1", 1);
    cr_assert_eq(open_device(), 0, "%s", last.text);
    cr_assert_eq(play(&scene, &error), 0, "%s %s", error.text, last.text);
    clear(&scene);
    close_device();
    expect_nothing_left("a run without a pool");
}

Test(cuda_device, without_completion_numbers_events_do)
{
    struct scene scene = {0};
    struct error error = {0};
    cr_assert_eq(open_device(), 0, "%s", last.text);
    setenv("FAKE_CUDA_FAIL", "cuStreamWriteValue32_v2:801", 1);
    cr_assert_eq(play(&scene, &error), 0, "%s %s", error.text, last.text);
    clear(&scene);
    close_device();
    expect_nothing_left("a run by events");
}

/* F23, first form: every call fails once in every way that matters, and the process is told what that means. */
Test(cuda_device, F23_every_call_may_fail)
{
    static const char *const calls[] = {"cuModuleLoadDataEx",
                                        "cuModuleGetFunction",
                                        "cuFuncGetAttribute",
                                        "cuFuncSetAttribute",
                                        "cuLaunchKernel",
                                        "cuLaunchCooperativeKernel",
                                        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                                        "cuStreamCreateWithPriority",
                                        "cuStreamWriteValue32_v2",
                                        "cuStreamSynchronize",
                                        "cuMemAllocAsync",
                                        "cuMemcpyHtoDAsync_v2",
                                        "cuMemcpyDtoHAsync_v2",
                                        "cuMemsetD8Async",
                                        "cuEventCreate",
                                        "cuEventRecord",
                                        "cuEventElapsedTime",
                                        "cuMemHostAlloc",
                                        "cuMemHostGetDevicePointer_v2",
                                        "cuMemGetAllocationGranularity",
                                        "cuMemCreate",
                                        "cuMemAddressReserve",
                                        "cuMemMap",
                                        "cuMemSetAccess",
                                        "cuMemExportToShareableHandle",
                                        "cuMemImportFromShareableHandle",
                                        "cuIpcOpenMemHandle_v2",
                                        "cuCtxSetCurrent"};
    static const int codes[] = {1, 2, 719, 700, 214};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (size_t j = 0; j < sizeof codes / sizeof codes[0]; j++) {
            char fail[96];
            struct scene scene = {0};
            struct error error = {0};
            snprintf(fail, sizeof fail, "%s:%d", calls[i], codes[j]);
            n_lost = n_done = n_failed = 0;
            last = (struct error){0};
            cr_assert_eq(open_device(), 0, "%s: %s", fail, last.text);
            setenv("FAKE_CUDA_FAIL", fail, 1);
            int status = scene.stream ? 0 : play(&scene, &error);
            cr_expect_eq(status, -1, "%s went unnoticed", fail);
            const struct error *told = error.code != STATUS_OK ? &error : &last;
            cr_expect_neq(told->code, STATUS_OK, "%s: nothing is said", fail);
            cr_expect(strstr(told->text, "CUDA_ERROR") || told->code == STATUS_LOAD_FAILED, "%s: %s", fail, told->text);
            if (codes[j] == 2 && told->code != STATUS_LOAD_FAILED && told->code != STATUS_INVALID_BUFFER)
                cr_expect_eq(told->code, STATUS_OUT_OF_MEMORY, "%s: %s", fail, status_name(told->code));
            for (int turn = 0; turn < 50 && n_lost == 0 && codes[j] > 2; turn++)
                uv_run(&loop, UV_RUN_NOWAIT);
            cr_expect_eq(n_lost, codes[j] > 2, "%s: lost %d times", fail, n_lost);
            setenv("FAKE_CUDA_FAIL", "", 1);
            clear(&scene);
            close_device();
            expect_nothing_left(fail);
        }
    }
}

/* F19: a kernel that has faulted never writes its number; the driver is asked, and everybody is told. */
Test(cuda_device, F19_a_fault_is_seen_and_every_mark_is_told)
{
    struct device_stream *streams[2];
    struct device_mark marks[3] = {{.done = on_done}, {.done = on_done}, {.done = on_done}};
    struct error error;
    cr_assert_eq(open_device(), 0, "%s", last.text);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(backend->ops->stream_create(backend, 0, &streams[i], &error), 0, "%s", error.text);
    setenv("FAKE_CUDA_STUCK", "1", 1);
    backend->ops->mark(streams[0], &marks[0]);
    backend->ops->mark(streams[0], &marks[1]);
    backend->ops->mark(streams[1], &marks[2]);
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(n_done, 0);
    setenv("FAKE_CUDA_FAIL", "cuStreamQuery:700", 1);
    uint64_t start = uv_hrtime();
    pump(3);
    cr_expect_lt(uv_hrtime() - start, 1000000000u);
    cr_expect_eq(n_lost, 1);
    cr_expect_eq(n_failed, 3);
    /* From now on everything fails with that. */
    struct device_memory memory;
    cr_expect_eq(backend->ops->fill(streams[0], 4096, 0, 1, &error), -1);
    cr_expect(strstr(error.text, "(700)"), "%s", error.text);
    (void)memory;
    for (int i = 0; i < 2; i++)
        backend->ops->stream_destroy(streams[i]);
    close_device();
}

Test(cuda_device, an_open_that_fails_leaves_nothing)
{
    static const char *const fails[] = {"cuDevicePrimaryCtxRetain:2", "cuCtxSetCurrent:719",
                                        "cuDeviceGetName:101",        "cuDeviceTotalMem_v2:1",
                                        "cuDeviceGetAttribute:1",     "cuDeviceGet:101",
                                        "cuMemPoolSetAttribute:719",  "cuStreamCreateWithPriority:46"};
    for (size_t i = 0; i < sizeof fails / sizeof fails[0]; i++) {
        setenv("FAKE_CUDA_FAIL", fails[i], 1);
        cr_expect_eq(open_device(), -1, "%s", fails[i]);
        cr_expect(strstr(last.text, "CUDA_ERROR"), "%s: %s", fails[i], last.text);
        setenv("FAKE_CUDA_FAIL", "", 1);
        cr_assert_eq(open_device(), 0, "%s", last.text);
        close_device();
        cr_expect_eq(counter("fake_cuda_retained"), 0, "%s", fails[i]);
    }
}

/* Sizes and places that no memory has are refused, and not taken around the end of the numbers. */
Test(cuda_device, numbers_of_memory_do_not_overflow)
{
    uint8_t handle[64] = {0};
    struct device_import from = {.kind = MEMORY_KIND_IPC, .fd = -1, .handle = {handle, sizeof handle}};
    struct device_memory memory;
    struct error error;
    cr_assert_eq(open_device(), 0, "%s", last.text);
    cr_expect_eq(backend->ops->allocate(backend, UINT64_MAX - 10, true, &memory, &error), -1);
    cr_expect_eq(error.code, STATUS_OUT_OF_MEMORY, "%s", error.text);
    from.offset = UINT64_MAX - 99;
    from.size = 200;
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(backend->ops->import(backend, &from, &memory, &error), -1);
        cr_expect_eq(error.code, STATUS_INVALID_BUFFER, "%s", error.text);
        from.kind = MEMORY_KIND_VMM_FD;
    }
    close_device();
}

/* The threads that copy are few and shared: a copy behind a long kernel takes none until it is its turn. */
Test(cuda_device, B6_12_a_large_copy_waits_for_its_turn)
{
    static uint8_t bytes[8][100000];
    struct device_stream *streams[8];
    struct device_memory memory[8];
    struct device_mark marks[8];
    struct error error;
    cr_assert_eq(open_device(), 0, "%s", last.text);
    for (int i = 0; i < 8; i++) {
        marks[i] = (struct device_mark){.done = on_done};
        memset(bytes[i], i + 1, sizeof bytes[i]);
        cr_assert_eq(backend->ops->stream_create(backend, 0, &streams[i], &error), 0, "%s", error.text);
        cr_assert_eq(backend->ops->allocate(backend, sizeof bytes[i], false, &memory[i], &error), 0, "%s", error.text);
        *(volatile uint8_t *)(uintptr_t)memory[i].address = 99;
    }
    for (int i = 0; i < 8; i++) {
        if (i < 7)
            setenv("FAKE_CUDA_STUCK", "1", 1);
        else
            unsetenv("FAKE_CUDA_STUCK");
        cr_assert_eq(backend->ops->write(streams[i], memory[i].address, bytes[i], sizeof bytes[i], &error), 0);
        backend->ops->mark(streams[i], &marks[i]);
    }
    pump(1);
    cr_expect_eq(*(volatile uint8_t *)(uintptr_t)memory[7].address, 8);
    for (int i = 0; i < 7; i++)
        cr_expect_eq(*(volatile uint8_t *)(uintptr_t)memory[i].address, 99, "copy %d was made before its turn", i);
    cr_expect_eq(n_failed, 0);
    /* They end with the device, and were never made. */
    setenv("FAKE_CUDA_FAIL", "cuStreamQuery:700", 1);
    pump(8);
    cr_expect_eq(n_failed, 7);
    cr_expect_eq(n_lost, 1);
    setenv("FAKE_CUDA_FAIL", "", 1);
    for (int i = 0; i < 8; i++) {
        cr_expect_eq(*(volatile uint8_t *)(uintptr_t)memory[i].address, i < 7 ? 99 : 8);
        backend->ops->stream_destroy(streams[i]);
        backend->ops->release(backend, &memory[i]);
    }
    close_device();
    expect_nothing_left("copies that waited");
}

Test(cuda_device, B6_7_a_cooperative_grid_that_cannot_be_resident_is_refused_with_numbers)
{
    struct scene scene = {0};
    struct device_function function;
    struct launch_params params = {{100000, 1, 1}, {64, 8, 1}, 0};
    struct argument_bytes arguments = {0};
    struct error error;
    int fd = image();
    cr_assert_eq(open_device(), 0, "%s", last.text);
    cr_assert_eq(backend->ops->load(backend, IMAGE_KIND_CUBIN, fd, 5000, &limited, &scene.module, &error), 0);
    cr_assert_eq(backend->ops->find(scene.module, "transpose", "transpose", &function, &error), 0);
    cr_assert_eq(backend->ops->stream_create(backend, 0, &scene.stream, &error), 0);
    cr_assert_eq(backend->ops->launch(scene.stream, &function, &params, true, &arguments, &error), -1);
    cr_expect_eq(error.code, STATUS_INVALID_LAUNCH);
    cr_expect(strstr(error.text, "100000 blocks") && strstr(error.text, "512 threads"), "%s", error.text);
    close(fd);
    clear(&scene);
    close_device();
}
