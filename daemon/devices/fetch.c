#include "daemon/devices/fetch.h"

#include <stdlib.h>

#include "daemon/executor/executor.h"
#include "daemon/kernel_get.h"

/* One that is looked up. Owner: the store's look-up, which frees it. */
struct fetch {
    struct list link;          /* the executor's */
    struct executor *executor; /* NULL: inert */
    struct kernel_store *store;
    uint32_t id;
    struct kernel_get get;
};

static void fail(struct executor *executor, uint32_t id, const struct error *error)
{
    struct failure failure = failure_of(error);
    msgpack_sbuffer frame;
    msgpack_sbuffer_init(&frame);
    if (envelope_write_failure(&frame, id, &failure) < 0)
        executor_refuse(executor, "memory", "no memory to answer it");
    else
        executor_send(executor, &frame, NULL, 0);
    msgpack_sbuffer_destroy(&frame);
}

static void answer(struct executor *executor, struct kernel_store *store, uint32_t id, struct parts parts,
                   const struct kernel_answer *kernel)
{
    int fds[LIMIT_FDS];
    size_t n_fds;
    struct error error;
    msgpack_sbuffer frame;
    msgpack_sbuffer_init(&frame);
    if (kernel_answer_write(kernel, kernel_store_memory(store), id, METHOD_KERNEL_GET, parts, &frame, fds, &n_fds,
                            &error) < 0)
        fail(executor, id, &error);
    else
        executor_send(executor, &frame, fds, n_fds);
    msgpack_sbuffer_destroy(&frame);
}

static void leave_executor(struct fetch *fetch)
{
    if (!fetch->executor)
        return;
    list_remove(&fetch->link);
    fetch->executor->n_fetches--;
    fetch->executor = NULL;
}

static void on_got(struct kernel_get *get, const struct kernel_answer *kernel, const struct error *error)
{
    struct fetch *fetch = container_of(get, struct fetch, get);
    if (fetch->executor && kernel)
        answer(fetch->executor, fetch->store, fetch->id, get->parts, kernel);
    else if (fetch->executor)
        fail(fetch->executor, fetch->id, error);
    leave_executor(fetch);
    kernel_get_finish(&fetch->get);
    free(fetch);
}

/* The request is taken over when it succeeds. */
static int look_up(struct executor *executor, uint32_t id, const struct kernel_get *get, struct kernel_store *store,
                   struct stats_reply *stats, struct error *error)
{
    struct fetch *fetch = malloc(sizeof *fetch);
    if (!fetch)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to look up a kernel");
    *fetch = (struct fetch){.executor = executor, .store = store, .id = id, .get = *get};
    fetch->get.done = on_got;
    if (kernel_get_look_up(&fetch->get, store, stats, error) < 0) {
        free(fetch);
        return -1;
    }
    list_push(&executor->fetches, &fetch->link);
    executor->n_fetches++;
    return 0;
}

void fetch_start(struct executor *executor, const struct envelope *envelope, struct kernel_store *store,
                 struct stats_reply *stats)
{
    struct kernel_get get = {0};
    struct kernel_answer kernel;
    struct error error;
    if (executor->n_fetches >= EXECUTOR_FETCHES)
        executor_refuse(executor, "protocol", "it asks for too many kernels at once");
    else if (kernel_get_read(envelope->body, executor->uid, &get, &error) < 0)
        fail(executor, envelope->id, &error);
    else if (kernel_get_find(&get, store, stats, &kernel))
        answer(executor, store, envelope->id, get.parts, &kernel);
    else if (look_up(executor, envelope->id, &get, store, stats, &error) < 0)
        fail(executor, envelope->id, &error);
    else
        return;
    kernel_get_finish(&get);
}

void fetches_orphan(struct executor *executor)
{
    while (!list_empty(&executor->fetches))
        leave_executor(container_of(executor->fetches.next, struct fetch, link));
}
