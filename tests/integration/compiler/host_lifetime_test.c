/* How a worker with the C++ compiler starts, ends and dies, and that nothing of it stays. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/compiler/work_dir.h"
#include "daemon/compiler/worker.h"
#include "daemon/sandbox/under_asan.h"
#include "proto/envelope.h"
#include "tests/support/host_worker.h"

static struct host_worker worker;

static void setup(void)
{
    host_worker_start_or_skip(&worker);
}

static void teardown(void)
{
    host_worker_finish(&worker);
}

TestSuite(host_lifetime, .init = setup, .fini = teardown);

/* Within ten seconds. */
static bool becomes(bool (*condition)(void))
{
    const struct timespec pause = {.tv_nsec = 2000000};
    for (int i = 0; i < 5000; i++) {
        if (condition())
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static void send_job(struct text program)
{
    struct worker_job job = {.program = program, .image_kind = IMAGE_KIND_SHARED_OBJECT};
    msgpack_sbuffer out;
    msgpack_sbuffer_init(&out);
    cr_assert(envelope_write_message(&out, &worker_job_type, &job) == 0);
    cr_assert(compiler_process_write(&worker.process, out.data, out.size) == 0);
    msgpack_sbuffer_destroy(&out);
}

/* `n` times `part` between head and tail, as a whole program. */
static struct text repeat(const char *head, const char *part, size_t n, const char *tail)
{
    size_t size = strlen(head) + n * strlen(part) + strlen(tail) + 1;
    char *text = msgpack_zone_malloc(&worker.zone, size), *at = stpcpy(text, head);
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, part);
    strcpy(at, tail);
    return (struct text){text, size - 1};
}

/* Constants that take longer than any test waits, without much memory. */
static struct text endless(void)
{
    char *text = msgpack_zone_malloc(&worker.zone, 65536), *at = text;
    at += sprintf(at, "template <int S> constexpr unsigned spin() { unsigned x = S; for (int a = 0; a < 2000; a++)\n"
                      "for (int b = 0; b < 2000; b++) x = x * 3 + b; return x; }\n");
    for (int i = 0; i < 1000; i++)
        at += sprintf(at, "constexpr unsigned v%d = spin<%d>();\n", i, i);
    return (struct text){text, (size_t)(at - text)};
}

static bool tool_runs(const char *name)
{
    pid_t pids[16];
    size_t n = host_worker_tools(&worker, pids, 16);
    for (size_t i = 0; i < n && i < 16; i++) {
        char path[64], comm[64] = "";
        snprintf(path, sizeof path, "/proc/%d/comm", (int)pids[i]);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        bool same = fgets(comm, sizeof comm, file) && strncmp(comm, name, strlen(name)) == 0;
        fclose(file);
        if (same)
            return true;
    }
    return false;
}

static bool compiler_runs(void)
{
    return tool_runs("cc1plus");
}

static bool assembler_runs(void)
{
    return tool_runs("as");
}

static bool nothing_runs(void)
{
    pid_t pid;
    return host_worker_tools(&worker, &pid, 1) == 0;
}

Test(host_lifetime, ready_says_what_is_there)
{
    cr_assert(worker.ready.protocol == WORKER_PROTOCOL && worker.ready.major >= 12 && worker.ready.n_archs == 0);
    cr_assert(worker.ready.library.at[0] == '/' && access(worker.ready.library.at, X_OK) == 0);
    cr_assert(!worker.ready.has_build && worker.ready.identity.size > 0);
}

static void probe(uint8_t ret[DIGEST_SIZE], char identity[1024])
{
    const char *args[] = {"--host-cc", "g++", "--work-dir", worker.parent, "--probe", NULL};
    struct compiler_process process;
    struct worker_ready ready;
    struct error error = {0};
    cr_assert(compiler_process_start(&process, args) == 0);
    cr_assert(compiler_process_read(&process, &worker_ready_type, &worker.zone, &ready, &error) == 0, "%s", error.text);
    cr_assert(ready.has_build && ready.identity.at != NULL);
    memcpy(ret, ready.build, DIGEST_SIZE);
    snprintf(identity, 1024, "%s", ready.identity.at);
    int status = compiler_process_wait(&process);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_DONE);
    compiler_process_finish(&process);
}

