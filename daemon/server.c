#include "daemon/server.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/base/require.h"
#include "daemon/conn.h"
#include "daemon/request.h"

/* Raw requests and their keys that are remembered. */
#define MEMO_BYTES (16u << 20)

const struct compiler_facts *server_facts(struct server *server, size_t compiler_at)
{
    const struct compiler_facts *known = pool_facts(server->compilers.pools[compiler_at]);
    const struct executor_ready *devices = devices_facts(server->devices);
    if (!known)
        return NULL;
    struct compiler_facts *facts = &server->facts[compiler_at];
    *facts = *known;
    for (size_t i = 0; devices && i < devices->n_devices; i++)
        if (devices->devices[i].kind != DEVICE_KIND_HOST && devices->devices[i].driver)
            facts->driver = (unsigned)devices->devices[i].driver;
    return facts;
}

/* ---- health ---- */

size_t server_degraded(struct server *server, struct text ret[SERVER_DEGRADED])
{
    size_t n = 0;
    const char *problem = kernel_store_problem(server->store);
    if (problem)
        ret[n++] = text_of(problem);
    bool nvrtc_is_open = false, host_is_open = false;
    for (size_t i = 0; i < server->compilers.n; i++) {
        const struct pool *pool = server->compilers.pools[i];
        enum compiler_kind kind = server->compilers.slots[i].kind;
        /* A node without a C++ compiler, or without the toolkit's headers, lacks only those, and whoever asks for them
         * is told. */
        if (kind == COMPILER_NVRTC && pool_problem(pool))
            ret[n++] = text_of(pool_problem(pool));
        *(kind == COMPILER_HOST ? &host_is_open : &nvrtc_is_open) |= pool_sandbox(pool) == SANDBOX_NONE;
    }
    if (nvrtc_is_open)
        ret[n++] = TEXT_OF("compiler workers run without a sandbox, so only the daemon's own user may compile: this "
                           "kernel has neither Landlock nor seccomp");
    if (host_is_open)
        ret[n++] = TEXT_OF("the C++ compiler runs without a sandbox: this kernel has no Landlock, or no seccomp");
    problem = devices_problem(server->devices);
    if (problem)
        ret[n++] = text_of(problem);
    if (devices_sandbox(server->devices) == SANDBOX_NONE)
        ret[n++] = TEXT_OF("the host device runs kernels without a sandbox: this kernel has neither Landlock nor "
                           "seccomp");
    return n;
}

/* ---- bounded spinning ----
 * Waking a sleeping process takes longer than answering a hit, so a daemon with cores to spare may poll for a while. */

static void on_spin(uv_idle_t *spin)
{
    struct server *server = spin->data;
    if (uv_hrtime() >= server->spin_until_ns)
        uv_idle_stop(spin);
}

void server_expect_more(struct server *server)
{
    if (server->config->spin_us == 0 || server->state != SERVER_RUNNING)
        return;
    server->spin_until_ns = uv_hrtime() + server->config->spin_us * 1000;
    uv_idle_start(&server->spin, on_spin);
}

/* ---- the end ---- */

static void on_store_closed(void *owner)
{
    struct server *server = owner;
    server->state = SERVER_STOPPED;
    server->store = NULL;
}

static void advance_stop(struct server *server)
{
    if (server->state != SERVER_STOPPING || server->devices || flights_count(&server->flights) > 0 ||
        !compilers_are_closed(&server->compilers))
        return;
    server->state = SERVER_STORE_CLOSING;
    while (!list_empty(&server->conns))
        conn_close(container_of(server->conns.next, struct conn, link));
    kernel_store_close(server->store, on_store_closed, server);
}

static void on_compilers_closed(void *owner)
{
    advance_stop(owner);
}

static void on_devices_closed(void *owner)
{
    struct server *server = owner;
    server->devices = NULL;
    advance_stop(server);
}

void server_conn_closed(struct server *server)
{
    listener_resume(&server->listener);
}

