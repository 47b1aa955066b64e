/*
 * Streams: CUDA's own, and in front of each a queue for what must wait for a large copy.
 *
 *   work ──queue empty──► the CUDA stream ──► counter in pinned memory ──► mark done
 *      └──a large copy is under way──► queue ──copy done──► the CUDA stream
 *
 * A mark writes a number into pinned memory when the stream gets there; the loop looks at that number, which costs
 * nothing, instead of asking the driver. Small reads land in pinned slots and are copied on when their mark is done. A
 * large copy is made by a thread, since the driver copies pageable memory itself and lets its caller wait; not before
 * its stream has got there, or long kernels would hold the few threads that all streams share.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/require.h"
#include "daemon/executor/cuda/device.h"

#define STREAM_NON_BLOCKING 1u
#define EVENT_NO_TIMING 2u
#define HOST_ALLOCATE_MAPPED 2u
#define RESULT_NOT_READY 600
/* Copies up to this size go through a pinned slot. */
#define SLOT (64u << 10)
#define SLOTS_AT_ONCE 16u
#define PAGE_COUNTERS 1024u

/* Pinned memory with a completion counter for each of many streams. */
struct page {
    struct list link; /* device->pages */
    volatile uint32_t *counters;
    uint64_t address; /* as the device sees it */
    bool used[PAGE_COUNTERS];
};

struct slot {
    struct list link; /* device->staging, or a stream's or mark's */
    uint8_t *bytes;
    bool first; /* of those that were allocated together: the address to free */
    void *to;   /* of a read: where the bytes go when they are there */
    size_t size;
};

enum work_kind {
    WORK_LAUNCH,
    WORK_WRITE,
    WORK_READ,
    WORK_FILL,
    WORK_STAMP,
    WORK_MARK,
};

struct device_stamp {
    void *event;
    struct cuda_device *device;
};

/* What a stream is to do. On the stack when it is done at once, else in the queue. */
struct work {
    struct list link;
    enum work_kind kind;
    struct device_stream *stream;
    const struct device_function *function;
    struct launch_params params;
    bool cooperative;
    void **arguments; /* in the queue: copies, behind the struct */
    uint64_t address;
    const void *from;
    void *to;
    uint64_t size;
    uint8_t value;
    void *event;
    struct device_mark *mark;
    struct device_mark before; /* of a large copy: all that is before it is done */
    uv_work_t thread;
    int result; /* of the thread */
};

/* A mark that the CUDA stream has been given. */
struct owed {
    struct list link; /* stream->owed, in order */
    struct device_mark *mark;
    uint32_t number;
    void *event; /* where numbers cannot be written */
    struct list reads;
    struct error failed; /* of work before it */
    bool unmarked;       /* the driver did not take it: nothing will come, so it counts as come */
};

struct device_stream {
    struct cuda_device *device;
    void *stream;
    struct list in_owing; /* device->owing */
    struct list owed;
    struct list queue; /* struct work: the first is a copy under way, if `copying` */
    bool copying;
    struct page *page;
    unsigned counter;
    uint32_t numbers;  /* the last one given out */
    struct list reads; /* slots of reads since the last mark */
    struct error failed;
};

/* ---- pinned memory ---- */

static int add_slots(struct cuda_device *device, struct error *error)
{
    void *bytes;
    int result = device->driver->host_allocate(&bytes, (size_t)SLOT * SLOTS_AT_ONCE, 0);
    if (cuda_check(device, "cuMemHostAlloc", result, error) < 0)
        return -1;
    for (unsigned i = 0; i < SLOTS_AT_ONCE; i++) {
        struct slot *slot = calloc(1, sizeof *slot);
        require(slot);
        slot->bytes = (uint8_t *)bytes + (size_t)i * SLOT;
        slot->first = i == 0;
        list_push(&device->staging, &slot->link);
    }
    return 0;
}

static struct slot *take_slot(struct cuda_device *device, struct error *error)
{
    if (list_empty(&device->staging) && add_slots(device, error) < 0)
        return NULL;
    return container_of(list_pop(&device->staging), struct slot, link);
}

