/* Overrides: dump, edit, override, with the real compilers, and on the host device with other numbers. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
static char folder[] = "/tmp/fusiond-overrides.XXXXXX";
static const char *const args[] = {"--overrides", folder, NULL};
static const struct daemon_options with_overrides = {.args = args};

static void setup(void)
{
    cr_assert_not_null(mkdtemp(folder));
    daemon_start(&the_daemon, &with_overrides);
}

static void setup_nvrtc(void)
{
    cr_assert_not_null(mkdtemp(folder));
    daemon_start_or_skip(&the_daemon, &with_overrides);
}

static void teardown(void)
{
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
    folder_remove(folder);
}

TestSuite(override, .init = setup, .fini = teardown);
TestSuite(override_nvrtc, .init = setup_nvrtc, .fini = teardown);

#define expect_status(expected) cr_assert_eq(output.status, expected, "%d: %s%s", output.status, output.out, output.err)
#define expect_out(text) cr_assert(strstr(output.out, text), "\"%s\" is not in: %s", text, output.out)
#define expect_err(text) cr_assert(strstr(output.err, text), "\"%s\" is not in: %s", text, output.err)

/* Compile, and what the answer says. */
static json_t *compile(const char *file, const char *target)
{
    RUN("compile", file, "-t", target, "--json");
    expect_status(0);
    json_t *answer = json_loads(output.out, 0, NULL);
    cr_assert_not_null(answer, "%s", output.out);
    return answer;
}

/* The key in an answer. Releases the answer. */
static void take_key(json_t *answer, char ret[65])
{
    snprintf(ret, 65, "%s", json_string_value(json_object_get(json_object_get(answer, "kernel"), "key")));
    json_decref(answer);
}

/* How many kernels there are, and the first one's key. */
static size_t list_keys(char ret[65])
{
    RUN("ls", "--json");
    json_t *rows = json_loads(output.out, 0, NULL);
    size_t n = json_array_size(rows);
    snprintf(ret, 65, "%s", json_string_value(json_object_get(json_array_get(rows, 0), "key")));
    json_decref(rows);
    return n;
}

/* The dumped code of the kernel, to be freed. */
static char *dump_code(const char *key)
{
    RUN("dump", key, "--what", "code", "--to", "-");
    expect_status(0);
    return strdup(output.out);
}

static void put(const char *name, const char *text, mode_t mode)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file_write(path, text, mode);
}

static void put_for_key(const char *key, const char *text)
{
    char name[80];
    snprintf(name, sizeof name, "%s.cu", key);
    put(name, text, 0600);
}

static void take_away(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert_eq(unlink(path), 0);
}

/* ---- the round trip ---- */

Test(override, B4_5_dump_edit_override_changes_the_numbers)
{
    char key[65], name[80];
    RUN_ON_HOST();
    expect_status(0);
    expect_out("right, all 6700 numbers");
    cr_assert_eq(list_keys(key), 1);
    char *code = dump_code(key);
    char *edited = text_replace(code, "i6)] =\n                T2", "i6)] = 1 +\n                T2");
    put("transpose.1.cu", edited, 0600);
    RUN_ON_HOST();
    expect_status(1);
    expect_err("overridden: transpose.1.cu");
    expect_out("WRONG, 6700 of 6700 numbers");
    char first[65];
    cr_assert_eq(list_keys(first), 2, "the original is as it was, and the new one has its own row");
    take_away("transpose.1.cu");
    RUN_ON_HOST();
    expect_status(0);
    expect_out("right, all 6700 numbers");
    cr_assert_null(strstr(output.err, "overridden"), "%s", output.err);
    put_for_key(key, edited);
    snprintf(name, sizeof name, "overridden: %s.cu", key);
    RUN_ON_HOST();
    expect_status(1);
    expect_err(name);
    expect_out("WRONG, 6700 of 6700 numbers");
    free(code);
    free(edited);
}

