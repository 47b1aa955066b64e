#include "client/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/error.h"
#include "proto/socket_path.h"

/* The only version of the protocol so far. */
#define PROTOCOL 1
#define DEFAULT_TIMEOUT_MS 5000u
#define MAX_SPIN_US 10000u
/* Ids above this are those of cancel requests, whose answers nobody waits for. */
#define FIRST_CANCEL_ID 0x80000000u

/* ---- the last failure ---- */

static void forget_failure(struct fusiond_connection *connection)
{
    if (connection->failure_zone)
        msgpack_zone_free(connection->failure_zone);
    free(connection->failure_frame.bytes);
    connection->failure_zone = NULL;
    connection->failure_frame = (struct frame_copy){0};
    connection->failure = (struct failure){0};
}

/* Decode and keep the error of a response, and say it in *error. */
static int remember_failure(struct fusiond_connection *connection, struct bytes body, struct error *error)
{
    struct frame_copy copy = {malloc(body.size), body.size};
    msgpack_zone *zone = msgpack_zone_new(1024);
    struct failure failure;
    if (!copy.bytes || !zone) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a failure of %zu bytes", body.size);
        goto fail;
    }
    memcpy(copy.bytes, body.at, body.size);
    if (message_parse(&failure_type, copy.bytes, copy.size, zone, &failure, error) < 0) {
        error_wrap(error, "the daemon's answer");
        goto fail;
    }
    connection->failure_frame = copy;
    connection->failure_zone = zone;
    connection->failure = failure;
    return error_set(error, (enum status)failure.code, "%s", failure.text.at);
fail:
    if (zone)
        msgpack_zone_free(zone);
    free(copy.bytes);
    return -1;
}

/* ---- one exchange ---- */

static void disconnect(struct fusiond_connection *connection)
{
    pthread_mutex_lock(&connection->lock);
    channel_close(&connection->channel);
    pthread_mutex_unlock(&connection->lock);
}

/* Whether a response answers the request: by its id, or id 0, with which the daemon answers what it could not read. */
static bool answers(const struct envelope *envelope, uint32_t id)
{
    return envelope->kind == ENVELOPE_RESPONSE && (envelope->id == id || (envelope->id == 0 && envelope->error.at));
}

/* Read until the answer to `id` is there. Answers to cancel requests are passed over, and so
 * are notifications that nobody wants. */
static int receive_answer(struct fusiond_connection *connection, uint32_t id, uint64_t deadline_ns,
                          struct envelope *ret_envelope, struct reply *ret, struct error *error)
{
    for (;;) {
        int result = channel_receive(&connection->channel, deadline_ns, ret_envelope, ret, error);
        if (result < 0)
            return -1;
        if (result == CHANNEL_END)
            return error_set(error, STATUS_DISCONNECTED, "the daemon at %s closed the connection before it answered",
                             connection->path);
        if (answers(ret_envelope, id))
            return 0;
        if (ret_envelope->kind == ENVELOPE_NOTIFICATION && connection->on_notification)
            connection->on_notification(connection, id, ret_envelope);
        if (ret_envelope->kind == ENVELOPE_REQUEST ||
            (ret_envelope->kind == ENVELOPE_RESPONSE && ret_envelope->id < FIRST_CANCEL_ID))
            return error_set(error, STATUS_MALFORMED, "the daemon answered request %u, which nobody made",
                             ret_envelope->id);
    }
}

/* Send one request and wait. A failed send is not the end: the daemon may have said why before it closed. */
static int exchange(struct fusiond_connection *connection, enum method method, const void *params, const int *fds,
                    size_t n_fds, uint64_t deadline_ns, struct reply *ret, struct error *error)
{
    struct envelope envelope;
    struct channel *channel = &connection->channel;
    uint32_t id = connection->next_id;
    connection->next_id = id + 1 < FIRST_CANCEL_ID ? id + 1 : 1;
    if (channel_write(channel, id, method, params, error) < 0)
        return -1;

    struct error sending = {0};
    pthread_mutex_lock(&connection->lock);
    connection->active = id;
    connection->cancelled = false;
    int sent = socket_send(channel->fd, channel->out.data, channel->out.size, fds, n_fds, &sending);
    pthread_mutex_unlock(&connection->lock);

    int result = receive_answer(connection, id, deadline_ns, &envelope, ret, error);
    pthread_mutex_lock(&connection->lock);
    connection->active = 0;
    pthread_mutex_unlock(&connection->lock);
    if (result < 0) {
        if (sent < 0) {
            *error = sending;
            error_wrap(error, "the daemon at %s", connection->path);
        }
        disconnect(connection);
        return -1;
    }
    if (!envelope.error.at)
        return 0;
    socket_fds_close(&channel->fds);
    remember_failure(connection, envelope.error, error);
    if (envelope.id == 0)
        disconnect(connection);
    return -1;
}

