/* The runtime of the host device: what kernels are promised, and what is said when they break a rule. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/executor/host/proof.h"

static struct host_image *open_kernel(const char *entry)
{
    return proof_open("host/runtime.cu", 0, entry);
}

static void *zeros(size_t size)
{
    return memset(proof_memory(size), 0, size);
}

/* Runs, and expects to fail with these words. */
static void expect_failure(const struct host_kernel_run *run, const char *words)
{
    const char *why = host_kernel_run(run);
    cr_assert(why, "%s ran", run->entry);
    cr_expect(strstr(why, words), "%s: \"%s\", not \"%s\"", run->entry, why, words);
}

/* ---- barriers ---- */

Test(host_barrier, exited_threads_count_as_arrived)
{
    int *out = zeros(256 * sizeof *out);
    proof_run(&(struct host_kernel_run){
        open_kernel("barrier_with_exits"), "barrier_with_exits", {1}, {256}, 0, false, (const void *[]){&out}});
    for (int t = 0; t < 256; t++)
        cr_expect_eq(out[t], t % 2 ? 0 : (t + 2) % 256, "thread %d: %d", t, out[t]);
}

Test(host_barrier, votes_of_those_who_are_left)
{
    int *out = zeros(3 * 70 * sizeof *out);
    proof_run(&(struct host_kernel_run){open_kernel("votes"), "votes", {1}, {70}, 0, false, (const void *[]){&out}});
    for (int t = 0; t < 70; t++) {
        cr_expect_eq(out[3 * t], t == 5 ? 0 : 9);
        cr_expect_eq(out[3 * t + 1], t == 5 ? 0 : 1);
        cr_expect_eq(out[3 * t + 2], t == 5 ? 0 : 2);
    }
}

Test(host_barrier, named_ones_are_apart)
{
    int *out = zeros(128 * sizeof *out);
    proof_run(&(struct host_kernel_run){
        open_kernel("named_barriers"), "named_barriers", {1}, {128}, 0, false, (const void *[]){&out}});
    for (int t = 0; t < 128; t++)
        cr_expect_eq(out[t], (63 - t % 64) * 9, "thread %d: %d", t, out[t]);
}

Test(host_barrier, a_stuck_block_says_who_waits_where)
{
    struct host_image *image = open_kernel("stuck_lanes");
    expect_failure(&(struct host_kernel_run){image, "stuck_lanes", {1}, {40}, 0, false, NULL},
                   "barrier 0 has 39 of 40, 1 wait for lanes of their warps");
    image = open_kernel("stuck");
    expect_failure(&(struct host_kernel_run){image, "stuck", {1}, {32}, 0, false, NULL}, "barrier 0 has 31 of 32");
    /* And the threads of the pool are as good as before. */
    proof_run(&(struct host_kernel_run){image, "stuck", {64}, {16}, 0, false, NULL});
}

/* ---- warps ---- */

static int shuffled(int form, int width, int lane, int argument)
{
    int first = lane / width * width, last = first + width - 1, from = lane;
    switch (form) {
    case 0:
        from = first + argument % width;
        break;
    case 1:
        from = lane - argument >= first ? lane - argument : lane;
        break;
    case 2:
        from = lane + argument <= last ? lane + argument : lane;
        break;
    default:
        from = (lane ^ argument) <= last ? lane ^ argument : lane;
    }
    return 100 + from;
}

Test(host_warp, shuffles_of_every_width)
{
    struct host_image *image = open_kernel("all_shuffles");
    int *out = zeros(4 * 6 * 32 * sizeof *out);
    for (int argument = 0; argument < 32; argument++) {
        proof_run(
            &(struct host_kernel_run){image, "all_shuffles", {1}, {32}, 0, false, (const void *[]){&out, &argument}});
        for (int i = 0; i < 4 * 6 * 32; i++) {
            int want = shuffled(i / 192, 1 << i / 32 % 6, i % 32, argument);
            cr_assert_eq(out[i], want, "form %d, width %d, lane %d, argument %d: %d, not %d", i / 192, 1 << i / 32 % 6,
                         i % 32, argument, out[i], want);
        }
    }
}