Test(override_nvrtc, B4_5_an_override_has_its_own_key_and_the_original_stays)
{
    char original[65], changed[65], again[65];
    json_t *answer = compile(FUSION("row_softmax"), "sm_90a");
    cr_assert_null(json_object_get(answer, "overridden"));
    cr_assert_eq(json_integer_value(json_object_get(answer, "ordinal")), 1);
    take_key(answer, original);
    char *code = dump_code(original);
    char *sent = file_read(FUSIONS_PATH "/row_softmax/row_softmax.cu");
    cr_assert_str_eq(code, sent);
    char *edited =
        text_replace(code, "{\n", "{\n    __shared__ float unused_of_mine[512]; unused_of_mine[threadIdx.x] = 1;\n");
    put_for_key(original, edited);
    answer = compile(FUSION("row_softmax"), "sm_90a");
    cr_assert_not_null(json_object_get(answer, "overridden"), "%s", output.out);
    cr_assert_str_eq(json_string_value(json_object_get(answer, "outcome")), "compiled");
    take_key(answer, changed);
    cr_assert_str_neq(original, changed);
    char *dumped = dump_code(changed);
    cr_assert_str_eq(dumped, edited, "the record of the override holds its text");
    free(dumped);
    /* Found again as it is, and after a restart. */
    daemon_stop_in_order(&the_daemon);
    daemon_restart(&the_daemon, &with_overrides);
    answer = compile(FUSION("row_softmax"), "sm_90a");
    cr_assert_str_eq(json_string_value(json_object_get(answer, "outcome")), "hit_database");
    take_key(answer, again);
    cr_assert_str_eq(again, changed);
    /* Without the file the original is what it was, and nothing is compiled for it. */
    char name[80];
    snprintf(name, sizeof name, "%s.cu", original);
    take_away(name);
    answer = compile(FUSION("row_softmax"), "sm_90a");
    cr_assert_str_eq(json_string_value(json_object_get(answer, "outcome")), "hit_database");
    take_key(answer, again);
    cr_assert_str_eq(again, original);
    /* An unchanged dump is the kernel itself. */
    put_for_key(original, code);
    answer = compile(FUSION("row_softmax"), "sm_90a");
    take_key(answer, again);
    cr_assert_str_eq(again, original);
    free(code);
    free(sent);
    free(edited);
}

/* ---- what goes wrong ---- */

Test(override, B4_5_a_file_that_cannot_be_used_is_told_and_the_original_compiled)
{
    char key[65], again[65], path[256];
    take_key(compile(FUSION("transpose"), "host"), key);
    put("transpose.1.cu", "not to be compiled", 0666);
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(0);
    expect_err("note: the override transpose.1.cu is not used: it can be written by others than its owner");
    put("other", "not to be compiled", 0600);
    take_away("transpose.1.cu");
    snprintf(path, sizeof path, "%s/transpose.1.cu", folder);
    cr_assert_eq(symlink("other", path), 0);
    json_t *answer = compile(FUSION("transpose"), "host");
    expect_err("it is a symbolic link");
    take_key(answer, again);
    cr_assert_str_eq(key, again);
    take_away("transpose.1.cu");
    take_away("other");
    folder_remove(folder);
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(0);
    expect_err("No such file or directory");
    cr_assert(daemon_log_count(&the_daemon, "override.unusable") >= 3);
    cr_assert_eq(mkdir(folder, 0700), 0);
}

Test(override, B4_5_an_error_in_an_override_names_the_file)
{
    put("transpose.1.cu",
        "__global__ void transpose(Tensor<float, 2, 2> a, Tensor<float, 2, 2> b)\n{\n    nonsense;\n}\n", 0600);
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(1);
    expect_err("COMPILE_FAILED");
    expect_err("the override transpose.1.cu: ");
    expect_err(":3:");
    /* Mended, it compiles at once: nothing of the earlier text is kept. */
    put("transpose.1.cu", "__global__ void transpose(Tensor<float, 2, 2> a, Tensor<float, 2, 2> b)\n{\n}\n", 0600);
    RUN("compile", FUSION("transpose"), "-t", "host");
    expect_status(0);
    expect_err("overridden: transpose.1.cu");
}
