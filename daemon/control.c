#include "daemon/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/version.h"

/* Decode the params, or answer with what is wrong with them. */
static int parse(struct conn *conn, const struct envelope *envelope, msgpack_zone *zone, void *ret)
{
    struct error error;
    const struct message_type *type = methods[envelope->method].request;
    if (message_parse(type, envelope->body.at, envelope->body.size, zone, ret, &error) == 0)
        return 0;
    conn_fail_with(conn, envelope->id, &error);
    return -1;
}

/* ---- hello ---- */

/* What a compiler in a hello points to. */
struct compiler_texts {
    char version[32];
    char target_texts[256][16];
    struct text targets[256];
};

/* Nothing when nothing is known of it. */
static size_t describe_compiler(const struct pool *pool, struct compiler_texts *texts, struct compiler *ret)
{
    const struct compiler_facts *facts = pool_facts(pool);
    size_t n = 0;
    if (!facts)
        return 0;
    if (facts->kind == COMPILER_HOST)
        texts->targets[n++] = TEXT_OF("host");
    for (size_t i = 0; i < facts->n_archs && n < 256; i++) {
        snprintf(texts->target_texts[n], sizeof texts->target_texts[n], "sm_%lld", (long long)facts->archs[i]);
        texts->targets[n] = text_of(texts->target_texts[n]);
        n++;
    }
    snprintf(texts->version, sizeof texts->version, "%u.%u", facts->major, facts->minor);
    *ret = (struct compiler){.name = text_of(compiler_name(facts->kind)),
                             .version = text_of(texts->version),
                             .has_build = true,
                             .targets = texts->targets,
                             .n_targets = n,
                             .sandbox = pool_sandbox(pool)};
    memcpy(ret->build, facts->build, sizeof ret->build);
    return 1;
}

static void greet(struct conn *conn, uint32_t id)
{
    struct server *server = conn->server;
    struct text degraded[SERVER_DEGRADED];
    struct compiler_texts texts[COMPILERS_MAX];
    struct compiler compilers[COMPILERS_MAX];
    struct limits limits = {
        .frame_bytes = LIMIT_FRAME,
        .inline_bytes = LIMIT_INLINE,
        .blob_bytes = LIMIT_BLOB,
        .values = LIMIT_VALUES,
        .depth = LIMIT_DEPTH,
        .deadline_ms = LIMIT_DEADLINE_MS,
        .has_frame_bytes = true,
        .has_inline_bytes = true,
        .has_blob_bytes = true,
        .has_values = true,
        .has_depth = true,
        .has_deadline_ms = true,
    };
    struct hello_reply reply = {
        .protocol = PROTOCOL_VERSION,
        .has_protocol = true,
        .version = TEXT_OF(FUSIOND_VERSION),
        .limits = &limits,
        .compilers = compilers,
        .degraded = degraded,
    };
    for (size_t i = 0; i < server->compilers.n; i++)
        reply.n_compilers += describe_compiler(server->compilers.pools[i], &texts[i], &compilers[reply.n_compilers]);
    reply.n_degraded = server_degraded(server, degraded);
    const struct executor_ready *facts = devices_facts(server->devices);
    if (facts) {
        reply.devices = facts->devices;
        reply.n_devices = facts->n_devices;
        reply.mps = facts->mps;
    }
    conn->state = CONN_OPEN;
    conn->channel.in.limit = LIMIT_FRAME;
    conn_reply(conn, id, METHOD_HELLO, &reply, NULL, 0);
}