Test(host_warp, masked_shuffles_meet_by_mask)
{
    uint64_t *out = zeros(64 * sizeof *out);
    proof_run(&(struct host_kernel_run){open_kernel("masked"), "masked", {1}, {64}, 0, false, (const void *[]){&out}});
    for (unsigned t = 0; t < 64; t++) {
        unsigned lane = t % 32;
        uint64_t want = lane % 2 ? 0xaaaaaaaau : 1ull << lane | 0x55555000ull << 32;
        want += (uint64_t)((lane & ~7u) + 3) << 56;
        cr_expect_eq(out[t], want, "thread %u: %llx, not %llx", t, (unsigned long long)out[t],
                     (unsigned long long)want);
    }
}

Test(host_warp, a_mask_means_those_who_are_left)
{
    int *out = zeros(24 * sizeof *out);
    proof_run(&(struct host_kernel_run){
        open_kernel("shuffle_with_exits"), "shuffle_with_exits", {1}, {32}, 0, false, (const void *[]){&out}});
    for (int lane = 0; lane < 8; lane++) {
        cr_expect_eq(out[lane], lane < 7 ? lane + 1 : 7, "lane %d: %d", lane, out[lane]);
        cr_expect_eq(out[8 + lane], 0xff);
        cr_expect_eq(out[16 + lane], 28);
    }
}

Test(host_warp, matches_and_reductions)
{
    unsigned *out = zeros(128 * sizeof *out);
    proof_run(
        &(struct host_kernel_run){open_kernel("matches"), "matches", {1}, {32}, 0, false, (const void *[]){&out}});
    for (unsigned lane = 0; lane < 32; lane++) {
        unsigned same = 0;
        for (unsigned i = 0; i < 32; i++)
            same |= i / 5 == lane / 5 ? 1u << i : 0;
        cr_expect_eq(out[lane], same);
        cr_expect_eq(out[32 + lane], 0xffffffffu + 1);
        cr_expect_eq(out[64 + lane], 0);
        cr_expect_eq(out[96 + lane], 31 + 64);
    }
}

Test(host_atomics, all_of_them)
{
    enum { N = 4 * 96 };
    int *i = zeros(24);
    unsigned *u = zeros(20), inc = 0, dec = 0, ored = 0, xored = 0, anded = ~0u;
    float *f = zeros(16);
    double *d = zeros(8);
    uint64_t *l = zeros(8);
    i[5] = 7;
    u[1] = ~0u;
    for (int t = 0; t < N; t++) {
        inc = inc >= 6 ? 0 : inc + 1;
        dec = dec == 0 || dec > 6 ? 6 : dec - 1;
        ored |= 1u << t % 32;
        xored ^= 1u << t % 32;
        anded &= ~(1u << t % 31);
    }
    proof_run(&(struct host_kernel_run){
        open_kernel("atomics"), "atomics", {4}, {96}, 0, false, (const void *[]){&i, &u, &f, &d, &l}});
    cr_expect(i[0] == N * (N - 1) / 2 && i[1] == -i[0] && i[2] == 1 - N && i[3] == N - 1);
    cr_expect(i[4] == 7 + 800 && i[5] == 8, "%d, %d", i[4], i[5]);
    cr_expect(u[0] == ored && u[1] == anded && u[2] == xored && u[3] == inc && u[4] == dec);
    cr_expect(f[0] == N / 2.0f && f[1] == N - 1.0f && f[3] == 2.0f && f[2] > 1e38f, "%g %g %g %g", (double)f[0],
              (double)f[1], (double)f[2], (double)f[3]);
    cr_expect(d[0] == N / 4.0 && l[0] == (uint64_t)N << 33);
}

/* ---- traps ---- */

