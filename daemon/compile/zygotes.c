#include "daemon/compile/zygotes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/require.h"
#include "daemon/compile/pch_folders.h"
#include "daemon/compile/prefixes.h"
#include "daemon/compiler/worker.h"
#include "proto/envelope.h"

/* The oldest NVRTC that makes headers; none since is known to change code (docs/zygotes.md). Each zygote proves it for
 * itself, too. */
#define OLDEST_MAJOR 12
#define OLDEST_MINOR 8
/* From the start to zygote_ready: three compiles of headers and the library's start, on a machine whose every core
 * compiles. */
#define START_DEADLINE_MS 120000
/* A fork takes less than a millisecond. */
#define FORK_DEADLINE_MS 10000
/* A zygote that is let go has nothing to do. */
#define END_MS 5000
/* Processes of a daemon that was killed may take a moment to go. */
#define SWEEP_AGAIN_MS 1000
#define SWEEPS 10
/* A sample is copied while its zygote starts. */
#define SAMPLE_MAX (32u << 20)
#define MAX_ARGS 48

enum zygote_state {
    ZYGOTE_STARTING,
    ZYGOTE_READY,
    ZYGOTE_ENDING,
};

/* A child that a zygote was asked for, until its end is known. */
struct fork {
    struct list link;
    uint64_t id;
    bool found;
    struct child *child;
};

struct zygote {
    struct list link; /* the least recently used first */
    struct child child;
    enum zygote_state state;
    struct zygotes *zygotes;
    uint8_t digest[DIGEST_SIZE];
    char identity[1025];
    char folder[PATH_MAX];
    uint64_t bytes; /* of its header */
    uint64_t forks_total;
    struct list forks;
    size_t n_waiting;        /* of them: not found yet */
    char reason[ERROR_TEXT]; /* why it is of no use */
    bool told;               /* by itself */
};

struct zygotes {
    uv_loop_t *loop;
    struct zygotes_options options;
    struct prefixes prefixes;
    struct list list;
    struct pch_removal sweep;
    unsigned n_sweeps;
    uv_timer_t timer;  /* until the next sweep */
    bool swept;        /* nothing of an earlier daemon's is left: zygotes may start */
    size_t n_removals; /* under way, the sweep too */
    bool closing;
    void (*on_closed)(void *owner);
    void *owner;
};

static uint64_t now_ms(const struct zygotes *zygotes)
{
    return uv_now(zygotes->loop);
}

static struct zygote *find(const struct zygotes *zygotes, const uint8_t *digest)
{
    for (struct list *link = zygotes->list.next; link != &zygotes->list; link = link->next) {
        struct zygote *zygote = container_of(link, struct zygote, link);
        if (zygote->state != ZYGOTE_ENDING && memcmp(zygote->digest, digest, DIGEST_SIZE) == 0)
            return zygote;
    }
    return NULL;
}

/* ---- the end of one ---- */

static void finish_if_closed(struct zygotes *zygotes);

static void on_removed(struct pch_removal *removal)
{
    struct zygotes *zygotes = removal->owner;
    free(removal);
    zygotes->n_removals--;
    finish_if_closed(zygotes);
}

static void remove_folder(struct zygotes *zygotes, const char *folder)
{
    struct pch_removal *removal = calloc(1, sizeof *removal);
    if (!removal)
        return; /* the next daemon sweeps it */
    zygotes->n_removals++;
    pch_folder_remove(removal, zygotes->loop, folder, on_removed, zygotes);
}

/* No more forks; it goes when its children have ended. */
static void let_go(struct zygote *zygote)
{
    if (zygote->state == ZYGOTE_READY) {
        zygote->zygotes->options.stats->zygotes--;
        zygote->zygotes->options.stats->pch_bytes -= zygote->bytes;
    }
    bool ends = zygote->state != ZYGOTE_ENDING;
    zygote->state = ZYGOTE_ENDING;
    if (ends && list_empty(&zygote->forks))
        child_release(&zygote->child, END_MS);
}

