/*
 * A launch, step by step:
 *
 *   look up the fusion, the stream, the buffers ─► the launch entry: found, or made (launch_entry.c) ─► memory for
 *   outputs and intermediates ─► bounds ─► this launch's addresses and scalars ─► queue fills and kernel ─► answer
 */
#include "daemon/executor/launcher.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/executor/launch_entry.h"
#include "daemon/executor/process.h"
#include "daemon/executor/requests.h"

/* Launches of a stream without an answer to wait for that one mark follows at most. */
#define LAUNCHES_PER_MARK 64u

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a launch");
}

/* A launch being prepared. */
struct preparing {
    struct prepared ready;
    const struct launch_request *request;
    uint64_t *addresses; /* one per parameter */
};

/* ---- what the request names ---- */

static int find_all(struct session *session, const struct launch_request *request, msgpack_zone *zone,
                    struct preparing *ret, struct error *error)
{
    struct prepared *ready = &ret->ready;
    uint64_t number = request->fusion;
    HASH_FIND(hh, session->fusions, &number, sizeof number, ready->defined);
    if (!ready->defined)
        return error_set(error, STATUS_UNKNOWN_HANDLE, "fusion: the channel has none with number %llu",
                         (unsigned long long)number);
    ready->stream = streams_find(&session->streams, request->stream, error);
    if (!ready->stream)
        return -1;
    size_t n = ready->defined->fusion.n_params;
    if (request->n_arguments != n)
        return error_set(error, STATUS_INVALID_LAUNCH, "%zu arguments for %zu parameters", request->n_arguments, n);
    ret->addresses = msgpack_zone_malloc(zone, (n + 1) * sizeof *ret->addresses);
    ready->offsets = msgpack_zone_malloc(zone, (n + 1) * sizeof *ready->offsets);
    ready->buffers = msgpack_zone_malloc(zone, (n + 1) * sizeof(struct buffer *));
    ready->allocated = msgpack_zone_malloc(zone, (n + 1) * sizeof *ready->allocated);
    ready->fills = msgpack_zone_malloc(zone, (n + 1) * sizeof *ready->fills);
    if (!ret->addresses || !ready->offsets || !ready->buffers || !ready->allocated || !ready->fills)
        return no_memory(error);
    memset(ret->addresses, 0, n * sizeof *ret->addresses);
    memset(ready->offsets, 0, n * sizeof *ready->offsets);
    memset(ready->buffers, 0, n * sizeof(struct buffer *));
    ready->session = session;
    ret->request = request;
    return 0;
}

static int check_argument(struct preparing *preparing, size_t i, struct error *error)
{
    struct prepared *ready = &preparing->ready;
    const struct param *param = &ready->defined->fusion.params[i];
    const struct launch_argument *argument = &preparing->request->arguments[i];
    size_t size = param->kind == PARAM_KIND_SCALAR ? dtype_size(param->dtype) : 0;
    if (argument->scalar.size != size || (size && !argument->scalar.at))
        return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: a scalar of %zu bytes; a %s has %zu",
                         param->name.at, argument->scalar.size,
                         size ? dtype_word((int)param->dtype) : param_kind_word((int)param->kind), size);
    if (!argument->has_buffer)
        return 0;
    if (!param_takes_memory(param))
        return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: a buffer; a %s takes none", param->name.at,
                         param_kind_word((int)param->kind));
    struct buffer *buffer = buffers_find(&ready->session->buffers, argument->buffer, error);
    if (!buffer || buffer_check(buffer, argument->offset, 0, error) < 0)
        return error_wrap(error, "parameter %s", param->name.at);
    ready->buffers[i] = buffer;
    ready->offsets[i] = argument->offset;
    preparing->addresses[i] = buffer->memory.address + argument->offset;
    return 0;
}

/* An output that is written in place has its tensor's memory. */
static int take_alias(struct preparing *preparing, size_t i, struct error *error)
{
    struct prepared *ready = &preparing->ready;
    const struct fusion *fusion = &ready->defined->fusion;
    size_t from = ready->defined->params[i].alias;
    if (from == fusion->n_params)
        return 0;
    if (ready->buffers[i] && (ready->buffers[i] != ready->buffers[from] || ready->offsets[i] != ready->offsets[from]))
        return error_set(error, STATUS_INVALID_LAUNCH,
                         "parameter %s: another buffer or offset than that of %s, which it is written into",
                         fusion->params[i].name.at, fusion->params[from].name.at);
    ready->buffers[i] = ready->buffers[from];
    ready->offsets[i] = ready->offsets[from];
    preparing->addresses[i] = preparing->addresses[from];
    return 0;
}

