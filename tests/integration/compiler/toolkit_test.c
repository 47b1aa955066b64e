/*
 * A worker with toolkit headers, from a folder of the test's own: what is in the folder can be included, nothing else
 * can be read or asked about, nothing can be written, and headers that change end the worker.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/compiler/worker.h"
#include "daemon/sandbox/sandbox.h"
#include "tests/support/compiler_process.h"

#define MARKER "SECRET_MARKER_5b1f"

static msgpack_zone zone;
static struct compiler_process worker;
static struct worker_ready ready;
static char folder[] = "/tmp/fusiond-toolkit-XXXXXX";
static char include[64], secret[64], missing[64];

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
    close(fd);
}

static const char *below(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", include, name);
    return path;
}

static void start(bool probe)
{
    const char *args[] = {"--toolkit-headers", "--toolkit-include", include, probe ? "--probe" : NULL, NULL};
    compiler_process_start_or_skip(&worker, args, &zone, &ready);
}

static void setup(void)
{
    if (!sandbox_has_landlock())
        cr_skip("this kernel has no Landlock");
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    umask(022);
    cr_assert(mkdtemp(folder) != NULL && chmod(folder, 0755) == 0);
    snprintf(include, sizeof include, "%s/include", folder);
    snprintf(secret, sizeof secret, "%s/secret", folder);
    snprintf(missing, sizeof missing, "%s/absent", folder);
    cr_assert(mkdir(include, 0755) == 0 && mkdir(below("cccl"), 0755) == 0 && mkdir(below("cccl/cuda"), 0755) == 0);
    write_file(secret, MARKER " " MARKER ";\n#define " MARKER " 1\n");
    write_file(below("cuda_fp16.h"), "#include \"half_details.h\"\n#include <cuda/thing>\n");
    write_file(below("half_details.h"), "#define DETAIL 3\n");
    write_file(below("cccl/cuda/thing"), "#define THING 4\n");
    cr_assert(symlink(secret, below("link.h")) == 0);
}

static void teardown(void)
{
    static const char *const files[] = {"cuda_fp16.h", "half_details.h", "cccl/cuda/thing", "link.h"};
    compiler_process_finish(&worker);
    msgpack_zone_destroy(&zone);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(below(files[i]));
    unlink(secret);
    rmdir(below("cccl/cuda"));
    rmdir(below("cccl"));
    rmdir(include);
    rmdir(folder);
}

TestSuite(toolkit, .init = setup, .fini = teardown);

static struct worker_result compile(const char *program, const char *extra)
{
    struct text args[] = {TEXT_OF("--gpu-architecture=sm_90a"), text_of(extra)};
    struct worker_job job = {
        .program = text_of(program), .args = args, .n_args = extra ? 2 : 1, .image_kind = IMAGE_KIND_CUBIN};
    struct worker_result result;
    struct error error = {0};
    cr_assert(compiler_process_compile(&worker, &job, &zone, &result, &error) == 0, "%s", error.text);
    return result;
}

static const char kernel[] = "#include <cuda_fp16.h>\n__global__ void k(int *p) { *p = DETAIL + THING; }\n";

Test(toolkit, F28_headers_of_the_folder_can_be_included)
{
    start(false);
    struct worker_result result = compile(kernel, NULL);
    cr_assert(result.result == 0, "%s", result.log.at);
}

static void expect_like_missing(const char *path, const char *extra)
{
    char program[512], words[512];
    snprintf(program, sizeof program, "#include \"%s\"\n%s", path, kernel);
    struct worker_result a = compile(program, extra);
    snprintf(program, sizeof program, "#include \"/nonexistent\"\n%s", kernel);
    struct worker_result b = compile(program, extra);
    cr_assert(a.result == 6 && b.result == 6, "%s: %s", path, a.log.at);
    cr_assert(a.n_diagnostics == 1 && b.n_diagnostics == 1, "%s", a.log.at);
    snprintf(words, sizeof words, "cannot open source file \"%s\"", path);
    cr_assert(strncmp(a.diagnostics[0].text.at, words, strlen(words)) == 0, "%s", a.log.at);
    cr_assert(strstr(a.log.at, MARKER) == NULL && strstr(a.log.at, "root:") == NULL, "%s", a.log.at);
}

Test(toolkit, F28_nothing_else_can_be_included)
{
    char path[256];
    start(false);
    if (ready.sandbox != SANDBOX_FULL)
        cr_skip("an AddressSanitizer build");
    expect_like_missing(secret, NULL);
    expect_like_missing("/etc/passwd", NULL);
    expect_like_missing("etc/passwd", NULL);
    expect_like_missing("/proc/self/environ", NULL);
    expect_like_missing("/proc/self/fd/3", NULL);
    expect_like_missing("/dev/stdin", NULL);
    snprintf(path, sizeof path, "%s/../secret", include);
    expect_like_missing(path, NULL);
    expect_like_missing("../secret", NULL);
    expect_like_missing("passwd", "-I/etc");
    snprintf(path, sizeof path, "-I%s", folder);
    expect_like_missing("secret", path);
}

/* A link that leads out of the folder exists, and cannot be read: that is Landlock's part. */
Test(toolkit, F28_a_link_out_of_the_folder_cannot_be_read)
{
    start(false);
    struct worker_result result = compile("#include <link.h>\n", NULL);
    cr_assert(result.result == 6 && strstr(result.log.at, MARKER) == NULL, "%s", result.log.at);
}

