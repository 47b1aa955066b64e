#include "tests/integration/daemon/job.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const job_fusions[JOB_FUSIONS] = {"bias_gelu_residual", "row_softmax", "layer_norm", "transpose"};

struct fusiond_connection *job_connect(const struct daemon_process *daemon)
{
    struct fusiond_connection *connection;
    struct fusiond_error error = {0};
    cr_assert(fusiond_connect(daemon->socket, NULL, &connection, &error) == 0, "%s", error.text);
    return connection;
}

struct fusiond_fusion *job_load(const char *name, const char *target)
{
    char path[512];
    struct fusiond_fusion *fusion;
    struct fusiond_error error = {0};
    snprintf(path, sizeof path, FUSIONS "/%s/%s.json", name, name);
    cr_assert(fusiond_fusion_load(path, &fusion, &error) == 0, "%s", error.text);
    cr_assert(fusiond_fusion_set_target(fusion, target, &error) == 0, "%s", error.text);
    return fusion;
}

struct fusiond_kernel *job_compile(struct fusiond_connection *connection, const char *name, const char *target,
                                   const char *block_size)
{
    struct fusiond_compile_options options = {.parts = FUSIOND_IMAGE | FUSIOND_PTX | FUSIOND_LOG};
    struct fusiond_fusion *fusion = job_load(name, target);
    struct fusiond_kernel *kernel = NULL;
    struct fusiond_error error = {0};
    if (block_size)
        cr_assert(fusiond_fusion_set_option(fusion, "compile.block_size", block_size, &error) == 0, "%s", error.text);
    int status = fusiond_compile(connection, fusion, &options, &kernel, &error);
    cr_assert(status == 0, "%s: %s: %s\n%s", name, error.name, error.text, fusiond_failure_log(connection));
    fusiond_fusion_destroy(fusion);
    return kernel;
}

uint64_t job_stat(struct fusiond_connection *connection, const char *name)
{
    struct fusiond_stats *stats;
    struct fusiond_error error = {0};
    uint64_t value;
    cr_assert(fusiond_stats(connection, &stats, &error) == 0, "%s", error.text);
    cr_assert(fusiond_stats_get(stats, name, &value), "no %s", name);
    fusiond_stats_destroy(stats);
    return value;
}

/* FNV-1a. */
uint64_t job_fingerprint(const struct fusiond_kernel *kernel)
{
    size_t size;
    const unsigned char *image = fusiond_kernel_image(kernel, &size);
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ image[i]) * 1099511628211u;
    return hash;
}

pid_t job_fork_client(const struct daemon_process *daemon, const char *target, const int *gate, int out)
{
    char byte;
    pid_t pid = fork_apart((const int[]){out, gate ? gate[0] : -1, gate ? gate[1] : -1, -1});
    if (pid != 0)
        return pid;
    struct job_seen seen = {0};
    /* The gate opens when nobody holds its writing end any more. */
    if (gate && (close(gate[1]) < 0 || read(gate[0], &byte, 1) != 0))
        _exit(3);
    struct fusiond_connection *connection = job_connect(daemon);
    for (size_t i = 0; i < JOB_FUSIONS; i++) {
        struct fusiond_kernel *kernel = job_compile(connection, job_fusions[i], target, NULL);
        seen.images[i] = job_fingerprint(kernel);
        snprintf(seen.outcomes[i], sizeof seen.outcomes[i], "%s", fusiond_kernel_outcome(kernel));
        fusiond_kernel_destroy(kernel);
    }
    fusiond_close(connection);
    _exit(write(out, &seen, sizeof seen) == sizeof seen ? 0 : 4);
}

struct job_seen job_in_another_process(const struct daemon_process *daemon, const char *target)
{
    struct job_seen seen;
    int pipes[2], status;
    cr_assert(pipe2(pipes, O_CLOEXEC) == 0);
    pid_t pid = job_fork_client(daemon, target, NULL, pipes[1]);
    cr_assert(process_ends(pid, DAEMON_PATIENCE_MS, &status) && status == 0, "the client ended with %x", status);
    cr_assert(read(pipes[0], &seen, sizeof seen) == sizeof seen);
    close(pipes[0]);
    close(pipes[1]);
    return seen;
}

void job_in_eight_processes(const struct daemon_process *daemon, const char *target)
{
    enum { CLIENTS = 8 };
    struct job_seen seen[CLIENTS];
    pid_t pids[CLIENTS];
    int gate[2], out[2], status;
    size_t compiled = 0;
    cr_assert(pipe2(gate, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        pids[i] = job_fork_client(daemon, target, gate, out[1]);
        cr_assert(pids[i] > 0);
    }
    close(gate[0]);
    close(gate[1]);
    for (size_t i = 0; i < CLIENTS; i++)
        cr_assert(process_ends(pids[i], DAEMON_PATIENCE_MS, &status) && status == 0, "a client ended with %x", status);
    for (size_t i = 0; i < CLIENTS; i++) {
        cr_assert(read(out[0], &seen[i], sizeof seen[i]) == sizeof seen[i]);
        for (size_t j = 0; j < JOB_FUSIONS; j++) {
            compiled += strcmp(seen[i].outcomes[j], "compiled") == 0;
            cr_assert(seen[i].images[j] == seen[0].images[j]);
        }
    }
    struct fusiond_connection *connection = job_connect(daemon);
    cr_assert(compiled == JOB_FUSIONS, "%zu compiles", compiled);
    cr_assert(job_stat(connection, "compiles_total") == JOB_FUSIONS);
    cr_assert(job_stat(connection, "database_kernels") == JOB_FUSIONS);
    fusiond_close(connection);
    close(out[0]);
    close(out[1]);
}
