#include "daemon/executor/launch_entry.h"

#include <string.h>

#include "daemon/launch/arguments.h"

/* Where intermediates begin in the scratch memory: as cuMemAlloc aligns. */
#define SCRATCH_ALIGNMENT 256u
/* Alignment above this is not told apart: the widest load has 16 bytes. */
#define ALIGNMENT_MAX 16u

static int no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a launch");
}

bool param_takes_memory(const struct param *param)
{
    return param->kind == PARAM_KIND_TENSOR || param->kind == PARAM_KIND_OUTPUT || param->kind == PARAM_KIND_POINTER;
}

bool param_has_shape(const struct param *param)
{
    return param->kind == PARAM_KIND_TENSOR || param->kind == PARAM_KIND_OUTPUT ||
           param->kind == PARAM_KIND_INTERMEDIATE;
}

/* One launch on its way to an entry. */
struct making {
    const struct defined *defined;
    const struct launch_request *request;
    const uint64_t *addresses;
    msgpack_zone *zone;
};

/* ---- the key ---- */

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

static int make_key(const struct making *making, struct key *ret, struct error *error)
{
    const struct fusion *fusion = &making->defined->fusion;
    const struct launch_request *request = making->request;
    struct key key = {.zone = making->zone, .room = 256};
    key.bytes = msgpack_zone_malloc(key.zone, key.room);
    key.failed = !key.bytes;
    put(&key, &making->defined->number, sizeof making->defined->number);
    put_integers(&key, request->grid, request->n_grid);
    put_integers(&key, request->block, request->n_block);
    uint8_t flags = (uint8_t)(request->has_dynamic_shared_memory | request->force << 1);
    put(&key, &flags, 1);
    put(&key, &request->dynamic_shared_memory, sizeof request->dynamic_shared_memory);
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct launch_argument *argument = &request->arguments[i];
        if (argument->n_sizes || argument->n_strides || param_has_shape(&fusion->params[i])) {
            put_integers(&key, argument->sizes, argument->n_sizes);
            put_integers(&key, argument->strides, argument->n_strides);
        }
        if (param_takes_memory(&fusion->params[i])) {
            uint8_t alignment = alignment_of(making->addresses[i]);
            put(&key, &alignment, 1);
        }
        if (making->defined->params[i].read)
            put(&key, argument->scalar.at, argument->scalar.size);
    }
    if (key.failed)
        return no_memory(error);
    *ret = key;
    return 0;
}

/* ---- making one ---- */

