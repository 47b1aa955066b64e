#include "daemon/memory_tier.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/daemon/held.h"

#define IMAGE 1000

static struct memory_tier tier;
static struct stats_reply stats;
static unsigned evicted[64];
static size_t n_evicted;

/* Room for n kernels of IMAGE bytes. */
static void start(unsigned n)
{
    memory_tier_init(&tier, UINT64_MAX, &stats);
    memory_tier_hold(&tier, held_of(0, IMAGE), NULL, NULL);
    uint64_t one = stats.memory_bytes;
    memory_tier_finish(&tier);
    memory_tier_init(&tier, n * one, &stats);
}

static void finish(void)
{
    memory_tier_finish(&tier);
    cr_assert_eq(stats.memory_bytes, 0);
    cr_assert_eq(stats.memory_kernels, 0);
    cr_assert_eq(tier.n_fds, 0);
}

static void on_evict(struct held_kernel *kernel, void *context)
{
    cr_assert_eq(context, &tier);
    evicted[n_evicted++] = (unsigned)(kernel->kernel.created_unix_s - 1700000000u);
}

static struct held_kernel *find(unsigned number)
{
    struct kernel_id id = held_id(number);
    return memory_tier_find(&tier, &id);
}

static void hold(unsigned number)
{
    memory_tier_hold(&tier, held_of(number, IMAGE), on_evict, &tier);
}

Test(memory_tier, what_is_held_is_found_in_its_namespace)
{
    struct kernel_id other = held_id(1);
    start(4);
    hold(1);
    cr_assert(held_is(find(1), 1));
    cr_assert_null(find(2));
    other.owner++;
    cr_assert_null(memory_tier_find(&tier, &other));
    cr_assert_eq(stats.memory_kernels, 1);
    cr_assert(find(1)->used);
    finish();
}

Test(memory_tier, the_least_recently_used_goes_first)
{
    start(3);
    for (unsigned i = 1; i <= 3; i++)
        hold(i);
    cr_assert_eq(n_evicted, 0);
    find(1);
    hold(4);
    hold(5);
    cr_assert_eq(n_evicted, 2);
    cr_assert_eq(evicted[0], 2);
    cr_assert_eq(evicted[1], 3);
    cr_assert_eq(stats.memory_evictions_total, 2);
    cr_assert(find(1) && find(4) && find(5) && !find(2) && !find(3));
    cr_assert_leq(stats.memory_bytes, tier.limit);
    finish();
}

Test(memory_tier, the_newest_stays_even_if_it_is_too_large)
{
    start(2);
    hold(1);
    memory_tier_hold(&tier, held_of(2, 100 * IMAGE), on_evict, &tier);
    cr_assert_null(find(1));
    cr_assert(held_is(find(2), 2));
    hold(3);
    cr_assert_null(find(2));
    cr_assert(held_is(find(3), 3));
    finish();
}

static const struct entry_names no_names, names_a = {"softmax", 8}, names_b = {"softmin", 8};

/* As an answer does it. */
static int part_fd(struct held_kernel *kernel, enum kernel_part part)
{
    int fd = memory_tier_kept_fd(kernel, part, no_names);
    struct bytes bytes = part == PART_IMAGE ? kernel->kernel.image : kernel->kernel.ptx;
    return fd >= 0 ? fd : memory_tier_keep_fd(&tier, kernel, part, no_names, bytes);
}

Test(memory_tier, the_same_id_replaces)
{
    start(4);
    hold(1);
    uint64_t bytes = stats.memory_bytes;
    part_fd(find(1), PART_IMAGE);
    hold(1);
    cr_assert_eq(stats.memory_bytes, bytes);
    cr_assert_eq(stats.memory_kernels, 1);
    cr_assert_eq(tier.n_fds, 0);
    cr_assert_eq(n_evicted, 0);
    finish();
}

