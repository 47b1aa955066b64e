/* What is kept survives; what cannot be kept, or was damaged, is compiled again, and said. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct wire wire;

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(storage, .fini = teardown);

static void open_daemon(void)
{
    daemon_start_or_skip(&daemon_, NULL);
    wire_open(&wire, daemon_.socket);
}

/* Flip one byte of the file where it holds `bytes`. */
static bool flip(const char *path, struct bytes bytes, size_t at)
{
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return false;
    char *all = malloc((size_t)status.st_size + 1);
    cr_assert(all && read(fd, all, (size_t)status.st_size) == status.st_size);
    char *found = memmem(all, (size_t)status.st_size, bytes.at, bytes.size);
    bool done = false;
    if (found) {
        char byte = (char)(found[at] ^ 0x20);
        done = pwrite(fd, &byte, 1, found - all + (off_t)at) == 1;
    }
    free(all);
    close(fd);
    return done;
}

Test(storage, F10_a_flipped_byte_of_an_image)
{
    struct sample sample;
    uint8_t image[512];
    open_daemon();
    sample_kernel(&sample, 1)->with_image = true;
    struct compile_reply reply = get_kernel(&wire, &sample.request);
    size_t size = reply.kernel->image.size;
    uint8_t *clean = malloc(size);
    cr_assert(clean && size > 1024);
    memcpy(clean, reply.kernel->image.at, size);
    memcpy(image, clean, sizeof image);
    wire_close(&wire);
    for (int round = 0; round < 3; round++) {
        daemon_stop_in_order(&daemon_);
        cr_assert(flip(daemon_.database, (struct bytes){image, 64}, (size_t)(20 + 13 * round)),
                  "the image is not found in the file");
        daemon_restart(&daemon_, NULL);
        wire_open(&wire, daemon_.socket);
        reply = get_kernel(&wire, &sample.request);
        cr_assert(reply.outcome == OUTCOME_COMPILED && reply.stored);
        cr_assert(reply.kernel->image.size == size && memcmp(reply.kernel->image.at, clean, size) == 0);
        struct stats_reply stats = wire_stats(daemon_.socket);
        cr_assert(stats.database_corrupt_rows_total == 1 && stats.compiles_total == 1);
        wire_close(&wire);
    }
    free(clean);
    daemon_stop_in_order(&daemon_);
}