Test(host_trap, a_trap_fails_the_launch_and_nothing_else)
{
    struct host_image *image = open_kernel("traps");
    int block = 3, none = -1;
    for (int again = 0; again < 20; again++) {
        expect_failure(&(struct host_kernel_run){image, "traps", {50}, {64}, 0, false, (const void *[]){&block}},
                       "block (3, 0, 0), thread (2, 0, 0): __trap() was called");
        proof_run(&(struct host_kernel_run){image, "traps", {50}, {64}, 0, false, (const void *[]){&none}});
    }
}

Test(host_trap, an_assertion_says_where)
{
    struct host_image *image = open_kernel("asserts");
    int bad = 1, good = 4;
    expect_failure(&(struct host_kernel_run){image, "asserts", {1}, {1}, 0, false, (const void *[]){&bad}},
                   "assertion `x > 3 && \"x is small\"` failed");
    expect_failure(&(struct host_kernel_run){image, "asserts", {1}, {1}, 0, false, (const void *[]){&bad}},
                   "fusion.cu:");
    proof_run(&(struct host_kernel_run){image, "asserts", {1}, {1}, 0, false, (const void *[]){&good}});
}

Test(host_trap, printf_is_the_pools)
{
    double d = 2.5;
    proof_run(&(struct host_kernel_run){open_kernel("prints"), "prints", {2}, {8}, 0, false, (const void *[]){&d}});
    cr_expect_str_eq(host_kernel_printed(), "thread 1 of 8: 2.50 good\nthread 1 of 8: 2.50 good\n");
}

/* What a child says on standard error, which the signal ends. The pool must be the child's own: no run before it. */
static void expect_death(const struct host_kernel_run *run, int by, const char *words)
{
    int ends[2], status;
    char said[4096];
    size_t size = 0;
    ssize_t n;
    cr_assert(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        alarm(60);
        host_pool_report_faults(NULL);
        host_kernel_run(run);
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], said + size, sizeof said - 1 - size)) > 0)
        size += (size_t)n;
    said[size] = '\0';
    close(ends[0]);
    cr_assert(waitpid(child, &status, 0) == child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == by, "%s: status %x", run->entry, (unsigned)status);
    cr_expect(strstr(said, words), "%s: \"%s\", not \"%s\"", run->entry, said, words);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

Test(host_trap, a_fault_says_who_was_running)
{
    void *null = NULL;
    if (SANITIZED)
        cr_skip_test("sanitizers have handlers of their own");
    expect_death(
        &(struct host_kernel_run){open_kernel("follows"), "follows", {1}, {8}, 0, false, (const void *[]){&null}},
        SIGSEGV, "SIGSEGV in kernel follows block (0,0,0) thread (3,0,0)\n");
}

Test(host_trap, a_stack_that_runs_over_is_noticed)
{
    int depth = 2000, *out = zeros(4);
    if (SANITIZED)
        cr_skip_test("sanitizers have handlers of their own");
    expect_death(
        &(struct host_kernel_run){
            open_kernel("recursion"), "recursion", {1}, {1}, 0, false, (const void *[]){&depth, &out}},
        SIGSEGV, "whose stack has run over\n");
}

Test(host_trap, recursion_has_some_room)
{
    int depth = 100, *out = zeros(4);
    proof_run(&(struct host_kernel_run){
        open_kernel("recursion"), "recursion", {1}, {1}, 0, false, (const void *[]){&depth, &out}});
    cr_expect_eq(*out, 5050);
}

/* ---- grids ---- */