/* It is of no use. Its prefix has none for a while. */
static void fail(struct zygote *zygote, const char *why)
{
    if (!zygote->reason[0])
        snprintf(zygote->reason, sizeof zygote->reason, "%s", why);
    prefixes_bar(&zygote->zygotes->prefixes, zygote->digest, now_ms(zygote->zygotes));
    let_go(zygote);
}

static void end_fork(struct fork *fork, int status, int signal, const char *why)
{
    list_remove(&fork->link);
    child_ended(fork->child, status, signal, why);
    free(fork);
}

static void on_exit_of(struct child *child, const struct child_exit *exit)
{
    struct zygote *zygote = child->owner;
    struct zygotes *zygotes = zygote->zygotes;
    char why[ERROR_TEXT];
    if (zygote->state != ZYGOTE_ENDING && !zygotes->closing) {
        child_describe_exit(exit, why, sizeof why);
        fail(zygote, why);
    }
    /* The kernel ends its children with it. */
    while (!list_empty(&zygote->forks))
        end_fork(container_of(zygote->forks.next, struct fork, link), 0, SIGKILL, "its zygote has ended");
    if (zygote->reason[0] && !zygotes->closing) {
        zygotes->options.stats->zygote_failures_total++;
        log_event(zygote->told ? LOG_INFO : LOG_WARNING, "zygote.failed",
                  "pid=%d prefix=%02x%02x%02x%02x reason=\"%s\"", child->process.pid, zygote->digest[0],
                  zygote->digest[1], zygote->digest[2], zygote->digest[3], zygote->reason);
    }
    list_remove(&zygote->link);
    remove_folder(zygotes, zygote->folder);
    free(zygote);
    finish_if_closed(zygotes);
}

/* ---- room ---- */

static size_t count_live(const struct zygotes *zygotes, enum zygote_state state)
{
    size_t n = 0;
    for (const struct list *link = zygotes->list.next; link != &zygotes->list; link = link->next)
        n += container_of(link, struct zygote, link)->state == state;
    return n;
}

/* The one that forked nothing for longest, and has no children. */
static bool evict(struct zygotes *zygotes, const struct zygote *but)
{
    for (struct list *link = zygotes->list.next; link != &zygotes->list; link = link->next) {
        struct zygote *zygote = container_of(link, struct zygote, link);
        if (zygote == but || zygote->state != ZYGOTE_READY || !list_empty(&zygote->forks))
            continue;
        let_go(zygote);
        return true;
    }
    return false;
}

/* Whether one more may start. One at a time: each takes a core, and the jobs at hand come first. */
static bool has_room(struct zygotes *zygotes)
{
    return count_live(zygotes, ZYGOTE_STARTING) == 0 &&
           (zygotes->options.stats->zygotes < zygotes->options.max || evict(zygotes, NULL));
}

/* ---- what one says ---- */

static void on_idle(struct child *child)
{
    struct zygote *zygote = child->owner;
    if (list_empty(&zygote->forks))
        let_go(zygote);
    else
        child_arm(child, zygote->zygotes->options.idle_ms, on_idle);
}

static void take_ready(struct zygote *zygote, const struct zygote_ready *ready)
{
    struct zygotes *zygotes = zygote->zygotes;
    struct stats_reply *stats = zygotes->options.stats;
    if (ready->protocol != WORKER_PROTOCOL) {
        fail(zygote, "its protocol version is not the daemon's");
    } else if (ready->error.at) {
        stats->pch_unequal_total += ready->unequal;
        zygote->told = true;
        fail(zygote, ready->error.at);
    } else if (!ready->identity.at || strcmp(ready->identity.at, zygote->identity) != 0) {
        fail(zygote, "it loaded another compiler library than the probe");
    } else if (ready->header_bytes > zygotes->options.max_bytes) {
        fail(zygote, "its header is larger than all headers may be");
    } else {
        zygote->state = ZYGOTE_READY;
        zygote->bytes = ready->header_bytes;
        stats->zygotes++;
        stats->pch_bytes += zygote->bytes;
        log_event(LOG_INFO, "zygote.ready",
                  "pid=%d prefix=%02x%02x%02x%02x header_mb=%.0f plain_ms=%.0f header_ms=%.0f",
                  zygote->child.process.pid, zygote->digest[0], zygote->digest[1], zygote->digest[2], zygote->digest[3],
                  (double)zygote->bytes / 1e6, (double)ready->plain_ns / 1e6, (double)ready->header_ns / 1e6);
        child_arm(&zygote->child, zygotes->options.idle_ms, on_idle);
        while (stats->pch_bytes > zygotes->options.max_bytes && evict(zygotes, zygote))
            ;
    }
}

