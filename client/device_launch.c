/* Launching in the daemon: defining a fusion on a device, arguments, launches and what they gave. */
#include <stdlib.h>
#include <string.h>

#include "client/device.h"
#include "client/error.h"
#include "client/fusion.h"
#include "kernels_db/kernel_key.h"

_Static_assert(FUSIOND_FILL_ZERO == (int)FILL_ZERO, "enums.def");
_Static_assert(FUSIOND_FILL_NAN == (int)FILL_NAN, "enums.def");
_Static_assert(FUSIOND_FILL_MAX == (int)FILL_MAX, "enums.def");

/* What is needed of a parameter after the fusion is gone. */
struct defined_param {
    enum param_kind kind;
    unsigned rank, alloc_rank;
    bool is_alias;
    char name[64]; /* for errors; cut */
};

/* Owner: the caller of fusiond_define. */
struct fusiond_defined {
    LIST_ENTRY(fusiond_defined) link;
    struct fusiond_device *device; /* NULL: closed */
    uint64_t number;
    struct fusiond_defined_info info;
    size_t n;
    struct defined_param *params;
    struct launch_argument *arguments; /* of the request being made */
};

/* Owner: the caller of launch, collect or run. */
struct fusiond_launched {
    msgpack_zone *zone; /* of message */
    struct launch_reply message;
    struct fusiond_output *outputs; /* as many as message has */
    uint64_t *times;
    size_t n_times;
    uint64_t bytes;
};

/* The buffers that a launch was given, by parameter: the reply names them by number. */
struct given {
    size_t n;
    struct fusiond_buffer *buffers[];
};

/* ---- defining ---- */

void defined_abandon(struct fusiond_device *device)
{
    struct fusiond_defined *defined;
    LIST_FOREACH(defined, &device->defined, link)
    defined->device = NULL;
}

void fusiond_defined_destroy(struct fusiond_defined *defined)
{
    if (!defined)
        return;
    if (defined->device)
        LIST_REMOVE(defined, link);
    free(defined->params);
    free(defined->arguments);
    free(defined);
}

static bool is_alias(const struct fusion *message, struct text name)
{
    for (size_t i = 0; i < message->n_outputs; i++) {
        if (text_is(message->outputs[i].name, name.at))
            return message->outputs[i].alias.at != NULL;
    }
    return false;
}

static struct fusiond_defined *new_defined(const struct fusion *message)
{
    struct fusiond_defined *defined = calloc(1, sizeof *defined);
    if (!defined)
        return NULL;
    defined->n = message->n_params;
    defined->params = calloc(defined->n + 1, sizeof *defined->params);
    defined->arguments = calloc(defined->n + 1, sizeof *defined->arguments);
    if (!defined->params || !defined->arguments) {
        fusiond_defined_destroy(defined);
        return NULL;
    }
    for (size_t i = 0; i < defined->n; i++) {
        const struct param *param = &message->params[i];
        struct defined_param *ours = &defined->params[i];
        ours->kind = param->kind;
        ours->rank = (unsigned)param->rank;
        ours->alloc_rank = (unsigned)(param->has_alloc_rank ? param->alloc_rank : param->rank);
        ours->is_alias = param->kind == PARAM_KIND_OUTPUT && is_alias(message, param->name);
        text_show(param->name, ours->name, sizeof ours->name);
    }
    return defined;
}

/* What matters when the kernel is PTX. Values out of range were the compile's to refuse; here they are left out. */
static void add_load_options(const struct compile_options *compile, struct fusion_define_request *ret)
{
    if (!compile)
        return;
    ret->has_max_registers = compile->has_max_registers && compile->max_registers - 1 < 255;
    ret->max_registers = ret->has_max_registers ? compile->max_registers : 0;
    ret->has_block_size = compile->has_block_size && compile->block_size > 0 && compile->block_size <= 1024;
    ret->block_size = ret->has_block_size ? (uint64_t)compile->block_size : 0;
    ret->has_opt_level = compile->has_opt_level && compile->opt_level <= 4;
    ret->opt_level = ret->has_opt_level ? compile->opt_level : 0;
}

