/* Observers of new kernels, in the real daemon with real programs. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/client/files.h"
#include "tests/integration/client/program.h"
#include "tests/support/daemon_process.h"

#define FUSION(name) FUSIONS_PATH "/" name "/" name ".json"
#define RUN(...) fusionctl(the_daemon.socket, NULL, (const char *const[]){__VA_ARGS__, NULL}, &output)

static struct daemon_process the_daemon;
static struct program_output output;
static char folder[] = "/tmp/fusiond-observers.XXXXXX";
static char spec[256];
static const char *const args[] = {"--observe", spec, NULL};
static const struct daemon_options with_observer = {.args = args};

static void setup(void)
{
    cr_assert_not_null(mkdtemp(folder));
}

static void teardown(void)
{
    if (the_daemon.pid)
        daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
    folder_remove(folder);
}

TestSuite(observer, .init = setup, .fini = teardown);

#define expect_status(expected) cr_assert_eq(output.status, expected, "%d: %s%s", output.status, output.out, output.err)

static long counter(const char *name)
{
    RUN("stats", "--json");
    json_t *stats = json_loads(output.out, 0, NULL);
    long value = (long)json_integer_value(json_object_get(stats, name));
    json_decref(stats);
    return value;
}

static bool has_observed(void *context)
{
    return counter("observed_total") >= *(long *)context;
}

static void wait_for(long observed)
{
    cr_assert(becomes_true(has_observed, &observed, DAEMON_PATIENCE_MS));
}

/* In the folder, whose name the script is told. */
static void start(const char *script, const char *head)
{
    char path[128];
    snprintf(path, sizeof path, "%s/look", folder);
    file_write(path, script, 0700);
    snprintf(spec, sizeof spec, "%s %s %s", head, path, folder);
    daemon_start(&the_daemon, &with_observer);
}

static char *part(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = file_read(path);
    cr_assert_not_null(text, "%s", path);
    return text;
}

Test(observer, B1_4_gets_the_record_and_its_parts_once)
{
    start("#!/bin/sh\ncat >$1/record\ncat <&3 >$1/image\ncat <&5 >$1/code\nenv >$1/env\nnice >$1/nice\n", "look");
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(0);
    wait_for(1);
    char *record = part("record"), *image = part("image"), *code = part("code"), *level = part("nice");
    char *environment = part("env"), *sent = file_read(FUSIONS_PATH "/transpose/transpose.cu");
    json_t *json = json_loads(record, 0, NULL);
    cr_assert_not_null(json, "%s", record);
    cr_assert_str_eq(json_string_value(json_object_get(json, "label")), "transpose");
    cr_assert_eq(memcmp(image, "\177ELF", 4), 0);
    cr_assert_str_eq(code, sent);
    cr_assert_str_eq(level, "19\n");
    cr_assert_null(strstr(environment, "HOME"), "%s", environment);
    json_decref(json);
    free(record);
    free(image);
    free(code);
    free(level);
    free(environment);
    free(sent);
    /* A hit is no new kernel. */
    RUN("compile", FUSION("transpose"), "-t", "host");
    RUN("compile", FUSION("row_softmax"), "-t", "host");
    wait_for(2);
    cr_assert_eq(counter("observed_total"), 2);
    cr_assert_eq(counter("observers_failed_total"), 0);
}

Test(observer, B1_4_one_that_fails_or_hangs_slows_nobody)
{
    start("#!/bin/sh\ngrep -q transpose && { echo I do not like it >&2; exit 3; }\nexec sleep 1000\n", "picky:300");
    RUN("compile", FUSION("transpose"), FUSION("row_softmax"), FUSION("layer_norm"), "-t", "host");
    expect_status(0);
    wait_for(3);
    cr_assert_eq(counter("observers_failed_total"), 3);
    cr_assert_eq(daemon_log_count(&the_daemon, "exit status 3\" said=\"I do not like it\""), 1);
    cr_assert_eq(daemon_log_count(&the_daemon, "killed after its deadline"), 2);
}

static bool is_started(void *context)
{
    (void)context;
    char path[128];
    snprintf(path, sizeof path, "%s/pid", folder);
    char *text = file_read(path);
    bool started = text && strchr(text, '\n');
    free(text);
    return started;
}

static bool is_gone(void *context)
{
    return access(context, F_OK) != 0;
}

/* The observer's process, once it runs. */
static void start_sleeper(char ret[64])
{
    start("#!/bin/sh\necho $$ >$1/pid\nexec sleep 1000\n", "slow:600000");
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(0);
    cr_assert(becomes_true(is_started, NULL, DAEMON_PATIENCE_MS));
    char *pid = part("pid");
    snprintf(ret, 64, "/proc/%.*s", (int)strcspn(pid, "\n"), pid);
    free(pid);
}

Test(observer, F30_a_stop_ends_it)
{
    char process[64];
    start_sleeper(process);
    daemon_stop_in_order(&the_daemon);
    cr_assert(becomes_true(is_gone, process, DAEMON_PATIENCE_MS));
}

Test(observer, F1_it_ends_with_a_killed_daemon)
{
    char process[64];
    start_sleeper(process);
    daemon_kill(&the_daemon);
    cr_assert(becomes_true(is_gone, process, DAEMON_PATIENCE_MS));
}
