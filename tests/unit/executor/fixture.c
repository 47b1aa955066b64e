#include "tests/unit/executor/fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/channel.h"
#include "daemon/executor/executor.h"

struct process process;
struct fake_device *device;
struct front_state front;
struct scale_calls scale_calls;

static void nothing(bool outside)
{
    (void)outside;
}

void (*executor_outside)(bool outside) = nothing;

static msgpack_zone zone; /* of everything that was decoded */

static void send_buffer(struct channel *channel, msgpack_sbuffer *out, const int *fds, size_t n)
{
    channel_send(channel, out->data, out->size, fds, n);
    msgpack_sbuffer_destroy(out);
}

/* ---- the front ---- */

static struct channel front_channel;
static bool front_closed;
static struct {
    uint32_t ids[256];
    uint8_t keys[256];
    size_t n;
} asked;

void front_knows(uint8_t key, const char *image, const char *entry, enum index_type index_type)
{
    for (size_t i = 0; i < 8; i++) {
        if (front.kernels[i].key && front.kernels[i].key != key)
            continue;
        front.kernels[i] = (struct front_kernel){.key = key, .image = image, .entry = entry, .index_type = index_type};
        return;
    }
    cr_assert_fail("too many kernels");
}

static int image_fd(const char *image)
{
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(write(fd, image, strlen(image)), (ssize_t)strlen(image));
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return fd;
}

