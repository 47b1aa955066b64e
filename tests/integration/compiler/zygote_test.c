/* A zygote and the workers that it forks: what they make is what an ordinary worker makes; what happens to one of them
 * happens to it alone. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/compiler/worker.h"
#include "daemon/sandbox/under_asan.h"
#include "tests/support/zygote_process.h"

static msgpack_zone zone;
static struct zygote_process zygote;
static struct zygote_ready ready;
static struct job_header header;

static struct text args[] = {
    TEXT_OF("--std=c++17"),         TEXT_OF("--gpu-architecture=sm_90a"), TEXT_OF("-default-device"),
    TEXT_OF("--diag-suppress=177"), TEXT_OF("--ptxas-options=--verbose"), TEXT_OF("--no-cache")};
static struct text names[] = {TEXT_OF("k")};

static struct worker_job job_of(const char *program)
{
    return (struct worker_job){.program = text_of(program),
                               .headers = &header,
                               .n_headers = 1,
                               .args = args,
                               .n_args = sizeof args / sizeof args[0],
                               .names = names,
                               .n_names = 1,
                               .image_kind = IMAGE_KIND_CUBIN};
}

#define SAMPLE                                                                                                         \
    "#line 1 \"fusion.cu\"\n" HEAVY_PREFIX "__global__ void k(int *p) { heavy7<int> h{*p}; *p = h.twice(); }\n"

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    header = heavy_header(&zone);
    struct worker_job sample = job_of(SAMPLE);
    zygote_process_start(&zygote, HEAVY_PREFIX, &sample, &zone, &ready);
}

static void teardown(void)
{
    zygote_process_finish(&zygote);
    msgpack_zone_destroy(&zone);
}

TestSuite(zygote, .init = setup, .fini = teardown);

static void is_ready(void)
{
    cr_assert(ready.error.at == NULL, "%s", ready.error.at);
    cr_assert(UNDER_ASAN || ready.sandbox == SANDBOX_FULL);
}

/* The log but for its lines with times. */
static void without_times(struct text log, char *ret, size_t room)
{
    size_t used = 0;
    for (const char *line = log.at; *line;) {
        size_t size = strcspn(line, "\n") + 1;
        if (!memmem(line, size, "Compile time", 12) && used + size < room) {
            memcpy(ret + used, line, size);
            used += size;
        }
        line += strlen(line) < size ? strlen(line) : size;
    }
    ret[used] = '\0';
}

static bool same_bytes(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

static void expect_the_same(struct compiler_process *worker, const char *program)
{
    struct worker_job job = job_of(program);
    struct worker_result plain, forked;
    struct compiler_process child;
    struct error error;
    pid_t pid;
    char logs[2][4096];
    cr_assert(compiler_process_compile(worker, &job, &zone, &plain, &error) == 0, "%s", error.text);
    zygote_process_fork(&zygote, &zone, &child, &pid);
    cr_assert(compiler_process_compile(&child, &job, &zone, &forked, &error) == 0, "%s", error.text);
    cr_expect(plain.result == forked.result && same_bytes(plain.image, forked.image) &&
                  same_bytes(plain.ptx, forked.ptx),
              "%s", program);
    without_times(plain.log, logs[0], sizeof logs[0]);
    without_times(forked.log, logs[1], sizeof logs[1]);
    cr_expect_str_eq(logs[0], logs[1]);
    cr_expect(plain.n_diagnostics == forked.n_diagnostics && plain.n_entries == forked.n_entries);
    if (plain.n_entries > 0)
        cr_expect(message_equal(&kernel_entry_type, &plain.entries[0], &forked.entries[0]));
    compiler_process_finish(&child);
    struct zygote_exited exited = zygote_process_exited(&zygote, &zone);
    cr_expect(exited.id == zygote.forks && exited.status == 0 && exited.signal == 0);
}

Test(zygote, I1_the_same_bytes_as_without)
{
    static const char *const programs[] = {
        SAMPLE,
        HEAVY_PREFIX "__global__ void k(float *p) { heavy3999<float> h{p[threadIdx.x]}; p[0] = sinf(h.twice()); }\n",
        "// a comment in front\n\n" HEAVY_PREFIX "#define N 3\n__global__ void k(int *p) { *p += N + __LINE__; }\n",
        HEAVY_PREFIX "__device__ int table[4] = {1, 2, 3, 4};\n__global__ void k(int *p) { *p = table[*p]; }\n",
        HEAVY_PREFIX "__global__ void k(int *p) { *p = missing; }\n",
        HEAVY_PREFIX "#include \"heavy.h\"\n__global__ void k(int *p) { *p = 1; }\n",
        HEAVY_PREFIX "#include \"not_there.h\"\n__global__ void k(int *p) { *p = 1; }\n",
        HEAVY_PREFIX "#warning careful\n__global__ void k(int *p) { *p = 1; }\n",
    };
    struct compiler_process worker;
    struct worker_ready bare;
    is_ready();
    compiler_process_start_or_skip(&worker, NULL, &zone, &bare);
    cr_expect(strcmp(bare.identity.at, ready.identity.at) == 0);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        expect_the_same(&worker, programs[i]);
    compiler_process_finish(&worker);
}

/* What the compiler begins from is private, and is the only thing in the folder. */
Test(zygote, its_folder)
{
    struct stat st;
    char path[128];
    is_ready();
    cr_assert(stat(zygote.folder, &st) == 0 && (st.st_mode & 0777) == 0700);
    snprintf(path, sizeof path, "%s/header", zygote.folder);
    cr_assert(stat(path, &st) == 0 && (uint64_t)st.st_size == ready.header_bytes);
    snprintf(path, sizeof path, "%s/tmp", zygote.folder);
    cr_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700);
}

