/*
 * A launch, step by step:
 *
 *   look up the fusion, the stream, the buffers ─► the entry's key ─► found? else make the entry (sizes of outputs and
 *   intermediates, launch parameters, limits, index type, argument bytes) ─► outputs and scratch memory ─► bounds ─►
 *   queue fills and kernel
 */
#include "daemon/executor/launcher.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/executor/process.h"
#include "daemon/executor/requests.h"
#include "daemon/launch/arguments.h"

/* Where intermediates begin in the scratch memory: as cuMemAlloc aligns. */
#define SCRATCH_ALIGNMENT 256u
/* Alignment above this is not told apart: the widest load has 16 bytes. */
#define ALIGNMENT_MAX 16u

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a launch");
}

static bool takes_memory(const struct param *param)
{
    return param->kind == PARAM_KIND_TENSOR || param->kind == PARAM_KIND_OUTPUT || param->kind == PARAM_KIND_POINTER;
}

static bool has_shape(const struct param *param)
{
    return param->kind == PARAM_KIND_TENSOR || param->kind == PARAM_KIND_OUTPUT ||
           param->kind == PARAM_KIND_INTERMEDIATE;
}

/* ---- what the request names ---- */

static int find_all(struct session *session, const struct launch_request *request, msgpack_zone *zone,
                    struct prepared *ret, struct error *error)
{
    uint64_t number = request->fusion;
    HASH_FIND(hh, session->fusions, &number, sizeof number, ret->defined);
    if (!ret->defined)
        return error_set(error, STATUS_UNKNOWN_HANDLE, "fusion: the channel has none with number %llu",
                         (unsigned long long)number);
    ret->stream = streams_find(&session->streams, request->stream, error);
    if (!ret->stream)
        return -1;
    size_t n = ret->defined->fusion.n_params;
    if (request->n_arguments != n)
        return error_set(error, STATUS_INVALID_LAUNCH, "%zu arguments for %zu parameters", request->n_arguments, n);
    ret->addresses = msgpack_zone_malloc(zone, (n + 1) * sizeof *ret->addresses);
    ret->buffers = msgpack_zone_malloc(zone, (n + 1) * sizeof(struct buffer *));
    ret->offsets = msgpack_zone_malloc(zone, (n + 1) * sizeof *ret->offsets);
    ret->allocated = msgpack_zone_malloc(zone, (n + 1) * sizeof(struct buffer *));
    if (!ret->addresses || !ret->buffers || !ret->offsets || !ret->allocated)
        return no_memory(error);
    memset(ret->addresses, 0, (n + 1) * sizeof *ret->addresses);
    memset(ret->offsets, 0, (n + 1) * sizeof *ret->offsets);
    memset(ret->buffers, 0, (n + 1) * sizeof(struct buffer *));
    ret->session = session;
    ret->arguments = request->arguments;
    ret->fill = request->fill;
    return 0;
}

static int find_buffer(struct prepared *prepared, size_t i, struct error *error)
{
    const struct param *param = &prepared->defined->fusion.params[i];
    const struct launch_argument *argument = &prepared->arguments[i];
    if (!argument->has_buffer)
        return 0;
    if (!takes_memory(param))
        return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: %s takes no buffer", param->name.at,
                         param->kind == PARAM_KIND_SCALAR ? "a scalar" : "an intermediate");
    struct buffer *buffer = buffers_find(&prepared->session->buffers, argument->buffer, error);
    if (!buffer || buffer_check(buffer, argument->offset, 0, error) < 0)
        return error_wrap(error, "parameter %s", param->name.at);
    prepared->buffers[i] = buffer;
    prepared->offsets[i] = argument->offset;
    prepared->addresses[i] = buffer->memory.address + argument->offset;
    return 0;
}

/* The position of the tensor that an output is written into, or n. */
static size_t aliased(const struct fusion *fusion, size_t i)
{
    const struct param *param = &fusion->params[i];
    const struct output *output = param->kind == PARAM_KIND_OUTPUT ? fusion_output(fusion, param) : NULL;
    size_t j = fusion->n_params;
    if (output && output->alias.at) {
        for (j = 0; j < fusion->n_params && !text_is(fusion->params[j].name, output->alias.at); j++)
            ;
    }
    return j;
}

static int take_alias(struct prepared *prepared, size_t i, struct error *error)
{
    const struct fusion *fusion = &prepared->defined->fusion;
    size_t j = aliased(fusion, i);
    if (j == fusion->n_params)
        return 0;
    if (prepared->buffers[i])
        return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: it is written into %s and takes no buffer",
                         fusion->params[i].name.at, fusion->params[j].name.at);
    prepared->buffers[i] = prepared->buffers[j];
    prepared->offsets[i] = prepared->offsets[j];
    prepared->addresses[i] = prepared->addresses[j];
    return 0;
}