static void send_kernel(uint32_t id, const struct front_kernel *from)
{
    msgpack_sbuffer out;
    struct kernel_entry entry = {.name = text_of(from->entry), .lowered = text_of(from->entry)};
    struct kernel kernel = {
        .has_key = true,
        .target = TEXT_OF("sm_90a"),
        .image_kind = from->ptx ? IMAGE_KIND_PTX : IMAGE_KIND_CUBIN,
        .index_type = from->index_type,
        .entries = &entry,
        .n_entries = 1,
        .compiler = TEXT_OF("test"),
        .has_build = true,
        .has_created_unix_s = true,
        .image_size = strlen(from->image),
        .has_image_size = true,
    };
    struct kernel_get_reply reply = {.kernel = &kernel, .outcome = OUTCOME_HIT_MEMORY};
    int fd = -1;
    memset(kernel.key, from->key, sizeof kernel.key);
    if (from->by_fd) {
        fd = image_fd(from->image);
        kernel.has_image_fd = true;
        reply.fds = 1;
        reply.has_fds = true;
    } else {
        kernel.image = (struct bytes){(const uint8_t *)from->image, strlen(from->image)};
    }
    msgpack_sbuffer_init(&out);
    envelope_write_reply(&out, id, METHOD_KERNEL_GET, &reply);
    send_buffer(&front_channel, &out, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
}

static void answer_one(uint32_t id, uint8_t key)
{
    struct error error;
    msgpack_sbuffer out;
    for (size_t i = 0; i < 8; i++) {
        if (front.kernels[i].key != key || !front.kernels[i].image)
            continue;
        send_kernel(id, &front.kernels[i]);
        if (front.duplicated)
            send_kernel(id, &front.kernels[i]);
        return;
    }
    error_set(&error, STATUS_NOT_FOUND, "there is no kernel %02x", key);
    struct failure failure = failure_of(&error);
    msgpack_sbuffer_init(&out);
    envelope_write_failure(&out, id, &failure);
    send_buffer(&front_channel, &out, NULL, 0);
}

void front_answer(void)
{
    size_t n = asked.n;
    asked.n = 0;
    for (size_t i = 0; i < n; i++)
        answer_one(asked.ids[i], asked.keys[i]);
}

void front_send_bytes(const void *bytes, size_t size)
{
    channel_send(&front_channel, bytes, size, NULL, 0);
}

static void take_notification(const struct envelope *envelope)
{
    struct error error;
    char name[64];
    const uint8_t *at = envelope->body.at;
    size_t size = envelope->body.size;
    text_show(envelope->name, name, sizeof name);
    if (strcmp(name, "executor_ready") == 0) {
        struct executor_ready ready;
        cr_assert_eq(message_parse(&executor_ready_type, at, size, &zone, &ready, &error), 0, "%s", error.text);
        cr_assert_eq(ready.protocol, EXECUTOR_PROTOCOL);
        cr_assert_eq(ready.n_devices, 1);
        front.n_ready++;
    } else if (strcmp(name, "executor_status") == 0) {
        cr_assert_eq(message_parse(&executor_status_type, at, size, &zone, &front.status, &error), 0);
        front.n_status++;
    } else {
        cr_assert_str_eq(name, "executor_fault");
        cr_assert_eq(message_parse(&executor_fault_type, at, size, &zone, &front.fault, &error), 0);
        text_show(front.fault.text, front.fault_text, sizeof front.fault_text);
        front.n_faults++;
    }
}

static void take_front_frame(const uint8_t *frame, size_t size)
{
    struct envelope envelope;
    struct kernel_get_request get;
    struct error error;
    cr_assert_eq(envelope_read(frame, size, &envelope, &error), 0, "%s", error.text);
    if (envelope.kind == ENVELOPE_NOTIFICATION) {
        take_notification(&envelope);
        return;
    }
    cr_assert_eq(envelope.kind, ENVELOPE_REQUEST);
    cr_assert_eq(envelope.method, METHOD_KERNEL_GET);
    cr_assert_eq(message_parse(&kernel_get_request_type, envelope.body.at, envelope.body.size, &zone, &get, &error), 0);
    cr_assert(get.with_image);
    cr_assert_lt(asked.n, 256);
    asked.ids[asked.n] = envelope.id;
    asked.keys[asked.n++] = get.key[0];
    front.n_asked++;
    if (asked.n > front.deepest)
        front.deepest = asked.n;
    if (!front.held)
        front_answer();
}

static void on_front_frame(struct channel *channel, const uint8_t *frame, size_t size)
{
    (void)channel;
    executor_outside(true);
    take_front_frame(frame, size);
    executor_outside(false);
}

static void on_front_end(struct channel *channel, const struct error *reason)
{
    (void)channel;
    cr_assert(reason->code == STATUS_OK || reason->code == STATUS_OUT_OF_MEMORY, "%s", reason->text);
    front.ended = true;
}

static void on_front_closed(struct channel *channel)
{
    (void)channel;
}

static const struct channel_events front_events = {on_front_frame, NULL, on_front_end};

void front_leave(void)
{
    if (!front_closed)
        channel_close(&front_channel, on_front_closed);
    front_closed = true;
}

/* ---- clients ---- */

struct answer {
    struct list link;
    uint32_t id;
    size_t size;
    uint8_t frame[];
};

struct client {
    struct list link;
    struct channel channel;
    struct list answers;
    size_t n_answers;
    uint32_t last_id;
    char error[ERROR_TEXT];
    int fds[16];
    size_t n_fds;
    bool ended, left;
};

static struct list clients;

static void on_answer(struct channel *channel, const uint8_t *frame, size_t size)
{
    executor_outside(true);
    struct client *client = channel->owner;
    struct envelope envelope;
    struct error error;
    cr_assert_eq(envelope_read(frame, size, &envelope, &error), 0, "%s", error.text);
    cr_assert_eq(envelope.kind, ENVELOPE_RESPONSE);
    struct answer *answer = malloc(sizeof *answer + size);
    answer->id = envelope.id;
    answer->size = size;
    memcpy(answer->frame, frame, size);
    list_push(&client->answers, &answer->link);
    client->n_answers++;
    while (client->n_fds < 16 && channel_take_fds(channel, 1, &client->fds[client->n_fds]))
        client->n_fds++;
    executor_outside(false);
}

static void on_client_end(struct channel *channel, const struct error *reason)
{
    struct client *client = channel->owner;
    (void)reason;
    client->ended = true;
}

static const struct channel_events client_events = {on_answer, NULL, on_client_end};

static void on_client_closed(struct channel *channel)
{
    (void)channel;
}

struct client *client_attach(void)
{
    static uint64_t number = 100;
    struct client *client = calloc(1, sizeof *client);
    struct executor_attach attach = {.client = number++, .has_client = true, .pid = 4711, .has_pid = true};
    struct error error;
    msgpack_sbuffer out;
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    list_init(&client->answers);
    list_push(&clients, &client->link);
    cr_assert_eq(channel_start(&client->channel, loop, pair[0], LIMIT_FRAME, 64 << 20, &client_events, client, &error),
                 0);
    msgpack_sbuffer_init(&out);
    envelope_write_message(&out, &executor_attach_type, &attach);
    send_buffer(&front_channel, &out, &pair[1], 1);
    close(pair[1]);
    return client;
}

void client_leave(struct client *client)
{
    if (!client->left)
        channel_close(&client->channel, on_client_closed);
    client->left = true;
    while (client->n_fds > 0)
        close(client->fds[--client->n_fds]);
}

bool client_is_closed(const struct client *client)
{
    return client->ended;
}

size_t client_answers(const struct client *client)
{
    return client->n_answers;
}

void client_stop_reading(struct client *client)
{
    channel_pause(&client->channel);
}

void client_send_bytes(struct client *client, const void *bytes, size_t size)
{
    channel_send(&client->channel, bytes, size, NULL, 0);
}

uint32_t client_ask_with_fds(struct client *client, enum method method, const void *params, const int *fds, size_t n)
{
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    cr_assert_eq(envelope_write_request(&out, ++client->last_id, method, params), 0);
    send_buffer(&client->channel, &out, fds, n);
    return client->last_id;
}

uint32_t client_ask(struct client *client, enum method method, const void *params)
{
    return client_ask_with_fds(client, method, params, NULL, 0);
}

static struct answer *find_answer(const struct client *client, uint32_t id)
{
    for (struct list *link = client->answers.next; link != &client->answers; link = link->next) {
        struct answer *answer = container_of(link, struct answer, link);
        if (answer->id == id)
            return answer;
    }
    return NULL;
}

bool client_is_answered(const struct client *client, uint32_t id)
{
    return find_answer(client, id);
}

unsigned client_answer(struct client *client, uint32_t id, enum method method, void *ret)
{
    struct envelope envelope;
    struct error error;
    struct failure failure;
    unsigned code = 0;
    pump_until(client_is_answered(client, id) || client->ended);
    struct answer *answer = find_answer(client, id);
    cr_assert_not_null(answer, "the executor has closed the channel instead of answering %s", methods[method].name);
    list_remove(&answer->link);
    client->n_answers--;
    /* What is decoded points into it. */
    uint8_t *frame = msgpack_zone_malloc(&zone, answer->size);
    memcpy(frame, answer->frame, answer->size);
    cr_assert_eq(envelope_read(frame, answer->size, &envelope, &error), 0);
    free(answer);
    if (envelope.error.at) {
        cr_assert_eq(message_parse(&failure_type, envelope.error.at, envelope.error.size, &zone, &failure, &error), 0);
        snprintf(client->error, sizeof client->error, "%s", failure.text.at);
        code = (unsigned)failure.code;
    } else if (ret) {
        cr_assert_eq(message_parse(methods[method].reply, envelope.body.at, envelope.body.size, &zone, ret, &error), 0,
                     "%s", error.text);
    }
    return code;
}

unsigned client_call(struct client *client, enum method method, const void *params, void *ret)
{
    return client_answer(client, client_ask(client, method, params), method, ret);
}

const char *client_error(const struct client *client)
{
    return client->error;
}

int client_take_fd(struct client *client)
{
    cr_assert_gt(client->n_fds, 0);
    int fd = client->fds[0];
    memmove(client->fds, client->fds + 1, --client->n_fds * sizeof fd);
    return fd;
}

/* ---- in short ---- */

#define must(client, method, params, ret)                                                                              \
    cr_assert_eq(client_call(client, method, params, ret), 0, "%s: %s", methods[method].name, (client)->error)

uint64_t client_allocate(struct client *client, uint64_t size)
{
    struct buffer_allocate_request request = {.size = size, .has_size = true};
    struct buffer_allocate_reply reply;
    must(client, METHOD_BUFFER_ALLOCATE, &request, &reply);
    cr_assert_eq(reply.size, size);
    return reply.buffer;
}

uint64_t client_upload(struct client *client, const float *values, size_t n)
{
    uint64_t buffer = client_allocate(client, n * sizeof *values);
    struct buffer_write_request request = {
        .buffer = buffer, .has_buffer = true, .bytes = {(const uint8_t *)values, n * sizeof *values}};
    must(client, METHOD_BUFFER_WRITE, &request, NULL);
    return buffer;
}

uint32_t client_ask_read(struct client *client, uint64_t buffer, uint64_t stream, uint64_t size)
{
    struct buffer_read_request request = {.buffer = buffer,
                                          .has_buffer = true,
                                          .stream = stream,
                                          .has_stream = stream > 0,
                                          .size = size,
                                          .has_size = true};
    return client_ask(client, METHOD_BUFFER_READ, &request);
}

void client_read(struct client *client, uint64_t buffer, void *ret, uint64_t size)
{
    struct buffer_read_reply reply;
    unsigned code = client_answer(client, client_ask_read(client, buffer, 0, size), METHOD_BUFFER_READ, &reply);
    cr_assert_eq(code, 0, "%s", client->error);
    cr_assert_eq(reply.bytes.size, size);
    memcpy(ret, reply.bytes.at, size);
}

uint64_t client_stream(struct client *client)
{
    struct stream_create_request request = {0};
    struct stream_create_reply reply;
    must(client, METHOD_STREAM_CREATE, &request, &reply);
    return reply.stream;
}

unsigned client_synchronize(struct client *client, uint64_t stream)
{
    struct stream_synchronize_request request = {.stream = stream, .has_stream = true};
    return client_call(client, METHOD_STREAM_SYNCHRONIZE, &request, NULL);
}

/* ---- scale ---- */

static const char *scale(const struct launch_params *params, void *const *arguments)
{
    struct {
        const float *data;
        int32_t size, stride;
    } x;
    struct {
        float *data;
        int32_t size, stride;
    } out;
    float by;
    (void)params;
    scale_calls.n++;
    memcpy(&x, arguments[0], sizeof x);
    memcpy(&out, arguments[1], sizeof out);
    memcpy(&by, arguments[2], sizeof by);
    for (int i = 0; i < x.size; i++)
        out.data[i * out.stride] = x.data[i * x.stride] * by;
    return scale_calls.trap ? "the test makes it trap" : NULL;
}

struct fusion_define_request *scale_definition(struct fusion_define_request *ret)
{
    static struct param params[] = {
        {.name = {"x", 1}, .kind = PARAM_KIND_TENSOR, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true},
        {.name = {"out", 3}, .kind = PARAM_KIND_OUTPUT, .dtype = DTYPE_FLOAT32, .rank = 1, .has_rank = true},
        {.name = {"by", 2}, .kind = PARAM_KIND_SCALAR, .dtype = DTYPE_FLOAT32},
    };
    static struct text size = {"x.size[0]", 9}, grid = {"ceilDiv(x.size[0], 256)", 23}, block = {"256", 3};
    static struct output output = {.name = {"out", 3}, .sizes = &size, .n_sizes = 1};
    static struct launch launch = {.grid = &grid, .n_grid = 1, .block = &block, .n_block = 1};
    *ret = (struct fusion_define_request){
        .has_key = true, .params = params, .n_params = 3, .outputs = &output, .n_outputs = 1, .launch = &launch};
    memset(ret->key, 1, sizeof ret->key);
    return ret;
}

uint64_t client_define_scale(struct client *client)
{
    struct fusion_define_request request;
    struct fusion_define_reply reply;
    must(client, METHOD_FUSION_DEFINE, scale_definition(&request), &reply);
    return reply.fusion;
}

void scale_launch_init(struct scale_launch *ret, uint64_t fusion, uint64_t x, uint64_t out, int64_t n, float by)
{
    *ret = (struct scale_launch){.size = n, .by = by};
    ret->arguments[0] = (struct launch_argument){.buffer = x, .has_buffer = true, .sizes = &ret->size, .n_sizes = 1};
    ret->arguments[1] = (struct launch_argument){.buffer = out, .has_buffer = out > 0};
    ret->arguments[2] = (struct launch_argument){.scalar = {(const uint8_t *)&ret->by, sizeof ret->by}};
    ret->request =
        (struct launch_request){.fusion = fusion, .has_fusion = true, .arguments = ret->arguments, .n_arguments = 3};
}

/* ---- life ---- */

void executor_start(void)
{
    struct error error;
    int pair[2];
    pump_start();
    front = (struct front_state){0};
    front_closed = false;
    asked.n = 0;
    scale_calls = (struct scale_calls){0};
    msgpack_zone_init(&zone, 65536);
    list_init(&clients);
    device = fake_device_create(loop);
    fake_device_add(device, "scale", scale);
    front_knows(1, "scale 16 16 4\n", "scale", INDEX_TYPE_INT32);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(
        channel_start(&front_channel, loop, pair[0], LIMIT_FRAME_WORKER, 64 << 20, &front_events, NULL, &error), 0);
    struct process_options options = {.fd = pair[1], .sandbox = SANDBOX_FULL};
    cr_assert_eq(process_init(&process, loop, &device->backend, &options, &error), 0, "%s", error.text);
    pump_until(front.n_ready == 1);
}

static void free_clients(void)
{
    struct list *link;
    while ((link = list_pop(&clients))) {
        struct client *client = container_of(link, struct client, link);
        while ((link = list_pop(&client->answers)))
            free(container_of(link, struct answer, link));
        free(client);
    }
}

void executor_finish(void)
{
    for (struct list *link = clients.next; link != &clients; link = link->next)
        client_leave(container_of(link, struct client, link));
    fake_device_hold(device, false);
    front_leave();
    pump_until(process.state == PROCESS_CLOSED);
    if (device->lost.code != STATUS_OK)
        fake_device_close(device);
    pump_settle();
    cr_assert_null(device->misuse, "%s", device->misuse);
    cr_assert_eq(device->n_modules, 0, "%zu modules are left", device->n_modules);
    cr_assert_eq(device->n_memory, 0, "%zu allocations are left", device->n_memory);
    cr_assert_eq(device->n_streams, 0, "%zu streams are left", device->n_streams);
    cr_assert_eq(device->n_stamps, 0, "%zu stamps are left", device->n_stamps);
    cr_assert_eq(device->n_queued, 0);
    fake_device_destroy(device);
    free_clients();
    msgpack_zone_destroy(&zone);
    pump_finish();
}
