#include "daemon/memory_tier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct held_kernel *held_kernel_create(const struct kernel_id *id)
{
    struct held_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return NULL;
    if (!msgpack_zone_init(&kernel->zone, 8192)) {
        free(kernel);
        return NULL;
    }
    list_init(&kernel->lru);
    kernel->id = *id;
    for (int part = 0; part < KERNEL_PARTS; part++)
        kernel->fds[part].fd = -1;
    return kernel;
}

/* Whether there was one. */
static bool close_part(struct part_fd *part)
{
    bool is_open = part->fd >= 0;
    if (is_open)
        close(part->fd);
    free((void *)(uintptr_t)part->names.at);
    *part = (struct part_fd){.fd = -1};
    return is_open;
}

void held_kernel_destroy(struct held_kernel *kernel)
{
    if (!kernel)
        return;
    list_remove(&kernel->lru);
    for (int part = 0; part < KERNEL_PARTS; part++)
        close_part(&kernel->fds[part]);
    free(kernel->answer.bytes);
    free((void *)(uintptr_t)kernel->answer.names.at);
    msgpack_zone_destroy(&kernel->zone);
    free(kernel);
}

/* Most of a kernel are its long parts; the rest is charged flat. */
static uint64_t charge(const struct kernel *kernel)
{
    return kernel->image.size + kernel->ptx.size + kernel->log.size + kernel->code.size +
           64 * (uint64_t)kernel->n_headers + sizeof(struct held_kernel) + 8192;
}

static uint64_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec;
}

void memory_tier_init(struct memory_tier *tier, uint64_t limit, struct stats_reply *stats)
{
    struct rlimit files = {0};
    *tier = (struct memory_tier){.limit = limit, .stats = stats};
    list_init(&tier->lru);
    /* Kept memfds must leave descriptors for clients and workers. */
    getrlimit(RLIMIT_NOFILE, &files);
    tier->max_fds = files.rlim_cur / 4;
}

void memory_tier_destroy_unheld(struct memory_tier *tier, struct held_kernel *kernel)
{
    for (int part = 0; part < KERNEL_PARTS; part++)
        tier->n_fds -= (size_t)close_part(&kernel->fds[part]);
    held_kernel_destroy(kernel);
}

static void drop(struct memory_tier *tier, struct held_kernel *kernel)
{
    HASH_DEL(tier->by_id, kernel);
    tier->stats->memory_kernels--;
    tier->stats->memory_bytes -= kernel->bytes;
    memory_tier_destroy_unheld(tier, kernel);
}

void memory_tier_finish(struct memory_tier *tier)
{
    while (!list_empty(&tier->lru))
        drop(tier, container_of(tier->lru.next, struct held_kernel, lru));
}

struct held_kernel *memory_tier_find(struct memory_tier *tier, const struct kernel_id *id)
{
    struct held_kernel *kernel;
    HASH_FIND(hh, tier->by_id, id, sizeof *id, kernel);
    if (!kernel)
        return NULL;
    list_remove(&kernel->lru);
    list_push(&tier->lru, &kernel->lru);
    kernel->last_used_s = now_s();
    kernel->used = true;
    return kernel;
}

bool memory_tier_has(const struct memory_tier *tier, const struct kernel_id *id)
{
    const struct held_kernel *kernel;
    HASH_FIND(hh, tier->by_id, id, sizeof *id, kernel);
    return kernel != NULL;
}

void memory_tier_hold(struct memory_tier *tier, struct held_kernel *kernel,
                      void (*on_evict)(struct held_kernel *kernel, void *context), void *context)
{
    struct held_kernel *old;
    HASH_FIND(hh, tier->by_id, &kernel->id, sizeof kernel->id, old);
    if (old)
        drop(tier, old);
    kernel->bytes = charge(&kernel->kernel);
    kernel->last_used_s = now_s();
    HASH_ADD(hh, tier->by_id, id, sizeof kernel->id, kernel);
    list_push(&tier->lru, &kernel->lru);
    tier->stats->memory_kernels++;
    tier->stats->memory_bytes += kernel->bytes;
    /* The newest stays even if it alone is beyond the limit: somebody is about to be answered with it. */
    while (tier->stats->memory_bytes > tier->limit && tier->lru.next != &kernel->lru) {
        struct held_kernel *oldest = container_of(tier->lru.next, struct held_kernel, lru);
        if (on_evict)
            on_evict(oldest, context);
        tier->stats->memory_evictions_total++;
        drop(tier, oldest);
    }
}