Test(zygote, a_program_that_begins_in_another_way)
{
    struct compiler_process child;
    struct worker_result result;
    struct error error;
    char words[1024];
    pid_t pid;
    struct worker_job job = job_of("#define A 1\n" HEAVY_PREFIX "__global__ void k(int *p) { *p = A; }\n");
    is_ready();
    zygote_process_fork(&zygote, &zone, &child, &pid);
    cr_assert(compiler_process_compile(&child, &job, &zone, &result, &error) < 0);
    compiler_process_words(&child, words, sizeof words);
    cr_expect(strstr(words, "the precompiled header was not used"), "%s", words);
    compiler_process_finish(&child);
    struct zygote_exited exited = zygote_process_exited(&zygote, &zone);
    cr_expect(exited.status == WORKER_EXIT_NO_PCH, "%d", (int)exited.status);
}

Test(zygote, F2_a_killed_child)
{
    struct compiler_process child;
    struct worker_result result;
    struct worker_job job = job_of(SAMPLE);
    struct error error;
    pid_t pid;
    is_ready();
    zygote_process_fork(&zygote, &zone, &child, &pid);
    cr_assert(kill(pid, SIGKILL) == 0);
    struct zygote_exited exited = zygote_process_exited(&zygote, &zone);
    cr_expect(exited.id == zygote.forks && exited.signal == SIGKILL);
    compiler_process_finish(&child);
    zygote_process_fork(&zygote, &zone, &child, &pid);
    cr_assert(compiler_process_compile(&child, &job, &zone, &result, &error) == 0, "%s", error.text);
    cr_expect(result.result == 0);
    compiler_process_finish(&child);
}

/* A child of a zygote that is gone does not compile on. */
Test(zygote, a_killed_zygote_takes_its_children)
{
    struct compiler_process child;
    char words[64];
    pid_t pid;
    is_ready();
    zygote_process_fork(&zygote, &zone, &child, &pid);
    compiler_process_finish(&zygote.process);
    compiler_process_words(&child, words, sizeof words); /* ends with the child */
    cr_expect_str_eq(words, "");
    compiler_process_finish(&child);
}