/* ---- memory ---- */

static int allocate_output(struct preparing *preparing, size_t i, struct error *error)
{
    struct prepared *ready = &preparing->ready;
    struct buffer *buffer;
    uint64_t size = ready->entry->spans[i];
    if (buffers_allocate(&ready->session->buffers, size ? size : 1, false, &buffer, error) < 0)
        return error_wrap(error, "output %s", ready->defined->fusion.params[i].name.at);
    ready->allocated[ready->n_allocated++] = buffer->number;
    ready->buffers[i] = buffer;
    preparing->addresses[i] = buffer->memory.address;
    return 0;
}

/* Room for all intermediates, in memory that the stream keeps: its launches use it one after the other. */
static int grow_scratch(const struct prepared *ready, struct error *error)
{
    struct stream *stream = ready->stream;
    struct buffer *larger;
    if (ready->entry->scratch <= (stream->scratch ? stream->scratch->memory.size : 0))
        return 0;
    if (buffer_create(ready->session->process, ready->entry->scratch, false, &larger, error) < 0)
        return error_wrap(error, "intermediates");
    if (stream->scratch)
        session_condemn(ready->session, stream->scratch);
    stream->scratch = larger;
    return 0;
}

static int check_bounds(const struct prepared *ready, size_t i, struct error *error)
{
    const struct param *param = &ready->defined->fusion.params[i];
    const struct buffer *buffer = ready->buffers[i];
    uint64_t span = ready->entry->spans[i];
    if (!buffer && (span > 0 || param->kind == PARAM_KIND_POINTER))
        return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: its buffer is absent", param->name.at);
    if (!buffer || span <= buffer->memory.size - ready->offsets[i])
        return 0;
    return error_set(
        error, STATUS_INVALID_BUFFER, "parameter %s: it spans %llu bytes, but buffer %llu has %llu from byte %llu on",
        param->name.at, (unsigned long long)span, (unsigned long long)buffer->number,
        (unsigned long long)(buffer->memory.size - ready->offsets[i]), (unsigned long long)ready->offsets[i]);
}

static int provide_memory(struct preparing *preparing, struct error *error)
{
    struct prepared *ready = &preparing->ready;
    const struct fusion *fusion = &ready->defined->fusion;
    /* What is given first: nothing is allocated for a launch that is refused. */
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        bool absent = param->kind == PARAM_KIND_OUTPUT && !ready->buffers[i] &&
                      ready->defined->params[i].alias == fusion->n_params;
        if (param_takes_memory(param) && !absent && check_bounds(ready, i, error) < 0)
            return -1;
    }
    if (grow_scratch(ready, error) < 0)
        return -1;
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        if (param->kind == PARAM_KIND_INTERMEDIATE && ready->stream->scratch)
            preparing->addresses[i] = ready->stream->scratch->memory.address + ready->entry->scratch_at[i];
        else if (param->kind == PARAM_KIND_OUTPUT && !ready->buffers[i] &&
                 ready->defined->params[i].alias == fusion->n_params && allocate_output(preparing, i, error) < 0)
            return -1;
    }
    return 0;
}

/* ---- what it holds before the kernel runs ---- */

static uint8_t fill_byte(enum fill fill)
{
    return fill == FILL_NAN ? 0xff : fill == FILL_MAX ? 0x7f : 0;
}

/* Whether its span holds bytes that are not the output's. `shape`: its sizes, then its strides. */
static bool has_gaps(const struct param *param, const int64_t *shape, uint64_t span)
{
    uint64_t bytes = dtype_size(param->dtype);
    for (size_t i = 0; i < param->rank; i++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes))
            return false; /* it repeats elements */
    }
    return bytes < span;
}