void server_stop(struct server *server)
{
    if (server->state != SERVER_RUNNING)
        return;
    server->state = SERVER_STOPPING;
    log_event(LOG_INFO, "stopping", "flights=%zu connections=%llu", flights_count(&server->flights),
              (unsigned long long)server->stats.connections);
    notify_send("STOPPING=1");
    listener_close(&server->listener);
    uv_close((uv_handle_t *)&server->spin, NULL);
    uv_close((uv_handle_t *)&server->sigterm, NULL);
    uv_close((uv_handle_t *)&server->sigint, NULL);
    requests_fail_parked(server, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
    transforms_stop(server->transforms);
    observers_stop(server->observers);
    compilers_close(&server->compilers, on_compilers_closed);
    devices_close(server->devices, on_devices_closed, server);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    server_stop(signal->data);
}

/* ---- the beginning ---- */

static void on_facts(void *owner)
{
    struct server *server = owner;
    memo_clear(&server->memo);
    requests_resume_parked(server);
}

static void on_landed(void *owner)
{
    advance_stop(owner);
}

static void on_accept(struct listener *listener, int fd, uid_t uid, pid_t pid)
{
    struct server *server = container_of(listener, struct server, listener);
    struct error error;
    if (conn_create(server, fd, uid, pid, &error) < 0) {
        log_event(LOG_ERROR, "conn.failed", "reason=\"%s\"", error.text);
        close(fd);
    }
}

static void on_refuse(struct listener *listener, uid_t uid, pid_t pid)
{
    struct server *server = container_of(listener, struct server, listener);
    server->stats.connections_refused_total++;
    log_event(LOG_WARNING, "conn.refused", "uid=%u pid=%d allowed_uid=%u", uid, pid, geteuid());
}

static void mark_all_stats(struct stats_reply *stats)
{
    /* A counter at 0 is worth sending: absent would mean unknown. */
    for (size_t i = 0; i < stats_reply_type.n_fields; i++)
        if (stats_reply_type.fields[i].kind == FIELD_NUMBER)
            *(bool *)((char *)stats + stats_reply_type.fields[i].extent) = true;
}

/* As many descriptors as the system allows: one per client, two per worker, one per large image. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int start_transforms(struct server *server, struct error *error)
{
    const struct config *config = server->config;
    const struct transforms_options options = {config->transform_program, config->transforms, config->n_transforms,
                                               config->max_workers, &server->stats};
    if (config->n_transforms == 0)
        return 0;
    server->transforms = transforms_create(&server->loop, &options);
    return server->transforms ? 0 : error_set(error, STATUS_OUT_OF_MEMORY, "no memory for transforms");
}

static int start_observers(struct server *server, struct error *error)
{
    const struct config *config = server->config;
    const struct observers_options options = {config->leaf, config->observers, config->n_observers, &server->stats};
    if (config->n_observers == 0)
        return 0;
    server->observers = observers_create(&server->loop, &options);
    return server->observers ? 0 : error_set(error, STATUS_OUT_OF_MEMORY, "no memory for observers");
}

static int start_parts(struct server *server, struct error *error)
{
    const struct config *config = server->config;
    struct kernel_store_options store = {config->no_database ? NULL : config->cache_dir, config->memory_bytes,
                                         &server->stats};
    struct pool_options pool = {
        .compiler = config->compiler,
        .nvrtc_dirs = config->nvrtc_dirs,
        .toolkit_include = config->toolkit_include[0] ? config->toolkit_include : NULL,
        .host_cc = config->host_cc,
        .work_dir = config->no_database ? "/tmp" : config->cache_dir,
        .budget = &server->budget,
        .deadline_ms = config->deadline_ms,
        .queue = {.user = {config->queue_jobs_per_user, config->queue_bytes_per_user},
                  .all = {config->queue_jobs, config->queue_bytes}},
        .stats = &server->stats,
        .max_zygotes = config->no_pch ? 0 : config->max_zygotes,
        .pch_bytes = config->pch_bytes,
        .zygote_idle_ms = config->zygote_idle_ms,
    };
    if (start_observers(server, error) < 0 || start_transforms(server, error) < 0)
        return -1;
    pool.transforms = transforms_parts(server->transforms, &pool.n_transforms);
    if (listener_open(&server->listener, &server->loop, config->socket, store.directory, on_accept, on_refuse, error) <
        0)
        return -1;
    if (kernel_store_create(&server->loop, &store, &server->store, error) < 0)
        return -1;
    if (compilers_create(&server->compilers, &server->loop, &pool, config->nvrtc, config->n_nvrtc, on_facts, server,
                         error) < 0)
        return -1;
    struct devices_options devices = {
        .executor = config->executor,
        .host_threads = config->host_threads,
        .spin_us = config->spin_us,
        .idle_ms = config->executor_idle_ms,
        .store = server->store,
        .stats = &server->stats,
    };
    if (devices_create(&server->loop, &devices, &server->devices, error) < 0)
        return -1;
    flights_init(&server->flights, server->store, server->compilers.pools, &server->blobs, &server->stats,
                 config->remember_failures_ms, on_landed, server);
    server->flights.transforms = server->transforms;
    server->flights.observers = server->observers;
    return 0;
}

static void start_handles(struct server *server)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    uv_idle_init(&server->loop, &server->spin);
    server->spin.data = server;
    uv_signal_init(&server->loop, &server->sigterm);
    uv_signal_init(&server->loop, &server->sigint);
    server->sigterm.data = server->sigint.data = server;
    uv_signal_start(&server->sigterm, on_signal, SIGTERM);
    uv_signal_start(&server->sigint, on_signal, SIGINT);
}

int server_run(const struct config *config, struct error *error)
{
    static struct server server; /* its handles outlive a start that failed */
    server = (struct server){.config = config};
    raise_file_limit();
    int status = uv_loop_init(&server.loop);
    if (status < 0)
        return error_set(error, STATUS_SYSTEM, "starting the event loop: %s", uv_strerror(status));
    list_init(&server.conns);
    list_init(&server.parked);
    budget_init(&server.budget, config->max_workers);
    msgpack_sbuffer_init(&server.scratch);
    mark_all_stats(&server.stats);
    server.stats.database_path = text_of(config->no_database ? NULL : config->database_path);
    server.stats.workers_limit = config->max_workers;
    server.stats.machine_cpus = config->machine.cpus;
    server.stats.machine_memory_bytes = config->machine.memory_bytes;
    server.started_ns = uv_hrtime();
    memo_init(&server.memo, MEMO_BYTES, &server.stats);
    blob_store_init(&server.blobs, config->blob_bytes, &server.stats);
    server.require_cached = config->require_cached;
    if (config->overrides[0] && !(server.overrides = overrides_create(config->overrides)))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for overrides");
    if (start_parts(&server, error) < 0) {
        /* Nothing has run on the loop yet; the process is about to end with the reason. */
        return -1;
    }
    start_handles(&server);
    log_event(LOG_INFO, "ready", "pid=%d socket=%s cache=%s workers=%u", getpid(), server.listener.path,
              config->no_database ? "none" : config->cache_dir, config->max_workers);
    notify_send("READY=1");
    uv_run(&server.loop, UV_RUN_DEFAULT);
    require(server.state == SERVER_STOPPED);
    /* The end leaves nothing behind: a handle that is still open here is a bug. */
    require(uv_loop_close(&server.loop) == 0);
    flights_finish(&server.flights);
    memo_finish(&server.memo);
    overrides_destroy(server.overrides);
    transforms_destroy(server.transforms);
    observers_destroy(server.observers);
    blob_store_finish(&server.blobs);
    msgpack_sbuffer_destroy(&server.scratch);
    listener_finish(&server.listener);
    log_event(LOG_INFO, "stopped", "uptime_s=%.1f", (double)(uv_hrtime() - server.started_ns) / 1e9);
    return 0;
}
