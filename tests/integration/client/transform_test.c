/* Source transforms in the real daemon, with real programs and the real compilers. */
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
#define REFERENCE REFERENCES_PATH "/reference_transpose.so"
#define RUN(...) fusionctl(the_daemon.socket, NULL, (const char *const[]){__VA_ARGS__, NULL}, &output)
#define RUN_ON_HOST()                                                                                                  \
    RUN("run", FUSION("transpose"), "--device", "host", "--tensor", "x=100x67", "--repeats", "1", "--reference",       \
        REFERENCE)

static struct daemon_process the_daemon;
static struct program_output output;
static char folder[] = "/tmp/fusiond-transforms.XXXXXX";
static char spec[512];
static const char *const args[] = {"--transform", spec, NULL};
static const struct daemon_options with_transform = {.args = args};

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

TestSuite(transform, .init = setup, .fini = teardown);

#define expect_status(expected) cr_assert_eq(output.status, expected, "%d: %s%s", output.status, output.out, output.err)
#define expect_out(text) cr_assert(strstr(output.out, text), "\"%s\" is not in: %s", text, output.out)
#define expect_err(text) cr_assert(strstr(output.err, text), "\"%s\" is not in: %s", text, output.err)

static void start(const char *what)
{
    snprintf(spec, sizeof spec, "%s", what);
    daemon_start(&the_daemon, &with_transform);
}

static long counter(const char *name)
{
    RUN("stats", "--json");
    json_t *stats = json_loads(output.out, 0, NULL);
    long value = (long)json_integer_value(json_object_get(stats, name));
    json_decref(stats);
    return value;
}

static void compile_key(const char *target, char ret[65])
{
    RUN("compile", FUSION("transpose"), "-t", target, "--json");
    expect_status(0);
    json_t *answer = json_loads(output.out, 0, NULL);
    snprintf(ret, 65, "%s", json_string_value(json_object_get(json_object_get(answer, "kernel"), "key")));
    json_decref(answer);
}

/* The whole program, as it was dumped, has these words. */
static void expect_source(const char *key, const char *words)
{
    char path[256];
    RUN("dump", key, "--what", "source", "--to", folder);
    expect_status(0);
    snprintf(path, sizeof path, "%s/transpose.%.12s.full.cu", folder, key);
    char *source = file_read(path);
    cr_assert_not_null(source, "%s", path);
    cr_assert(strstr(source, words), "\"%s\" is not in the program", words);
    free(source);
}

static void write_script(const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/script", folder);
    file_write(path, text, 0755);
}

static const char *with_script(const char *head)
{
    static char text[256];
    snprintf(text, sizeof text, "%s %s/script", head, folder);
    return text;
}

/* ---- what it is for ---- */

Test(transform, B1_4_code_is_changed_before_it_is_compiled)
{
    char key[65];
    write_script("#!/usr/bin/sed -f\ns/^ *T2\\[(65 \\* ((nvf.*$/1 + &/\n");
    start(with_script("add-one:code"));
    RUN_ON_HOST();
    expect_status(1);
    expect_out("WRONG, 6700 of 6700 numbers");
    cr_assert_eq(counter("transforms_total"), 1);
    /* The record holds what the client sent, and what was compiled. */
    compile_key("host", key);
    RUN("dump", key, "--what", "code", "--to", "-");
    char *sent = file_read(FUSIONS_PATH "/transpose/transpose.cu");
    cr_assert_str_eq(output.out, sent);
    free(sent);
    expect_source(key, "1 +                 T2[(65 * ((nvf");
    RUN("show", key, "--json");
    expect_out("add-one:code");
    /* A hit runs nothing. */
    long before = counter("transforms_total");
    char again[65];
    compile_key("host", again);
    cr_assert_str_eq(key, again);
    daemon_stop_in_order(&the_daemon);
    daemon_restart(&the_daemon, &with_transform);
    compile_key("host", again);
    cr_assert_str_eq(key, again);
    cr_assert_eq(counter("transforms_total"), 0, "%ld before", before);
}