static int choose_fill(struct preparing *preparing, size_t i, const int64_t *shape, struct error *error)
{
    struct prepared *ready = &preparing->ready;
    const struct defined *defined = ready->defined;
    const struct param *param = &defined->fusion.params[i];
    uint64_t span = ready->entry->spans[i];
    bool zero = defined->params[i].zero;
    bool keeps = param->kind == PARAM_KIND_OUTPUT && defined->params[i].alias < defined->fusion.n_params;
    if (span == 0 || keeps || (!zero && preparing->request->fill == fill_absent))
        return 0;
    if (param->kind == PARAM_KIND_OUTPUT && preparing->request->arguments[i].has_buffer && has_gaps(param, shape, span))
        return error_set(error, STATUS_INVALID_LAUNCH,
                         "fill: parameter %s has gaps between its elements, which may be somebody else's",
                         param->name.at);
    ready->fills[ready->n_fills++] =
        (struct launch_fill){preparing->addresses[i], span, zero ? 0 : fill_byte(preparing->request->fill)};
    return 0;
}

static int choose_fills(struct preparing *preparing, struct error *error)
{
    const struct fusion *fusion = &preparing->ready.defined->fusion;
    const int64_t *shape = preparing->ready.entry->shapes;
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        bool output = param->kind == PARAM_KIND_OUTPUT;
        if ((output || param->kind == PARAM_KIND_INTERMEDIATE) && choose_fill(preparing, i, shape, error) < 0)
            return -1;
        if (output)
            shape += param->rank + (param->has_alloc_rank ? param->alloc_rank : param->rank);
    }
    return 0;
}

/* ---- complete ---- */

/* Put this launch's addresses and scalars into the entry's bytes. */
static void complete_bytes(const struct preparing *preparing)
{
    const struct fusion *fusion = &preparing->ready.defined->fusion;
    struct argument_bytes *bytes = &preparing->ready.entry->arguments;
    for (size_t i = 0; i < fusion->n_params; i++) {
        if (fusion->params[i].kind == PARAM_KIND_SCALAR)
            memcpy(bytes->pointers[i], preparing->request->arguments[i].scalar.at, bytes->sizes[i]);
        else
            memcpy(bytes->pointers[i], &preparing->addresses[i], sizeof preparing->addresses[i]);
    }
}

void launcher_abandon(struct prepared *prepared)
{
    struct buffers *buffers = &prepared->session->buffers;
    struct error gone;
    while (prepared->n_allocated > 0) {
        struct buffer *buffer = buffers_find(buffers, prepared->allocated[--prepared->n_allocated], &gone);
        if (!buffer)
            continue; /* a client that frees numbers which it was not told */
        buffers_forget(buffers, buffer);
        session_condemn(prepared->session, buffer);
    }
}

int launcher_prepare(struct session *session, const struct launch_request *request, msgpack_zone *zone,
                     struct prepared *ret, struct error *error)
{
    struct preparing preparing = {0};
    struct prepared *ready = &preparing.ready;
    if (find_all(session, request, zone, &preparing, error) < 0)
        return -1;
    size_t n = ready->defined->fusion.n_params;
    for (size_t i = 0; i < n; i++) {
        if (check_argument(&preparing, i, error) < 0)
            return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (take_alias(&preparing, i, error) < 0)
            return -1;
    }
    if (launch_entry_get(&session->entries, ready->defined, request, preparing.addresses, zone, &ready->entry,
                         &ready->cached, error) < 0)
        return -1;
    if (provide_memory(&preparing, error) < 0 || choose_fills(&preparing, error) < 0) {
        launcher_abandon(ready);
        return -1;
    }
    complete_bytes(&preparing);
    *ret = *ready;
    return 0;
}

/* ---- the work ---- */

int launcher_queue_fills(const struct prepared *prepared, struct error *error)
{
    const struct device_ops *ops = prepared->session->process->backend->ops;
    for (size_t i = 0; i < prepared->n_fills; i++) {
        const struct launch_fill *fill = &prepared->fills[i];
        if (ops->fill(prepared->stream->device, fill->address, fill->value, fill->size, error) < 0)
            return -1;
        stream_queued(prepared->stream, NULL);
    }
    return 0;
}

int launcher_queue_kernel(const struct prepared *prepared, struct error *error)
{
    const struct entry *entry = prepared->entry;
    const struct launch *launch = prepared->defined->fusion.launch;
    struct process *process = prepared->session->process;
    const int64_t *grid = entry->params.grid;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return 0;
    if (process->backend->ops->launch(prepared->stream->device, &prepared->defined->function, &entry->params,
                                      launch && launch->cooperative, &entry->arguments, error) < 0)
        return -1;
    stream_queued(prepared->stream, prepared->defined);
    process->launches++;
    return 0;
}

