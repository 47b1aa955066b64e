/* Source transforms with real programs: good ones, and every way to be bad. */
#include "daemon/compiler/transform.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/sandbox/filter.h"
#include "daemon/sandbox/sandbox.h"

#define TOOL FILTER_TOOL
#define RUN(text, ...) run(text, (const char *const[]){__VA_ARGS__, NULL})

static char folder[] = "/tmp/transform.XXXXXX";
static msgpack_zone zone;
static struct transform_result result;
static uint64_t timeout_ms, limit;

static void setup(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    cr_assert_geq(sodium_init(), 0);
    cr_assert_not_null(mkdtemp(folder));
    cr_assert(msgpack_zone_init(&zone, 4096));
    timeout_ms = 20000;
    limit = 1 << 20;
}

static void teardown(void)
{
    msgpack_zone_destroy(&zone);
    char command[64];
    snprintf(command, sizeof command, "%s/script", folder);
    unlink(command);
    rmdir(folder);
}

TestSuite(transform, .init = setup, .fini = teardown);

static void run(const char *text, const char *const *argv)
{
    struct text words[FILTER_ARGS + 1];
    struct filter_files files;
    struct error error;
    struct transform_job job = {.argv = words, .timeout_ms = timeout_ms, .limit = limit, .text = text_of(text)};
    while (argv[job.n_argv]) {
        words[job.n_argv] = text_of(argv[job.n_argv]);
        job.n_argv++;
    }
    cr_assert_eq(filter_files_find(argv, &files, &error), 0, "%s", error.text);
    cr_assert_eq(filter_files_digest(argv, &files, job.digest, &error), 0, "%s", error.text);
    filter_files_finish(&files);
    cr_assert_eq(transform_run(&job, &zone, &result, &error), 0, "%s", error.text);
    /* Nothing is left of it. */
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    cr_assert_eq(errno, ECHILD);
}

static void expect_text(const char *text)
{
    cr_assert_not_null(result.text.at, "%s: %s", result.error.at, result.said.at ? result.said.at : "");
    cr_assert_str_eq(result.text.at, text);
}

static void expect_error(const char *words)
{
    cr_assert_null(result.text.at, "%s", result.text.at);
    cr_assert(strstr(result.error.at, words), "%s", result.error.at);
}

static const char *write_script(const char *text, mode_t mode)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/script", folder);
    FILE *out = fopen(path, "we");
    cr_assert_not_null(out);
    fputs(text, out);
    fclose(out);
    chmod(path, mode);
    return path;
}

Test(transform, B1_4_sed_changes_the_text)
{
    RUN("one two one", "/usr/bin/sed", "s/one/three/g");
    expect_text("three two three");
    RUN("one two one", "/usr/bin/sed", "-f", write_script("s/two/2/\n", 0644));
    expect_text("one 2 one");
    RUN("one two one", write_script("#!/usr/bin/sed -f\ns/two/II/\n", 0755));
    expect_text("one II one");
}

Test(transform, B1_4_a_program_of_the_tests_own)
{
    size_t size = 3000000;
    char *large = malloc(size + 1);
    memset(large, 'z', size);
    large[size] = '\0';
    limit = size;
    RUN(large, TOOL, "copy");
    expect_text(large);
    RUN(large, TOOL, "deaf");
    expect_text("nothing read\n");
    RUN("text", TOOL, "thread");
    expect_text("text");
    free(large);
}

Test(transform, B1_4_one_that_hangs_is_killed_at_its_deadline)
{
    struct timespec start, end;
    timeout_ms = 200;
    clock_gettime(CLOCK_MONOTONIC, &start);
    RUN("text", TOOL, "hang");
    expect_error("it was killed after its deadline (200 ms");
    RUN("text", TOOL, "spin");
    expect_error("it was killed after its deadline");
    RUN("text", TOOL, "close");
    expect_error("it was killed after its deadline");
    clock_gettime(CLOCK_MONOTONIC, &end);
    cr_assert_lt(end.tv_sec - start.tv_sec, 20);
}

Test(transform, B1_4_one_that_crashes_or_fails_is_told)
{
    RUN("text", TOOL, "crash");
    expect_error("killed by SIGABRT");
    RUN("text", TOOL, "exit", "3");
    expect_error("exit status 3");
    cr_assert_str_eq(result.said.at, "this does not please me\nat all\n");
    RUN("text", TOOL, "nul");
    expect_error("NUL");
    RUN("text", "/usr/bin/true");
    expect_error("it wrote nothing");
}

