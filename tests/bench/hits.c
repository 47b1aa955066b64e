/* P1, P1b, P2: how much longer a hit takes than a bare round trip with as many bytes. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"

#define PER_ROUND 1000

/* One hit, done again and again. */
struct hit {
    struct fusiond_connection *connection;
    struct fusiond_fusion *fusion; /* compile */
    const char *key;               /* or kernel.get */
    unsigned parts;
    bool new_label; /* each request differs in a field that is not in the key, so no memo knows it */
    unsigned count;
};

static void hit_once(struct hit *hit)
{
    struct fusiond_error error;
    struct fusiond_kernel *kernel;
    if (hit->key) {
        if (fusiond_kernel_get(hit->connection, hit->key, hit->parts, &kernel, &error) < 0)
            die("kernel.get: %s", error.text);
    } else {
        kernel = get_kernel(hit->connection, hit->fusion, hit->parts);
    }
    if (strcmp(fusiond_kernel_outcome(kernel), "hit_memory") != 0)
        die("not a hit in memory but %s", fusiond_kernel_outcome(kernel));
    fusiond_kernel_destroy(kernel);
}

static void prepare(struct hit *hit)
{
    char label[32];
    struct fusiond_error error;
    if (!hit->new_label)
        return;
    snprintf(label, sizeof label, "bench-%u", hit->count++);
    if (fusiond_fusion_set_option(hit->fusion, "label", label, &error) < 0)
        die("label: %s", error.text);
}

/* Interleave base line and hit; print p50 and p99 of both. */
static void compare(const struct bench *bench, const char *name, struct hit *hit, size_t request, size_t reply)
{
    size_t n = (size_t)bench->rounds * PER_ROUND;
    double *base = malloc(n * sizeof *base), *ours = malloc(n * sizeof *ours);
    struct pingpong pingpong;
    char row[64];
    if (!base || !ours)
        die("no memory for %zu samples", n);
    pingpong_start(&pingpong, request, reply, bench->spin_us);
    for (unsigned round = 0; round < bench->rounds; round++) {
        for (size_t i = 0; i < PER_ROUND; i++) {
            uint64_t start = now_ns();
            pingpong_once(&pingpong);
            base[round * PER_ROUND + i] = (double)(now_ns() - start) / 1e3;
        }
        for (size_t i = 0; i < PER_ROUND; i++) {
            prepare(hit);
            uint64_t start = now_ns();
            hit_once(hit);
            ours[round * PER_ROUND + i] = (double)(now_ns() - start) / 1e3;
        }
    }
    pingpong_stop(&pingpong);
    double base_p50 = percentile(base, n, 0.5), base_p99 = percentile(base, n, 0.99);
    snprintf(row, sizeof row, "%s.p50", name);
    print_row(stdout, row, percentile(ours, n, 0.5), "us", base_p50, "pingpong.p50");
    snprintf(row, sizeof row, "%s.p99", name);
    print_row(stdout, row, percentile(ours, n, 0.99), "us", base_p99, "pingpong.p99");
    free(base);
    free(ours);
}

static void bench_image(const struct bench *bench, struct fusiond_connection *connection, const char *name,
                        size_t image_bytes)
{
    struct fusiond_fusion *fusion = make_fusion(name, 0, image_bytes);
    struct fusiond_kernel *kernel = get_kernel(connection, fusion, FUSIOND_IMAGE);
    struct hit hit = {.connection = connection, .key = fusiond_kernel_key(kernel), .parts = FUSIOND_IMAGE};
    size_t request, reply, size;
    frame_sizes(bench, hit.key, 0, &request, &reply);
    fusiond_kernel_image(kernel, &size);
    /* The base line carries the image's bytes, however the daemon passes them. */
    compare(bench, name, &hit, request, reply + size);
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);
}

void bench_hits(const struct bench *bench)
{
    struct fusiond_connection *connection;
    struct fusiond_error error;
    size_t request, reply;
    if (fusiond_connect(bench->socket, NULL, &connection, &error) < 0)
        die("%s", error.text);

    struct fusiond_fusion *fusion = make_fusion("bench", 10240, 0);
    struct fusiond_kernel *kernel = get_kernel(connection, fusion, 0);
    const char *key = fusiond_kernel_key(kernel);
    frame_sizes(bench, key, 0, &request, &reply);

    struct hit by_key = {.connection = connection, .key = key};
    compare(bench, "P1.hit_by_key", &by_key, request, reply);

    /* The request carries the code; the reply is that of kernel.get and a few bytes. */
    struct hit repeated = {.connection = connection, .fusion = fusion};
    compare(bench, "P1b.hit_by_fusion_10KB.repeated", &repeated, request + 10240, reply);
    struct hit first = {.connection = connection, .fusion = fusion, .new_label = true};
    compare(bench, "P1b.hit_by_fusion_10KB.first", &first, request + 10240, reply);
    fusiond_kernel_destroy(kernel);
    fusiond_fusion_destroy(fusion);

    bench_image(bench, connection, "P2.hit_image_40KB", 32u << 10);
    bench_image(bench, connection, "P2.hit_image_1MB", 1u << 20);
    fusiond_close(connection);
}