Test(host_lifetime, probe_gives_the_build_and_ends)
{
    uint8_t builds[2][DIGEST_SIZE];
    char identity[2][1024];
    for (int i = 0; i < 2; i++)
        probe(builds[i], identity[i]);
    cr_assert(memcmp(builds[0], builds[1], DIGEST_SIZE) == 0);
    cr_assert_str_eq(identity[0], identity[1]);
    cr_assert_str_eq(identity[0], worker.ready.identity.at);
}

static void expect_refused(const char *compiler, const char *words)
{
    const char *args[] = {"--host-cc", compiler, "--work-dir", worker.parent, NULL};
    struct compiler_process process;
    struct worker_ready ready;
    struct error error = {0};
    cr_assert(compiler_process_start(&process, args) == 0);
    cr_assert(compiler_process_read(&process, &worker_ready_type, &worker.zone, &ready, &error) == 0, "%s", error.text);
    cr_assert(ready.error.at != NULL && strstr(ready.error.at, words), "%s", ready.error.at ? ready.error.at : "taken");
    int status = compiler_process_wait(&process);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_NO_COMPILER);
    compiler_process_finish(&process);
}

Test(host_lifetime, what_is_no_compiler_says_what_to_do)
{
    expect_refused("/nonexistent/g++", "/nonexistent/g++ cannot be run; install g++");
    expect_refused("no-such-compiler", "there is no no-such-compiler; install g++");
    expect_refused("/bin/true", "install g++");
}

/* The worker ends by itself when its channel does, and takes nothing with it. */
Test(host_lifetime, end_of_the_channel_ends_it)
{
    compiler_process_hang_up(&worker.process);
    int status = compiler_process_wait(&worker.process);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_DONE, "status %x", (unsigned)status);
    cr_assert(nothing_runs());
}

/* A deadline is a SIGKILL of the worker: its compiler, and the compiler's stages, are gone at once. */
Test(host_lifetime, F3_all_processes_end_with_the_worker)
{
    send_job(endless());
    cr_assert(becomes(compiler_runs), "the compiler never ran");
    kill(worker.process.pid, SIGKILL);
    int status = compiler_process_wait(&worker.process);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cr_assert(becomes(nothing_runs), "something outlived the worker");
}

Test(host_lifetime, F3_the_assembler_ends_with_the_worker)
{
    send_job(TEXT_OF("asm(\".altmacro\\n.macro m a\\n.if a\\nm %a-1\\nm %a-1\\n.endif\\n.endm\\nm 26\\n\");\n"));
    cr_assert(becomes(assembler_runs), "the assembler never ran");
    kill(worker.process.pid, SIGKILL);
    cr_assert(becomes(nothing_runs), "something outlived the worker");
}

/* What a killed worker leaves in its folder is swept when the next one starts; the folder of a living one stays. */
Test(host_lifetime, folders_of_the_dead_are_swept)
{
    const char *args[] = {"--host-cc", "g++", "--work-dir", worker.parent, NULL};
    struct compiler_process second;
    struct worker_ready ready;
    struct error error = {0};
    cr_assert(host_worker_folders(&worker) == 1);
    cr_assert(compiler_process_start(&second, args) == 0);
    cr_assert(compiler_process_read(&second, &worker_ready_type, &worker.zone, &ready, &error) == 0, "%s", error.text);
    cr_assert(host_worker_folders(&worker) == 2);
    kill(worker.process.pid, SIGKILL);
    compiler_process_wait(&worker.process);
    host_worker_restart(&worker);
    cr_assert(host_worker_folders(&worker) == 2, "%zu folders", host_worker_folders(&worker));
    struct text name = TEXT_OF("k");
    struct worker_job job = {.program = host_program(&worker, "__global__ void k() {}", "k"),
                             .names = &name,
                             .n_names = 1,
                             .image_kind = IMAGE_KIND_SHARED_OBJECT};
    struct worker_result result;
    cr_assert(compiler_process_compile(&second, &job, &worker.zone, &result, &error) == 0, "%s", error.text);
    cr_assert(result.result == 0, "%s", result.log.at);
    compiler_process_finish(&second);
}

