/* Programs that fusionctl runs: what they write, and what becomes of those that go wrong. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/fusionctl/command.h"

#define SHELL(script) ((const char *const[]){"/bin/sh", "-c", script, NULL})

static struct command_output output;

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Every child is reaped. */
static void expect_no_child(void)
{
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    cr_assert_eq(errno, ECHILD);
}

Test(command, gives_what_the_program_wrote)
{
    cr_assert_eq(command_run(SHELL("echo out; echo err >&2; cat"), 20000, 1000, &output), 0);
    cr_assert_str_eq(output.out, "out\n");
    cr_assert_eq(output.size, 4);
    cr_assert_str_eq(output.said, "err\n");
    free(output.out);
    expect_no_child();
}

Test(command, B8_1_a_failure_is_one_sentence_with_its_first_words)
{
    cr_assert_eq(command_run(SHELL("echo cannot read it >&2; echo more >&2; exit 3"), 20000, 1000, &output), -1);
    cr_assert_str_eq(output.said, "exit status 3: cannot read it");
    cr_assert_null(output.out);
    cr_assert_eq(command_run(SHELL("kill -SEGV $$"), 20000, 1000, &output), -1);
    cr_assert_str_eq(output.said, "killed by SIGSEGV");
    cr_assert_eq(command_run((const char *const[]){"/nowhere/nvdisasm", NULL}, 20000, 1000, &output), -1);
    cr_assert(strstr(output.said, "/nowhere/nvdisasm"), "%s", output.said);
    expect_no_child();
}

Test(command, B8_1_a_program_that_hangs_is_killed_with_all_it_started)
{
    long long start = now_ms();
    cr_assert_eq(command_run(SHELL("sleep 1000 & sleep 1000"), 200, 1000, &output), -1);
    cr_assert_str_eq(output.said, "it was not done in time");
    /* It closes its pipes and goes on. */
    cr_assert_eq(command_run(SHELL("exec >&- 2>&-; exec sleep 1000"), 200, 1000, &output), -1);
    cr_assert_str_eq(output.said, "it was not done in time");
    cr_assert_lt(now_ms() - start, 20000);
    expect_no_child();
}

Test(command, B8_1_what_it_says_is_bounded)
{
    cr_assert_eq(command_run(SHELL("yes complaint | head -c 3000000 >&2; exit 1"), 20000, 1000, &output), -1);
    cr_assert_str_eq(output.said, "exit status 1: complaint");
    cr_assert_eq(command_run(SHELL("yes"), 20000, 100000, &output), -1);
    cr_assert_str_eq(output.said, "it wrote too much");
    expect_no_child();
}

Test(command, is_found_in_PATH_and_then_in_the_toolkit)
{
    static const char *const names[] = {"fusiond-no-such-tool", "fusiond-test-tool", NULL};
    char folder[] = "/tmp/command.XXXXXX", path[64], expected[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/bin", folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(expected, sizeof expected, "%s/bin/fusiond-test-tool", folder);
    FILE *file = fopen(expected, "we");
    cr_assert_not_null(file);
    fclose(file);
    unsetenv("CUDA_PATH");
    setenv("CUDA_HOME", folder, 1);
    cr_assert_null(command_find(names), "it cannot be run yet");
    chmod(expected, 0700);
    char *found = command_find(names);
    cr_assert_str_eq(found, expected);
    free(found);
    setenv("CUDA_HOME", "/nowhere", 1);
    setenv("PATH", path, 1);
    found = command_find(names);
    cr_assert_str_eq(found, expected);
    free(found);
    unlink(expected);
    rmdir(path);
    rmdir(folder);
}