static int take_counter(struct cuda_device *device, struct device_stream *stream, struct error *error)
{
    for (struct list *link = device->pages.next; link != &device->pages; link = link->next) {
        struct page *page = container_of(link, struct page, link);
        for (unsigned i = 0; i < PAGE_COUNTERS; i++) {
            if (page->used[i])
                continue;
            page->used[i] = true;
            page->counters[i] = 0;
            stream->page = page;
            stream->counter = i;
            return 0;
        }
    }
    struct page *page = calloc(1, sizeof *page);
    void *at;
    if (!page)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a stream");
    int result = device->driver->host_allocate(&at, PAGE_COUNTERS * sizeof(uint32_t), HOST_ALLOCATE_MAPPED);
    bool allocated = result == 0;
    if (allocated)
        result = device->driver->host_address(&page->address, at, 0);
    if (cuda_check(device, "cuMemHostAlloc", result, error) < 0) {
        if (allocated)
            device->driver->host_free(at);
        free(page);
        return -1;
    }
    page->counters = at;
    list_push(&device->pages, &page->link);
    return take_counter(device, stream, error);
}

void cuda_streams_finish(struct cuda_device *device)
{
    struct list *link;
    struct list rest;
    list_init(&rest);
    /* All slots of an allocation before the first, whose address frees it. */
    while ((link = list_pop(&device->staging))) {
        struct slot *slot = container_of(link, struct slot, link);
        if (slot->first)
            list_push(&rest, link);
        else
            free(slot);
    }
    while ((link = list_pop(&rest))) {
        device->driver->host_free(container_of(link, struct slot, link)->bytes);
        free(container_of(link, struct slot, link));
    }
    while ((link = list_pop(&device->pages))) {
        struct page *page = container_of(link, struct page, link);
        device->driver->host_free((void *)page->counters);
        free(page);
    }
}

/* ---- doing ---- */

static int check_residency(struct cuda_device *device, const struct work *work, struct error *error)
{
    const struct launch_params *params = &work->params;
    int per_multiprocessor = 0;
    int64_t threads = params->block[0] * params->block[1] * params->block[2];
    int64_t blocks = params->grid[0] * params->grid[1] * params->grid[2];
    if (!device->driver->occupancy || !device->driver->launch_cooperative)
        return error_set(error, STATUS_UNSUPPORTED, "the CUDA driver has no cooperative launches");
    int result = device->driver->occupancy(&per_multiprocessor, work->function->handle, (int)threads,
                                           (size_t)params->dynamic_shared_memory);
    if (cuda_check(device, "cuOccupancyMaxActiveBlocksPerMultiprocessor", result, error) < 0)
        return -1;
    int64_t most = (int64_t)per_multiprocessor * device->backend.facts.multiprocessors;
    if (blocks <= most)
        return 0;
    return error_set(error, STATUS_INVALID_LAUNCH,
                     "grid: %lld blocks; of a cooperative launch with %lld threads and %lld bytes of dynamic shared "
                     "memory a block, %lld can be resident (%d on each of %u multiprocessors)",
                     (long long)blocks, (long long)threads, (long long)params->dynamic_shared_memory, (long long)most,
                     per_multiprocessor, device->backend.facts.multiprocessors);
}

static int do_launch(struct cuda_device *device, const struct work *work, struct error *error)
{
    const struct launch_params *params = &work->params;
    const unsigned grid[3] = {(unsigned)params->grid[0], (unsigned)params->grid[1], (unsigned)params->grid[2]};
    const unsigned block[3] = {(unsigned)params->block[0], (unsigned)params->block[1], (unsigned)params->block[2]};
    unsigned shared = (unsigned)params->dynamic_shared_memory;
    void *function = work->function->handle, *stream = work->stream->stream;
    if (cuda_allow_shared(device, work->function, params->dynamic_shared_memory, error) < 0)
        return -1;
    if (work->cooperative) {
        int result = device->driver->launch_cooperative(function, grid[0], grid[1], grid[2], block[0], block[1],
                                                        block[2], shared, stream, work->arguments);
        return cuda_check(device, "cuLaunchCooperativeKernel", result, error);
    }
    int result = device->driver->launch_kernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                               shared, stream, work->arguments, NULL);
    return cuda_check(device, "cuLaunchKernel", result, error);
}

static int do_small_write(struct cuda_device *device, const struct work *work, struct error *error)
{
    /* The driver takes up to 64 KiB of pageable memory into the command itself, or into memory of its own. */
    int result = device->driver->copy_to_device_async(work->address, work->from, work->size, work->stream->stream);
    return cuda_check(device, "cuMemcpyHtoDAsync", result, error);
}