/* ---- the entry's key ---- */

struct key {
    uint8_t *bytes;
    size_t size, room;
    msgpack_zone *zone;
    bool failed;
};

static void put(struct key *key, const void *bytes, size_t size)
{
    if (key->failed || size == 0)
        return;
    if (key->room - key->size < size) {
        size_t room = 2 * (key->room + size);
        uint8_t *larger = msgpack_zone_malloc(key->zone, room);
        key->failed = !larger;
        if (!larger)
            return;
        memcpy(larger, key->bytes, key->size);
        key->bytes = larger;
        key->room = room;
    }
    memcpy(key->bytes + key->size, bytes, size);
    key->size += size;
}

static void put_integers(struct key *key, const int64_t *values, size_t n)
{
    uint8_t count = (uint8_t)n;
    put(key, &count, 1);
    put(key, values, n * sizeof *values);
}

static uint8_t alignment_of(uint64_t address)
{
    uint64_t lowest = address & (~address + 1);
    return lowest == 0 || lowest > ALIGNMENT_MAX ? ALIGNMENT_MAX : (uint8_t)lowest;
}

static int make_key(const struct prepared *prepared, const struct launch_request *request, msgpack_zone *zone,
                    struct key *ret, struct error *error)
{
    const struct fusion *fusion = &prepared->defined->fusion;
    struct key key = {.zone = zone, .room = 256};
    key.bytes = msgpack_zone_malloc(zone, key.room);
    key.failed = !key.bytes;
    put_integers(&key, request->grid, request->n_grid);
    put_integers(&key, request->block, request->n_block);
    uint8_t flags = (uint8_t)(request->has_dynamic_shared_memory | request->force << 1);
    put(&key, &flags, 1);
    put(&key, &request->dynamic_shared_memory, sizeof request->dynamic_shared_memory);
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct launch_argument *argument = &request->arguments[i];
        if (has_shape(&fusion->params[i])) {
            put_integers(&key, argument->sizes, argument->n_sizes);
            put_integers(&key, argument->strides, argument->n_strides);
        }
        if (takes_memory(&fusion->params[i])) {
            uint8_t alignment = alignment_of(prepared->addresses[i]);
            put(&key, &alignment, 1);
        }
        if (prepared->defined->reads[i])
            put(&key, argument->scalar.at, argument->scalar.size);
    }
    if (key.failed)
        return no_memory(error);
    *ret = key;
    return 0;
}

/* ---- making an entry ---- */

/* The arguments as the launch library takes them; addresses are put in later. */
static int gather(const struct prepared *prepared, msgpack_zone *zone, struct argument **ret, struct error *error)
{
    const struct fusion *fusion = &prepared->defined->fusion;
    struct argument *arguments = msgpack_zone_malloc(zone, (fusion->n_params + 1) * sizeof *arguments);
    if (!arguments)
        return no_memory(error);
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        const struct launch_argument *from = &prepared->arguments[i];
        size_t rank = param->rank, alloc_rank = param->has_alloc_rank ? param->alloc_rank : param->rank;
        size_t j = aliased(fusion, i);
        const struct output *output = param->kind == PARAM_KIND_OUTPUT ? fusion_output(fusion, param) : NULL;
        if (j < fusion->n_params && !from->n_sizes && output->n_sizes == 0)
            from = &prepared->arguments[j]; /* as large as what it is written into */
        if (!has_shape(param) && (from->n_sizes || from->n_strides))
            return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: a %s has no sizes", param->name.at,
                             param_kind_word((int)param->kind));
        if ((from->n_sizes && from->n_sizes != rank) || (from->n_strides && from->n_strides != alloc_rank))
            return error_set(error, STATUS_INVALID_LAUNCH,
                             "parameter %s: %zu sizes and %zu strides; it has rank %zu and %zu strides", param->name.at,
                             from->n_sizes, from->n_strides, rank, alloc_rank);
        arguments[i] = (struct argument){
            .sizes = from->n_sizes ? from->sizes : NULL,
            .strides = from->n_strides ? from->strides : NULL,
            .scalar = from->scalar.at,
            .scalar_size = from->scalar.size,
        };
    }
    *ret = arguments;
    return 0;
}

