/* run: the same launch many times, each between two stamps of the stream. */
#include <stdlib.h>

#include "daemon/executor/launcher.h"
#include "daemon/executor/process.h"
#include "daemon/executor/requests.h"

struct timed {
    struct operation operation;
    msgpack_sbuffer launch; /* the packed launch_reply */
    struct device_stamp **stamps;
    size_t n; /* intervals; one stamp more */
    uint64_t bytes;
};

static void finish_timed(struct operation *operation)
{
    struct timed *timed = container_of(operation, struct timed, operation);
    const struct device_ops *ops = operation->session->process->backend->ops;
    for (size_t i = 0; timed->stamps && i <= timed->n; i++)
        ops->stamp_destroy(timed->stamps[i]);
    free(timed->stamps);
    msgpack_sbuffer_destroy(&timed->launch);
}

static int measure(const struct timed *timed, int64_t *ret, struct error *error)
{
    const struct device_ops *ops = timed->operation.session->process->backend->ops;
    for (size_t i = 0; i < timed->n; i++) {
        uint64_t ns;
        if (ops->elapsed(timed->stamps[i], timed->stamps[i + 1], &ns, error) < 0)
            return -1;
        ret[i] = (int64_t)ns;
    }
    return 0;
}

static int answer(struct timed *timed, struct error *error)
{
    struct session *session = timed->operation.session;
    msgpack_zone *zone = &session->process->request;
    struct launch_reply launch;
    msgpack_zone_clear(zone);
    int64_t *times = msgpack_zone_malloc(zone, (timed->n + 1) * sizeof *times);
    if (!times)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu times", timed->n);
    if (measure(timed, times, error) < 0 || message_parse(&launch_reply_type, (const uint8_t *)timed->launch.data,
                                                          timed->launch.size, zone, &launch, error) < 0)
        return -1;
    struct run_reply reply = {
        .launch = &launch, .times_ns = times, .n_times_ns = timed->n, .bytes = timed->bytes, .has_bytes = true};
    session_reply(session, timed->operation.id, METHOD_RUN, &reply, NULL, 0);
    return 0;
}

static void on_timed(struct operation *operation, const struct error *error)
{
    struct timed *timed = container_of(operation, struct timed, operation);
    struct error own;
    if (!error && answer(timed, &own) < 0)
        error = &own;
    if (error)
        session_fail(operation->session, operation->id, error);
}

static int queue_all(struct timed *timed, struct prepared *prepared, size_t warmups, struct error *error)
{
    const struct device_ops *ops = prepared->session->process->backend->ops;
    struct device_stream *stream = prepared->stream->device;
    for (size_t i = 0; i < warmups; i++) {
        if (launcher_queue(prepared, error) < 0)
            return -1;
    }
    for (size_t i = 0; i <= timed->n; i++) {
        if ((i > 0 && launcher_queue(prepared, error) < 0) || ops->stamp(stream, &timed->stamps[i], error) < 0)
            return -1;
    }
    return 0;
}

static int start(struct session *session, uint32_t id, const struct run_request *request, struct prepared *prepared,
                 struct error *error)
{
    struct launch_reply reply;
    struct timed *timed = operation_create(session, id, sizeof *timed, error);
    if (!timed)
        return -1;
    msgpack_sbuffer_init(&timed->launch);
    timed->operation.done = on_timed;
    timed->operation.finish = finish_timed;
    timed->n = (size_t)request->repeats;
    timed->bytes = prepared->entry->moved;
    timed->stamps = calloc(timed->n + 1, sizeof *timed->stamps);
    int status = launcher_describe(prepared, &session->process->request, &reply, error);
    if (status == 0 && (!timed->stamps || message_pack(&launch_reply_type, &reply, &timed->launch) < 0))
        status = error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu stamps", timed->n);
    if (status == 0)
        status = queue_all(timed, prepared, (size_t)request->warmups, error);
    if (status < 0) {
        operation_destroy(&timed->operation);
        return -1;
    }
    operation_queue(&timed->operation, prepared->stream);
    return 0;
}

void request_run(struct session *session, const struct envelope *envelope)
{
    struct run_request request;
    struct prepared prepared;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (request.repeats == 0) {
        error_set(&error, STATUS_INVALID_FIELD, "repeats: 0; the least is 1");
    } else if (launcher_prepare(session, request.launch, &session->process->request, &prepared, &error) == 0) {
        if (start(session, envelope->id, &request, &prepared, &error) == 0)
            return;
        launcher_abandon(&prepared);
    }
    session_fail(session, envelope->id, &error);
}