static int do_small_read(struct cuda_device *device, const struct work *work, struct error *error)
{
    struct slot *slot = take_slot(device, error);
    if (!slot)
        return -1;
    int result = device->driver->copy_to_host_async(slot->bytes, work->address, work->size, work->stream->stream);
    if (cuda_check(device, "cuMemcpyDtoHAsync", result, error) < 0) {
        list_push(&device->staging, &slot->link);
        return -1;
    }
    slot->to = work->to;
    slot->size = work->size;
    list_push(&work->stream->reads, &slot->link);
    return 0;
}

static void give_mark(struct device_stream *stream, struct device_mark *mark)
{
    struct cuda_device *device = stream->device;
    struct owed *owed = calloc(1, sizeof *owed);
    struct list *link;
    require(owed); /* its owner would wait for ever */
    owed->mark = mark;
    owed->number = ++stream->numbers;
    list_init(&owed->reads);
    while ((link = list_pop(&stream->reads)))
        list_push(&owed->reads, link);
    int result = 801; /* not supported */
    if (device->driver->stream_write_value)
        result = device->driver->stream_write_value(
            stream->stream, stream->page->address + stream->counter * sizeof(uint32_t), owed->number, 0);
    if (result == 801) {
        result = device->driver->event_create(&owed->event, EVENT_NO_TIMING);
        if (result == 0)
            result = device->driver->event_record(owed->event, stream->stream);
    }
    owed->unmarked = cuda_check(device, "marking a stream", result, &owed->failed) < 0;
    if (stream->failed.code != STATUS_OK)
        owed->failed = stream->failed;
    stream->failed = (struct error){0};
    list_push(&stream->owed, &owed->link);
    if (list_empty(&stream->in_owing))
        list_push(&device->owing, &stream->in_owing);
    cuda_device_watch(device);
}

static int do_now(const struct work *work, struct error *error)
{
    struct device_stream *stream = work->stream;
    struct cuda_device *device = stream->device;
    switch (work->kind) {
    case WORK_LAUNCH:
        return do_launch(device, work, error);
    case WORK_WRITE:
        return do_small_write(device, work, error);
    case WORK_READ:
        return do_small_read(device, work, error);
    case WORK_FILL:
        return cuda_check(device, "cuMemsetD8Async",
                          device->driver->memory_set_async(work->address, work->value, work->size, stream->stream),
                          error);
    case WORK_STAMP:
        return cuda_check(device, "cuEventRecord", device->driver->event_record(work->event, stream->stream), error);
    case WORK_MARK:
        give_mark(stream, work->mark);
    }
    return 0;
}

/* ---- the queue ---- */

static void advance(struct device_stream *stream);

/* On a thread of libuv's. */
static void on_copy(uv_work_t *thread)
{
    struct work *work = container_of(thread, struct work, thread);
    struct device_stream *stream = work->stream;
    const struct driver *driver = stream->device->driver;
    work->result = driver->context_set_current(stream->device->context);
    if (work->result == 0 && work->kind == WORK_WRITE)
        work->result = driver->copy_to_device_async(work->address, work->from, work->size, stream->stream);
    else if (work->result == 0)
        work->result = driver->copy_to_host_async(work->to, work->address, work->size, stream->stream);
    if (work->result == 0)
        work->result = driver->stream_synchronize(stream->stream);
}

static void remember(struct device_stream *stream, const struct error *error)
{
    if (stream->failed.code == STATUS_OK)
        stream->failed = *error;
}

static void end_copy(struct work *work)
{
    struct device_stream *stream = work->stream;
    list_remove(&work->link);
    stream->copying = false;
    free(work);
    advance(stream);
}

static void on_copied(uv_work_t *thread, int status)
{
    struct work *work = container_of(thread, struct work, thread);
    struct error error;
    (void)status;
    if (cuda_check(work->stream->device, "copying", work->result, &error) < 0)
        remember(work->stream, &error);
    end_copy(work);
}

/* It is the copy's turn. What failed before it is told to whoever marks the stream next. */
static void on_turn(struct device_mark *before, const struct error *error)
{
    struct work *work = container_of(before, struct work, before);
    struct cuda_device *device = work->stream->device;
    if (error)
        remember(work->stream, error);
    if (device->lost.code != STATUS_OK) {
        end_copy(work);
        return;
    }
    int status = uv_queue_work(device->loop, &work->thread, on_copy, on_copied);
    require(status == 0);
}

static bool is_large(const struct work *work)
{
    return (work->kind == WORK_WRITE || work->kind == WORK_READ) && work->size > SLOT;
}