Test(zygote, eight_children_at_once)
{
    enum { N = 8 };
    struct compiler_process children[N];
    struct worker_result results[N];
    struct worker_job job = job_of(SAMPLE);
    struct error error;
    pid_t pid;
    is_ready();
    for (int i = 0; i < N; i++)
        zygote_process_fork(&zygote, &zone, &children[i], &pid);
    for (int i = 0; i < N; i++)
        cr_assert(compiler_process_send(&children[i], &job) == 0);
    for (int i = 0; i < N; i++) {
        cr_assert(compiler_process_read(&children[i], &worker_result_type, &zone, &results[i], &error) == 0, "%s",
                  error.text);
        cr_expect(results[i].result == 0 && same_bytes(results[i].image, results[0].image));
    }
    for (int i = 0; i < N; i++) {
        cr_expect(zygote_process_exited(&zygote, &zone).status == 0);
        compiler_process_finish(&children[i]); /* and the bytes go with it */
    }
}

static void expect_words(const char *program, const char *wanted)
{
    struct compiler_process child;
    struct worker_result result;
    struct error error;
    static char words[8192];
    struct worker_job job = job_of(program);
    pid_t pid;
    if (UNDER_ASAN)
        cr_skip("limits are not set under AddressSanitizer");
    is_ready();
    zygote_process_fork(&zygote, &zone, &child, &pid);
    cr_assert(compiler_process_compile(&child, &job, &zone, &result, &error) < 0);
    compiler_process_words(&child, words, sizeof words);
    cr_expect(strstr(words, wanted), "%s", words);
    cr_expect(zygote_process_exited(&zygote, &zone).signal != 0);
    compiler_process_finish(&child);
}

/* A child has the limits of any worker, and its own stderr. */
Test(zygote, F4_memory)
{
    expect_words(HEAVY_PREFIX "__device__ int a[1 << 30] = {1};\n__global__ void k(int *p) { *p = a[0]; }\n",
                 "out of memory");
}

Test(zygote, F4_stack)
{
    enum { OPERATORS = 300000 };
    char *program = malloc(OPERATORS + 200);
    cr_assert(program);
    size_t used = (size_t)snprintf(program, 100, HEAVY_PREFIX "__device__ int a = ");
    for (size_t i = 0; i < OPERATORS / 2; i++, used += 2)
        memcpy(program + used, "- ", 2);
    snprintf(program + used, 100, "1;\n__global__ void k() {}\n");
    expect_words(program, WORKER_WORDS_STACK);
    free(program);
}

/* ---- no zygote ---- */

static void expect_no_zygote(const char *prefix, const char *sample, const char *why)
{
    struct worker_job job = job_of(sample);
    zygote_process_start(&zygote, prefix, &job, &zone, &ready);
    cr_assert(ready.error.at && strstr(ready.error.at, why), "%s", ready.error.at ? ready.error.at : "it is ready");
    cr_expect_not(ready.unequal);
    cr_assert(compiler_process_wait(&zygote.process) == WORKER_EXIT_DONE);
}

static void only_texts(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    header = heavy_header(&zone);
}

TestSuite(no_zygote, .init = only_texts, .fini = teardown);

Test(no_zygote, of_headers_that_cost_nothing)
{
    header.bytes = (struct bytes){(const uint8_t *)"#pragma once\n", 13};
    expect_no_zygote(HEAVY_PREFIX, HEAVY_PREFIX "__global__ void k(float *p) { *p = powf(*p, sinf(*p)); }\n",
                     "not worth it");
}

Test(no_zygote, of_headers_that_are_not_there)
{
    expect_no_zygote("#include \"absent.h\"\n", SAMPLE, "no precompiled header");
}

Test(no_zygote, F28_of_headers_of_the_machine)
{
    expect_no_zygote("#include \"/etc/passwd\"\n", SAMPLE, "cannot open source file \"/etc/passwd\"");
}

Test(no_zygote, of_a_sample_that_does_not_compile)
{
    expect_no_zygote(HEAVY_PREFIX, HEAVY_PREFIX "__global__ void k(int *p) { *p = missing; }\n", "fails without");
}

Test(no_zygote, of_a_sample_that_begins_in_another_way)
{
    expect_no_zygote(HEAVY_PREFIX, "#define A\n" HEAVY_PREFIX "__global__ void k(int *p) { *p = 1; }\n",
                     "does not use the precompiled header");
}