static int define(struct fusiond_device *device, const char *key, const char *entry, const struct fusion *message,
                  struct fusiond_defined *defined, struct error *error)
{
    struct fusion_define_reply reply;
    struct fusion_define_request request = {
        .has_key = true,
        .entry = text_of(entry),
        .entries = message->entries,
        .n_entries = message->n_entries,
        .params = message->params,
        .n_params = message->n_params,
        .outputs = message->outputs,
        .n_outputs = message->n_outputs,
        .intermediates = message->intermediates,
        .n_intermediates = message->n_intermediates,
        .launch = message->launch,
        .label = message->label,
    };
    add_load_options(message->compile, &request);
    if (key_from_hex(key, request.key) < 0)
        return error_set(error, STATUS_INVALID_FIELD, "key: \"%.80s\" is not %d hex digits", key, 2 * DIGEST_SIZE);
    if (device_ask(device, METHOD_FUSION_DEFINE, &request, NULL, 0, NULL, &reply, error) < 0)
        return -1;
    const char *index_type = index_type_word((int)reply.index_type);
    defined->number = reply.fusion;
    defined->info = (struct fusiond_defined_info){
        .index_type = index_type ? index_type : "",
        .registers = (unsigned)reply.registers,
        .static_shared_memory = (unsigned)reply.static_shared_memory,
        .max_threads = (unsigned)reply.max_threads,
        .load_ns = reply.load_ns,
    };
    return 0;
}

int fusiond_define(struct fusiond_device *device, const char *key, const char *entry, struct fusiond_fusion *fusion,
                   struct fusiond_defined **ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct fusiond_defined *defined = NULL;
    int result = -1;
    const struct fusion *message = fusion_message(fusion, &error);
    if (message && !(defined = new_defined(message)))
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a fusion");
    else if (message)
        result = define(device, key, entry, message, defined, &error);
    if (result < 0) {
        fusiond_defined_destroy(defined);
        return error_export(-1, &error, ret_error);
    }
    defined->device = device;
    LIST_INSERT_HEAD(&device->defined, defined, link);
    *ret = defined;
    return 0;
}

struct fusiond_defined_info fusiond_defined_info(const struct fusiond_defined *defined)
{
    return defined->info;
}

/* ---- the request ---- */

static int fill_argument(const struct fusiond_device *device, const struct defined_param *param,
                         const struct fusiond_device_argument *given, struct launch_argument *ret, struct error *error)
{
    *ret = (struct launch_argument){0};
    if (param->kind == PARAM_KIND_SCALAR) {
        ret->scalar = (struct bytes){given->scalar, given->scalar_size};
        return 0;
    }
    if (param->kind == PARAM_KIND_INTERMEDIATE)
        return 0;
    if (given->buffer) {
        if (given->buffer->device != device)
            return error_set(error, STATUS_INVALID_BUFFER,
                             "parameter %s: its buffer is another device's, or its device was closed", param->name);
        ret->buffer = given->buffer->number;
        ret->has_buffer = true;
        ret->offset = given->offset;
        ret->has_offset = given->offset != 0;
    }
    if (param->kind == PARAM_KIND_POINTER)
        return 0;
    /* The message is only read. */
    ret->sizes = (int64_t *)(uintptr_t)given->sizes;
    ret->n_sizes = given->sizes ? param->rank : 0;
    ret->strides = (int64_t *)(uintptr_t)given->strides;
    ret->n_strides = given->strides ? param->alloc_rank : 0;
    return 0;
}

/* A launch request, and the numbers that it points to. */
struct request {
    struct launch_request message;
    int64_t grid[3], block[3];
};

static int fill_request(const struct fusiond_defined *defined, const struct fusiond_device_argument *arguments,
                        size_t n, const struct fusiond_launch_options *options, struct request *ret,
                        struct error *error)
{
    struct launch_request *message = &ret->message;
    if (n != defined->n)
        return error_set(error, STATUS_INVALID_LAUNCH, "%zu arguments for %zu parameters", n, defined->n);
    for (size_t i = 0; i < n; i++) {
        if (fill_argument(defined->device, &defined->params[i], &arguments[i], &defined->arguments[i], error) < 0)
            return -1;
    }
    *message = (struct launch_request){
        .fusion = defined->number, .has_fusion = true, .arguments = defined->arguments, .n_arguments = n};
    if (!options)
        return 0;
    if (options->stream && options->stream->device != defined->device)
        return error_set(error, STATUS_UNKNOWN_HANDLE, "stream: it is another device's, or its device was closed");
    if (options->fill && !fill_word((int)options->fill))
        return error_set(error, STATUS_INVALID_LAUNCH, "fill: %d: there is no such one", (int)options->fill);
    if (options->stream) {
        message->stream = options->stream->number;
        message->has_stream = true;
    }
    message->force = options->force;
    message->wait = options->wait;
    message->fill = (enum fill)options->fill;
    if (!options->launch)
        return 0;
    for (int i = 0; i < 3; i++) {
        ret->grid[i] = options->launch->grid[i];
        ret->block[i] = options->launch->block[i];
    }
    message->grid = ret->grid;
    message->block = ret->block;
    message->n_grid = message->n_block = 3;
    message->dynamic_shared_memory = options->launch->dynamic_shared_memory;
    message->has_dynamic_shared_memory = true;
    return 0;
}

/* ---- what it gave ---- */