/* ---- connecting ---- */

static int greet(struct fusiond_connection *connection, uint64_t deadline_ns, struct error *error)
{
    struct hello_request request = {
        .protocol_min = PROTOCOL,
        .has_protocol_min = true,
        .protocol_max = PROTOCOL,
        .has_protocol_max = true,
        .client = text_of(connection->client),
        .pid = (uint64_t)connection->pid,
        .has_pid = true,
        .cuda_visible_devices = text_of(getenv("CUDA_VISIBLE_DEVICES")),
        .cuda_device_order = text_of(getenv("CUDA_DEVICE_ORDER")),
    };
    struct hello_reply hello;
    struct reply reply;
    if (exchange(connection, METHOD_HELLO, &request, NULL, 0, deadline_ns, &reply, error) < 0)
        return -1;
    msgpack_zone *zone = msgpack_zone_new(4096);
    if (!zone)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the greeting");
    int result = message_parse(&hello_reply_type, reply.body.at, reply.body.size, zone, &hello, error);
    if (result == 0 && hello.protocol != PROTOCOL)
        result = error_set(error, STATUS_UNSUPPORTED_VERSION, "the daemon chose protocol %llu; this client speaks %d",
                           (unsigned long long)hello.protocol, PROTOCOL);
    if (result == 0) {
        size_t size =
            hello.version.size < sizeof connection->version ? hello.version.size : sizeof connection->version - 1;
        memcpy(connection->version, hello.version.at, size);
        connection->version[size] = '\0';
    }
    msgpack_zone_free(zone);
    return result;
}

static int open_connection(struct fusiond_connection *connection, struct error *error)
{
    uint64_t deadline_ns = clock_ns() + (uint64_t)connection->timeout_ms * 1000000u;
    int fd = -1;
    if (socket_connect(connection->path, deadline_ns, &fd, error) < 0)
        return -1;
    pthread_mutex_lock(&connection->lock);
    connection->channel.fd = fd;
    pthread_mutex_unlock(&connection->lock);
    connection->pid = getpid();
    if (greet(connection, deadline_ns, error) < 0) {
        disconnect(connection);
        return error_wrap(error, "greeting the daemon at %s", connection->path);
    }
    return 0;
}

/* In a forked child the socket is shared with the parent and the lock may have been held by a thread that is not here:
 * both are replaced, and nothing is sent on what was the parent's. */
static void leave_parent(struct fusiond_connection *connection)
{
    pthread_mutex_init(&connection->lock, NULL);
    connection->active = 0;
    disconnect(connection);
}

int connection_call(struct fusiond_connection *connection, enum method method, const void *params, const int *fds,
                    size_t n_fds, struct reply *ret, struct error *error)
{
    struct error local;
    if (!error)
        error = &local;
    forget_failure(connection);
    socket_fds_close(&connection->channel.fds);
    if (connection->pid != getpid())
        leave_parent(connection);
    bool fresh = connection->channel.fd < 0;
    if (fresh && open_connection(connection, error) < 0)
        return -1;
    int result = exchange(connection, method, params, fds, n_fds, 0, ret, error);
    if (result == 0 || connection->failure_zone)
        return result;
    if (error->code == STATUS_DISCONNECTED && !fresh && !connection->cancelled) {
        if (open_connection(connection, error) < 0)
            return -1;
        result = exchange(connection, method, params, fds, n_fds, 0, ret, error);
    }
    return result;
}

int connection_ask(struct fusiond_connection *connection, enum method method, const void *params, msgpack_zone *zone,
                   void *ret, struct error *error)
{
    struct reply reply;
    if (connection_call(connection, method, params, NULL, 0, &reply, error) < 0)
        return -1;
    if (channel_expect_fds(&connection->channel, 0, error) < 0)
        return -1;
    if (message_parse(methods[method].reply, reply.body.at, reply.body.size, zone, ret, error) < 0)
        return error_wrap(error, "the daemon's answer to %s", methods[method].name);
    return 0;
}

/* ---- the public part ---- */