static int queue(const struct prepared *prepared, struct error *error)
{
    if (launcher_queue_fills(prepared, error) < 0)
        return -1;
    return launcher_queue_kernel(prepared, error);
}

/* ---- the answer ---- */

int launcher_describe(const struct prepared *prepared, msgpack_zone *zone, struct launch_reply *ret,
                      struct error *error)
{
    const struct fusion *fusion = &prepared->defined->fusion;
    struct entry *entry = prepared->entry;
    struct launched_output *outputs = msgpack_zone_malloc(zone, (fusion->n_params + 1) * sizeof *outputs);
    int64_t *shape = entry->shapes;
    size_t n = 0;
    if (!outputs)
        return no_memory(error);
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        if (param->kind != PARAM_KIND_OUTPUT)
            continue;
        size_t rank = param->rank, alloc_rank = param->has_alloc_rank ? param->alloc_rank : param->rank;
        outputs[n++] = (struct launched_output){
            .param = i,
            .has_param = true,
            .buffer = prepared->buffers[i] ? prepared->buffers[i]->number : 0,
            .has_buffer = true,
            .offset = prepared->offsets[i],
            .has_offset = prepared->offsets[i] > 0,
            .bytes = entry->spans[i],
            .has_bytes = true,
            .sizes = shape,
            .n_sizes = rank,
            .strides = shape + rank,
            .n_strides = alloc_rank,
        };
        shape += rank + alloc_rank;
    }
    *ret = (struct launch_reply){
        .outputs = outputs,
        .n_outputs = n,
        .grid = entry->params.grid,
        .n_grid = 3,
        .block = entry->params.block,
        .n_block = 3,
        .dynamic_shared_memory = (uint64_t)entry->params.dynamic_shared_memory,
        .has_dynamic_shared_memory = true,
        .cached = prepared->cached,
    };
    return 0;
}

/* An answer that waits for the kernel: packed when the launch was queued, since what it tells may be gone by then. */
struct launched {
    struct operation operation;
    msgpack_sbuffer reply;
};

static void on_launched(struct operation *operation, const struct error *error)
{
    struct launched *launched = container_of(operation, struct launched, operation);
    if (error)
        session_fail(operation->session, operation->id, error);
    else
        session_reply_packed(operation->session, operation->id, &launched->reply);
}

static void finish_launched(struct operation *operation)
{
    msgpack_sbuffer_destroy(&container_of(operation, struct launched, operation)->reply);
}

static int answer_later(const struct prepared *prepared, uint32_t id, const struct launch_reply *reply,
                        struct error *error)
{
    struct operation *operation;
    if (operation_create(prepared->session, id, sizeof(struct launched), &operation, error) < 0)
        return -1;
    struct launched *launched = container_of(operation, struct launched, operation);
    msgpack_sbuffer_init(&launched->reply);
    operation->done = on_launched;
    operation->finish = finish_launched;
    int status = 0;
    if (message_pack(&launch_reply_type, reply, &launched->reply) < 0)
        status = no_memory(error);
    operation_hold(operation, launched->reply.size);
    operation_begin(prepared->stream);
    if (status < 0 || queue(prepared, error) < 0) {
        operation_end(operation);
        return -1;
    }
    operation_wait(operation, prepared->stream);
    return 0;
}

static int answer_now(const struct prepared *prepared, uint32_t id, const struct launch_reply *reply,
                      struct error *error)
{
    if (queue(prepared, error) < 0)
        return -1;
    if (prepared->stream->launches_unmarked >= LAUNCHES_PER_MARK)
        stream_settle(prepared->stream);
    session_reply(prepared->session, id, METHOD_LAUNCH, reply, NULL, 0);
    return 0;
}

void request_launch(struct session *session, const struct envelope *envelope)
{
    msgpack_zone *zone = &session->process->request;
    struct launch_request request;
    struct launch_reply reply;
    struct prepared prepared;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (launcher_prepare(session, &request, zone, &prepared, &error) < 0) {
        request_fail(session, envelope, &error);
        return;
    }
    int status = launcher_describe(&prepared, zone, &reply, &error);
    if (status == 0 && request.wait)
        status = answer_later(&prepared, envelope->id, &reply, &error);
    else if (status == 0)
        status = answer_now(&prepared, envelope->id, &reply, &error);
    if (status < 0) {
        launcher_abandon(&prepared);
        request_fail(session, envelope, &error);
    }
}