Test(storage, F9_a_file_that_is_no_database)
{
    struct sample sample;
    open_daemon();
    get_kernel(&wire, sample_kernel(&sample, 1));
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    int fd = open(daemon_.database, O_WRONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && pwrite(fd, "not a database at all, is it", 28, 0) == 28);
    close(fd);
    daemon_restart(&daemon_, NULL);
    cr_assert(daemon_log_count(&daemon_, "database.moved_aside") == 1);
    wire_open(&wire, daemon_.socket);
    struct compile_reply reply = get_kernel(&wire, &sample.request);
    cr_assert(reply.outcome == OUTCOME_COMPILED && reply.stored);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

/* A client that writes down every key that was acknowledged, until the daemon is gone, which may be at any time. */
static pid_t fork_writer(unsigned seed, int out)
{
    struct wire mine;
    struct sample sample;
    struct envelope envelope;
    struct compile_reply reply;
    struct error error;
    msgpack_sbuffer request;
    pid_t pid = fork_apart((const int[]){out, -1});
    if (pid != 0)
        return pid;
    if (wire_try_connect(&mine, daemon_.socket) < 0)
        _exit(0);
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    msgpack_sbuffer_init(&request);
    wire_write(&request, 1, METHOD_HELLO, &hello);
    for (unsigned number = seed;; number++) {
        if (!wire_send(&mine, request.data, request.size, WIRE_PATIENCE_MS) ||
            wire_read(&mine, WIRE_PATIENCE_MS, &envelope) != WIRE_FRAME || envelope.error.at)
            _exit(0);
        if (number > seed &&
            (message_parse(&compile_reply_type, envelope.body.at, envelope.body.size, &mine.zone, &reply, &error) < 0 ||
             !reply.stored || write(out, reply.kernel->key, DIGEST_SIZE) != DIGEST_SIZE))
            _exit(1);
        msgpack_sbuffer_clear(&request);
        wire_write(&request, 2, METHOD_COMPILE, sample_kernel(&sample, number));
    }
}

Test(storage, F1_killed_while_writing)
{
    enum { WRITERS = 2 };
    unsigned cycles = getenv("FUSIOND_TEST_LONG") ? 200 : 10;
    uint8_t keys[4096][DIGEST_SIZE];
    size_t n = 0;
    int pipes[2];
    cr_assert(pipe2(pipes, O_CLOEXEC | O_NONBLOCK) == 0);
    daemon_start_or_skip(&daemon_, NULL);
    srand(1);
    for (unsigned cycle = 0; cycle < cycles && n < 3900; cycle++) {
        pid_t writers[WRITERS];
        int status;
        for (unsigned i = 0; i < WRITERS; i++)
            writers[i] = fork_writer(100000 * cycle + 10000 * i, pipes[1]);
        /* At some instant after a few were acknowledged: wait for a random number of them. */
        size_t goal = n + 1 + (size_t)(rand() % 5);
        long deadline = clock_ms() + DAEMON_PATIENCE_MS;
        while (n < goal && clock_ms() < deadline && n < 4000)
            if (read(pipes[0], keys[n], DIGEST_SIZE) == DIGEST_SIZE)
                n++;
        cr_assert(n >= goal, "cycle %u: %zu of %zu", cycle, n, goal);
        daemon_kill(&daemon_);
        for (unsigned i = 0; i < WRITERS; i++)
            cr_assert(process_ends(writers[i], DAEMON_PATIENCE_MS, &status) && status == 0, "a writer: %x", status);
        while (n < 4096 && read(pipes[0], keys[n], DIGEST_SIZE) == DIGEST_SIZE)
            n++;
        long begin = clock_ms();
        daemon_restart(&daemon_, NULL);
        cr_assert(clock_ms() - begin <= 1000, "ready again after %ld ms", clock_ms() - begin);
        wire_open(&wire, daemon_.socket);
        for (size_t i = 0; i < n; i++) {
            struct kernel_get_request get = {.has_key = true};
            memcpy(get.key, keys[i], DIGEST_SIZE);
            cr_assert(wire_call(&wire, METHOD_KERNEL_GET, &get, NULL, NULL) == 0, "cycle %u: key %zu of %zu is lost",
                      cycle, i, n);
        }
        wire_close(&wire);
        struct stats_reply stats = wire_stats(daemon_.socket);
        cr_assert(stats.database_corrupt_rows_total == 0 && stats.database_kernels >= n);
    }
    close(pipes[0]);
    close(pipes[1]);
    daemon_stop_in_order(&daemon_);
}

/* As a user who may not write: root may everything. */
Test(storage, F8_a_folder_that_cannot_be_written)
{
    static const struct stats_request nothing;
    uid_t uid = getuid() ? getuid() : 65534;
    struct daemon_options options = {.uid = uid == getuid() ? 0 : uid};
    struct error error = {0};
    struct sample sample;
    struct stats_reply stats;
    int status;
    cr_assert(daemon_prepare(&daemon_, &options, &error) == 0, "%s", error.text);
    cr_assert(mkdir(daemon_.cache, 0555) == 0);
    cr_assert(daemon_launch(&daemon_, &options, &error) == 0, "%s", error.text);
    /* The client must have the daemon's uid. */
    pid_t pid = fork_apart(NULL);
    if (pid == 0) {
        if (options.uid && setuid(uid) < 0)
            _exit(2);
        wire_open(&wire, daemon_.socket);
        if (daemon_log_waits_for(&daemon_, " compiler") && daemon_log_count(&daemon_, "compiler.unavailable") > 0)
            _exit(77);
        struct compile_reply reply = get_kernel(&wire, sample_kernel(&sample, 1));
        if (reply.outcome != OUTCOME_COMPILED || reply.stored)
            _exit(3);
        reply = get_kernel(&wire, &sample.request);
        if (reply.outcome != OUTCOME_HIT_MEMORY || reply.stored)
            _exit(4);
        if (wire_call(&wire, METHOD_STATS, &nothing, &stats, NULL) != 0)
            _exit(5);
        size_t told = 0; /* beside other sentences, such as one about the sandbox */
        for (size_t i = 0; i < stats.n_degraded; i++)
            told += strstr(stats.degraded[i].at, daemon_.cache) != NULL;
        if (told != 1)
            _exit(6);
        _exit(0);
    }
    cr_assert(process_ends(pid, DAEMON_PATIENCE_MS, &status) && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        cr_skip("no NVRTC here");
    cr_assert(WEXITSTATUS(status) == 0, "step %d failed", WEXITSTATUS(status));
    cr_assert(daemon_log_count(&daemon_, "database.degraded") == 1);
    daemon_stop_in_order(&daemon_);
}