static bool has_include(const char *path)
{
    char program[256];
    snprintf(program, sizeof program,
             "#if __has_include(\"%s\")\n#error it_is_there\n#else\n#error it_is_not\n#endif\n", path);
    struct worker_result result = compile(program, NULL);
    bool yes = strstr(result.log.at, "it_is_there") != NULL, no = strstr(result.log.at, "it_is_not") != NULL;
    cr_assert(yes != no, "%s", result.log.at);
    return yes;
}

Test(toolkit, F28_has_include_is_no_oracle)
{
    start(false);
    const char *paths[] = {secret, missing, folder, "/", "/etc/passwd", "/proc/self/environ", "/dev/null"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        cr_expect(!has_include(paths[i]), "%s", paths[i]);
    cr_expect(has_include("cuda_fp16.h"));
}

Test(toolkit, F28_nothing_can_be_written)
{
    static const char *const options[] = {"--time=", "--create-pch="};
    char option[160];
    start(false);
    if (ready.sandbox != SANDBOX_FULL)
        cr_skip("an AddressSanitizer build");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        snprintf(option, sizeof option, "%s%s", options[i], below("written"));
        compile(kernel, option);
        cr_assert(access(below("written"), F_OK) < 0 && errno == ENOENT, "%s", option);
        snprintf(option, sizeof option, "%s%s/written", options[i], folder);
        compile(kernel, option);
        snprintf(option, sizeof option, "%s/written", folder);
        cr_assert(access(option, F_OK) < 0 && errno == ENOENT, "%s", option);
    }
}

Test(toolkit, a_worker_whose_headers_change_ends)
{
    start(false);
    cr_assert(compile(kernel, NULL).result == 0);
    write_file(below("half_details.h"), "#define DETAIL 5\n");
    struct text args[] = {TEXT_OF("--gpu-architecture=sm_90a")};
    struct worker_job job = {.program = text_of(kernel), .args = args, .n_args = 1, .image_kind = IMAGE_KIND_CUBIN};
    struct worker_result result;
    struct error error;
    cr_assert(compiler_process_compile(&worker, &job, &zone, &result, &error) < 0);
    int status = compiler_process_wait(&worker);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_REPLACED, "status %x", (unsigned)status);
}

/* The bytes are in the build, times are not; the identity knows both. */
Test(toolkit, headers_are_in_the_build)
{
    uint8_t build[DIGEST_SIZE];
    char identity[1025];
    start(true);
    cr_assert(ready.has_build);
    memcpy(build, ready.build, sizeof build);
    snprintf(identity, sizeof identity, "%s", ready.identity.at);
    compiler_process_finish(&worker);

    write_file(below("half_details.h"), "#define DETAIL 3\n");
    start(true);
    cr_assert(memcmp(build, ready.build, sizeof build) == 0);
    cr_assert(strcmp(identity, ready.identity.at) != 0);
    compiler_process_finish(&worker);

    write_file(below("half_details.h"), "#define DETAIL 4\n");
    start(true);
    cr_assert(memcmp(build, ready.build, sizeof build) != 0);
    compiler_process_finish(&worker);

    compiler_process_start_or_skip(&worker, (const char *[]){"--probe", NULL}, &zone, &ready);
    cr_assert(memcmp(build, ready.build, sizeof build) != 0);
}

Test(toolkit, without_headers_the_worker_says_what_to_do)
{
    const char *args[] = {"--toolkit-headers", "--toolkit-include", folder, NULL};
    struct error error;
    compiler_process_start_or_skip(&worker, NULL, &zone, &ready); /* there is an NVRTC */
    compiler_process_finish(&worker);
    cr_assert(compiler_process_start(&worker, args) == 0);
    cr_assert(compiler_process_read(&worker, &worker_ready_type, &zone, &ready, &error) == 0, "%s", error.text);
    cr_assert(ready.error.at != NULL && strstr(ready.error.at, "cuda_fp16.h") != NULL &&
                  strstr(ready.error.at, folder) != NULL,
              "%s", ready.error.at);
}
