/* P3: hits by key per second that the front's one loop thread answers to clients that pipeline. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels_db/kernel_key.h"
#include "proto/envelope.h"
#include "tests/bench/bench.h"

#define CLIENTS 8
#define DEPTH 64 /* requests that a client has under way */
#define BATCHES 1500

static double cpu_seconds(uint64_t pid)
{
    char path[64];
    unsigned long long user, system;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    FILE *file = fopen(path, "re");
    if (!file ||
        fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
        die("reading %s", path);
    fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static int greet(const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    msgpack_sbuffer frame;
    char scrap[4096];
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        die("connecting to %s", socket_path);
    msgpack_sbuffer_init(&frame);
    envelope_write_request(&frame, 0, METHOD_HELLO, &hello);
    if (send(fd, frame.data, frame.size, MSG_NOSIGNAL) < 0 || recv(fd, scrap, sizeof scrap, 0) <= 0)
        die("greeting the daemon");
    msgpack_sbuffer_destroy(&frame);
    return fd;
}

/* Send DEPTH requests in one write, read until all replies are in, again and again. */
static void run_client(const char *socket_path, const uint8_t *key, size_t reply_size)
{
    int fd = greet(socket_path);
    msgpack_sbuffer frames;
    size_t room = 1u << 20;
    char *scrap = malloc(room);
    struct kernel_get_request get = {.has_key = true};
    memcpy(get.key, key, sizeof get.key);
    msgpack_sbuffer_init(&frames);
    for (uint32_t i = 0; i < DEPTH; i++)
        envelope_write_request(&frames, i, METHOD_KERNEL_GET, &get);
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        if (send(fd, frames.data, frames.size, MSG_NOSIGNAL) != (ssize_t)frames.size)
            die("sending a batch");
        for (size_t left = DEPTH * reply_size; left;) {
            ssize_t n = recv(fd, scrap, room < left ? room : left, 0);
            if (n <= 0)
                die("the daemon closed the connection");
            left -= (size_t)n;
        }
    }
    close(fd);
}

void bench_throughput(const struct bench *bench)
{
    struct fusiond_connection *connection;
    struct fusiond_error error;
    uint8_t key[KEY_SIZE];
    size_t request, reply;
    if (fusiond_connect(bench->socket, NULL, &connection, &error) < 0)
        die("%s", error.text);
    struct fusiond_fusion *fusion = make_fusion("bench", 10240, 0);
    struct fusiond_kernel *kernel = get_kernel(connection, fusion, 0);
    frame_sizes(bench, fusiond_kernel_key(kernel), 0, &request, &reply);
    key_from_hex(fusiond_kernel_key(kernel), key);
    /* Ids below 128 take one byte in the reply, as the one that was measured. */
    double cpu = cpu_seconds(bench->pid);
    uint64_t start = now_ns();
    for (int i = 0; i < CLIENTS; i++) {
        pid_t pid = fork();
        if (pid < 0)
            die("fork failed");
        if (pid == 0) {
            run_client(bench->socket, key, reply);
            _exit(0);
        }
    }
    int bad = 0, status;
    for (int i = 0; i < CLIENTS; i++)
        if (wait(&status) < 0 || status != 0)
            bad++;
    if (bad)
        die("%d of %d clients failed", bad, CLIENTS);
    double seconds = (double)(now_ns() - start) / 1e9, hits = (double)CLIENTS * DEPTH * BATCHES;
    cpu = cpu_seconds(bench->pid) - cpu;
    print_row(stdout, "P3.hits_per_second", hits / seconds, "1/s", 0, "");
    print_row(stdout, "P3.hits_per_front_cpu_second", hits / cpu, "1/s", 0, "");
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);
    fusiond_close(connection);
}