/* ---- packed answers ---- */

/* false when memory ran out. */
static bool copy_names(struct entry_names names, struct entry_names *ret)
{
    char *copy = names.size ? malloc(names.size) : NULL;
    if (names.size && !copy)
        return false;
    if (copy)
        memcpy(copy, names.at, names.size);
    *ret = (struct entry_names){copy, names.size};
    return true;
}

void memory_tier_keep_answer(struct memory_tier *tier, struct held_kernel *kernel, enum method method,
                             struct parts parts, struct entry_names names, struct bytes packed)
{
    struct packed_answer *answer = &kernel->answer;
    struct entry_names own;
    if (!copy_names(names, &own))
        return;
    uint8_t *copy = realloc(answer->bytes, packed.size);
    if (!copy) {
        free((void *)(uintptr_t)own.at);
        return;
    }
    memcpy(copy, packed.at, packed.size);
    kernel->bytes += packed.size - answer->size;
    tier->stats->memory_bytes += packed.size - answer->size;
    free((void *)(uintptr_t)answer->names.at);
    *answer = (struct packed_answer){method, parts, own, copy, packed.size};
}

struct bytes memory_tier_answer(const struct held_kernel *kernel, enum method method, struct parts parts,
                                struct entry_names names)
{
    const struct packed_answer *answer = &kernel->answer;
    if (answer->method != method || !parts_equal(answer->parts, parts) || !entry_names_equal(answer->names, names))
        return (struct bytes){NULL, 0};
    return (struct bytes){answer->bytes, answer->size};
}

/* ---- memfds ---- */

static int seal_bytes(struct bytes bytes)
{
    int fd = memfd_create("fusiond-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    for (size_t done = 0; done < bytes.size;) {
        ssize_t n = write(fd, bytes.at + done, bytes.size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            goto fail;
        done += (size_t)n;
    }
    if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        goto fail;
    return fd;
fail:
    close(fd);
    return -1;
}

/* Beyond the limit the oldest kernels' memfds are closed again: they can be made anew. */
static void make_room_for_fd(struct memory_tier *tier, const struct held_kernel *asking)
{
    for (struct list *link = tier->lru.next; link != &tier->lru && tier->n_fds >= tier->max_fds; link = link->next) {
        struct held_kernel *kernel = container_of(link, struct held_kernel, lru);
        for (int part = 0; part < KERNEL_PARTS && kernel != asking; part++)
            tier->n_fds -= (size_t)close_part(&kernel->fds[part]);
    }
}

int memory_tier_kept_fd(const struct held_kernel *kernel, enum kernel_part part, struct entry_names names)
{
    const struct part_fd *kept = &kernel->fds[part];
    return kept->fd >= 0 && entry_names_equal(kept->names, names) ? kept->fd : -1;
}

int memory_tier_keep_fd(struct memory_tier *tier, struct held_kernel *kernel, enum kernel_part part,
                        struct entry_names names, struct bytes bytes)
{
    struct part_fd *kept = &kernel->fds[part];
    struct part_fd made;
    tier->n_fds -= (size_t)close_part(kept);
    make_room_for_fd(tier, kernel);
    if (!copy_names(names, &made.names)) {
        errno = ENOMEM;
        return -1;
    }
    made.fd = seal_bytes(bytes);
    if (made.fd < 0) {
        free((void *)(uintptr_t)made.names.at);
        return -1;
    }
    tier->n_fds++;
    *kept = made;
    return made.fd;
}