Test(memory_tier, I1_an_image_as_a_sealed_memfd)
{
    char bytes[IMAGE + 1];
    start(4);
    hold(7);
    struct held_kernel *kernel = find(7);
    int fd = part_fd(kernel, PART_IMAGE);
    cr_assert_geq(fd, 0);
    cr_assert_eq(part_fd(kernel, PART_IMAGE), fd, "made once");
    cr_assert_eq(pread(fd, bytes, sizeof bytes, 0), IMAGE);
    cr_assert_eq(memcmp(bytes, kernel->kernel.image.at, IMAGE), 0);
    cr_assert_eq(fcntl(fd, F_GET_SEALS), F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    cr_assert_eq(pwrite(fd, "x", 1, 0), -1);
    cr_assert_eq(errno, EPERM);
    cr_assert_eq(ftruncate(fd, 1), -1);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    int ptx = part_fd(kernel, PART_PTX);
    cr_assert_neq(ptx, fd);
    cr_assert_eq(pread(ptx, bytes, sizeof bytes, 0), 3);
    cr_assert_eq(tier.n_fds, 2);
    finish();
    cr_assert_eq(fcntl(fd, F_GETFD), -1, "closed with its kernel");
    cr_assert_eq(fcntl(ptx, F_GETFD), -1);
}

Test(memory_tier, F16_memfds_are_capped)
{
    start(100);
    tier.max_fds = 4;
    for (unsigned i = 0; i < 10; i++) {
        hold(i);
        cr_assert_geq(part_fd(find(i), PART_IMAGE), 0);
        cr_assert_geq(part_fd(find(i), PART_PTX), 0);
        cr_assert(find(i)->fds[PART_IMAGE].fd >= 0 && find(i)->fds[PART_PTX].fd >= 0,
                  "those of the one that asks stay");
        cr_assert_leq(tier.n_fds, 4);
    }
    /* An older one gets its memfd again. */
    cr_assert_lt(find(0)->fds[PART_IMAGE].fd, 0);
    cr_assert_geq(part_fd(find(0), PART_IMAGE), 0);
    cr_assert_leq(tier.n_fds, 4);
    finish();
}

Test(memory_tier, B7_2_a_memfd_is_for_its_names)
{
    start(4);
    hold(7);
    struct held_kernel *kernel = find(7);
    struct bytes a = {(const uint8_t *)"softmax's", 9}, b = {(const uint8_t *)"softmin's", 9};
    char bytes[9];
    cr_assert_eq(memory_tier_kept_fd(kernel, PART_IMAGE, names_a), -1);
    int fd = memory_tier_keep_fd(&tier, kernel, PART_IMAGE, names_a, a);
    cr_assert_eq(memory_tier_kept_fd(kernel, PART_IMAGE, (struct entry_names){"softmax", 8}), fd);
    cr_assert_eq(memory_tier_kept_fd(kernel, PART_IMAGE, names_b), -1);
    cr_assert_eq(memory_tier_kept_fd(kernel, PART_IMAGE, no_names), -1);
    cr_assert_eq(memory_tier_kept_fd(kernel, PART_PTX, names_a), -1);
    fd = memory_tier_keep_fd(&tier, kernel, PART_IMAGE, names_b, b);
    cr_assert(pread(fd, bytes, 9, 0) == 9 && memcmp(bytes, b.at, 9) == 0);
    cr_assert_eq(memory_tier_kept_fd(kernel, PART_IMAGE, names_a), -1);
    cr_assert_eq(tier.n_fds, 1, "one in place of the other");
    finish();
}

Test(memory_tier, a_kept_answer_is_for_its_method_parts_and_names)
{
    struct parts image = {.image = true}, both = {.image = true, .ptx = true};
    start(4);
    hold(1);
    struct held_kernel *kernel = find(1);
    uint64_t bytes = stats.memory_bytes;
    cr_assert_null(memory_tier_answer(kernel, METHOD_COMPILE, image, names_a).at);
    memory_tier_keep_answer(&tier, kernel, METHOD_COMPILE, image, names_a,
                            (struct bytes){(const uint8_t *)"packed", 6});
    struct bytes answer = memory_tier_answer(kernel, METHOD_COMPILE, image, names_a);
    cr_assert(answer.size == 6 && memcmp(answer.at, "packed", 6) == 0);
    cr_assert_null(memory_tier_answer(kernel, METHOD_COMPILE, image, names_b).at);
    cr_assert_null(memory_tier_answer(kernel, METHOD_COMPILE, image, no_names).at);
    cr_assert_null(memory_tier_answer(kernel, METHOD_KERNEL_GET, image, names_a).at);
    cr_assert_null(memory_tier_answer(kernel, METHOD_COMPILE, both, names_a).at);
    cr_assert_eq(stats.memory_bytes, bytes + 6);
    memory_tier_keep_answer(&tier, kernel, METHOD_COMPILE, both, names_a, (struct bytes){(const uint8_t *)"p", 1});
    cr_assert_eq(stats.memory_bytes, bytes + 1);
    cr_assert_null(memory_tier_answer(kernel, METHOD_COMPILE, image, names_a).at);
    finish();
}
