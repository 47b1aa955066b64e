/* How a worker starts, ends and dies, and what its parent can tell from it. */
#include <criterion/criterion.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/compiler/worker.h"
#include "daemon/sandbox/under_asan.h"
#include "proto/envelope.h"
#include "tests/support/compiler_process.h"

static msgpack_zone zone;
static struct compiler_process worker;
static struct worker_ready ready;

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
}

static void teardown(void)
{
    msgpack_zone_destroy(&zone);
}

TestSuite(lifetime, .init = setup, .fini = teardown);

static void start(const char *const *args)
{
    compiler_process_start_or_skip(&worker, args, &zone, &ready);
}

/* What the worker says and how it ends. */
static int end(char words[4096])
{
    compiler_process_words(&worker, words, 4096);
    int status = compiler_process_wait(&worker);
    compiler_process_finish(&worker);
    return status;
}

static void send_job(struct text program)
{
    struct text args[] = {TEXT_OF("--gpu-architecture=sm_90a"), TEXT_OF("--no-cache")};
    struct worker_job job = {.program = program, .args = args, .n_args = 2, .image_kind = IMAGE_KIND_CUBIN};
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    cr_assert(envelope_write_message(&out, &worker_job_type, &job) == 0);
    cr_assert(compiler_process_write(&worker, out.data, out.size) == 0);
    msgpack_sbuffer_destroy(&out);
}

Test(lifetime, ready_says_what_is_there)
{
    start(NULL);
    cr_assert(ready.protocol == WORKER_PROTOCOL);
    cr_assert(ready.has_major && ready.major >= 11 && ready.has_minor);
    cr_assert(ready.n_archs > 0);
    for (size_t i = 1; i < ready.n_archs; i++)
        cr_assert(ready.archs[i] > ready.archs[i - 1]);
    cr_assert(ready.library.at != NULL && access(ready.library.at, R_OK) == 0);
    cr_assert(ready.identity.at != NULL && strstr(ready.identity.at, " none") == NULL, "no builtins: %s",
              ready.identity.at);
    cr_assert(!ready.has_build);
    cr_assert(ready.sandbox != 0);
    compiler_process_finish(&worker);
}

Test(lifetime, others_go_first)
{
    int own = getpriority(PRIO_PROCESS, 0);
    start(NULL);
    cr_assert_eq(sched_getscheduler(worker.pid), SCHED_BATCH);
    cr_assert_eq(getpriority(PRIO_PROCESS, (id_t)worker.pid), own + 5 < 19 ? own + 5 : 19);
    compiler_process_finish(&worker);
}

Test(lifetime, probe_gives_the_build_and_ends)
{
    const char *args[] = {"--probe", NULL};
    char words[4096];
    uint8_t build[DIGEST_SIZE];
    char identity[1024];
    start(args);
    cr_assert(ready.has_build);
    memcpy(build, ready.build, sizeof build);
    snprintf(identity, sizeof identity, "%s", ready.identity.at);
    int status = end(words);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_DONE);
    cr_assert_str_eq(words, "");
    /* The same files give the same digest, and the identity by which a worker is compared. */
    start(args);
    cr_assert(memcmp(build, ready.build, sizeof build) == 0);
    end(words);
    start(NULL);
    cr_assert_str_eq(ready.identity.at, identity);
    compiler_process_finish(&worker);
}

Test(lifetime, end_of_the_channel_ends_it)
{
    char words[4096];
    start(NULL);
    compiler_process_hang_up(&worker);
    int status = end(words);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_DONE, "status %x", (unsigned)status);
    cr_assert_str_eq(words, "");
}

static void expect_channel_error(const void *bytes, size_t size, const char *says)
{
    char words[4096];
    start(NULL);
    cr_assert(compiler_process_write(&worker, bytes, size) == 0);
    compiler_process_hang_up(&worker);
    int status = end(words);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_CHANNEL, "status %x: %s", (unsigned)status,
              words);
    cr_assert(strstr(words, "fusiond-compiler: ") == words && strstr(words, says) != NULL, "%s", words);
}

Test(lifetime, F11_garbage_ends_it_with_a_message)
{
    expect_channel_error("\0\0\0\x05hello", 9, "bytes follow");
    expect_channel_error("\xff\xff\xff\xff", 4, "above the limit");
    expect_channel_error("\0\0\0\0", 4, "0 bytes");
    /* [2, "worker_result", {}] */
    expect_channel_error("\0\0\0\x11\x93\x02\xadworker_result\x80", 21, "worker_job");
    /* [2, "worker_job", {}]: fields are missing */
    expect_channel_error("\0\0\0\x0e\x93\x02\xaaworker_job\x80", 18, "program");
}

Test(lifetime, F13_end_inside_a_frame)
{
    expect_channel_error("\0\0\x01\0half", 8, "middle of a frame");
}

Test(lifetime, missing_library_says_what_to_do)
{
    const char *args[] = {"--nvrtc", "/nonexistent/libnvrtc.so", NULL};
    char words[4096];
    struct error error = {0};
    cr_assert(compiler_process_start(&worker, args) == 0);
    int failed = compiler_process_read(&worker, &worker_ready_type, &zone, &ready, &error);
    cr_assert(failed == 0, "%s", error.text);
    cr_assert(ready.error.at != NULL && !ready.has_major && ready.n_archs == 0);
    const char *wanted[] = {"/nonexistent/libnvrtc.so", "CUDA toolkit", "scripts/quickstart", "FUSIOND_NVRTC="};
    for (int i = 0; i < 4; i++)
        cr_assert(strstr(ready.error.at, wanted[i]) != NULL, "%s is not in: %s", wanted[i], ready.error.at);
    int status = end(words);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_NO_COMPILER);
    cr_assert(strstr(words, "/nonexistent/libnvrtc.so") != NULL);
}