static struct fork *find_fork(const struct zygote *zygote, uint64_t id)
{
    for (struct list *link = zygote->forks.next; link != &zygote->forks; link = link->next) {
        struct fork *fork = container_of(link, struct fork, link);
        if (fork->id == id)
            return fork;
    }
    return NULL;
}

static void arm(struct zygote *zygote);

static int take_forked(struct zygote *zygote, const struct zygote_forked *forked, struct error *error)
{
    struct fork *fork = find_fork(zygote, forked->id);
    int pidfd;
    if (!fork || fork->found)
        return error_set(error, STATUS_MALFORMED, "it forked what nobody asked for");
    if (!forked->error.at && !channel_take_fds(&zygote->child.channel, 1, &pidfd))
        return error_set(error, STATUS_MALFORMED, "it forked a worker without a pidfd");
    fork->found = true;
    zygote->n_waiting--;
    if (forked->error.at)
        end_fork(fork, 127, 0, forked->error.at);
    else
        child_found(fork->child, (pid_t)forked->pid, pidfd);
    arm(zygote);
    return 0;
}

static int take_exited(struct zygote *zygote, const struct zygote_exited *exited, struct error *error)
{
    struct fork *fork = find_fork(zygote, exited->id);
    if (!fork || !fork->found)
        return error_set(error, STATUS_MALFORMED, "it reports the end of what it did not fork");
    end_fork(fork, (int)exited->status, (int)exited->signal, NULL);
    if (zygote->state == ZYGOTE_ENDING && list_empty(&zygote->forks))
        child_release(&zygote->child, END_MS);
    return 0;
}

static bool is_named(const struct envelope *envelope, const struct message_type *type)
{
    size_t size = strlen(type->name);
    return envelope->name.size == size && memcmp(envelope->name.at, type->name, size) == 0;
}

static int take(struct zygote *zygote, const uint8_t *frame, size_t size, msgpack_zone *zone, struct error *error)
{
    struct envelope envelope;
    union {
        struct zygote_ready ready;
        struct zygote_forked forked;
        struct zygote_exited exited;
    } message;
    if (envelope_read(frame, size, &envelope, error) < 0)
        return -1;
    if (zygote->state == ZYGOTE_STARTING) {
        if (envelope_read_message(frame, size, &zygote_ready_type, zone, &message.ready, error) < 0)
            return -1;
        take_ready(zygote, &message.ready);
        return 0;
    }
    bool forked = is_named(&envelope, &zygote_forked_type);
    if (envelope_read_message(frame, size, forked ? &zygote_forked_type : &zygote_exited_type, zone, &message, error) <
        0)
        return -1;
    return forked ? take_forked(zygote, &message.forked, error) : take_exited(zygote, &message.exited, error);
}

static void on_frame(struct child *child, const uint8_t *frame, size_t size)
{
    struct zygote *zygote = child->owner;
    struct error error;
    msgpack_zone zone;
    if (child->killed || (zygote->state == ZYGOTE_ENDING && list_empty(&zygote->forks)))
        return;
    msgpack_zone_init(&zone, 4096);
    if (take(zygote, frame, size, &zone, &error) < 0) {
        fail(zygote, error.text);
        child_kill(child);
    }
    msgpack_zone_destroy(&zone);
}

static const struct child_events child_events = {on_frame, on_exit_of};

/* ---- the start of one ---- */

static void on_late(struct child *child)
{
    struct zygote *zygote = child->owner;
    fail(zygote, zygote->n_waiting ? "it did not fork in time" : "it was not ready in time");
    child_kill(child);
}