Test(host_grid, every_block_exactly_once)
{
    struct host_image *image = open_kernel("blocks_once");
    static const unsigned shapes[][6] = {
        {1, 1, 1, 1, 1, 1}, {500, 1, 1, 64, 1, 1}, {7, 5, 11, 4, 3, 5}, {1, 100, 3, 1, 1, 64}, {2, 1, 200, 2, 32, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const unsigned *s = shapes[i], n = s[0] * s[1] * s[2];
        unsigned *count = zeros(n * sizeof *count), *wrong = zeros(4);
        proof_run(&(struct host_kernel_run){
            image, "blocks_once", {s[0], s[1], s[2]}, {s[3], s[4], s[5]}, 0, false, (const void *[]){&count, &wrong}});
        cr_expect_eq(*wrong, 0);
        for (unsigned b = 0; b < n; b++)
            cr_assert_eq(count[b], 1, "shape %zu, block %u: %u times", i, b, count[b]);
    }
}

Test(host_grid, dynamic_shared_memory_up_to_its_limit)
{
    struct host_image *image = open_kernel("dynamic_shared");
    unsigned *wrong = zeros(4);
    for (unsigned bytes = 4; bytes <= FUSIOND_HOST_DYNAMIC_BYTES; bytes += (FUSIOND_HOST_DYNAMIC_BYTES - 4) / 4) {
        unsigned words = bytes / 4;
        proof_run(&(struct host_kernel_run){
            image, "dynamic_shared", {8}, {96}, bytes, false, (const void *[]){&wrong, &words}});
        cr_expect_eq(*wrong, 0, "%u bytes", bytes);
    }
    cr_expect(host_image_has_dynamic_shared(image));
    cr_expect(host_image_shared_bytes(image) < 4096);
}

Test(host_grid, B6_4_wrong_extents_name_value_and_limit)
{
    struct host_image *image = open_kernel("is_cooperative");
    int *out = zeros(4);
    const void *arguments[] = {&out};
    struct host_kernel_run run = {image, "is_cooperative", {1, 65536}, {1}, 0, false, arguments};
    expect_failure(&run, "grid.y: 65536; possible are 1 to 65535");
    run = (struct host_kernel_run){image, "is_cooperative", {1}, {1, 1, 65}, 0, false, arguments};
    expect_failure(&run, "block.z: 65; possible are 1 to 64");
    run = (struct host_kernel_run){image, "is_cooperative", {1}, {32, 33}, 0, false, arguments};
    expect_failure(&run, "1056 threads; the host device allows 1024");
    run = (struct host_kernel_run){image, "is_cooperative", {1}, {1}, 232449, false, arguments};
    expect_failure(&run, "232449 bytes; the host device has 232448");
}

Test(host_grid, B6_7_cooperative_residency_is_checked_before)
{
    struct host_image *image = open_kernel("grid_rounds");
    unsigned *counter = zeros(4), *wrong = zeros(4);
    int rounds = 3;
    const void *arguments[] = {&counter, &wrong, &rounds};
    expect_failure(
        &(struct host_kernel_run){image, "grid_rounds", {HOST_GRID_COOPERATIVE_MAX + 1}, {1}, 0, true, arguments},
        "257 blocks; of a cooperative launch 256 can be resident");
    cr_expect_eq(*counter, 0);
    proof_run(&(struct host_kernel_run){image, "grid_rounds", {SANITIZED ? 16 : 256}, {33}, 0, true, arguments});
    cr_expect_eq(*wrong, 0);
    cr_expect_eq(*counter, 3u * 33 * (SANITIZED ? 16 : 256));
}

Test(host_grid, B6_7_only_a_cooperative_launch_is_one)
{
    struct host_image *image = open_kernel("is_cooperative");
    int *out = zeros(4);
    proof_run(&(struct host_kernel_run){image, "is_cooperative", {1}, {1}, 0, true, (const void *[]){&out}});
    cr_expect_eq(*out, 1);
    proof_run(&(struct host_kernel_run){image, "is_cooperative", {1}, {1}, 0, false, (const void *[]){&out}});
    cr_expect_eq(*out, 0);
    int *never = zeros(4), how = 0;
    image = open_kernel("one_fails");
    expect_failure(&(struct host_kernel_run){image, "one_fails", {1}, {1}, 0, false, (const void *[]){&never, &how}},
                   "the launch is not cooperative");
}

Test(host_grid, a_block_that_fails_ends_those_that_wait)
{
    struct host_image *image = open_kernel("one_fails");
    int *never = zeros(4);
    for (int how = 0; how < 2; how++)
        expect_failure(
            &(struct host_kernel_run){image, "one_fails", {6}, {40}, 0, true, (const void *[]){&never, &how}},
            "block (1, 0, 0), thread (0, 0, 0): __trap() was called");
}