void fusiond_launched_destroy(struct fusiond_launched *launched)
{
    if (!launched)
        return;
    for (size_t i = 0; launched->outputs && i < launched->message.n_outputs; i++) {
        if (launched->outputs[i].allocated)
            fusiond_buffer_free(launched->outputs[i].buffer);
    }
    if (launched->zone)
        msgpack_zone_free(launched->zone);
    free(launched->outputs);
    free(launched->times);
    free(launched);
}

static struct fusiond_buffer *find_given(const struct given *given, uint64_t number)
{
    for (size_t i = 0; i < given->n; i++) {
        if (given->buffers[i] && given->buffers[i]->number == number)
            return given->buffers[i];
    }
    return NULL;
}

/* Buffers that were not given are the launch's own. */
static int fill_outputs(struct fusiond_device *device, const struct given *given, struct fusiond_launched *launched,
                        struct error *error)
{
    const struct launch_reply *message = &launched->message;
    launched->outputs = calloc(message->n_outputs + 1, sizeof *launched->outputs);
    if (!launched->outputs)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu outputs", message->n_outputs);
    for (size_t i = 0; i < message->n_outputs; i++) {
        const struct launched_output *from = &message->outputs[i];
        struct fusiond_output *to = &launched->outputs[i];
        if (from->param >= given->n)
            return error_set(error, STATUS_MALFORMED, "the executor's output %zu is parameter %llu of %zu", i,
                             (unsigned long long)from->param, given->n);
        *to = (struct fusiond_output){
            .param = from->param,
            .buffer = find_given(given, from->buffer),
            .offset = from->offset,
            .bytes = from->bytes,
            .rank = (unsigned)from->n_sizes,
            .alloc_rank = (unsigned)from->n_strides,
            .sizes = from->sizes,
            .strides = from->strides,
        };
        if (to->buffer)
            continue;
        to->buffer = buffer_create(device, from->buffer, from->bytes);
        if (!to->buffer)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a buffer");
        to->allocated = true;
    }
    return 0;
}

static int take_times(const struct run_reply *reply, struct fusiond_launched *launched, struct error *error)
{
    launched->times = calloc(reply->n_times_ns + 1, sizeof *launched->times);
    if (!launched->times)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu times", reply->n_times_ns);
    for (size_t i = 0; i < reply->n_times_ns; i++)
        launched->times[i] = reply->times_ns[i] > 0 ? (uint64_t)reply->times_ns[i] : 0;
    launched->n_times = reply->n_times_ns;
    launched->bytes = reply->bytes;
    return 0;
}

/* From the reply to `launch` or `run`. */
static int launched_of(struct fusiond_device *device, enum method method, struct bytes body, const struct given *given,
                       struct fusiond_launched **ret, struct error *error)
{
    struct run_reply run;
    struct fusiond_launched *launched = calloc(1, sizeof *launched);
    int result = -1;
    if (!launched || !(launched->zone = msgpack_zone_new(1024))) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the results of a launch");
    } else if (method == METHOD_LAUNCH) {
        result = device_parse(device, method, body, launched->zone, &launched->message, error);
    } else {
        result = device_parse(device, method, body, launched->zone, &run, error);
        if (result == 0) {
            launched->message = *run.launch;
            result = take_times(&run, launched, error);
        }
    }
    if (result == 0)
        result = fill_outputs(device, given, launched, error);
    if (result < 0 || !ret)
        fusiond_launched_destroy(launched);
    else
        *ret = launched;
    return result;
}

/* ---- launching ---- */

/* Of the arguments of a request that was filled in. From malloc. */
static struct given *given_of(const struct fusiond_defined *defined, const struct fusiond_device_argument *arguments,
                              struct error *error)
{
    struct given *given = malloc(sizeof *given + defined->n * sizeof given->buffers[0]);
    if (!given) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu arguments", defined->n);
        return NULL;
    }
    given->n = defined->n;
    for (size_t i = 0; i < defined->n; i++)
        given->buffers[i] = defined->arguments[i].has_buffer ? arguments[i].buffer : NULL;
    return given;
}

static int call(struct fusiond_defined *defined, enum method method, const void *request,
                const struct fusiond_device_argument *arguments, struct fusiond_launched **ret, struct error *error)
{
    struct reply reply;
    struct given *given = given_of(defined, arguments, error);
    int result = -1;
    if (given && device_call(defined->device, method, request, NULL, 0, &reply, error) == 0)
        result = channel_expect_fds(&defined->device->channel, 0, error);
    if (result == 0)
        result = launched_of(defined->device, method, reply.body, given, ret, error);
    free(given);
    return result;
}

int fusiond_device_launch(struct fusiond_defined *defined, const struct fusiond_device_argument *arguments, size_t n,
                          const struct fusiond_launch_options *options, struct fusiond_launched **ret,
                          struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct request request;
    int result = device_check(defined->device, &error);
    if (result == 0)
        result = fill_request(defined, arguments, n, options, &request, &error);
    if (result == 0)
        result = call(defined, METHOD_LAUNCH, &request.message, arguments, ret, &error);
    return error_export(result, &error, ret_error);
}