static void advance(struct device_stream *stream)
{
    while (!stream->copying && !list_empty(&stream->queue)) {
        struct work *work = container_of(stream->queue.next, struct work, link);
        struct error error;
        if (is_large(work)) {
            stream->copying = true;
            work->before.done = on_turn;
            give_mark(stream, &work->before);
            return;
        }
        list_remove(&work->link);
        if (do_now(work, &error) < 0)
            remember(stream, &error);
        free(work);
    }
}

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to queue work");
}

/* A copy of the work, with its arguments' bytes. */
static struct work *keep(const struct work *work, const struct argument_bytes *arguments)
{
    size_t size = 0, n = arguments ? arguments->n : 0;
    for (size_t i = 0; i < n; i++)
        size += (arguments->sizes[i] + 15) & ~(size_t)15;
    struct work *copy = malloc(sizeof *copy + (n + 1) * sizeof(void *) + size);
    if (!copy)
        return NULL;
    *copy = *work;
    list_init(&copy->link);
    copy->arguments = (void **)(copy + 1);
    uint8_t *at = (uint8_t *)(copy->arguments + n + 1);
    for (size_t i = 0; i < n; i++) {
        memcpy(at, arguments->pointers[i], arguments->sizes[i]);
        copy->arguments[i] = at;
        at += (arguments->sizes[i] + 15) & ~(size_t)15;
    }
    return copy;
}

static int queue(struct work *work, const struct argument_bytes *arguments, struct error *error)
{
    struct device_stream *stream = work->stream;
    if (stream->device->lost.code != STATUS_OK && work->kind != WORK_MARK) {
        if (error)
            *error = stream->device->lost;
        return -1;
    }
    if (!stream->copying && list_empty(&stream->queue) && !is_large(work))
        return do_now(work, error);
    struct work *copy = keep(work, arguments);
    if (!copy)
        return no_memory(error);
    list_push(&stream->queue, &copy->link);
    advance(stream);
    return 0;
}

int cuda_launch(struct device_stream *stream, const struct device_function *function,
                const struct launch_params *params, bool cooperative, const struct argument_bytes *arguments,
                struct error *error)
{
    struct work work = {.kind = WORK_LAUNCH,
                        .stream = stream,
                        .function = function,
                        .params = *params,
                        .cooperative = cooperative,
                        .arguments = arguments->pointers};
    if (cooperative && check_residency(stream->device, &work, error) < 0)
        return -1;
    return queue(&work, arguments, error);
}

int cuda_write(struct device_stream *stream, uint64_t address, const void *from, uint64_t size, struct error *error)
{
    struct work work = {.kind = WORK_WRITE, .stream = stream, .address = address, .from = from, .size = size};
    return queue(&work, NULL, error);
}

int cuda_read(struct device_stream *stream, void *to, uint64_t address, uint64_t size, struct error *error)
{
    struct work work = {.kind = WORK_READ, .stream = stream, .address = address, .to = to, .size = size};
    return queue(&work, NULL, error);
}

int cuda_fill(struct device_stream *stream, uint64_t address, uint8_t value, uint64_t size, struct error *error)
{
    struct work work = {.kind = WORK_FILL, .stream = stream, .address = address, .value = value, .size = size};
    return queue(&work, NULL, error);
}

void cuda_mark(struct device_stream *stream, struct device_mark *mark)
{
    struct work work = {.kind = WORK_MARK, .stream = stream, .mark = mark};
    int status = queue(&work, NULL, NULL);
    require(status == 0);
}

/* ---- looking ---- */

static bool has_come(const struct device_stream *stream, const struct owed *owed)
{
    if (owed->unmarked)
        return true;
    if (owed->event)
        return stream->device->driver->event_query(owed->event) == 0;
    return (int32_t)(stream->page->counters[stream->counter] - owed->number) >= 0;
}

static void release_reads(struct cuda_device *device, struct list *reads, bool copy)
{
    struct list *link;
    while ((link = list_pop(reads))) {
        struct slot *slot = container_of(link, struct slot, link);
        if (copy)
            memcpy(slot->to, slot->bytes, slot->size);
        list_push(&device->staging, &slot->link);
    }
}

/* The mark is done. Its owner may do anything, the end of the stream included. */
static void settle(struct device_stream *stream, struct owed *owed, const struct error *error)
{
    struct cuda_device *device = stream->device;
    struct device_mark *mark = owed->mark;
    struct error failed = error ? *error : owed->failed;
    list_remove(&owed->link);
    if (list_empty(&stream->owed))
        list_remove(&stream->in_owing);
    release_reads(device, &owed->reads, !error);
    if (owed->event)
        device->driver->event_destroy(owed->event);
    free(owed);
    mark->done(mark, failed.code == STATUS_OK ? NULL : &failed);
}