/* Every argument has the size that the kernel's parameter has: another index type or rank would be read as garbage. */
static int compare_sizes(const struct defined *defined, const struct argument_bytes *bytes, struct error *error)
{
    const struct device_function *function = &defined->function;
    for (size_t i = 0; function->has_params && i < bytes->n; i++) {
        if (bytes->sizes[i] != function->param_sizes[i])
            return error_set(error, STATUS_INVALID_LAUNCH,
                             "parameter %s: %zu bytes, but the kernel's has %zu (another index type or rank?)",
                             defined->fusion.params[i].name.at, bytes->sizes[i], function->param_sizes[i]);
    }
    return 0;
}

/* The bytes that the tensors span, and where the intermediates lie. */
static int measure(const struct fusion *fusion, struct entry *entry, struct error *error)
{
    for (size_t i = 0; i < entry->n; i++) {
        const struct param *param = &fusion->params[i];
        uint64_t element = dtype_size(param->dtype), bytes;
        int64_t elements, spanned;
        if (!has_shape(param))
            continue;
        if (shape_elements(&entry->shapes[i], false, &elements, error) < 0 ||
            shape_elements(&entry->shapes[i], true, &spanned, error) < 0)
            return error_wrap(error, "parameter %s", param->name.at);
        if (__builtin_mul_overflow((uint64_t)spanned, element, &bytes) || bytes > LIMIT_BUFFER)
            return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: %lld elements of %llu bytes do not fit %llu",
                             param->name.at, (long long)spanned, (unsigned long long)element, LIMIT_BUFFER);
        entry->spans[i] = bytes;
        if (param->kind == PARAM_KIND_INTERMEDIATE) {
            entry->scratch_at[i] = entry->scratch;
            entry->scratch += (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
        } else {
            /* A tensor that repeats elements (stride 0) moves each once. */
            entry->moved += element * (uint64_t)(elements < spanned ? elements : spanned);
        }
    }
    return 0;
}

static int check_alignment(const struct prepared *prepared, size_t i, struct error *error)
{
    const struct param *param = &prepared->defined->fusion.params[i];
    size_t element = dtype_size(param->dtype);
    if (!takes_memory(param) || param->kind == PARAM_KIND_POINTER ||
        alignment_of(prepared->addresses[i]) % element == 0)
        return 0;
    return error_set(error, STATUS_INVALID_BUFFER, "parameter %s: byte %llu of its buffer is not aligned to %zu bytes",
                     param->name.at, (unsigned long long)prepared->offsets[i], element);
}

static int fill_entry(const struct prepared *prepared, const struct launch_request *request, const struct call *call,
                      const struct argument *arguments, struct entry *entry, struct error *error)
{
    const struct defined *defined = prepared->defined;
    const struct fusion *fusion = &defined->fusion;
    struct launch_override override = {
        .grid = request->grid,
        .n_grid = request->n_grid,
        .block = request->block,
        .n_block = request->n_block,
        .has_dynamic_shared_memory = request->has_dynamic_shared_memory,
        .dynamic_shared_memory = (int64_t)request->dynamic_shared_memory,
        .force = request->force,
    };
    for (size_t i = 0; i < entry->n; i++) {
        if (check_alignment(prepared, i, error) < 0)
            return -1;
    }
    memcpy(entry->shapes, call->shapes, entry->n * sizeof *entry->shapes);
    if (launch_params_settle(fusion->launch, &call->scope, &override, &entry->params, error) < 0 ||
        launch_params_check(&entry->params, &defined->function.limits, error) < 0 ||
        argument_bytes_init(fusion, arguments, call, defined->module->kernel.index_type, &entry->arguments, error) < 0)
        return -1;
    return compare_sizes(defined, &entry->arguments, error) < 0 ? -1 : measure(fusion, entry, error);
}

static int make_entry(struct prepared *prepared, const struct launch_request *request, const struct key *key,
                      msgpack_zone *zone, struct error *error)
{
    struct defined *defined = prepared->defined;
    struct argument *arguments = NULL;
    struct call call;
    if (gather(prepared, zone, &arguments, error) < 0 ||
        call_init(&defined->fusion, arguments, defined->fusion.n_params, &call, error) < 0)
        return -1;
    struct entry *entry = entry_create(key->bytes, key->size, defined->fusion.n_params);
    int status = entry ? fill_entry(prepared, request, &call, arguments, entry, error) : no_memory(error);
    call_finish(&call);
    if (status < 0) {
        entry_destroy(entry);
        return -1;
    }
    entry_cache_add(&defined->entries, entry);
    prepared->entry = entry;
    return 0;
}

/* ---- memory ---- */