/* All that it was asked to fork is there. */
static void arm(struct zygote *zygote)
{
    if (zygote->n_waiting > 0)
        return;
    if (zygote->state == ZYGOTE_READY)
        child_arm(&zygote->child, zygote->zygotes->options.idle_ms, on_idle);
    else
        child_disarm(&zygote->child);
}

static void name_folder(struct zygote *zygote)
{
    uint64_t random = 0;
    char hex[2 * 8 + 1];
    /* A folder that cannot be guessed cannot be named in a program. */
    require(uv_random(NULL, NULL, &random, sizeof random, 0, NULL) == 0);
    for (size_t i = 0; i < 8; i++)
        snprintf(hex + 2 * i, 3, "%02x", zygote->digest[i]);
    snprintf(zygote->folder, sizeof zygote->folder, "%.*s/" PCH_FOLDER_PREFIX "%s.%016llx", PATH_MAX - 64,
             zygote->zygotes->options.work_dir, hex, (unsigned long long)random);
}

static void send_setup(struct zygote *zygote, const struct job_prefix *prefix, const msgpack_sbuffer *frame)
{
    struct zygote_setup setup = {.prefix = prefix->lines};
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    if (envelope_write_message(&out, &zygote_setup_type, &setup) == 0) {
        child_send(&zygote->child, out.data, out.size, NULL, 0);
        child_send(&zygote->child, frame->data, frame->size, NULL, 0);
    } else {
        child_kill(&zygote->child);
    }
    msgpack_sbuffer_destroy(&out);
}

static void start(struct zygotes *zygotes, const struct job_prefix *prefix, const msgpack_sbuffer *frame, char **argv,
                  const char *identity)
{
    char *args[MAX_ARGS];
    size_t n = 0;
    struct error error;
    struct zygote *zygote = calloc(1, sizeof *zygote);
    if (!zygote)
        return;
    zygote->zygotes = zygotes;
    memcpy(zygote->digest, prefix->digest, DIGEST_SIZE);
    snprintf(zygote->identity, sizeof zygote->identity, "%s", identity);
    list_init(&zygote->forks);
    name_folder(zygote);
    while (argv[n]) {
        require(n + 4 < MAX_ARGS);
        args[n] = argv[n];
        n++;
    }
    args[n++] = (char *)"--zygote";
    args[n++] = (char *)"--work-dir";
    args[n++] = zygote->folder;
    args[n] = NULL;
    if (child_start(&zygote->child, zygotes->loop, args[0], args, LIMIT_FRAME, &child_events, zygote, &error) < 0) {
        log_event(LOG_ERROR, "zygote.start_failed", "reason=\"%s\"", error.text);
        prefixes_bar(&zygotes->prefixes, prefix->digest, now_ms(zygotes));
        free(zygote);
        return;
    }
    list_push(&zygotes->list, &zygote->link);
    zygotes->options.stats->zygote_starts_total++;
    child_arm(&zygote->child, START_DEADLINE_MS, on_late);
    send_setup(zygote, prefix, frame);
}

bool zygotes_trust(const struct compiler_facts *facts)
{
    bool old = facts->major < OLDEST_MAJOR || (facts->major == OLDEST_MAJOR && facts->minor < OLDEST_MINOR);
    return facts->kind != COMPILER_HOST && !old;
}

void zygotes_compiled(struct zygotes *zygotes, const struct job_prefix *prefix, const msgpack_sbuffer *frame,
                      char **argv, const char *identity)
{
    if (zygotes->closing || zygotes->options.max == 0 || find(zygotes, prefix->digest) ||
        !prefixes_compiled(&zygotes->prefixes, prefix->digest, now_ms(zygotes)) || !zygotes->swept ||
        frame->size > SAMPLE_MAX || !has_room(zygotes))
        return;
    start(zygotes, prefix, frame, argv, identity);
}

/* ---- forks ---- */

bool zygotes_have(const struct zygotes *zygotes, const struct job_prefix *prefix)
{
    const struct zygote *zygote = find(zygotes, prefix->digest);
    return zygote && zygote->state == ZYGOTE_READY && child_hears(&zygote->child);
}