/* $FUSIOND_SPIN_US, at most MAX_SPIN_US; 0 when it is absent or no number. */
static uint64_t spin_of_environment(void)
{
    const char *value = getenv("FUSIOND_SPIN_US");
    char *end;
    if (!value || !*value)
        return 0;
    errno = 0;
    unsigned long us = strtoul(value, &end, 10);
    if (errno || *end)
        return 0;
    return (us < MAX_SPIN_US ? us : MAX_SPIN_US) * 1000u;
}

static void free_connection(struct fusiond_connection *connection)
{
    forget_failure(connection);
    channel_finish(&connection->channel);
    pthread_mutex_destroy(&connection->lock);
    free(connection->path);
    free(connection->client);
    free(connection);
}

static struct fusiond_connection *new_connection(const char *path, const struct fusiond_connect_options *options)
{
    struct fusiond_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    const char *client = options && options->client ? options->client : program_invocation_short_name;
    connection->path = strdup(path);
    connection->client = strndup(client, LIMIT_NAME);
    connection->timeout_ms = options && options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    channel_init(&connection->channel, "the daemon");
    connection->channel.spin_ns = spin_of_environment();
    connection->pid = getpid();
    connection->next_id = 1;
    connection->next_cancel = FIRST_CANCEL_ID;
    pthread_mutex_init(&connection->lock, NULL);
    if (!connection->path || !connection->client) {
        free_connection(connection);
        return NULL;
    }
    return connection;
}

static int connect_to(const char *path, const struct fusiond_connect_options *options, struct fusiond_connection **ret,
                      struct error *error)
{
    struct fusiond_connection *connection = new_connection(path, options);
    if (!connection)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a connection");
    if (open_connection(connection, error) < 0) {
        free_connection(connection);
        return -1;
    }
    *ret = connection;
    return 0;
}

/* In a folder that anybody could have made, only a socket of one's own is trusted. */
static bool is_trusted(const char *path)
{
    struct stat status;
    return strncmp(path, "/tmp/", 5) != 0 || (lstat(path, &status) == 0 && status.st_uid == geteuid());
}

/* The user's socket first, then the system's; the error is that of the first. */
static int connect_default(const struct fusiond_connect_options *options, struct fusiond_connection **ret,
                           struct error *error)
{
    char path[SOCKET_PATH];
    struct error ignored;
    if (socket_path_default(path) < 0)
        return error_set(error, STATUS_INVALID_FIELD, "XDG_RUNTIME_DIR: its %zu bytes make a socket's path too long",
                         strlen(getenv("XDG_RUNTIME_DIR")));
    if (!is_trusted(path))
        error_set(error, STATUS_UNREACHABLE, "no daemon of uid %u at %s", geteuid(), path);
    else if (connect_to(path, options, ret, error) == 0)
        return 0;
    if (error->code == STATUS_UNREACHABLE && connect_to(SOCKET_PATH_SYSTEM, options, ret, &ignored) == 0)
        return 0;
    return -1;
}

int fusiond_connect(const char *socket, const struct fusiond_connect_options *options, struct fusiond_connection **ret,
                    struct fusiond_error *ret_error)
{
    struct error error = {0};
    const char *environment = getenv("FUSIOND_SOCKET");
    const char *path = socket ? socket : environment && *environment ? environment : NULL;
    int result = path ? connect_to(path, options, ret, &error) : connect_default(options, ret, &error);
    return error_export(result, &error, ret_error);
}

void fusiond_close(struct fusiond_connection *connection)
{
    if (connection)
        free_connection(connection);
}

const char *fusiond_socket(const struct fusiond_connection *connection)
{
    return connection->path;
}

const char *fusiond_version(const struct fusiond_connection *connection)
{
    return connection->version;
}

int fusiond_cancel(struct fusiond_connection *connection, struct fusiond_error *ret_error)
{
    struct error error = {0};
    msgpack_sbuffer out;
    int result = 0;
    msgpack_sbuffer_init(&out);
    pthread_mutex_lock(&connection->lock);
    if (connection->active && connection->channel.fd >= 0) {
        struct cancel_request request = {.request = connection->active, .has_request = true};
        if (envelope_write_request(&out, connection->next_cancel, METHOD_CANCEL, &request) < 0)
            result = error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a request");
        else
            result = socket_send(connection->channel.fd, out.data, out.size, NULL, 0, &error);
        connection->next_cancel = connection->next_cancel == UINT32_MAX ? FIRST_CANCEL_ID : connection->next_cancel + 1;
        connection->cancelled = result == 0;
    }
    pthread_mutex_unlock(&connection->lock);
    msgpack_sbuffer_destroy(&out);
    return error_export(result, &error, ret_error);
}