Test(transform, B1_4_what_it_writes_is_bounded)
{
    limit = 100000;
    RUN("text", TOOL, "flood");
    expect_error("it wrote more than it may");
    timeout_ms = 500;
    RUN("text", TOOL, "complain");
    expect_error("deadline");
    cr_assert_leq(result.said.size, 4096);
    limit = 4;
    RUN("text", TOOL, "copy");
    expect_text("text");
    RUN("text.", TOOL, "copy");
    expect_error("more than it may");
}

Test(transform, B1_4_its_memory_is_bounded)
{
#if defined(__SANITIZE_ADDRESS__)
    cr_skip_test("an address space cannot be limited under AddressSanitizer");
#endif
    RUN("text", TOOL, "memory");
    cr_assert_null(result.text.at);
}

Test(transform, F28_a_transform_reads_nothing_of_the_machine)
{
    /* Without the slash in front: a file that an argument names may be read. */
    static const char *const paths[] = {"etc/passwd", "proc/self/environ", "proc/1/cmdline", "etc/group"};
    setenv("SECRET_OF_THE_TEST", "secret", 1);
    RUN("text", TOOL, "environment");
    expect_text("LC_ALL=C\n");
    if (!sandbox_has_landlock())
        cr_skip_test("this kernel has no Landlock");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        RUN("text", TOOL, "show", paths[i]);
        expect_error("exit status 5");
        cr_assert(strstr(result.said.at, "Permission denied"), "%s: %s", paths[i], result.said.at);
    }
    RUN("text\n", "/usr/bin/sed", "r /etc/../etc/passwd");
    expect_text("text\n");
    RUN("text", "/usr/bin/sed", "-n", "w /tmp/fusiond-filter-was-here");
    cr_assert_null(result.text.at);
    cr_assert_neq(access("/tmp/fusiond-filter-was-here", F_OK), 0);
}

Test(transform, F28_a_transform_reaches_nobody)
{
    static const char *const ways[] = {"socket", "write", "fork", "signal"};
    RUN("text", TOOL, "copy");
    if (result.sandbox != SANDBOX_FULL)
        cr_skip_test("no full sandbox on this kernel or in this build");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        RUN("text", TOOL, ways[i]);
        cr_assert_null(result.text.at, "%s: %s", ways[i], result.text.at);
    }
    cr_assert_neq(access("/tmp/fusiond-filter-was-here", F_OK), 0);
}

Test(transform, B1_4_another_program_than_the_keys_is_not_run)
{
    const char *script = write_script("#!/usr/bin/sed -f\ns/a/b/\n", 0755);
    const char *const argv[] = {script, NULL};
    struct text words[] = {text_of(script)};
    struct filter_files files;
    struct error error;
    struct transform_job job = {.argv = words, .n_argv = 1, .timeout_ms = 20000, .limit = 100, .text = TEXT_OF("a")};
    cr_assert_eq(filter_files_find(argv, &files, &error), 0);
    cr_assert_eq(filter_files_digest(argv, &files, job.digest, &error), 0);
    cr_assert_eq(transform_run(&job, &zone, &result, &error), 0);
    expect_text("b");
    cr_assert_not(filter_files_changed(&files));
    write_script("#!/usr/bin/sed -f\ns/a/c/\n", 0755);
    cr_assert(filter_files_changed(&files));
    cr_assert_eq(transform_run(&job, &zone, &result, &error), 0);
    cr_assert(result.replaced);
    expect_error("it was replaced");
    filter_files_finish(&files);
}

Test(transform, B1_4_programs_that_others_could_have_written_are_refused)
{
    struct filter_files files;
    struct error error;
    const char *script = write_script("#!/usr/bin/sed -f\ns/a/b/\n", 0777);
    const char *const argv[] = {script, NULL};
    cr_assert_eq(filter_files_find(argv, &files, &error), -1);
    cr_assert(strstr(error.text, "can be written by others"), "%s", error.text);
    write_script("#!sed -f\n", 0755);
    cr_assert_eq(filter_files_find(argv, &files, &error), -1);
    cr_assert(strstr(error.text, "no absolute path"), "%s", error.text);
    write_script("s/a/b/\n", 0644);
    cr_assert_eq(filter_files_find(argv, &files, &error), -1);
    cr_assert_eq(filter_files_find((const char *const[]){"/nowhere/filter", NULL}, &files, &error), -1);
    cr_assert(strstr(error.text, "/nowhere/filter"), "%s", error.text);
}