void zygotes_fork(struct zygotes *zygotes, const struct job_prefix *prefix, struct child *child, const int remote[2])
{
    struct zygote *zygote = find(zygotes, prefix->digest);
    require(zygote && zygote->state == ZYGOTE_READY);
    struct zygote_fork message = {.id = zygote->forks_total++, .has_id = true};
    struct fork *fork = malloc(sizeof *fork);
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    if (fork && envelope_write_message(&out, &zygote_fork_type, &message) == 0) {
        *fork = (struct fork){.id = message.id, .child = child};
        list_push(&zygote->forks, &fork->link);
        if (zygote->n_waiting++ == 0)
            child_arm(&zygote->child, FORK_DEADLINE_MS, on_late);
        child_send(&zygote->child, out.data, out.size, remote, 2);
        list_remove(&zygote->link); /* the most recently used */
        list_push(&zygotes->list, &zygote->link);
        zygotes->options.stats->zygote_forks_total++;
    } else {
        free(fork);
        child_ended(child, 127, 0, "no memory for a fork");
    }
    msgpack_sbuffer_destroy(&out);
    close(remote[0]);
    close(remote[1]);
}

void zygotes_refused(struct zygotes *zygotes, const struct job_prefix *prefix)
{
    struct zygote *zygote = find(zygotes, prefix->digest);
    if (zygote)
        fail(zygote, "the compiler did not use the precompiled header");
}

/* ---- life ---- */

static void on_sweep_due(uv_timer_t *timer);

static void on_swept(struct pch_removal *removal)
{
    struct zygotes *zygotes = removal->owner;
    zygotes->n_removals--;
    zygotes->n_sweeps++;
    zygotes->swept = removal->n_left == 0 || zygotes->n_sweeps >= SWEEPS;
    if (!zygotes->swept && !zygotes->closing)
        uv_timer_start(&zygotes->timer, on_sweep_due, SWEEP_AGAIN_MS, 0);
    finish_if_closed(zygotes);
}

static void sweep(struct zygotes *zygotes)
{
    zygotes->n_removals++;
    pch_folders_sweep(&zygotes->sweep, zygotes->loop, zygotes->options.work_dir, on_swept, zygotes);
}

static void on_sweep_due(uv_timer_t *timer)
{
    sweep(timer->data);
}

int zygotes_create(uv_loop_t *loop, const struct zygotes_options *options, struct zygotes **ret, struct error *error)
{
    struct zygotes *zygotes = calloc(1, sizeof *zygotes);
    if (!zygotes)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the zygotes");
    zygotes->loop = loop;
    zygotes->options = *options;
    prefixes_init(&zygotes->prefixes);
    list_init(&zygotes->list);
    uv_timer_init(loop, &zygotes->timer);
    zygotes->timer.data = zygotes;
    sweep(zygotes);
    *ret = zygotes;
    return 0;
}

void zygotes_drop(struct zygotes *zygotes)
{
    for (struct list *link = zygotes->list.next; link != &zygotes->list; link = link->next) {
        struct zygote *zygote = container_of(link, struct zygote, link);
        if (zygote->state != ZYGOTE_ENDING)
            let_go(zygote);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct zygotes *zygotes = handle->data;
    void (*on_closed)(void *) = zygotes->on_closed;
    void *owner = zygotes->owner;
    prefixes_finish(&zygotes->prefixes);
    free(zygotes);
    on_closed(owner);
}

static void finish_if_closed(struct zygotes *zygotes)
{
    if (zygotes->closing && list_empty(&zygotes->list) && zygotes->n_removals == 0 &&
        !uv_is_closing((uv_handle_t *)&zygotes->timer))
        uv_close((uv_handle_t *)&zygotes->timer, on_timer_closed);
}

void zygotes_close(struct zygotes *zygotes, void (*on_closed)(void *owner), void *owner)
{
    zygotes->closing = true;
    zygotes->on_closed = on_closed;
    zygotes->owner = owner;
    zygotes_drop(zygotes);
    for (struct list *link = zygotes->list.next; link != &zygotes->list; link = link->next)
        child_kill(&container_of(link, struct zygote, link)->child);
    finish_if_closed(zygotes);
}
