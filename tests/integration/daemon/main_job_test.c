/* The main job, through libfusiond: a fusion goes in, a kernel comes out, and nobody compiles it again. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/fusiond.h"
#include "tests/support/daemon_process.h"

#define TARGET "sm_90a"
#define N_FUSIONS 4

static const char *const fusions[N_FUSIONS] = {"bias_gelu_residual", "row_softmax", "layer_norm", "transpose"};
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

static struct fusiond_connection *connect_or_fail(void)
{
    struct fusiond_connection *connection;
    struct fusiond_error error = {0};
    cr_assert(fusiond_connect(daemon_.socket, NULL, &connection, &error) == 0, "%s", error.text);
    return connection;
}

static struct fusiond_fusion *load(const char *name, const char *target)
{
    char path[512];
    struct fusiond_fusion *fusion;
    struct fusiond_error error = {0};
    snprintf(path, sizeof path, FUSIONS "/%s/%s.json", name, name);
    cr_assert(fusiond_fusion_load(path, &fusion, &error) == 0, "%s", error.text);
    cr_assert(fusiond_fusion_set_target(fusion, target, &error) == 0, "%s", error.text);
    return fusion;
}

static struct fusiond_kernel *compile(struct fusiond_connection *connection, const char *name, const char *target,
                                      const char *block_size)
{
    struct fusiond_compile_options options = {.parts = FUSIOND_IMAGE | FUSIOND_PTX | FUSIOND_LOG};
    struct fusiond_fusion *fusion = load(name, target);
    struct fusiond_kernel *kernel = NULL;
    struct fusiond_error error = {0};
    if (block_size)
        cr_assert(fusiond_fusion_set_option(fusion, "compile.block_size", block_size, &error) == 0, "%s", error.text);
    int status = fusiond_compile(connection, fusion, &options, &kernel, &error);
    cr_assert(status == 0, "%s: %s: %s\n%s", name, error.name, error.text, fusiond_failure_log(connection));
    fusiond_fusion_destroy(fusion);
    return kernel;
}

static uint64_t stat_of(struct fusiond_connection *connection, const char *name)
{
    struct fusiond_stats *stats;
    struct fusiond_error error = {0};
    uint64_t value;
    cr_assert(fusiond_stats(connection, &stats, &error) == 0, "%s", error.text);
    cr_assert(fusiond_stats_get(stats, name, &value), "no %s", name);
    fusiond_stats_destroy(stats);
    return value;
}

/* A 64-bit little-endian ELF file for machine 190, EM_CUDA, whose flags name the architecture. */
static bool is_cubin_for(const struct fusiond_kernel *kernel, unsigned arch)
{
    size_t size;
    const unsigned char *image = fusiond_kernel_image(kernel, &size);
    return image && size > 64 && memcmp(image, "\177ELF\2\1", 6) == 0 && image[18] == 190 && image[19] == 0 &&
           (image[48] == arch || image[49] == arch);
}

/* FNV-1a: enough to tell two images apart across a pipe. */
static uint64_t fingerprint(const struct fusiond_kernel *kernel)
{
    size_t size;
    const unsigned char *image = fusiond_kernel_image(kernel, &size);
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ image[i]) * 1099511628211u;
    return hash;
}

struct seen {
    uint64_t images[N_FUSIONS];
    char outcomes[N_FUSIONS][16];
};

/* Another client process gets all four fusions. */
static pid_t fork_client(const int *gate, int out)
{
    char byte;
    pid_t pid = fork_apart((const int[]){out, gate ? gate[0] : -1, gate ? gate[1] : -1, -1});
    if (pid != 0)
        return pid;
    struct seen seen = {0};
    /* The gate opens when nobody holds its writing end any more. */
    if (gate && (close(gate[1]) < 0 || read(gate[0], &byte, 1) != 0))
        _exit(3);
    struct fusiond_connection *connection = connect_or_fail();
    for (size_t i = 0; i < N_FUSIONS; i++) {
        struct fusiond_kernel *kernel = compile(connection, fusions[i], TARGET, NULL);
        seen.images[i] = fingerprint(kernel);
        snprintf(seen.outcomes[i], sizeof seen.outcomes[i], "%s", fusiond_kernel_outcome(kernel));
        fusiond_kernel_destroy(kernel);
    }
    fusiond_close(connection);
    _exit(write(out, &seen, sizeof seen) == sizeof seen ? 0 : 4);
}

static struct seen another_process(void)
{
    struct seen seen;
    int pipes[2], status;
    cr_assert(pipe2(pipes, O_CLOEXEC) == 0);
    pid_t pid = fork_client(NULL, pipes[1]);
    cr_assert(process_ends(pid, DAEMON_PATIENCE_MS, &status) && status == 0, "the client ended with %x", status);
    cr_assert(read(pipes[0], &seen, sizeof seen) == sizeof seen);
    close(pipes[0]);
    close(pipes[1]);
    return seen;
}