/* A library that is no NVRTC. */
Test(lifetime, wrong_library_is_refused)
{
    const char *args[] = {"--nvrtc", "libc.so.6", NULL};
    char words[4096];
    struct error error = {0};
    cr_assert(compiler_process_start(&worker, args) == 0);
    cr_assert(compiler_process_read(&worker, &worker_ready_type, &zone, &ready, &error) == 0);
    cr_assert(ready.error.at != NULL && strstr(ready.error.at, "libc.so.6 has no nvrtc") != NULL, "%s",
              ready.error.at ? ready.error.at : "");
    int status = end(words);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_NO_COMPILER);
}

/* The folders of --nvrtc-dir, in the layout of Python wheels. */
Test(lifetime, library_in_a_folder_of_wheels)
{
    char folder[] = "/tmp/fusiond-test-XXXXXX", path[256], target[4096], words[4096];
    start(NULL);
    snprintf(target, sizeof target, "%s", ready.library.at);
    compiler_process_finish(&worker);
    cr_assert(mkdtemp(folder) != NULL);
    const char *parts[] = {"nvidia", "nvidia/cu13", "nvidia/cu13/lib"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        cr_assert(mkdir(path, 0700) == 0);
    }

    snprintf(path, sizeof path, "%s/nvidia/cu13/lib/libnvrtc.so.13", folder);
    cr_assert(symlink(target, path) == 0);
    const char *args[] = {"--nvrtc-dir", "/nonexistent", "--nvrtc-dir", folder, NULL};
    start(args);
    cr_assert_str_eq(ready.library.at, target);
    compiler_process_hang_up(&worker);
    end(words);
    unlink(path);
    for (int i = 2; i >= 0; i--) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        rmdir(path);
    }
    rmdir(folder);
}

Test(lifetime, wrong_arguments)
{
    const char *args[] = {"--nonsense", NULL};
    char words[4096];
    cr_assert(compiler_process_start(&worker, args) == 0);
    int status = end(words);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_USAGE);
    cr_assert(strstr(words, "usage: fusiond-compiler") != NULL);
}

/* A program of `n` times `part`. */
static struct text repeat(const char *head, const char *part, size_t n, const char *tail)
{
    size_t size = strlen(head) + n * strlen(part) + strlen(tail) + 1;
    char *text = msgpack_zone_malloc(&zone, size), *at = stpcpy(text, head);
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, part);
    strcpy(at, tail);
    return (struct text){text, size - 1};
}

Test(lifetime, F4_stack_overflow_is_named)
{
    char words[4096];
    if (UNDER_ASAN)
        cr_skip("AddressSanitizer reports stack overflows itself");
    start(NULL);
    send_job(repeat("__global__ void k(int *p) { p[0] = ", "- ", 300000, "p[1]; }\n"));
    int status = end(words);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %x", (unsigned)status);
    cr_assert(strstr(words, WORKER_WORDS_STACK) != NULL, "%s", words);
}

Test(lifetime, F4_memory_bomb_is_named)
{
    char words[4096];
    if (UNDER_ASAN)
        cr_skip("memory is not limited under AddressSanitizer");
    start(NULL);
    send_job(TEXT_OF("__device__ int a[1 << 30] = {1};\n__global__ void k(int *p) { *p = a[*p]; }\n"));
    int status = end(words);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x", (unsigned)status);
    cr_assert(strstr(words, "out of memory") != NULL, "%s", words);
}

/* A program that keeps the compiler busy for longer than any test waits. */
static struct text endless(void)
{
    static char text[4096];
    char *at = text;
    at += sprintf(at, "#define A0 1+\n");
    for (int i = 1; i < 40; i++)
        at += sprintf(at, "#define A%d A%d A%d\n", i, i - 1, i - 1);
    at += sprintf(at, "__global__ void k(int *p) { *p = A39 0; }\n");
    return (struct text){text, (size_t)(at - text)};
}

/* Wait, bounded, until the process has ended. */
static bool wait_for_end(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return false;
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    bool ended = poll(&wanted, 1, 10000) == 1;
    close(fd);
    return ended;
}

/* The parent dies while the compiler is busy: it reads no channel, only the signal can end it. */
Test(lifetime, F2_dies_with_its_parent)
{
    int report[2], status;
    start(NULL); /* skips where there is no NVRTC */
    compiler_process_finish(&worker);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, report) == 0);
    cr_assert(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct error error;
        if (compiler_process_start(&worker, NULL) < 0 ||
            compiler_process_read(&worker, &worker_ready_type, &zone, &ready, &error) < 0)
            _exit(1);
        send_job(endless());
        if (write(report[1], &worker.pid, sizeof worker.pid) != sizeof worker.pid)
            _exit(1);
        /* Keep the channel open until this process is killed. */
        for (;;)
            pause();
    }
    pid_t pid = 0;
    close(report[1]);
    cr_assert(read(report[0], &pid, sizeof pid) == sizeof pid);
    cr_assert(kill(pid, 0) == 0);
    kill(parent, SIGKILL);
    cr_assert(waitpid(parent, &status, 0) == parent);
    bool ended = wait_for_end(pid);
    if (!ended)
        kill(pid, SIGKILL);
    cr_assert(waitpid(pid, &status, 0) == pid);
    cr_assert(ended, "the worker outlived its parent");
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", (unsigned)status);
}

/* A deadline is a SIGKILL: also a compiler that would never return is gone at once. */
Test(lifetime, F3_compiler_hang_ends_by_kill)
{
    start(NULL);
    send_job(endless());
    pid_t pid = worker.pid;
    kill(pid, SIGKILL);
    cr_assert(wait_for_end(pid));
    char words[4096];
    int status = end(words);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