void control_hello(struct conn *conn, const struct envelope *envelope)
{
    msgpack_zone zone;
    struct hello_request hello;
    struct error error;
    msgpack_zone_init(&zone, 4096);
    if (conn->state != CONN_GREETING) {
        error_set(&error, STATUS_INVALID_FIELD, "hello: it comes once, as the first message");
        conn_fail_with(conn, envelope->id, &error);
    } else if (parse(conn, envelope, &zone, &hello) == 0) {
        if (hello.protocol_min > PROTOCOL_VERSION || hello.protocol_max < PROTOCOL_OLDEST) {
            error_set(&error, STATUS_UNSUPPORTED_VERSION,
                      "the client speaks protocol %llu to %llu, this daemon (%s) %d to %d",
                      (unsigned long long)hello.protocol_min, (unsigned long long)hello.protocol_max, FUSIOND_VERSION,
                      PROTOCOL_OLDEST, PROTOCOL_VERSION);
            conn_fail_with(conn, envelope->id, &error);
        } else {
            char client[64];
            if (hello.cuda_visible_devices.at)
                conn->cuda_visible_devices = strdup(hello.cuda_visible_devices.at);
            if (hello.cuda_device_order.at)
                conn->cuda_device_order = strdup(hello.cuda_device_order.at);
            log_event(LOG_DEBUG, "conn.open", "uid=%u pid=%d client=\"%s\"", conn->uid, conn->pid,
                      text_show(hello.client, client, sizeof client));
            greet(conn, envelope->id);
        }
    }
    msgpack_zone_destroy(&zone);
}

/* ---- ping, stats ---- */

void control_ping(struct conn *conn, const struct envelope *envelope)
{
    static const struct ping_reply reply;
    msgpack_zone zone;
    struct ping_request ping;
    msgpack_zone_init(&zone, 1024);
    if (parse(conn, envelope, &zone, &ping) == 0)
        conn_reply(conn, envelope->id, METHOD_PING, &reply, NULL, 0);
    msgpack_zone_destroy(&zone);
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void on_numbers(struct store_numbers *numbers, const struct kernels_db_stats *database)
{
    struct request *request = container_of(numbers, struct request, numbers);
    struct conn *conn = request->conn;
    if (conn) {
        struct server *server = conn->server;
        struct text degraded[SERVER_DEGRADED];
        struct stats_reply stats = server->stats;
        stats.uptime_ns = uv_hrtime() - server->started_ns;
        stats.pid = (uint64_t)getpid();
        stats.resident_bytes = resident_bytes();
        stats.database_kernels = database->kernels;
        stats.database_image_bytes = database->image_bytes;
        stats.database_file_bytes = database->file_bytes;
        stats.database_corrupt_rows_total = database->corrupt_rows;
        stats.degraded = degraded;
        stats.n_degraded = server->state == SERVER_RUNNING ? server_degraded(server, degraded) : 0;
        conn_reply(conn, request->id, METHOD_STATS, &stats, NULL, 0);
    }
    request_destroy(request);
}

void control_stats(struct conn *conn, const struct envelope *envelope)
{
    msgpack_zone zone;
    struct stats_request stats;
    msgpack_zone_init(&zone, 1024);
    int status = parse(conn, envelope, &zone, &stats);
    msgpack_zone_destroy(&zone);
    struct request *request = status == 0 ? request_create(conn, envelope->id, METHOD_STATS) : NULL;
    if (!request)
        return;
    request->numbers.done = on_numbers;
    kernel_store_numbers(conn->server->store, &request->numbers);
}

/* ---- kernel.get ---- */

static void on_got(struct kernel_get *get, const struct kernel_answer *answer, const struct error *error)
{
    struct request *request = container_of(get, struct request, get);
    if (request->conn && answer)
        request_answer_kernel(request->conn, request->id, METHOD_KERNEL_GET, get->parts, answer);
    else if (request->conn)
        conn_fail_with(request->conn, request->id, error);
    request_destroy(request);
}

void control_kernel_get(struct conn *conn, const struct envelope *envelope)
{
    struct server *server = conn->server;
    struct kernel_get get;
    struct kernel_answer answer;
    struct error error;
    if (kernel_get_read(envelope->body, conn->uid, &get, &error) < 0) {
        conn_fail_with(conn, envelope->id, &error);
        return;
    }
    if (kernel_get_find(&get, server->store, &server->stats, &answer)) {
        request_answer_kernel(conn, envelope->id, METHOD_KERNEL_GET, get.parts, &answer);
        kernel_get_finish(&get);
        return;
    }
    struct request *request = request_create(conn, envelope->id, METHOD_KERNEL_GET);
    if (!request) {
        kernel_get_finish(&get);
        return;
    }
    request->get = get;
    request->get.done = on_got;
    if (kernel_get_look_up(&request->get, server->store, &server->stats, &error) < 0) {
        conn_fail_with(conn, envelope->id, &error);
        request_destroy(request);
    }
}

/* ---- kernel.list ---- */

static void on_listed(struct store_list *list, const struct kernel_list_reply *reply, const struct error *error)
{
    struct request *request = container_of(list, struct request, list);
    if (request->conn && error)
        conn_fail_with(request->conn, request->id, error);
    else if (request->conn)
        conn_reply(request->conn, request->id, METHOD_KERNEL_LIST, reply, NULL, 0);
    request_destroy(request);
}

void control_kernel_list(struct conn *conn, const struct envelope *envelope)
{
    struct error error;
    struct request *request = request_create(conn, envelope->id, METHOD_KERNEL_LIST);
    if (!request)
        return;
    request->zone = msgpack_zone_new(2048);
    request->list.owner = conn->uid;
    request->list.done = on_listed;
    if (!request->zone) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory to list kernels");
        conn_fail_with(conn, envelope->id, &error);
        request_destroy(request);
    } else if (parse(conn, envelope, request->zone, &request->list.request) < 0) {
        request_destroy(request);
    } else if (kernel_store_list(conn->server->store, &request->list, &error) < 0) {
        conn_fail_with(conn, envelope->id, &error);
        request_destroy(request);
    }
}