Test(main_job, four_fusions_compile_once)
{
    struct fusiond_connection *connection = connect_or_fail();
    uint64_t images[N_FUSIONS];
    for (size_t i = 0; i < N_FUSIONS; i++) {
        size_t size;
        struct fusiond_kernel *kernel = compile(connection, fusions[i], TARGET, NULL);
        cr_assert_str_eq(fusiond_kernel_outcome(kernel), "compiled");
        cr_assert(fusiond_kernel_stored(kernel));
        cr_assert(is_cubin_for(kernel, 90), "%s", fusions[i]);
        const char *ptx = fusiond_kernel_ptx(kernel, &size);
        cr_assert(ptx && memmem(ptx, size, ".target sm_90a", 14), "%s: no PTX", fusions[i]);
        cr_assert(fusiond_kernel_compile_ns(kernel) > 0);
        cr_assert(fusiond_kernel_entries(kernel) == 1);
        cr_assert_str_eq(fusiond_kernel_label(kernel), fusions[i]);
        struct fusiond_entry entry = fusiond_kernel_entry(kernel, 0);
        cr_assert_str_eq(entry.name, fusions[i]);
        cr_assert(entry.lowered[0] && strcmp(entry.lowered, entry.name) != 0);
        cr_assert(entry.registers > 0 && entry.spill_stores == 0 && entry.spill_loads == 0, "%s: %d registers",
                  fusions[i], (int)entry.registers);
        cr_assert(fusiond_kernel_log(kernel) != NULL);
        images[i] = fingerprint(kernel);
        fusiond_kernel_destroy(kernel);
    }
    cr_assert(stat_of(connection, "compiles_total") == N_FUSIONS);

    struct seen second = another_process();
    for (size_t i = 0; i < N_FUSIONS; i++) {
        cr_assert_str_eq(second.outcomes[i], "hit_memory");
        cr_assert(second.images[i] == images[i]);
    }
    cr_assert(stat_of(connection, "compiles_total") == N_FUSIONS);
    fusiond_close(connection);

    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, NULL);
    struct seen third = another_process();
    for (size_t i = 0; i < N_FUSIONS; i++) {
        cr_assert_str_eq(third.outcomes[i], "hit_database");
        cr_assert(third.images[i] == images[i]);
    }
    connection = connect_or_fail();
    cr_assert(stat_of(connection, "compiles_total") == 0);
    cr_assert(stat_of(connection, "worker_starts_total") == 0);
    fusiond_close(connection);
    daemon_stop_in_order(&daemon_);
}

Test(main_job, eight_processes_on_an_empty_cache)
{
    enum { CLIENTS = 8 };
    struct seen seen[CLIENTS];
    pid_t pids[CLIENTS];
    int gate[2], out[2], status;
    size_t compiled = 0;
    cr_assert(pipe2(gate, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        pids[i] = fork_client(gate, out[1]);
        cr_assert(pids[i] > 0);
    }
    close(gate[0]);
    close(gate[1]);
    for (size_t i = 0; i < CLIENTS; i++)
        cr_assert(process_ends(pids[i], DAEMON_PATIENCE_MS, &status) && status == 0, "a client ended with %x", status);
    for (size_t i = 0; i < CLIENTS; i++) {
        cr_assert(read(out[0], &seen[i], sizeof seen[i]) == sizeof seen[i]);
        for (size_t j = 0; j < N_FUSIONS; j++) {
            compiled += strcmp(seen[i].outcomes[j], "compiled") == 0;
            cr_assert(seen[i].images[j] == seen[0].images[j]);
        }
    }
    struct fusiond_connection *connection = connect_or_fail();
    cr_assert(compiled == N_FUSIONS, "%zu compiles", compiled);
    cr_assert(stat_of(connection, "compiles_total") == N_FUSIONS);
    cr_assert(stat_of(connection, "database_kernels") == N_FUSIONS);
    fusiond_close(connection);
    close(out[0]);
    close(out[1]);
    daemon_stop_in_order(&daemon_);
}

static void get(struct fusiond_connection *connection, const char *target, const char *block, const char *outcome,
                char key[65])
{
    struct fusiond_kernel *kernel = compile(connection, "row_softmax", target, block);
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
    struct fusiond_connection *connection = connect_or_fail();
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
    cr_assert(stat_of(connection, "compiles_total") == 4);
    fusiond_close(connection);

    daemon_stop_in_order(&daemon_);
    daemon_restart(&daemon_, NULL);
    connection = connect_or_fail();
    for (size_t i = 0; i < 4; i++)
        get(connection, variants[i].target, variants[i].block, "hit_database", key);
    cr_assert(stat_of(connection, "compiles_total") == 0);
    fusiond_close(connection);
    daemon_stop_in_order(&daemon_);
}

Test(main_job, a_fork_of_the_client_reconnects)
{
    struct fusiond_connection *connection = connect_or_fail();
    int status;
    fusiond_kernel_destroy(compile(connection, "transpose", TARGET, NULL));
    pid_t pid = fork();
    if (pid == 0) {
        struct fusiond_kernel *kernel = compile(connection, "transpose", TARGET, NULL);
        _exit(strcmp(fusiond_kernel_outcome(kernel), "hit_memory") == 0 ? 0 : 1);
    }
    cr_assert(process_ends(pid, DAEMON_PATIENCE_MS, &status) && status == 0);
    fusiond_kernel_destroy(compile(connection, "transpose", TARGET, NULL));
    cr_assert(stat_of(connection, "connections") == 1);
    cr_assert(stat_of(connection, "compiles_total") == 1);
    fusiond_close(connection);
}