int fusiond_device_run(struct fusiond_defined *defined, const struct fusiond_device_argument *arguments, size_t n,
                       const struct fusiond_launch_options *options, unsigned warmups, unsigned repeats,
                       struct fusiond_launched **ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct request request;
    struct run_request run = {.launch = &request.message,
                              .warmups = warmups,
                              .has_warmups = warmups != 0,
                              .repeats = repeats,
                              .has_repeats = true};
    int result = device_check(defined->device, &error);
    if (result == 0)
        result = fill_request(defined, arguments, n, options, &request, &error);
    if (result == 0)
        result = call(defined, METHOD_RUN, &run, arguments, ret, &error);
    return error_export(result, &error, ret_error);
}

/* Somebody must own what is allocated. */
static int check_silent(const struct fusiond_defined *defined, struct error *error)
{
    for (size_t i = 0; i < defined->n; i++) {
        const struct defined_param *param = &defined->params[i];
        if (param->kind == PARAM_KIND_OUTPUT && !param->is_alias && !defined->arguments[i].has_buffer)
            return error_set(error, STATUS_INVALID_LAUNCH,
                             "parameter %s: an output without a buffer; whoever takes no ticket must give one",
                             param->name);
    }
    return 0;
}

static int submit(struct fusiond_defined *defined, const struct fusiond_device_argument *arguments,
                  const struct launch_request *request, struct fusiond_stream *stream, uint64_t *ret_ticket,
                  struct error *error)
{
    struct fusiond_device *device = defined->device;
    uint32_t id;
    if (!ret_ticket) {
        if (check_silent(defined, error) < 0)
            return -1;
        return device_post(device, METHOD_LAUNCH, request, PENDING_SILENT, stream ? stream : &device->first, NULL, NULL,
                           error);
    }
    struct given *given = given_of(defined, arguments, error);
    if (!given)
        return -1;
    if (device_post(device, METHOD_LAUNCH, request, PENDING_TICKET, NULL, given, &id, error) < 0) {
        free(given);
        return -1;
    }
    *ret_ticket = id;
    return 0;
}

int fusiond_device_submit(struct fusiond_defined *defined, const struct fusiond_device_argument *arguments, size_t n,
                          const struct fusiond_launch_options *options, uint64_t *ret_ticket,
                          struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct request request;
    int result = device_check(defined->device, &error);
    if (result == 0)
        result = fill_request(defined, arguments, n, options, &request, &error);
    if (result == 0)
        result = submit(defined, arguments, &request.message, options ? options->stream : NULL, ret_ticket, &error);
    return error_export(result, &error, ret_error);
}

int fusiond_device_collect(struct fusiond_device *device, uint64_t ticket, struct fusiond_launched **ret,
                           struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct frame_copy frame = {0};
    struct bytes body;
    void *given = NULL;
    int result = device_collect(device, ticket, &frame, &body, &given, &error);
    if (result == 0)
        result = launched_of(device, METHOD_LAUNCH, body, given, ret, &error);
    free(frame.bytes);
    free(given);
    return error_export(result, &error, ret_error);
}

/* ---- reading results ---- */

size_t fusiond_launched_outputs(const struct fusiond_launched *launched)
{
    return launched->message.n_outputs;
}

struct fusiond_output fusiond_launched_output(const struct fusiond_launched *launched, size_t index)
{
    return launched->outputs[index];
}

struct fusiond_buffer *fusiond_launched_take(struct fusiond_launched *launched, size_t index)
{
    struct fusiond_output *output = &launched->outputs[index];
    if (!output->allocated)
        return NULL;
    output->allocated = false;
    return output->buffer;
}

struct fusiond_launch fusiond_launched_params(const struct fusiond_launched *launched)
{
    const struct launch_reply *message = &launched->message;
    struct fusiond_launch params = {.dynamic_shared_memory = (unsigned)message->dynamic_shared_memory};
    for (size_t i = 0; i < 3; i++) {
        params.grid[i] = i < message->n_grid ? (unsigned)message->grid[i] : 1;
        params.block[i] = i < message->n_block ? (unsigned)message->block[i] : 1;
    }
    return params;
}

bool fusiond_launched_cached(const struct fusiond_launched *launched)
{
    return launched->message.cached;
}

size_t fusiond_launched_times(const struct fusiond_launched *launched, const uint64_t **ret_ns)
{
    *ret_ns = launched->times;
    return launched->n_times;
}

uint64_t fusiond_launched_bytes(const struct fusiond_launched *launched)
{
    return launched->bytes;
}