/* One mark that has come, of any stream; NULL when there is none. */
static struct owed *find_one(struct cuda_device *device, struct device_stream **ret)
{
    for (struct list *link = device->owing.next; link != &device->owing; link = link->next) {
        struct device_stream *stream = container_of(link, struct device_stream, in_owing);
        struct owed *owed = container_of(stream->owed.next, struct owed, link);
        if (!has_come(stream, owed))
            continue;
        *ret = stream;
        return owed;
    }
    return NULL;
}

void cuda_streams_look(struct cuda_device *device, bool thoroughly)
{
    struct device_stream *stream;
    struct owed *owed;
    /* From the start after each: its owner may have changed the list. */
    while ((owed = find_one(device, &stream))) {
        device->spin_until_ns = uv_hrtime() + 200000;
        settle(stream, owed, NULL);
    }
    /* What has faulted never writes its number; the driver knows. */
    for (struct list *link = device->owing.next; thoroughly && link != &device->owing; link = link->next) {
        int result = device->driver->stream_query(container_of(link, struct device_stream, in_owing)->stream);
        if (result != 0 && result != RESULT_NOT_READY)
            cuda_check(device, "a kernel", result, NULL);
    }
}

void cuda_streams_fail(struct cuda_device *device)
{
    while (!list_empty(&device->owing)) {
        struct device_stream *stream = container_of(device->owing.next, struct device_stream, in_owing);
        settle(stream, container_of(stream->owed.next, struct owed, link), &device->lost);
    }
}

/* ---- stamps ---- */

int cuda_stamp(struct device_stream *stream, struct device_stamp **ret, struct error *error)
{
    struct cuda_device *device = stream->device;
    struct device_stamp *stamp = calloc(1, sizeof *stamp);
    if (!stamp)
        return no_memory(error);
    stamp->device = device;
    if (cuda_check(device, "cuEventCreate", device->driver->event_create(&stamp->event, 0), error) < 0) {
        free(stamp);
        return -1;
    }
    struct work work = {.kind = WORK_STAMP, .stream = stream, .event = stamp->event};
    if (queue(&work, NULL, error) < 0) {
        cuda_stamp_destroy(stamp);
        return -1;
    }
    *ret = stamp;
    return 0;
}

int cuda_elapsed(const struct device_stamp *from, const struct device_stamp *to, uint64_t *ret_ns, struct error *error)
{
    struct cuda_device *device = from->device;
    float ms = 0;
    int result = device->driver->event_elapsed_ms(&ms, from->event, to->event);
    if (cuda_check(device, "cuEventElapsedTime", result, error) < 0)
        return -1;
    *ret_ns = (uint64_t)((double)ms * 1e6);
    return 0;
}

void cuda_stamp_destroy(struct device_stamp *stamp)
{
    if (!stamp)
        return;
    stamp->device->driver->event_destroy(stamp->event);
    free(stamp);
}

/* ---- life ---- */

int cuda_stream_create(struct backend *backend, int64_t priority, struct device_stream **ret, struct error *error)
{
    struct cuda_device *device = cuda_device_of(backend);
    int least = 0, greatest = 0;
    struct device_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a stream");
    if (device->driver->context_priorities)
        device->driver->context_priorities(&least, &greatest); /* else 0 is the only one */
    priority = priority < greatest ? greatest : priority > least ? least : priority;
    stream->device = device;
    list_init(&stream->in_owing);
    list_init(&stream->owed);
    list_init(&stream->queue);
    list_init(&stream->reads);
    int result = device->driver->stream_create(&stream->stream, STREAM_NON_BLOCKING, (int)priority);
    if (cuda_check(device, "cuStreamCreateWithPriority", result, error) < 0) {
        free(stream);
        return -1;
    }
    if (take_counter(device, stream, error) < 0) {
        device->driver->stream_destroy(stream->stream);
        free(stream);
        return -1;
    }
    *ret = stream;
    return 0;
}

void cuda_stream_destroy(struct device_stream *stream)
{
    struct cuda_device *device = stream->device;
    release_reads(device, &stream->reads, false);
    list_remove(&stream->in_owing);
    stream->page->used[stream->counter] = false;
    device->driver->stream_destroy(stream->stream);
    free(stream);
}