/* A cache that cannot be written: the compiler works elsewhere. */
Test(host_lifetime, F8_no_folder_to_work_in)
{
    char here[4096];
    struct error error = {0};
    snprintf(worker.parent, sizeof worker.parent, "/nonexistent/cache");
    host_worker_restart(&worker);
    struct worker_result result = host_worker_compile(&worker, "__global__ void k() {}", "k");
    cr_assert(result.result == 0, "%s", result.log.at);
    compiler_process_finish(&worker.process);
    /* Sweeps what the worker has left. */
    cr_assert(work_dir_make("/tmp", here, &error) == 0, "%s", error.text);
    rmdir(here);
}

/* What the machine does to a job is no finding about its code, and no limit. */
Test(host_lifetime, F7_a_full_disk_is_told)
{
    char path[128], said[4096];
    static char block[65536];
    compiler_process_finish(&worker.process);
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", worker.parent, "tmpfs", 0, "size=4m,mode=0700") < 0)
        cr_skip("no small disk can be made here: %s", strerror(errno));
    host_worker_restart(&worker);
    snprintf(path, sizeof path, "%s/full", worker.parent);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(fd >= 0);
    while (write(fd, block, sizeof block) > 0)
        ;
    cr_assert(errno == ENOSPC, "%s", strerror(errno));
    close(fd);
    send_job(repeat("int x;\n", "/* much */\n", 100000, ""));
    compiler_process_words(&worker.process, said, sizeof said);
    int status = compiler_process_wait(&worker.process);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_SYSTEM, "status %x: %s", (unsigned)status, said);
    cr_assert(strstr(said, "No space left") || strstr(said, "no space left"), "%s", said);
    umount2(worker.parent, MNT_DETACH);
}

static void expect_death(struct text program, const char *words)
{
    char said[4096];
    send_job(program);
    compiler_process_words(&worker.process, said, sizeof said);
    int status = compiler_process_wait(&worker.process);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_MEMORY, "status %x: %s", (unsigned)status, said);
    cr_assert(strstr(said, words), "%s", said);
    cr_assert(becomes(nothing_runs));
}

Test(host_lifetime, F4_stack_overflow_is_named)
{
    expect_death(repeat("int ", "*", 300000, "p;\n"), WORKER_WORDS_STACK);
}

Test(host_lifetime, F4_memory_bomb_is_named)
{
    if (UNDER_ASAN)
        cr_skip("memory is not limited under AddressSanitizer");
    char *text = msgpack_zone_malloc(&worker.zone, 4096), *at = text;
    at += sprintf(at, "#define A0 1+\n");
    for (int i = 1; i < 40; i++)
        at += sprintf(at, "#define A%d A%d A%d\n", i, i - 1, i - 1);
    at += sprintf(at, "int f() { return A39 0; }\n");
    expect_death((struct text){text, (size_t)(at - text)}, "out of memory");
}

Test(host_lifetime, F4_memory_bomb_of_the_assembler_is_named)
{
    if (UNDER_ASAN)
        cr_skip("memory is not limited under AddressSanitizer");
    expect_death(TEXT_OF("asm(\".rept 2000000000\\n.long 1\\n.endr\\n\");\n"), "out of memory");
}

/* A file that grows without end stops at its limit, and is a finding. */
Test(host_lifetime, F4_large_objects_are_refused)
{
    struct worker_result result;
    struct error error = {0};
    if (UNDER_ASAN)
        cr_skip("files are not limited under AddressSanitizer");
    cr_assert(host_worker_try(&worker, TEXT_OF("int a[1 << 28] = {1};\n"), NULL, &result, &error), "%s", error.text);
    cr_assert(result.result != 0 && strstr(result.log.at, "File too large"), "%s", result.log.at);
}

/* Words that a tool would use for its own end, in the client's mouth. */
Test(host_lifetime, F4_words_of_the_client_are_no_limit)
{
    struct worker_result result = host_worker_compile(
        &worker, "#error cc1plus: out of memory allocating 1 bytes\n#error Killed signal terminated program\n", NULL);
    cr_assert(result.result != 0 && result.n_diagnostics > 0);
}
