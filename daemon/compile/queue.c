#include "daemon/compile/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "daemon/base/require.h"

/* A client's jobs of one priority. */
struct line {
    struct list in_user; /* among the clients of its user that have jobs of this priority */
    struct list places;
    size_t n;
    uint64_t next_number;
};

/* A user, or client, is there as long as it has jobs. Compared as bytes, so the key must have no padding. */
struct client_key {
    uint64_t uid;
    uint64_t client;
};

struct queue_client {
    UT_hash_handle hh;
    struct client_key key;
    struct queue_user *user;
    size_t n;
    struct line lines[QUEUE_PRIORITIES];
};

struct queue_user {
    UT_hash_handle hh;
    uint64_t uid;
    struct queue_share share;
    struct {
        struct list in_level;
        struct list clients; /* the next one in turn first */
        size_t n;
    } levels[QUEUE_PRIORITIES];
};

void queue_init(struct queue *queue)
{
    *queue = (struct queue){0};
    for (unsigned level = 0; level < QUEUE_PRIORITIES; level++)
        list_init(&queue->levels[level].users);
}

static unsigned level_of(enum priority priority)
{
    return priority ? (unsigned)priority - 1 : 0;
}

/* ---- users and clients ---- */

static struct queue_user *get_user(struct queue *queue, uint64_t uid)
{
    struct queue_user *user;
    HASH_FIND(hh, queue->users, &uid, sizeof uid, user);
    if (user)
        return user;
    user = calloc(1, sizeof *user);
    if (!user)
        return NULL;
    user->uid = uid;
    for (unsigned level = 0; level < QUEUE_PRIORITIES; level++) {
        list_init(&user->levels[level].in_level);
        list_init(&user->levels[level].clients);
    }
    HASH_ADD(hh, queue->users, uid, sizeof user->uid, user);
    return user;
}

static void drop_user(struct queue *queue, struct queue_user *user)
{
    if (user->share.n > 0)
        return;
    HASH_DEL(queue->users, user);
    free(user);
}

static struct queue_client *get_client(struct queue *queue, const struct queue_owner *owner)
{
    struct client_key key = {owner->uid, owner->client};
    struct queue_client *client;
    HASH_FIND(hh, queue->clients, &key, sizeof key, client);
    if (client)
        return client;
    struct queue_user *user = get_user(queue, owner->uid);
    client = user ? calloc(1, sizeof *client) : NULL;
    if (!client) {
        if (user)
            drop_user(queue, user);
        return NULL;
    }
    client->key = key;
    client->user = user;
    for (unsigned level = 0; level < QUEUE_PRIORITIES; level++) {
        list_init(&client->lines[level].in_user);
        list_init(&client->lines[level].places);
    }
    HASH_ADD(hh, queue->clients, key, sizeof client->key, client);
    return client;
}

static void drop_client(struct queue *queue, struct queue_client *client)
{
    if (client->n > 0)
        return;
    HASH_DEL(queue->clients, client);
    free(client);
}

/* ---- in and out ---- */

/* Who had nothing of this priority begins at the end of the round. */
static void enter(struct queue *queue, struct queue_place *place, struct queue_client *client, unsigned level)
{
    struct queue_user *user = client->user;
    struct line *line = &client->lines[level];
    place->client = client;
    place->level = level;
    place->number = line->next_number++;
    list_push(&line->places, &place->link);
    if (line->n++ == 0)
        list_push(&user->levels[level].clients, &line->in_user);
    if (user->levels[level].n++ == 0)
        list_push(&queue->levels[level].users, &user->levels[level].in_level);
    client->n++;
    user->share.n++;
    user->share.bytes += place->bytes;
    queue->levels[level].n++;
    queue->n++;
    queue->bytes += place->bytes;
}

int queue_push(struct queue *queue, struct queue_place *place, const struct queue_owner *owner)
{
    struct queue_client *client = get_client(queue, owner);
    if (!client)
        return -1;
    enter(queue, place, client, level_of(owner->priority));
    return 0;
}

void queue_remove(struct queue *queue, struct queue_place *place)
{
    struct queue_client *client = place->client;
    struct queue_user *user = client->user;
    unsigned level = place->level;
    struct line *line = &client->lines[level];
    list_remove(&place->link);
    place->client = NULL;
    if (--line->n == 0)
        list_remove(&line->in_user);
    if (--user->levels[level].n == 0)
        list_remove(&user->levels[level].in_level);
    if (--queue->levels[level].n == 0)
        queue->levels[level].passed = 0;
    client->n--;
    user->share.n--;
    user->share.bytes -= place->bytes;
    queue->n--;
    queue->bytes -= place->bytes;
    drop_client(queue, client);
    drop_user(queue, user);
}

/* ---- whose turn it is ---- */

/* The priority that is served next: one that was passed over for too long, else the most urgent. Of two that are due,
 * the more urgent comes first: the other is next, since this one begins to count anew. */
static unsigned next_level(const struct queue *queue)
{
    unsigned urgent = QUEUE_PRIORITIES;
    for (unsigned level = QUEUE_PRIORITIES; level-- > 0;) {
        if (queue->levels[level].n > 0)
            urgent = level;
    }
    for (unsigned level = urgent + 1; level < QUEUE_PRIORITIES; level++) {
        if (queue->levels[level].n > 0 && queue->levels[level].passed >= QUEUE_PATIENCE)
            return level;
    }
    return urgent;
}

