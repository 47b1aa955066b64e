#include "daemon/compile/failures.h"

#include <stdlib.h>
#include <string.h>

struct failed_compile {
    UT_hash_handle hh;
    struct list link;
    struct kernel_id id;
    enum cause cause;
    unsigned strikes;
    uint64_t deadline_ms; /* the longest that was met */
    uint64_t until_ns;
    size_t bytes;
    msgpack_zone zone; /* of the failure */
    struct failure failure;
};

void failures_init(struct failures *failures, uint64_t keep_ms)
{
    *failures = (struct failures){.keep_ns = keep_ms * 1000000u};
    list_init(&failures->by_age);
}

static void drop(struct failures *failures, struct failed_compile *failed)
{
    HASH_DEL(failures->by_id, failed);
    list_remove(&failed->link);
    failures->n--;
    failures->bytes -= failed->bytes;
    msgpack_zone_destroy(&failed->zone);
    free(failed);
}

void failures_finish(struct failures *failures)
{
    while (!list_empty(&failures->by_age))
        drop(failures, container_of(failures->by_age.next, struct failed_compile, link));
}

static struct failed_compile *find(const struct failures *failures, const struct kernel_id *id)
{
    struct failed_compile *failed;
    HASH_FIND(hh, failures->by_id, id, sizeof *id, failed);
    return failed;
}

/* A deep copy: pack, and parse what was packed. */
static int copy(const struct failure *failure, struct failed_compile *ret)
{
    msgpack_sbuffer packed;
    struct error error;
    int status = -1;
    msgpack_sbuffer_init(&packed);
    if (message_pack(&failure_type, failure, &packed) == 0) {
        uint8_t *bytes = msgpack_zone_malloc(&ret->zone, packed.size + 1);
        if (bytes) {
            memcpy(bytes, packed.data, packed.size);
            status = message_parse(&failure_type, bytes, packed.size, &ret->zone, &ret->failure, &error);
        }
        ret->bytes = sizeof *ret + packed.size;
        ret->failure.remembered = true;
    }
    msgpack_sbuffer_destroy(&packed);
    return status;
}

static struct failed_compile *create(const struct kernel_id *id, const struct failure *failure)
{
    struct failed_compile *failed = calloc(1, sizeof *failed);
    if (!failed)
        return NULL;
    failed->id = *id;
    if (!msgpack_zone_init(&failed->zone, 1024)) {
        free(failed);
        return NULL;
    }
    if (copy(failure, failed) < 0) {
        msgpack_zone_destroy(&failed->zone);
        free(failed);
        return NULL;
    }
    return failed;
}

void failures_add(struct failures *failures, const struct kernel_id *id, const struct failure *failure,
                  enum cause cause, unsigned strikes, uint64_t deadline_ms, uint64_t now_ns)
{
    struct failed_compile *failed, *before = find(failures, id);
    if (failures->keep_ns == 0)
        return;
    failed = create(id, failure);
    if (before) {
        if (before->until_ns > now_ns && before->cause == cause) {
            strikes += before->strikes;
            deadline_ms = before->deadline_ms > deadline_ms ? before->deadline_ms : deadline_ms;
        }
        drop(failures, before);
    }
    if (!failed)
        return;
    failed->cause = cause;
    failed->strikes = strikes;
    failed->deadline_ms = deadline_ms;
    failed->until_ns = now_ns + failures->keep_ns;
    HASH_ADD(hh, failures->by_id, id, sizeof failed->id, failed);
    list_push(&failures->by_age, &failed->link);
    failures->n++;
    failures->bytes += failed->bytes;
    while (failures->n > FAILURES_MAX || failures->bytes > FAILURES_MAX_BYTES)
        drop(failures, container_of(failures->by_age.next, struct failed_compile, link));
}

void failures_forget(struct failures *failures, const struct kernel_id *id)
{
    struct failed_compile *failed = find(failures, id);
    if (failed)
        drop(failures, failed);
}

const struct failure *failures_find(struct failures *failures, const struct kernel_id *id, uint64_t deadline_ms,
                                    uint64_t now_ns)
{
    struct failed_compile *failed = find(failures, id);
    if (!failed)
        return NULL;
    if (failed->until_ns <= now_ns) {
        drop(failures, failed);
        return NULL;
    }
    if (failed->cause != CAUSE_NONE && failed->strikes < FAILURES_STRIKES)
        return NULL;
    if (failed->cause == CAUSE_DEADLINE && deadline_ms > failed->deadline_ms)
        return NULL;
    return &failed->failure;
}
