/*
 * run: the same launch many times, each between two stamps of the stream.
 *
 *   queue some ──► their mark ──► read their times, queue some more ──► … ──► the last mark ──► answer
 *
 * Piece by piece, because a driver makes whoever queues too much wait. Until the last piece is queued the session takes
 * no other request, which would get in between.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/executor/launcher.h"
#include "daemon/executor/process.h"
#include "daemon/executor/requests.h"

/* Launches of one piece. */
#define PIECE 32u

struct timed {
    struct operation operation;
    struct stream_mark piece;
    struct prepared launch; /* with arrays of its own */
    msgpack_sbuffer answer; /* the packed launch_reply */
    uint64_t bytes;
    size_t warmups, repeats; /* to be queued yet */
    bool exclusive;
    struct device_stamp *stamps[2 * PIECE]; /* of the piece under way: before and after each launch */
    size_t n_stamps;
    int64_t *times;
    size_t n_times;
};

static struct timed *timed_of(struct operation *operation)
{
    return container_of(operation, struct timed, operation);
}

static const struct device_ops *ops_of(const struct timed *timed)
{
    return timed->operation.session->process->backend->ops;
}

static void destroy_stamps(struct timed *timed)
{
    for (size_t i = 0; i < timed->n_stamps; i++)
        ops_of(timed)->stamp_destroy(timed->stamps[i]);
    timed->n_stamps = 0;
}

static void set_exclusive(struct timed *timed, bool exclusive)
{
    if (timed->exclusive != exclusive)
        timed->operation.session->exclusive += exclusive ? 1 : (size_t)-1;
    timed->exclusive = exclusive;
}

static void finish_timed(struct operation *operation)
{
    struct timed *timed = timed_of(operation);
    set_exclusive(timed, false);
    destroy_stamps(timed);
    free(timed->launch.fills);
    free(timed->launch.allocated);
    free(timed->times);
    msgpack_sbuffer_destroy(&timed->answer);
}

/* ---- queueing ---- */

static int queue_stamp(struct timed *timed, struct error *error)
{
    if (ops_of(timed)->stamp(timed->launch.stream->device, &timed->stamps[timed->n_stamps], error) < 0)
        return -1;
    timed->n_stamps++;
    stream_queued(timed->launch.stream, NULL);
    return 0;
}

static int queue_one(struct timed *timed, bool stamped, struct error *error)
{
    if (launcher_queue_fills(&timed->launch, error) < 0 || (stamped && queue_stamp(timed, error) < 0) ||
        launcher_queue_kernel(&timed->launch, error) < 0)
        return -1;
    return stamped ? queue_stamp(timed, error) : 0;
}

static void on_piece(struct stream_mark *mark, const struct error *error);

/* The next piece with its mark. On failure what was queued of it has one too. */
static int queue_piece(struct timed *timed, struct error *error)
{
    struct stream *stream = timed->launch.stream;
    for (size_t n = 0; n < PIECE && timed->warmups + timed->repeats > 0; n++) {
        bool stamped = timed->warmups == 0;
        if (queue_one(timed, stamped, error) < 0) {
            stream_settle(stream);
            return -1;
        }
        *(stamped ? &timed->repeats : &timed->warmups) -= 1;
    }
    if (timed->repeats > 0) {
        stream_mark(stream, &timed->piece, on_piece);
    } else {
        set_exclusive(timed, false);
        operation_wait(&timed->operation, stream);
    }
    return 0;
}

/* ---- the times ---- */

static int read_times(struct timed *timed, struct error *error)
{
    for (size_t i = 0; i + 1 < timed->n_stamps; i += 2) {
        uint64_t ns;
        if (ops_of(timed)->elapsed(timed->stamps[i], timed->stamps[i + 1], &ns, error) < 0)
            return -1;
        timed->times[timed->n_times++] = (int64_t)ns;
    }
    destroy_stamps(timed);
    return 0;
}

static void give_up(struct timed *timed, const struct error *error)
{
    launcher_abandon(&timed->launch);
    session_fail(timed->operation.session, timed->operation.id, error);
}