const struct queue_place *queue_next(const struct queue *queue)
{
    unsigned level = next_level(queue);
    if (level == QUEUE_PRIORITIES)
        return NULL;
    const struct queue_user *user =
        container_of(queue->levels[level].users.next, struct queue_user, levels[level].in_level);
    const struct queue_client *client =
        container_of(user->levels[level].clients.next, struct queue_client, lines[level].in_user);
    return container_of(client->lines[level].places.next, struct queue_place, link);
}

struct queue_place *queue_pop(struct queue *queue)
{
    unsigned level = next_level(queue);
    if (level == QUEUE_PRIORITIES)
        return NULL;
    for (unsigned other = 0; other < QUEUE_PRIORITIES; other++) {
        if (other == level)
            queue->levels[other].passed = 0;
        else if (queue->levels[other].n > 0)
            queue->levels[other].passed++;
    }
    struct list *users = &queue->levels[level].users;
    struct list *link = list_pop(users);
    list_push(users, link); /* its next turn is after everybody else's */
    struct queue_user *user = container_of(link, struct queue_user, levels[level].in_level);
    struct list *clients = &user->levels[level].clients;
    link = list_pop(clients);
    list_push(clients, link);
    struct queue_client *client = container_of(link, struct queue_client, lines[level].in_user);
    require(client->lines[level].n > 0);
    struct queue_place *place = container_of(client->lines[level].places.next, struct queue_place, link);
    queue_remove(queue, place);
    return place;
}

/* ---- several who want one job ---- */

/* How many of its own line are before it; more, by those that were taken out of the middle. */
static uint64_t before_in_line(const struct queue_place *place)
{
    const struct line *line = &place->client->lines[place->level];
    return place->number - container_of(line->places.next, struct queue_place, link)->number;
}

/* A client without jobs stays while it is held. */
static void hold(struct queue_client *client)
{
    client->n++;
    client->user->share.n++;
}

static void release(struct queue *queue, struct queue_client *client)
{
    struct queue_user *user = client->user;
    client->n--;
    user->share.n--;
    drop_client(queue, client);
    drop_user(queue, user);
}

void queue_join(struct queue *queue, struct queue_place *place, const struct queue_owner *owner)
{
    unsigned level = level_of(owner->priority);
    struct queue_client *now = place->client, *joining = get_client(queue, owner);
    if (!joining)
        return;
    if (level > place->level)
        level = place->level;
    struct queue_client *shorter = now->lines[level].n < joining->lines[level].n ? now : joining;
    hold(now);
    hold(joining);
    if (level < place->level || shorter->lines[level].n < before_in_line(place)) {
        queue_remove(queue, place);
        enter(queue, place, shorter, level);
    }
    release(queue, now);
    release(queue, joining);
}

/* ---- looking ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A line takes part in turn after turn until it is empty: by the time of its user's turn number `turn`, in which
 * `place` is served, each client of the user has had as many as that or all of its jobs. */
size_t queue_ahead(const struct queue *queue, const struct queue_place *place)
{
    const unsigned level = place->level;
    const struct queue_client *own = place->client;
    const struct queue_user *user = own->user;
    size_t in_line = 0, turn = 0, ahead = 0;
    for (const struct list *link = own->lines[level].places.next; link != &place->link; link = link->next)
        in_line++;
    bool before = true;
    const struct list *head = &user->levels[level].clients;
    for (const struct list *link = head->next; link != head; link = link->next) {
        size_t n = container_of(link, const struct queue_client, lines[level].in_user)->lines[level].n;
        before = before && link != &own->lines[level].in_user;
        turn += link == &own->lines[level].in_user ? in_line : least(n, in_line + before);
    }
    before = true;
    head = &queue->levels[level].users;
    for (const struct list *link = head->next; link != head; link = link->next) {
        size_t n = container_of(link, const struct queue_user, levels[level].in_level)->levels[level].n;
        before = before && link != &user->levels[level].in_level;
        ahead += link == &user->levels[level].in_level ? turn : least(n, turn + before);
    }
    for (unsigned urgent = 0; urgent < level; urgent++)
        ahead += queue->levels[urgent].n;
    return ahead;
}

static int exceed(struct error *error, const char *whose, const struct queue_share *share, size_t bytes,
                  const struct queue_share *limit, const char *suffix)
{
    if (share->n >= limit->n)
        return error_set(error, STATUS_BUSY, "%s%zu compiles wait already, the limit is %zu (--queue-jobs%s)", whose,
                         share->n, limit->n, suffix);
    if (share->n > 0 && share->bytes + bytes > limit->bytes)
        return error_set(
            error, STATUS_BUSY,
            "%scompiles of %zu bytes wait already and this one has %zu, the limit is %zu (--queue-bytes%s)", whose,
            share->bytes, bytes, limit->bytes, suffix);
    return 0;
}

int queue_admit(const struct queue *queue, const struct queue_limits *limits, uint64_t uid, size_t bytes,
                struct error *error)
{
    struct queue_share of_user = queue_share_of(queue, uid), all = {queue->n, queue->bytes};
    char whose[64];
    snprintf(whose, sizeof whose, "user %llu: ", (unsigned long long)uid);
    if (exceed(error, whose, &of_user, bytes, &limits->user, "-per-user") < 0)
        return -1;
    return exceed(error, "", &all, bytes, &limits->all, "");
}

struct queue_share queue_share_of(const struct queue *queue, uint64_t uid)
{
    struct queue_user *user;
    HASH_FIND(hh, queue->users, &uid, sizeof uid, user);
    return user ? user->share : (struct queue_share){0};
}