static int allocate_output(struct prepared *prepared, size_t i, struct error *error)
{
    struct buffer *buffer;
    uint64_t size = prepared->entry->spans[i];
    if (buffers_allocate(&prepared->session->buffers, size ? size : 1, false, &buffer, error) < 0)
        return error_wrap(error, "output %s", prepared->defined->fusion.params[i].name.at);
    prepared->allocated[prepared->n_allocated++] = buffer;
    prepared->buffers[i] = buffer;
    prepared->addresses[i] = buffer->memory.address;
    return 0;
}

/* Room for all intermediates, in memory that the stream keeps: its launches use it one after the other. */
static int grow_scratch(struct prepared *prepared, struct error *error)
{
    struct stream *stream = prepared->stream;
    struct backend *backend = prepared->session->process->backend;
    struct device_memory larger;
    if (prepared->entry->scratch <= stream->scratch.size)
        return 0;
    if (backend->ops->allocate(backend, prepared->entry->scratch, false, &larger, error) < 0)
        return error_wrap(error, "intermediates");
    if (stream->scratch.size && session_release_later(prepared->session, &stream->scratch, stream, error) < 0) {
        backend->ops->release(backend, &larger);
        return -1;
    }
    stream->scratch = larger;
    return 0;
}

static int check_bounds(const struct prepared *prepared, size_t i, struct error *error)
{
    const struct param *param = &prepared->defined->fusion.params[i];
    const struct buffer *buffer = prepared->buffers[i];
    uint64_t span = prepared->entry->spans[i];
    if (!buffer && (span > 0 || param->kind == PARAM_KIND_POINTER))
        return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: its buffer is absent", param->name.at);
    if (!buffer || span <= buffer->memory.size - prepared->offsets[i])
        return 0;
    return error_set(
        error, STATUS_INVALID_BUFFER, "parameter %s: it spans %llu bytes, but buffer %llu has %llu from byte %llu on",
        param->name.at, (unsigned long long)span, (unsigned long long)buffer->number,
        (unsigned long long)(buffer->memory.size - prepared->offsets[i]), (unsigned long long)prepared->offsets[i]);
}

static int provide_memory(struct prepared *prepared, struct error *error)
{
    const struct fusion *fusion = &prepared->defined->fusion;
    if (grow_scratch(prepared, error) < 0)
        return -1;
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        if (param->kind == PARAM_KIND_INTERMEDIATE)
            prepared->addresses[i] = prepared->stream->scratch.address + prepared->entry->scratch_at[i];
        else if (param->kind == PARAM_KIND_OUTPUT && !prepared->buffers[i] && aliased(fusion, i) == fusion->n_params &&
                 allocate_output(prepared, i, error) < 0)
            return -1;
        if (takes_memory(param) && check_bounds(prepared, i, error) < 0)
            return -1;
    }
    return 0;
}

void launcher_abandon(struct prepared *prepared)
{
    struct error error;
    while (prepared->n_allocated > 0) {
        struct buffer *buffer = prepared->allocated[--prepared->n_allocated];
        /* Else it stays until the session ends. */
        if (session_release_later(prepared->session, &buffer->memory, prepared->stream, &error) == 0)
            buffers_forget(&prepared->session->buffers, buffer);
    }
}

int launcher_prepare(struct session *session, const struct launch_request *request, msgpack_zone *zone,
                     struct prepared *ret, struct error *error)
{
    struct prepared prepared = {0};
    struct key key = {0};
    if (find_all(session, request, zone, &prepared, error) < 0)
        return -1;
    size_t n = prepared.defined->fusion.n_params;
    for (size_t i = 0; i < n; i++) {
        if (find_buffer(&prepared, i, error) < 0)
            return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (take_alias(&prepared, i, error) < 0)
            return -1;
    }
    if (make_key(&prepared, request, zone, &key, error) < 0)
        return -1;
    prepared.entry = entry_cache_find(&prepared.defined->entries, key.bytes, key.size);
    prepared.cached = prepared.entry != NULL;
    if (!prepared.entry && make_entry(&prepared, request, &key, zone, error) < 0)
        return -1;
    if (provide_memory(&prepared, error) < 0) {
        launcher_abandon(&prepared);
        return -1;
    }
    *ret = prepared;
    return 0;
}

/* ---- the launch ---- */

static uint8_t fill_byte(enum fill fill)
{
    return fill == FILL_NAN ? 0xff : fill == FILL_MAX ? 0x7f : 0;
}