static void on_piece(struct stream_mark *mark, const struct error *error)
{
    struct timed *timed = container_of(mark, struct timed, piece);
    struct session *session = timed->operation.session;
    struct error own;
    /* Nobody waits for the rest when the client is gone. */
    if (session->state == SESSION_DRAINING)
        error_set(&own, STATUS_DISCONNECTED, "the client is gone");
    else if (!error && read_times(timed, &own) == 0 && queue_piece(timed, &own) == 0)
        return;
    if (!error && session->process->state == PROCESS_LOST)
        process_explain_loss(session->process, NULL, &own);
    give_up(timed, error ? error : &own);
    operation_end(&timed->operation);
}

static int answer(struct timed *timed, struct error *error)
{
    struct session *session = timed->operation.session;
    msgpack_zone *zone = &session->process->request;
    struct launch_reply launch;
    msgpack_zone_clear(zone);
    if (read_times(timed, error) < 0 || message_parse(&launch_reply_type, (const uint8_t *)timed->answer.data,
                                                      timed->answer.size, zone, &launch, error) < 0)
        return -1;
    struct run_reply reply = {.launch = &launch,
                              .times_ns = timed->times,
                              .n_times_ns = timed->n_times,
                              .bytes = timed->bytes,
                              .has_bytes = true};
    session_reply(session, timed->operation.id, METHOD_RUN, &reply, NULL, 0);
    return 0;
}

static void on_timed(struct operation *operation, const struct error *error)
{
    struct timed *timed = timed_of(operation);
    struct error own;
    if (!error && answer(timed, &own) < 0)
        error = &own;
    if (error)
        give_up(timed, error);
}

/* ---- the request ---- */

/* A copy that lasts beyond the request. */
static void *keep(const void *items, size_t size)
{
    void *copy = malloc(size + 1);
    return copy ? memcpy(copy, items, size) : NULL;
}

static int begin(struct timed *timed, const struct run_request *request, const struct prepared *prepared,
                 struct error *error)
{
    struct session *session = timed->operation.session;
    struct launch_reply reply;
    msgpack_sbuffer_init(&timed->answer);
    timed->operation.done = on_timed;
    timed->operation.finish = finish_timed;
    timed->launch = *prepared;
    timed->launch.fills = keep(prepared->fills, prepared->n_fills * sizeof *prepared->fills);
    timed->launch.allocated = keep(prepared->allocated, prepared->n_allocated * sizeof *prepared->allocated);
    timed->bytes = prepared->entry->moved;
    timed->warmups = (size_t)request->warmups;
    timed->repeats = (size_t)request->repeats;
    timed->times = calloc(timed->repeats, sizeof *timed->times);
    if (launcher_describe(prepared, &session->process->request, &reply, error) < 0)
        return -1;
    if (!timed->launch.fills || !timed->launch.allocated || !timed->times ||
        message_pack(&launch_reply_type, &reply, &timed->answer) < 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu times", timed->repeats);
    operation_hold(&timed->operation, timed->answer.size + timed->repeats * sizeof *timed->times);
    set_exclusive(timed, true);
    operation_begin(prepared->stream);
    return queue_piece(timed, error);
}

void request_run(struct session *session, const struct envelope *envelope)
{
    struct run_request request;
    struct prepared prepared;
    struct operation *operation;
    struct error error;
    if (request_parse(session, envelope, &request) < 0)
        return;
    if (request.repeats == 0) {
        error_set(&error, STATUS_INVALID_FIELD, "repeats: 0; the least is 1");
        session_fail(session, envelope->id, &error);
        return;
    }
    if (launcher_prepare(session, request.launch, &session->process->request, &prepared, &error) < 0) {
        request_fail(session, envelope, &error);
        return;
    }
    int status = operation_create(session, envelope->id, sizeof(struct timed), &operation, &error);
    if (status == 0 && (status = begin(timed_of(operation), &request, &prepared, &error)) < 0)
        operation_end(operation);
    if (status < 0) {
        launcher_abandon(&prepared);
        request_fail(session, envelope, &error);
    }
}
