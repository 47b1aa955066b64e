/*
 * The leak suite against the sandbox alone: every job goes straight to the worker, with options that the daemon's own
 * list would refuse. No file may be read or written, and nothing may tell an existing file from a missing one.
 *
 * Built a second time with LEAKS_OF_ZYGOTE: then jobs go to the children of zygotes that are made with the same
 * options, and to a worker only if there is no such zygote.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/compiler/worker.h"
#include "tests/support/zygote_process.h"

/* What the secret file holds, in places where each vector would show it. */
#define MARKER "SECRET_MARKER_5b1f"

static msgpack_zone zone;
static struct compiler_process worker;
static struct worker_ready ready;
static char folder[] = "/tmp/fusiond-leaks-XXXXXX";
static char secret[64], missing[64];

static void setup(void)
{
    msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    compiler_process_start_or_skip(&worker, NULL, &zone, &ready);
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert(chmod(folder, 0777) == 0);
    snprintf(secret, sizeof secret, "%s/secret", folder);
    snprintf(missing, sizeof missing, "%s/absent", folder);
    int fd = open(secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    static const char text[] = "--" MARKER " " MARKER ";\n#define " MARKER " 1\n";
    cr_assert(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    close(fd);
    if (ready.sandbox == SANDBOX_NONE)
        cr_skip("the worker is not shut in: an AddressSanitizer build, or a kernel without seccomp");
}

/* Call `each` for every file in the folder; how many there are beside the secret. */
static int count_files(void (*each)(int dir, const char *name))
{
    struct dirent *entry;
    int extra = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        extra += strcmp(entry->d_name, "secret") != 0;
        if (each != NULL)
            each(dirfd(dir), entry->d_name);
    }
    closedir(dir);
    return extra;
}

static void delete (int dir, const char *name)
{
    unlinkat(dir, name, 0);
}

#ifdef LEAKS_OF_ZYGOTE
static struct zygote_process zygote;
#endif

static void teardown(void)
{
#ifdef LEAKS_OF_ZYGOTE
    zygote_process_finish(&zygote);
#endif
    compiler_process_finish(&worker);
    msgpack_zone_destroy(&zone);
    count_files(delete);
    rmdir(folder);
}

TestSuite(leaks, .init = setup, .fini = teardown);

#ifdef LEAKS_OF_ZYGOTE
static struct zygote_ready zygote_ready;
static char zygote_options[512];
static struct job_header heavy;
static unsigned n_forked; /* results of children */

/* The one with these options, which may be no good. */
static void get_zygote(const struct worker_job *job)
{
    char options[512] = "zygote";
    for (size_t i = 0; i < job->n_args; i++)
        strncat(options, job->args[i].at, sizeof options - strlen(options) - 1);
    if (strcmp(options, zygote_options) == 0)
        return;
    zygote_process_finish(&zygote);
    strcpy(zygote_options, options);
    struct worker_job sample = *job;
    sample.program = TEXT_OF(HEAVY_PREFIX "__global__ void k(int *p) { *p = 1; }\n");
    zygote_process_start(&zygote, HEAVY_PREFIX, &sample, &zone, &zygote_ready);
    cr_assert(zygote_ready.error.at == NULL || strstr(zygote_ready.error.at, MARKER) == NULL, "%s",
              zygote_ready.error.at);
}

/* Compile in a child, if there is a zygote and the compiler takes its header. */
static bool try_child(const struct worker_job *plain, struct worker_result *ret)
{
    static struct compiler_process child;
    static char words[8192];
    struct worker_job job = *plain;
    struct error error;
    pid_t pid;
    if (heavy.bytes.at == NULL)
        heavy = heavy_header(&zone);
    job.headers = &heavy;
    job.n_headers = 1;
    get_zygote(&job);
    if (zygote_ready.error.at != NULL)
        return false;
    size_t size = sizeof HEAVY_PREFIX + plain->program.size;
    char *program = msgpack_zone_malloc(&zone, size);
    cr_assert(program != NULL);
    job.program = (struct text){program, (size_t)snprintf(program, size, HEAVY_PREFIX "%s", plain->program.at)};
    /* The bytes of a result live as long as its child's reader: all are kept. */
    zygote_process_fork(&zygote, &zone, &child, &pid);
    bool done = compiler_process_compile(&child, &job, &zone, ret, &error) == 0;
    compiler_process_words(&child, words, sizeof words);
    cr_assert(strstr(words, MARKER) == NULL, "%s", words);
    struct zygote_exited exited = zygote_process_exited(&zygote, &zone);
    cr_assert(done ? exited.status == 0 && exited.signal == 0 : exited.signal || exited.status == WORKER_EXIT_NO_PCH,
              "status %d, signal %d: %s", (int)exited.status, (int)exited.signal, words);
    n_forked += done;
    close(child.channel);
    close(child.errors);
    return done;
}
#endif

/* false when the compiler gave up and took the worker with it. */
static bool try_compile(const char *program, const char *const *extra, struct worker_result *ret, struct error *error)
{
    struct text args[16] = {TEXT_OF("--gpu-architecture=sm_90a"), TEXT_OF("--no-cache")};
    size_t n = 2;
    for (; extra != NULL && *extra != NULL; extra++)
        args[n++] = text_of(*extra);
    struct worker_job job = {.program = text_of(program), .args = args, .n_args = n, .image_kind = IMAGE_KIND_CUBIN};
#ifdef LEAKS_OF_ZYGOTE
    if (try_child(&job, ret))
        return true;
#endif
    return compiler_process_compile(&worker, &job, &zone, ret, error) == 0;
}

static struct worker_result compile(const char *program, const char *const *extra)
{
    struct worker_result result;
    struct error error = {0};
    cr_assert(try_compile(program, extra, &result, &error), "%s", error.text);
    return result;
}

/* Search the whole reply, every field of it. */
static bool holds(const struct worker_result *result, const char *what)
{
    msgpack_sbuffer packed;
    msgpack_sbuffer_init(&packed);
    message_pack(&worker_result_type, result, &packed);
    bool found = memmem(packed.data, packed.size, what, strlen(what)) != NULL;
    msgpack_sbuffer_destroy(&packed);
    return found;
}

static const char kernel[] = "__global__ void k(int *p) { *p = 1; }\n";

static struct worker_result include(const char *path, const char *const *extra)
{
    char program[256];
    snprintf(program, sizeof program, "#include \"%s\"\n%s", path, kernel);
    return compile(program, extra);
}

/* Including the path fails as including a missing one does: same result, same words but for the name. */
static void expect_like_missing(const char *path, const char *const *extra)
{
    struct worker_result a = include(path, extra), b = include("/nonexistent", extra);
    cr_assert(a.result == b.result && a.result == 6, "%s: %s", path, a.log.at);
    cr_assert(a.n_diagnostics == 1 && b.n_diagnostics == 1);
    char words[512];
    snprintf(words, sizeof words, "cannot open source file \"%s\"", path);
    cr_assert(strncmp(a.diagnostics[0].text.at, words, strlen(words)) == 0, "%s", a.log.at);
    cr_assert(strncmp(b.diagnostics[0].text.at, "cannot open source file \"/nonexistent\"", 38) == 0, "%s", b.log.at);
    cr_assert(!holds(&a, MARKER));
}

Test(leaks, F28_row1_include)
{
    expect_like_missing(secret, NULL);
    expect_like_missing("/etc/passwd", NULL);
    cr_assert(!holds((struct worker_result[]){include("/etc/passwd", NULL)}, "root:"));
    /* Relative to the folder the worker is in, which is the root. */
    expect_like_missing("etc/passwd", NULL);
    expect_like_missing("../../../etc/passwd", NULL);
}

Test(leaks, F28_row2_include_with_brief_diagnostics)
{
    const char *brief[] = {"--brief-diagnostics=true", NULL};
    expect_like_missing(secret, brief);
}

Test(leaks, F28_row3_include_option)
{
    char option[128];
    const char *args[] = {option, NULL};
    snprintf(option, sizeof option, "-include=%s", secret);
    struct worker_result result = compile(kernel, args);
    cr_assert(result.result != 0 && !holds(&result, MARKER), "%s", result.log.at);
    struct worker_result dir = compile("#ifdef " MARKER "\n#error read\n#endif\n", args);
    cr_assert(strstr(dir.log.at, "#error") == NULL && strstr(dir.log.at, "cannot open") != NULL, "%s", dir.log.at);
}

Test(leaks, F28_row4_proc)
{
    char path[64];
    expect_like_missing("/proc/self/environ", NULL);
    expect_like_missing("/proc/self/cmdline", NULL);
    expect_like_missing("/proc/self/maps", NULL);
    snprintf(path, sizeof path, "/proc/%d/environ", (int)getpid());
    expect_like_missing(path, NULL);
    expect_like_missing("/dev/stdin", NULL);
    expect_like_missing("/proc/self/fd/3", NULL);
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

Test(leaks, F28_row5_has_include_is_no_oracle)
{
    const char *paths[] = {secret, missing, folder, "/", "/etc/passwd", "/proc/self/environ", "/dev/null"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        cr_assert(!has_include(paths[i]), "%s", paths[i]);
}

/* A folder in -I that exists, that does not, and a file: no difference. */
Test(leaks, F28_row5_search_paths_are_no_oracle)
{
    char option[3][128];
    const char *paths[] = {folder, missing, secret};
    struct worker_result results[3];
    for (int i = 0; i < 3; i++) {
        snprintf(option[i], sizeof option[i], "-I%s", paths[i]);
        const char *args[] = {option[i], NULL};
        results[i] = compile("#include \"secret\"\n", args);
        cr_assert(results[i].result == results[0].result);
        cr_assert_str_eq(results[i].log.at, results[0].log.at);
    }
}

Test(leaks, F28_row6_options_file)
{
    char option[128], absent[128];
    const char *args[] = {option, NULL}, *others[] = {absent, NULL};
    snprintf(option, sizeof option, "--ptxas-options=--options-file=%s", secret);
    snprintf(absent, sizeof absent, "--ptxas-options=--options-file=%s", missing);
    struct worker_result a = compile(kernel, args), b = compile(kernel, others);
    cr_assert(!holds(&a, MARKER), "%s", a.log.at);
    cr_assert(a.result == b.result && a.n_diagnostics == b.n_diagnostics, "an oracle: %s | %s", a.log.at, b.log.at);
}

/* With the option naming `path`. NVRTC 13.0 aborts when it cannot write a time trace: then there is another worker. */
static void compile_writing(const char *option, const char *path)
{
    char text[128];
    const char *args[] = {text, NULL};
    struct worker_result result;
    struct error error;
    snprintf(text, sizeof text, "%s%s", option, path);
    if (try_compile(kernel, args, &result, &error))
        return;
    compiler_process_finish(&worker);
    compiler_process_start_or_skip(&worker, NULL, &zone, &ready);
}

/* Neither a new file nor the one that is there changed. */
static void expect_no_file(const char *option)
{
    char path[128];
    struct stat before, after;
    snprintf(path, sizeof path, "%s/written", folder);
    compile_writing(option, path);
    cr_assert(stat(secret, &before) == 0);
    compile_writing(option, secret);
    cr_assert(stat(secret, &after) == 0 && before.st_size == after.st_size && before.st_ino == after.st_ino &&
              before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    cr_assert(count_files(NULL) == 0, "%s wrote a file", option);
}

Test(leaks, F28_row7_time_file)
{
    expect_no_file("--time=");
}

Test(leaks, F28_row8_time_trace)
{
    expect_no_file("--fdevice-time-trace=");
}

Test(leaks, F28_row9_create_pch)
{
    char option[128];
    expect_no_file("--create-pch=");
    snprintf(option, sizeof option, "--pch-dir=%s", folder);
    const char *args[] = {"--pch", option, NULL};
    compile("#include <nv/target>\n__global__ void k(int *p) { *p = 1; }\n", args);
    cr_assert(count_files(NULL) == 0, "%s wrote a file", option);
}

/* The compiler gives up before it looks at the file, since it cannot make a temporary one. Existing or not, the words
 * are the same. */
Test(leaks, F28_row10_use_pch)
{
    char option[128], absent[128];
    const char *args[] = {option, NULL}, *others[] = {absent, NULL};
    snprintf(option, sizeof option, "--use-pch=%s", secret);
    snprintf(absent, sizeof absent, "--use-pch=%s", missing);
    struct worker_result a = compile(kernel, args), b = compile(kernel, others);
    cr_assert(a.result == b.result && a.result != 0, "%s | %s", a.log.at, b.log.at);
    cr_assert(a.n_diagnostics == 1 && strstr(a.diagnostics[0].text.at, "cannot open") != NULL, "%s", a.log.at);
    cr_assert_str_eq(a.log.at, b.log.at);
}

Test(leaks, F28_row11_fifo_does_not_hang)
{
    char fifo[64];
    struct timespec start, end;
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    cr_assert(mkfifo(fifo, 0666) == 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    expect_like_missing(fifo, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    unlink(fifo);
    cr_assert(end.tv_sec - start.tv_sec < 10, "%ld s", (long)(end.tv_sec - start.tv_sec));
}

Test(leaks, F28_row12_include_path)
{
    char option[128];
    const char *args[] = {option, NULL};
    snprintf(option, sizeof option, "-I%s", folder);
    expect_like_missing("secret", args);
    struct worker_result result = compile("#include <secret>\n", args);
    cr_assert(result.result == 6 && !holds(&result, MARKER), "%s", result.log.at);
    expect_like_missing("passwd", (const char *[]){"-I/etc", NULL});
}

#ifdef LEAKS_OF_ZYGOTE
/* That the rows above are about children, and not about workers in their place. */
Test(leaks, F28_it_is_children_that_are_tried)
{
    expect_like_missing(secret, NULL);
    cr_assert(n_forked == 2, "%u: %s", n_forked, zygote_ready.error.at ? zygote_ready.error.at : "ready");
    expect_like_missing(secret, (const char *[]){"--brief-diagnostics=true", NULL});
    cr_assert(n_forked == 4);
    cr_assert(!has_include(secret) && n_forked == 5);
    expect_like_missing("secret", (const char *[]){"-I/tmp", NULL});
    cr_assert(n_forked == 7);
}

/* Its own folder is all that a child can know of, and the names in it lead nowhere else. */
Test(leaks, F28_by_way_of_its_own_folder)
{
    char path[256];
    expect_like_missing("/nowhere", NULL); /* there is a zygote now */
    snprintf(path, sizeof path, "%s/../../..%s", zygote.folder, secret);
    expect_like_missing(path, NULL);
    snprintf(path, sizeof path, "%s/tmp/../../..%s", zygote.folder, secret);
    expect_like_missing(path, NULL);
    snprintf(path, sizeof path, "%s", zygote.parent);
    cr_assert(!has_include(path));
}
#endif