/* ---- blob.put ---- */

/* The bytes of a memfd that can no longer change. */
static int map_blob(int fd, const struct blob_put_request *put, struct bytes *ret, struct error *error)
{
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & needed) != needed)
        return error_set(error, STATUS_INVALID_FIELD,
                         "fds: the descriptor must be a memfd sealed against writing and "
                         "resizing (F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW)");
    if (fstat(fd, &status) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "fds: the size of the memfd");
    if (!put->has_size || put->size == 0 || (uint64_t)status.st_size != put->size)
        return error_set(error, STATUS_INVALID_FIELD, "size: %llu is not the memfd's size of %lld, which must not be 0",
                         (unsigned long long)put->size, (long long)status.st_size);
    void *at = mmap(NULL, (size_t)put->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return error_set_errno(error, STATUS_SYSTEM, errno, "fds: mapping %llu bytes", (unsigned long long)put->size);
    *ret = (struct bytes){at, (size_t)put->size};
    return 0;
}

static int put_blob(struct conn *conn, const struct blob_put_request *put, int fd, struct blob_put_reply *ret,
                    struct error *error)
{
    struct bytes bytes = put->bytes;
    if ((fd >= 0) == (bytes.at != NULL))
        return error_set(error, STATUS_INVALID_FIELD, "bytes: give either bytes or one memfd (fds = 1)");
    if (fd >= 0 && map_blob(fd, put, &bytes, error) < 0)
        return -1;
    int status = blob_store_put(&conn->server->blobs, bytes, ret->digest, error);
    ret->has_digest = true;
    if (fd >= 0)
        munmap((void *)bytes.at, bytes.size);
    return status;
}

void control_blob_put(struct conn *conn, const struct envelope *envelope)
{
    msgpack_zone zone;
    struct blob_put_request put;
    struct blob_put_reply reply = {0};
    struct error error;
    int fds[LIMIT_FDS];
    msgpack_zone_init(&zone, 1024);
    if (parse(conn, envelope, &zone, &put) == 0) {
        size_t n = (size_t)put.fds;
        if (!channel_take_fds(&conn->channel, n, fds)) {
            error_set(&error, STATUS_UNEXPECTED_FDS, "fds: %zu declared, but %zu came", n, conn->channel.n_fds);
            conn_fail_with(conn, envelope->id, &error);
        } else {
            int status;
            if (n > 1)
                status = error_set(&error, STATUS_INVALID_FIELD, "fds: %zu is above the limit of 1", n);
            else
                status = put_blob(conn, &put, n ? fds[0] : -1, &reply, &error);
            for (size_t i = 0; i < n; i++)
                close(fds[i]);
            if (status < 0)
                conn_fail_with(conn, envelope->id, &error);
            else
                conn_reply(conn, envelope->id, METHOD_BLOB_PUT, &reply, NULL, 0);
        }
    }
    msgpack_zone_destroy(&zone);
}

