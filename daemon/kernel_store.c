#include "daemon/kernel_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/require.h"

/* Last uses are written this long after the first one that is not written yet. */
#define USE_DELAY_MS 30000
/* What is remembered of uses whose kernels left memory before that. */
#define MAX_USES 1024

struct kernel_store {
    struct memory_tier memory;
    struct kernels_db *db; /* the mailbox thread's, once that runs */
    struct mailbox mailbox;
    bool has_database;
    char problem[ERROR_TEXT];
    uv_timer_t use_timer;
    bool use_timer_armed;
    struct kernels_db_use *uses; /* of evicted kernels */
    size_t n_uses;
    struct stats_reply *stats;
    void (*on_closed)(void *owner);
    void *owner;
};

/* The namespace in the database of a uid. */
static void namespace_of(uint64_t owner, char ret[KERNELS_DB_NAMESPACE])
{
    snprintf(ret, KERNELS_DB_NAMESPACE, "uid:%llu", (unsigned long long)owner);
}

/* The database's health after an operation; one log line per change. Only a write that went well shows that writing
 * works again. */
static void note_result(struct kernel_store *store, const struct error *error, bool wrote)
{
    if (!store->has_database)
        return;
    if (error->code != STATUS_OK) {
        store->stats->database_errors_total++;
        if (!store->problem[0])
            log_event(LOG_ERROR, "database.degraded", "reason=\"%s\"", error->text);
        snprintf(store->problem, sizeof store->problem, "%s", error->text);
    } else if (wrote && store->problem[0]) {
        store->problem[0] = '\0';
        log_event(LOG_INFO, "database.recovered", "path=%s",
                  store->stats->database_path.at ? store->stats->database_path.at : "?");
    }
}

const char *kernel_store_problem(const struct kernel_store *store)
{
    return store->problem[0] ? store->problem : NULL;
}

/* ---- last uses: kept in memory, written in batches ---- */

struct touch_mail {
    struct mail mail;
    struct kernel_store *store;
    struct kernels_db_use *uses;
    size_t n;
    struct error error;
};

static void touch_work(struct mail *mail, void *db)
{
    struct touch_mail *touch = container_of(mail, struct touch_mail, mail);
    kernels_db_touch(db, touch->uses, touch->n, &touch->error);
}

static void touch_done(struct mail *mail)
{
    struct touch_mail *touch = container_of(mail, struct touch_mail, mail);
    note_result(touch->store, &touch->error, true);
    free(touch->uses);
    free(touch);
}

static void add_use(struct kernels_db_use *use, const struct held_kernel *kernel)
{
    namespace_of(kernel->id.owner, use->name_space);
    memcpy(use->key, kernel->id.key, sizeof use->key);
    use->unix_s = kernel->last_used_s;
}

static void write_uses(struct kernel_store *store)
{
    size_t n = store->n_uses;
    struct touch_mail *touch = calloc(1, sizeof *touch);
    if (!touch || !store->has_database) {
        free(touch);
        return;
    }
    touch->uses = malloc((n + HASH_COUNT(store->memory.by_id) + 1) * sizeof *touch->uses);
    if (!touch->uses) {
        free(touch);
        return;
    }
    if (n)
        memcpy(touch->uses, store->uses, n * sizeof *touch->uses);
    store->n_uses = 0;
    for (struct list *link = store->memory.lru.next; link != &store->memory.lru; link = link->next) {
        struct held_kernel *kernel = container_of(link, struct held_kernel, lru);
        if (!kernel->used || !kernel->stored)
            continue;
        kernel->used = false;
        add_use(&touch->uses[n++], kernel);
    }
    touch->n = n;
    touch->store = store;
    touch->mail = (struct mail){.work = touch_work, .done = touch_done};
    if (n) {
        mailbox_post(&store->mailbox, &touch->mail);
    } else {
        free(touch->uses);
        free(touch);
    }
}

static void on_use_timer(uv_timer_t *timer)
{
    struct kernel_store *store = timer->data;
    store->use_timer_armed = false;
    write_uses(store);
}

static void expect_uses(struct kernel_store *store)
{
    if (store->use_timer_armed || !store->has_database)
        return;
    store->use_timer_armed = true;
    uv_timer_start(&store->use_timer, on_use_timer, USE_DELAY_MS, 0);
}

static void on_evict(struct held_kernel *kernel, void *context)
{
    struct kernel_store *store = context;
    if (kernel->used && kernel->stored && store->n_uses < MAX_USES)
        add_use(&store->uses[store->n_uses++], kernel);
}

static void hold(struct kernel_store *store, struct held_kernel *kernel)
{
    memory_tier_hold(&store->memory, kernel, on_evict, store);
}

struct held_kernel *kernel_store_find(struct kernel_store *store, const struct kernel_id *id)
{
    struct held_kernel *kernel = memory_tier_find(&store->memory, id);
    if (kernel)
        expect_uses(store);
    return kernel;
}