Test(transform, B1_4_its_program_is_in_the_key)
{
    char none[65], first[65], second[65], third[65];
    write_script("#!/usr/bin/sed -f\ns/hardly/ever/\n");
    daemon_start(&the_daemon, &(struct daemon_options){0});
    compile_key("host", none);
    daemon_stop_in_order(&the_daemon);
    snprintf(spec, sizeof spec, "%s", with_script("change:code"));
    daemon_restart(&the_daemon, &with_transform);
    compile_key("host", first);
    cr_assert_str_neq(none, first);
    /* Replaced under the running daemon: another key, at once. */
    write_script("#!/usr/bin/sed -f\ns/hardly/never/\n");
    compile_key("host", second);
    cr_assert_str_neq(first, second);
    write_script("#!/usr/bin/sed -f\ns/hardly/ever/\n");
    compile_key("host", third);
    cr_assert_str_eq(first, third);
    expect_out("hit_");
}

Test(transform, B1_4_the_whole_program_is_changed)
{
    char key[65];
    write_script("#!/usr/bin/sed -f\n/^namespace fusiond {$/a\\\n/* from the transform */\n");
    snprintf(spec, sizeof spec, "%s", with_script("mark:source"));
    daemon_start_or_skip(&the_daemon, &with_transform);
    compile_key("sm_90a", key);
    expect_source(key, "namespace fusiond {\n/* from the transform */\n#line 1 \"fusion.cu\"");
    /* Errors still speak of the client's lines. */
    char json[256], code[256];
    snprintf(code, sizeof code, "%s/bad.cu", folder);
    snprintf(json, sizeof json, "%s/bad.json", folder);
    file_write(code, "__global__ void bad(int *p)\n{\n    nonsense;\n}\n", 0600);
    file_write(json, "{\"code\": \"bad.cu\", \"entries\": [\"bad\"], \"side_effects_only\": true}", 0600);
    RUN("compile", json, "-t", "sm_90a");
    expect_status(1);
    expect_err("bad.cu:3:");
}

/* ---- what goes wrong ---- */

Test(transform, B1_4_a_failure_names_transform_status_and_words)
{
    start("picky:code " FILTER_TOOL " exit 3");
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(1);
    expect_err("TRANSFORM_FAILED: the transform picky (code) failed: exit status 3: this does not please me");
    expect_err("at all");
    cr_assert_eq(counter("transforms_failed_total"), 1);
    cr_assert_eq(daemon_log_count(&the_daemon, "transform.failed"), 1);
}

Test(transform, B1_4_every_way_to_fail_leaves_the_daemon_as_it_was)
{
    static const char *const ways[] = {"hang", "crash", "flood", "nul"};
    static const char *const words[] = {"killed after its deadline (300 ms", "killed by SIGABRT", "more than it may",
                                        "NUL"};
    start("fine:code /bin/cat");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        daemon_stop_in_order(&the_daemon);
        snprintf(spec, sizeof spec, "bad:source:%s %s %s", i == 0 ? "300" : "20000", FILTER_TOOL, ways[i]);
        daemon_restart(&the_daemon, &with_transform);
        RUN("compile", FUSION("transpose"), "-t", "host");
        expect_status(1);
        expect_err("TRANSFORM_FAILED: the transform bad (source) failed: ");
        expect_err(words[i]);
        RUN("ping");
        expect_status(0);
    }
}

Test(transform, B1_4_a_program_that_is_not_there_is_told_and_can_be_mended)
{
    start(with_script("late:code"));
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(1);
    expect_err("TRANSFORM_FAILED: the transform late (code) cannot be run: ");
    expect_err("No such file");
    write_script("#!/usr/bin/sed -f\n");
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(0);
}

static bool is_running(void *context)
{
    (void)context;
    pid_t children[64];
    return process_children(the_daemon.pid, children, 64) > 0 &&
           counter("flights") == 1; /* the run's helper is the daemon's child */
}

Test(transform, F30_a_stop_ends_a_transform_that_hangs)
{
    start("slow:code:600000 " FILTER_TOOL " hang");
    pid_t client = fork_apart(NULL);
    if (client == 0) {
        RUN("compile", FUSION("transpose"), "-t", "host");
        _exit(output.status == 1 && strstr(output.err, "SHUTTING_DOWN") ? 0 : 1);
    }
    cr_assert(becomes_true(is_running, NULL, DAEMON_PATIENCE_MS));
    /* It answers others meanwhile. */
    RUN("ping");
    expect_status(0);
    daemon_stop_in_order(&the_daemon);
    int status;
    cr_assert(process_ends(client, DAEMON_PATIENCE_MS, &status));
    cr_assert_eq(status, 0, "the client was not told");
}