/* ---- devices ---- */

static void on_looked(struct device_look *look, const struct executor_ready *facts)
{
    struct request *request = container_of(look, struct request, look);
    struct devices_reply reply = {0};
    struct text problem = text_of(devices_problem(request->conn->server->devices));
    if (facts) {
        reply.devices = facts->devices;
        reply.n_devices = facts->n_devices;
        reply.mps = facts->mps;
        reply.problems = facts->problems;
        reply.n_problems = facts->n_problems;
    } else {
        reply.problems = &problem;
        reply.n_problems = problem.at != NULL;
    }
    conn_reply(request->conn, request->id, METHOD_DEVICES, &reply, NULL, 0);
    request_destroy(request);
}

void control_devices(struct conn *conn, const struct envelope *envelope)
{
    msgpack_zone zone;
    struct devices_request devices;
    struct error error;
    msgpack_zone_init(&zone, 1024);
    int status = parse(conn, envelope, &zone, &devices);
    msgpack_zone_destroy(&zone);
    struct request *request = status == 0 ? request_create(conn, envelope->id, METHOD_DEVICES) : NULL;
    if (!request)
        return;
    request->look.done = on_looked;
    if (devices_look(conn->server->devices, &request->look, &error) < 0) {
        conn_fail_with(conn, envelope->id, &error);
        request_destroy(request);
    }
}

static void on_opened(struct device_open *open, const struct device_opened *opened, const struct error *error)
{
    struct request *request = container_of(open, struct request, open);
    if (opened) {
        struct device device = *opened->device;
        struct device_open_reply reply = {
            .device = &device,
            .executor_pid = (uint64_t)opened->executor_pid,
            .has_executor_pid = true,
            .fds = 1,
            .has_fds = true,
        };
        conn_reply(request->conn, request->id, METHOD_DEVICE_OPEN, &reply, &opened->fd, 1);
    } else {
        conn_fail_with(request->conn, request->id, error);
    }
    request_destroy(request);
}

void control_device_open(struct conn *conn, const struct envelope *envelope)
{
    msgpack_zone zone;
    struct device_open_request open;
    struct error error;
    msgpack_zone_init(&zone, 1024);
    int status = parse(conn, envelope, &zone, &open);
    struct request *request = status == 0 ? request_create(conn, envelope->id, METHOD_DEVICE_OPEN) : NULL;
    if (request) {
        request->open = (struct device_open){
            .view = {conn->cuda_visible_devices, conn->cuda_device_order},
            .uid = conn->uid,
            .pid = conn->pid,
            .session = open.isolation == ISOLATION_SESSION,
            .has_name = open.device.at != NULL,
            .done = on_opened,
        };
        if (open.device.at)
            snprintf(request->open.name, sizeof request->open.name, "%s", open.device.at);
        if (devices_open(conn->server->devices, &request->open, &error) < 0) {
            conn_fail_with(conn, envelope->id, &error);
            request_destroy(request);
        }
    }
    msgpack_zone_destroy(&zone);
}

/* ---- cancel ---- */

void control_cancel(struct conn *conn, const struct envelope *envelope)
{
    msgpack_zone zone;
    struct cancel_request cancel;
    struct cancel_reply reply = {0};
    msgpack_zone_init(&zone, 1024);
    int status = parse(conn, envelope, &zone, &cancel);
    msgpack_zone_destroy(&zone);
    if (status < 0)
        return;
    for (struct list *link = conn->requests.next; link != &conn->requests; link = link->next) {
        struct request *request = container_of(link, struct request, in_conn);
        if (request->id != cancel.request)
            continue;
        struct error error;
        error_set(&error, STATUS_CANCELLED, "the client cancelled request %u", request->id);
        conn_fail_with(conn, request->id, &error);
        request_abandon(request);
        reply.cancelled = true;
        break;
    }
    conn_reply(conn, envelope->id, METHOD_CANCEL, &reply, NULL, 0);
}