struct memory_tier *kernel_store_memory(struct kernel_store *store)
{
    return &store->memory;
}

/* ---- looking up ---- */

struct lookup_mail {
    struct mail mail;
    struct kernel_store *store;
    struct store_lookup *lookup;
    struct held_kernel *kernel;
    bool found;
    struct error error;
};

static void lookup_work(struct mail *mail, void *db)
{
    struct lookup_mail *look = container_of(mail, struct lookup_mail, mail);
    char name_space[KERNELS_DB_NAMESPACE];
    namespace_of(look->kernel->id.owner, name_space);
    if (db && !look->lookup->blind)
        look->found = kernels_db_get(db, name_space, look->kernel->id.key, &look->kernel->zone, &look->kernel->kernel,
                                     &look->error) == 1;
}

static void lookup_done(struct mail *mail)
{
    struct lookup_mail *look = container_of(mail, struct lookup_mail, mail);
    struct store_lookup *lookup = look->lookup;
    struct held_kernel *kernel = NULL;
    note_result(look->store, &look->error, false);
    if (look->found) {
        kernel = look->kernel;
        kernel->stored = true;
        kernel->used = true;
        expect_uses(look->store);
        hold(look->store, kernel);
    } else {
        held_kernel_destroy(look->kernel);
    }
    free(look);
    lookup->done(lookup, kernel);
}

int kernel_store_look_up(struct kernel_store *store, struct store_lookup *lookup, struct error *error)
{
    struct lookup_mail *look = calloc(1, sizeof *look);
    struct held_kernel *kernel = look ? held_kernel_create(&lookup->id) : NULL;
    if (!kernel) {
        free(look);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to look up a kernel");
    }
    look->mail = (struct mail){.work = lookup_work, .done = lookup_done};
    look->store = store;
    look->lookup = lookup;
    look->kernel = kernel;
    mailbox_post(&store->mailbox, &look->mail);
    return 0;
}

/* ---- committing ---- */

struct commit_mail {
    struct mail mail;
    struct kernel_store *store;
    struct store_commit *commit;
    struct error error;
};

static void commit_work(struct mail *mail, void *db)
{
    struct commit_mail *commit = container_of(mail, struct commit_mail, mail);
    char name_space[KERNELS_DB_NAMESPACE];
    namespace_of(commit->commit->kernel->id.owner, name_space);
    struct kernels_db_row row = {name_space, &commit->commit->kernel->kernel, commit->commit->header_texts};
    if (db)
        kernels_db_put(db, &row, 1, &commit->error);
    else
        error_set(&commit->error, STATUS_DATABASE, "there is no database");
}

static void finish_commit(struct kernel_store *store, struct store_commit *commit, bool stored)
{
    struct held_kernel *kernel = commit->kernel;
    kernel->stored = stored;
    hold(store, kernel);
    commit->done(commit, kernel, stored);
}

static void commit_done(struct mail *mail)
{
    struct commit_mail *commit = container_of(mail, struct commit_mail, mail);
    struct kernel_store *store = commit->store;
    struct store_commit *what = commit->commit;
    bool stored = commit->error.code == STATUS_OK;
    note_result(store, &commit->error, true);
    if (stored)
        store->stats->database_commits_total++;
    free(commit);
    finish_commit(store, what, stored);
}

void kernel_store_commit(struct kernel_store *store, struct store_commit *commit)
{
    struct commit_mail *mail = calloc(1, sizeof *mail);
    require(mail); /* a few bytes, after megabytes of a compile */
    mail->mail = (struct mail){.work = commit_work, .done = commit_done};
    mail->store = store;
    mail->commit = commit;
    mailbox_post(&store->mailbox, &mail->mail);
}

/* ---- listing ---- */

struct list_mail {
    struct mail mail;
    struct kernel_store *store;
    struct store_list *list;
    msgpack_zone zone;
    struct kernel_list_reply reply;
    struct error error;
};

static void list_work(struct mail *mail, void *db)
{
    struct list_mail *list = container_of(mail, struct list_mail, mail);
    char name_space[KERNELS_DB_NAMESPACE];
    namespace_of(list->list->owner, name_space);
    kernels_db_list(db, name_space, &list->list->request, &list->zone, &list->reply, &list->error);
}

static void list_done(struct mail *mail)
{
    struct list_mail *list = container_of(mail, struct list_mail, mail);
    list->list->done(list->list, &list->reply, list->error.code ? &list->error : NULL);
    msgpack_zone_destroy(&list->zone);
    free(list);
}

int kernel_store_list(struct kernel_store *store, struct store_list *what, struct error *error)
{
    if (!store->has_database)
        return error_set(error, STATUS_DATABASE, "%s", store->problem);
    struct list_mail *list = calloc(1, sizeof *list);
    if (!list || !msgpack_zone_init(&list->zone, 16384)) {
        free(list);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to list kernels");
    }
    list->mail = (struct mail){.work = list_work, .done = list_done};
    list->store = store;
    list->list = what;
    mailbox_post(&store->mailbox, &list->mail);
    return 0;
}

