/* The main job, through libfusiond: a fusion goes in, a kernel comes out, and nobody compiles it again. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/daemon/job.h"

#define TARGET "sm_90a"

static struct daemon_process daemon_;

static void setup(void)
{
    daemon_start_or_skip(&daemon_, NULL);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(main_job, .init = setup, .fini = teardown);

/* A 64-bit little-endian ELF file for machine 190, EM_CUDA, whose flags name the architecture. */
static bool is_cubin_for(const struct fusiond_kernel *kernel, unsigned arch)
{
    size_t size;
    const unsigned char *image = fusiond_kernel_image(kernel, &size);
    return image && size > 64 && memcmp(image, "\177ELF\2\1", 6) == 0 && image[18] == 190 && image[19] == 0 &&
           (image[48] == arch || image[49] == arch);
}

Test(main_job, four_fusions_compile_once)
{
    struct fusiond_connection *connection = job_connect(&daemon_);
    uint64_t images[JOB_FUSIONS];
    for (size_t i = 0; i < JOB_FUSIONS; i++) {
        size_t size;
        struct fusiond_kernel *kernel = job_compile(connection, job_fusions[i], TARGET, NULL);
        cr_assert_str_eq(fusiond_kernel_outcome(kernel), "compiled");
        cr_assert(fusiond_kernel_stored(kernel));
        cr_assert(is_cubin_for(kernel, 90), "%s", job_fusions[i]);
        const char *ptx = fusiond_kernel_ptx(kernel, &size);
        cr_assert(ptx && memmem(ptx, size, ".target sm_90a", 14), "%s: no PTX", job_fusions[i]);
        cr_assert(fusiond_kernel_compile_ns(kernel) > 0);
        cr_assert(fusiond_kernel_entries(kernel) == 1);
        cr_assert_str_eq(fusiond_kernel_label(kernel), job_fusions[i]);
        struct fusiond_entry entry = fusiond_kernel_entry(kernel, 0);
        cr_assert_str_eq(entry.name, job_fusions[i]);
        cr_assert(entry.lowered[0] && strcmp(entry.lowered, entry.name) != 0);
        cr_assert(entry.registers > 0 && entry.spill_stores == 0 && entry.spill_loads == 0, "%s: %d registers",
                  job_fusions[i], (int)entry.registers);
        cr_assert(fusiond_kernel_log(kernel) != NULL);
        images[i] = job_fingerprint(kernel);
        fusiond_kernel_destroy(kernel);
    }
    cr_assert(job_stat(connection, "compiles_total") == JOB_FUSIONS);

    struct job_seen second = job_in_another_process(&daemon_, TARGET);
    for (size_t i = 0; i < JOB_FUSIONS; i++) {
        cr_assert_str_eq(second.outcomes[i], "hit_memory");
        cr_assert(second.images[i] == images[i]);
    }
    cr_assert(job_stat(connection, "compiles_total") == JOB_FUSIONS);
    fusiond_close(connection);

    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, NULL);
    struct job_seen third = job_in_another_process(&daemon_, TARGET);
    for (size_t i = 0; i < JOB_FUSIONS; i++) {
        cr_assert_str_eq(third.outcomes[i], "hit_database");
        cr_assert(third.images[i] == images[i]);
    }
    connection = job_connect(&daemon_);
    cr_assert(job_stat(connection, "compiles_total") == 0);
    cr_assert(job_stat(connection, "worker_starts_total") == 0);
    fusiond_close(connection);
    daemon_stop_in_order(&daemon_);
}

Test(main_job, eight_processes_on_an_empty_cache)
{
    job_in_eight_processes(&daemon_, TARGET);
    daemon_stop_in_order(&daemon_);
}

static void get(struct fusiond_connection *connection, const char *target, const char *block, const char *outcome,
                char key[65])
{
    struct fusiond_kernel *kernel = job_compile(connection, "row_softmax", target, block);
    cr_assert_str_eq(fusiond_kernel_outcome(kernel), outcome, "%s, block %s", target, block);
    snprintf(key, 65, "%s", fusiond_kernel_key(kernel));
    fusiond_kernel_destroy(kernel);
}

Test(main_job, targets_and_register_classes_live_together)
{
    static const struct {
        const char *target, *block;
    } variants[] = {{"sm_90a", "256"}, {"sm_90a", "512"}, {"sm_80", "256"}, {"sm_80", "512"}};
    char keys[4][65], key[65];
    struct fusiond_connection *connection = job_connect(&daemon_);
    for (size_t i = 0; i < 4; i++) {
        get(connection, variants[i].target, variants[i].block, "compiled", keys[i]);
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(keys[i], keys[j]);
    }
    for (size_t i = 0; i < 4; i++) {
        get(connection, variants[i].target, variants[i].block, "hit_memory", key);
        cr_assert_str_eq(key, keys[i]);
    }
    /* Blocks of the same class need the same image. */
    get(connection, "sm_90a", "128", "hit_memory", key);
    cr_assert_str_eq(key, keys[0]);
    get(connection, "sm_90a", "480", "hit_memory", key);
    cr_assert_str_eq(key, keys[1]);
    cr_assert(job_stat(connection, "compiles_total") == 4);
    fusiond_close(connection);

    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, NULL);
    connection = job_connect(&daemon_);
    for (size_t i = 0; i < 4; i++)
        get(connection, variants[i].target, variants[i].block, "hit_database", key);
    cr_assert(job_stat(connection, "compiles_total") == 0);
    fusiond_close(connection);
    daemon_stop_in_order(&daemon_);
}

Test(main_job, a_fork_of_the_client_reconnects)
{
    struct fusiond_connection *connection = job_connect(&daemon_);
    int status;
    fusiond_kernel_destroy(job_compile(connection, "transpose", TARGET, NULL));
    pid_t pid = fork();
    if (pid == 0) {
        struct fusiond_kernel *kernel = job_compile(connection, "transpose", TARGET, NULL);
        _exit(strcmp(fusiond_kernel_outcome(kernel), "hit_memory") == 0 ? 0 : 1);
    }
    cr_assert(process_ends(pid, DAEMON_PATIENCE_MS, &status) && status == 0);
    fusiond_kernel_destroy(job_compile(connection, "transpose", TARGET, NULL));
    cr_assert(job_stat(connection, "connections") == 1);
    cr_assert(job_stat(connection, "compiles_total") == 1);
    fusiond_close(connection);
}