/* The arguments as the launch library takes them; addresses are put in later. */
static int gather(const struct making *making, struct argument **ret, struct error *error)
{
    const struct fusion *fusion = &making->defined->fusion;
    struct argument *arguments = msgpack_zone_malloc(making->zone, (fusion->n_params + 1) * sizeof *arguments);
    if (!arguments)
        return no_memory(error);
    for (size_t i = 0; i < fusion->n_params; i++) {
        const struct param *param = &fusion->params[i];
        const struct launch_argument *from = &making->request->arguments[i];
        size_t rank = param->rank, alloc_rank = param->has_alloc_rank ? param->alloc_rank : param->rank;
        bool computed = param->kind == PARAM_KIND_INTERMEDIATE;
        if ((!param_has_shape(param) || computed) && (from->n_sizes || from->n_strides))
            return error_set(error, STATUS_INVALID_LAUNCH, "parameter %s: %s, so it is given no sizes", param->name.at,
                             computed ? "those of an intermediate are computed" : "it is no tensor");
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

/* The bytes that the tensors span, and where the intermediates lie. */
static int measure(const struct fusion *fusion, const struct call *call, struct entry *entry, struct error *error)
{
    for (size_t i = 0; i < call->n; i++) {
        const struct param *param = &fusion->params[i];
        uint64_t element = dtype_size(param->dtype), bytes;
        int64_t elements, spanned;
        if (!param_has_shape(param))
            continue;
        if (shape_elements(&call->shapes[i], false, &elements, error) < 0 ||
            shape_elements(&call->shapes[i], true, &spanned, error) < 0)
            return error_wrap(error, "parameter %s", param->name.at);
        if (__builtin_mul_overflow((uint64_t)spanned, element, &bytes) || bytes > LIMIT_BUFFER)
            return error_set(error, STATUS_INVALID_LAUNCH,
                             "parameter %s: %lld elements of %llu bytes; a buffer has at most %llu bytes",
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
    if (entry->scratch > LIMIT_BUFFER)
        return error_set(error, STATUS_INVALID_LAUNCH, "the intermediates have %llu bytes; the limit is %llu",
                         (unsigned long long)entry->scratch, LIMIT_BUFFER);
    return 0;
}

static int check_alignment(const struct making *making, size_t i, struct error *error)
{
    const struct param *param = &making->defined->fusion.params[i];
    size_t element = dtype_size(param->dtype);
    if (!param_takes_memory(param) || param->kind == PARAM_KIND_POINTER ||
        alignment_of(making->addresses[i]) % element == 0)
        return 0;
    return error_set(error, STATUS_INVALID_BUFFER,
                     "parameter %s: its first byte is aligned to %u bytes; an element of %s needs %zu", param->name.at,
                     alignment_of(making->addresses[i]), dtype_word((int)param->dtype), element);
}

static void keep_shapes(const struct fusion *fusion, const struct call *call, int64_t *ret)
{
    for (size_t i = 0; i < call->n; i++) {
        const struct shape *shape = &call->shapes[i];
        if (fusion->params[i].kind != PARAM_KIND_OUTPUT)
            continue;
        memcpy(ret, shape->sizes, shape->rank * sizeof *ret);
        memcpy(ret + shape->rank, shape->strides, shape->alloc_rank * sizeof *ret);
        ret += shape->rank + shape->alloc_rank;
    }
}

static int fill_entry(const struct making *making, const struct call *call, const struct argument *arguments,
                      struct entry *entry, struct error *error)
{
    const struct defined *defined = making->defined;
    const struct launch_request *request = making->request;
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
    for (size_t i = 0; i < call->n; i++) {
        if (check_alignment(making, i, error) < 0)
            return -1;
    }
    keep_shapes(fusion, call, entry->shapes);
    if (launch_params_settle(fusion->launch, &call->scope, &override, &entry->params, error) < 0 ||
        launch_params_check(&entry->params, &defined->function.limits, error) < 0 ||
        argument_bytes_init(fusion, arguments, call, defined->module->kernel.index_type, &entry->arguments, error) < 0)
        return -1;
    return measure(fusion, call, entry, error);
}

static int make_entry(const struct making *making, const struct key *key, struct entry **ret, struct error *error)
{
    const struct defined *defined = making->defined;
    struct argument *arguments = NULL;
    struct call call;
    if (gather(making, &arguments, error) < 0 ||
        call_init(&defined->fusion, arguments, defined->fusion.n_params, &call, error) < 0)
        return -1;
    struct entry *entry = entry_create(key->bytes, key->size, defined->fusion.n_params, defined->n_shapes);
    int status = entry ? fill_entry(making, &call, arguments, entry, error) : no_memory(error);
    call_finish(&call);
    if (status < 0) {
        entry_destroy(entry);
        return -1;
    }
    *ret = entry;
    return 0;
}

int launch_entry_get(struct entry_cache *cache, const struct defined *defined, const struct launch_request *request,
                     const uint64_t *addresses, msgpack_zone *zone, struct entry **ret, bool *ret_cached,
                     struct error *error)
{
    struct making making = {defined, request, addresses, zone};
    struct key key = {0};
    if (make_key(&making, &key, error) < 0)
        return -1;
    struct entry *entry = entry_cache_find(cache, key.bytes, key.size);
    bool cached = entry != NULL;
    if (!cached) {
        if (make_entry(&making, &key, &entry, error) < 0)
            return -1;
        if (entry_cache_add(cache, entry) < 0) {
            entry_destroy(entry);
            return no_memory(error);
        }
    }
    *ret = entry;
    *ret_cached = cached;
    return 0;
}