/* ---- what is near ---- */

struct near_mail {
    struct mail mail;
    struct kernel_store *store;
    struct store_near *near;
    msgpack_zone zone;
    int found;
    size_t n;
    struct error error;
    struct kernels_db_near at[KERNELS_DB_NEAR];
};

static void near_work(struct mail *mail, void *db)
{
    struct near_mail *near = container_of(mail, struct near_mail, mail);
    char name_space[KERNELS_DB_NAMESPACE];
    namespace_of(near->near->owner, name_space);
    if (db)
        near->found = kernels_db_near(db, name_space, &near->near->wish, &near->zone, near->at, &near->n, &near->error);
}

static void near_done(struct mail *mail)
{
    struct near_mail *near = container_of(mail, struct near_mail, mail);
    note_result(near->store, &near->error, false);
    near->near->done(near->near, near->found == 1, near->at, near->found == 0 ? near->n : 0);
    msgpack_zone_destroy(&near->zone);
    free(near);
}

int kernel_store_near(struct kernel_store *store, struct store_near *what, struct error *error)
{
    struct near_mail *near = calloc(1, sizeof *near);
    if (!near || !msgpack_zone_init(&near->zone, 16384)) {
        free(near);
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to look for kernels that are near");
    }
    near->mail = (struct mail){.work = near_work, .done = near_done};
    near->store = store;
    near->near = what;
    mailbox_post(&store->mailbox, &near->mail);
    return 0;
}

/* ---- numbers ---- */

struct numbers_mail {
    struct mail mail;
    struct store_numbers *numbers;
    struct kernels_db_stats stats;
};

static void numbers_work(struct mail *mail, void *db)
{
    struct numbers_mail *numbers = container_of(mail, struct numbers_mail, mail);
    struct error error;
    if (db)
        kernels_db_read_stats(db, &numbers->stats, &error);
}

static void numbers_done(struct mail *mail)
{
    struct numbers_mail *numbers = container_of(mail, struct numbers_mail, mail);
    numbers->numbers->done(numbers->numbers, &numbers->stats);
    free(numbers);
}

void kernel_store_numbers(struct kernel_store *store, struct store_numbers *what)
{
    struct numbers_mail *numbers = calloc(1, sizeof *numbers);
    require(numbers);
    numbers->mail = (struct mail){.work = numbers_work, .done = numbers_done};
    numbers->numbers = what;
    mailbox_post(&store->mailbox, &numbers->mail);
}

/* ---- life ---- */

static void open_database(struct kernel_store *store, const char *directory)
{
    struct error error;
    char notice[512] = "";
    if (!directory) {
        snprintf(store->problem, sizeof store->problem, "the daemon runs without a database, as asked");
        return;
    }
    if (kernels_db_open(directory, &store->db, notice, &error) < 0) {
        snprintf(store->problem, sizeof store->problem, "%s", error.text);
        log_event(LOG_ERROR, "database.degraded", "reason=\"%s\"", error.text);
        return;
    }
    store->has_database = true;
    if (notice[0])
        log_event(LOG_WARNING, "database.moved_aside", "notice=\"%s\"", notice);
}

int kernel_store_create(uv_loop_t *loop, const struct kernel_store_options *options, struct kernel_store **ret,
                        struct error *error)
{
    struct kernel_store *store = calloc(1, sizeof *store);
    if (!store)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the kernel store");
    store->uses = calloc(MAX_USES, sizeof *store->uses);
    store->stats = options->stats;
    memory_tier_init(&store->memory, options->memory_bytes, options->stats);
    open_database(store, options->directory);
    if (!store->uses || mailbox_start(&store->mailbox, loop, store->db) < 0) {
        kernels_db_close(store->db);
        free(store->uses);
        free(store);
        return error_set(error, STATUS_SYSTEM, "the database thread cannot be started");
    }
    uv_timer_init(loop, &store->use_timer);
    store->use_timer.data = store;
    *ret = store;
    return 0;
}

static void on_mailbox_stopped(struct mailbox *mailbox)
{
    struct kernel_store *store = container_of(mailbox, struct kernel_store, mailbox);
    kernels_db_close(store->db);
    memory_tier_finish(&store->memory);
    void (*on_closed)(void *) = store->on_closed;
    void *owner = store->owner;
    free(store->uses);
    free(store);
    on_closed(owner);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct kernel_store *store = handle->data;
    mailbox_stop(&store->mailbox, on_mailbox_stopped);
}

void kernel_store_close(struct kernel_store *store, void (*on_closed)(void *owner), void *owner)
{
    store->on_closed = on_closed;
    store->owner = owner;
    write_uses(store);
    uv_close((uv_handle_t *)&store->use_timer, on_timer_closed);
}