/* What outputs and intermediates hold before the kernel runs. An output that is written in place keeps its values. */
static int queue_fills(struct prepared *prepared, struct error *error)
{
    const struct fusion *fusion = &prepared->defined->fusion;
    const struct device_ops *ops = prepared->session->process->backend->ops;
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        uint64_t span = prepared->entry->spans[i];
        bool zero = false, pattern = prepared->fill != fill_absent;
        if (param->kind == PARAM_KIND_INTERMEDIATE)
            zero = fusion_intermediate(fusion, param)->zero;
        else if (param->kind != PARAM_KIND_OUTPUT || aliased(fusion, i) < fusion->n_params)
            continue;
        if ((zero || pattern) && span > 0 &&
            ops->fill(prepared->stream->device, prepared->addresses[i], zero ? 0 : fill_byte(prepared->fill), span,
                      error) < 0)
            return -1;
    }
    return 0;
}

/* Put this launch's addresses and scalars into the entry's bytes. */
static void complete_bytes(struct prepared *prepared)
{
    const struct fusion *fusion = &prepared->defined->fusion;
    struct argument_bytes *bytes = &prepared->entry->arguments;
    for (size_t i = 0; i < fusion->n_params; i++) {
        if (fusion->params[i].kind == PARAM_KIND_SCALAR)
            memcpy(bytes->pointers[i], prepared->arguments[i].scalar.at, bytes->sizes[i]);
        else
            memcpy(bytes->pointers[i], &prepared->addresses[i], sizeof prepared->addresses[i]);
    }
}

int launcher_queue(struct prepared *prepared, struct error *error)
{
    const struct entry *entry = prepared->entry;
    const struct launch *launch = prepared->defined->fusion.launch;
    struct process *process = prepared->session->process;
    const int64_t *grid = entry->params.grid;
    if (queue_fills(prepared, error) < 0)
        return -1;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return 0;
    complete_bytes(prepared);
    if (process->backend->ops->launch(prepared->stream->device, &prepared->defined->function, &entry->params,
                                      launch && launch->cooperative, &entry->arguments, error) < 0)
        return -1;
    prepared->stream->launched++;
    prepared->stream->last = prepared->defined;
    process->launches++;
    return 0;
}

/* ---- the reply ---- */

int launcher_describe(const struct prepared *prepared, msgpack_zone *zone, struct launch_reply *ret,
                      struct error *error)
{
    const struct fusion *fusion = &prepared->defined->fusion;
    struct entry *entry = prepared->entry;
    struct launched_output *outputs = msgpack_zone_malloc(zone, (fusion->n_params + 1) * sizeof *outputs);
    if (!outputs)
        return no_memory(error);
    size_t n = 0;
    for (size_t i = 0; i < fusion->n_params; i++) {
        if (fusion->params[i].kind != PARAM_KIND_OUTPUT)
            continue;
        outputs[n++] = (struct launched_output){
            .param = i,
            .has_param = true,
            .buffer = prepared->buffers[i] ? prepared->buffers[i]->number : 0,
            .has_buffer = true,
            .offset = prepared->offsets[i],
            .has_offset = prepared->offsets[i] > 0,
            .bytes = entry->spans[i],
            .has_bytes = true,
            .sizes = entry->shapes[i].sizes,
            .n_sizes = entry->shapes[i].rank,
            .strides = entry->shapes[i].strides,
            .n_strides = entry->shapes[i].alloc_rank,
        };
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

static int answer_later(struct prepared *prepared, uint32_t id, const struct launch_reply *reply, struct error *error)
{
    struct launched *launched = operation_create(prepared->session, id, sizeof *launched, error);
    if (!launched)
        return -1;
    msgpack_sbuffer_init(&launched->reply);
    launched->operation.done = on_launched;
    launched->operation.finish = finish_launched;
    if (message_pack(&launch_reply_type, reply, &launched->reply) < 0) {
        operation_destroy(&launched->operation);
        return no_memory(error);
    }
    if (launcher_queue(prepared, error) < 0) {
        operation_destroy(&launched->operation);
        return -1;
    }
    operation_queue(&launched->operation, prepared->stream);
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
        session_fail(session, envelope->id, &error);
        return;
    }
    int status = launcher_describe(&prepared, zone, &reply, &error);
    if (status == 0)
        status =
            request.wait ? answer_later(&prepared, envelope->id, &reply, &error) : launcher_queue(&prepared, &error);
    if (status < 0) {
        launcher_abandon(&prepared);
        session_fail(session, envelope->id, &error);
    } else if (!request.wait) {
        session_reply(session, envelope->id, METHOD_LAUNCH, &reply, NULL, 0);
    }
}
