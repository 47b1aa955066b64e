/* Building fusions and reading fusion files: every mistake names its place. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/fusion.h"

static char directory[64];

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *out = fopen(path, "w");
    cr_assert_not_null(out);
    fputs(text, out);
    fclose(out);
}

static void make_directory(void)
{
    strcpy(directory, "/tmp/fusiond-file-XXXXXX");
    cr_assert_not_null(mkdtemp(directory));
    write_file("k.cu", "__global__ void f() {}");
}

static void remove_directory(void)
{
    static const char *const names[] = {"k.cu", "k.json", "a.h", "fifo"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

TestSuite(fusion_file, .init = make_directory, .fini = remove_directory);

static int load(const char *json, struct fusiond_fusion **ret, struct fusiond_error *error)
{
    char path[256];
    write_file("k.json", json);
    snprintf(path, sizeof path, "%s/k.json", directory);
    return fusiond_fusion_load(path, ret, error);
}

static void expect_error(const char *json, const char *name, const char *text)
{
    struct fusiond_fusion *fusion = NULL;
    struct fusiond_error error;
    cr_assert_eq(load(json, &fusion, &error), -1, "%s was taken", json);
    cr_assert_null(fusion);
    cr_assert_str_eq(error.name, name, "%s: %s", error.name, error.text);
    cr_assert(strstr(error.text, text), "\"%s\" is not in \"%s\"", text, error.text);
    cr_assert(strstr(error.text, "k.json"), "the file is not named in \"%s\"", error.text);
}

Test(fusion_file, everything_is_read)
{
    struct fusiond_fusion *fusion;
    struct fusiond_error error;
    write_file("a.h", "int a;");
    int result = load("{\"code\": \"k.cu\", \"entries\": [\"f\"], \"headers\": {\"dir/a.h\": \"a.h\"},"
                      " \"compile\": {\"block_size\": 128, \"defines\": [{\"name\": \"A\", \"value\": \"1\"}]},"
                      " \"index_type\": \"int64\", \"label\": \"k\","
                      " \"params\": [{\"name\": \"x\", \"kind\": \"tensor\", \"dtype\": \"float32\", \"rank\": 2}],"
                      " \"run\": {\"sizes\": {\"x\": [1, 2]}}}",
                      &fusion, &error);
    cr_assert_eq(result, 0, "%s", error.text);
    const struct fusion *message = fusion_message(fusion, NULL);
    cr_assert_not_null(message);
    cr_assert_str_eq(fusion->code, "__global__ void f() {}");
    cr_assert_eq(fusion->n_headers, 1);
    cr_assert_str_eq(fusion->headers[0].name, "dir/a.h");
    cr_assert_eq(fusion->headers[0].size, 6);
    cr_assert_eq(message->compile->block_size, 128);
    cr_assert_eq(message->index_type, INDEX_TYPE_INT64);
    cr_assert_eq(message->params[0].rank, 2);
    cr_assert_not(fusion->has_target);
    cr_assert_not_null(fusion->run);
    fusiond_fusion_destroy(fusion);
}

Test(fusion_file, mistakes_name_field_and_value)
{
    expect_error("{", "INVALID_FILE", "k.json:1:");
    expect_error("[]", "INVALID_FILE", "one object");
    expect_error("{\"code\": \"k.cu\", \"code\": \"k.cu\"}", "INVALID_FILE", "duplicate");
    expect_error("{}", "MISSING_FIELD", "code");
    expect_error("{\"code\": 3}", "INVALID_FIELD", "code: must be a string");
    expect_error("{\"code\": \"none.cu\"}", "INVALID_FILE", "none.cu");
    expect_error("{\"code\": \"k.cu\", \"colour\": 1}", "UNKNOWN_FIELD", "colour");
    expect_error("{\"code\": \"k.cu\", \"compile\": {\"speed\": 1}}", "UNKNOWN_FIELD", "compile.speed");
    expect_error("{\"code\": \"k.cu\", \"compile\": {\"block_size\": \"big\"}}", "INVALID_FIELD", "compile.block_size");
    expect_error("{\"code\": \"k.cu\", \"compile\": {\"block_size\": 1.5}}", "INVALID_FIELD", "compile.block_size");
    expect_error("{\"code\": \"k.cu\", \"compile\": {\"max_registers\": -1}}", "INVALID_FIELD",
                 "compile.max_registers");
    expect_error("{\"code\": \"k.cu\", \"index_type\": \"int8\"}", "INVALID_FIELD", "int8");
    expect_error("{\"code\": \"k.cu\", \"entries\": \"f\"}", "INVALID_FIELD", "entries");
    expect_error("{\"code\": \"k.cu\", \"params\": [{\"name\": \"x\", \"kind\": \"tensor\"}]}", "MISSING_FIELD",
                 "params[0].dtype");
    expect_error("{\"code\": \"k.cu\", \"params\": [{\"name\": \"x\", \"kind\": \"tensor\", \"dtype\": \"float32\","
                 " \"rank\": 33}]}",
                 "INVALID_FIELD", "32");
    expect_error("{\"code\": \"k.cu\", \"headers\": [\"a.h\"]}", "INVALID_FIELD", "headers: must be an object");
    expect_error("{\"code\": \"k.cu\", \"headers\": {\"a.h\": \"nowhere.h\"}}", "INVALID_FILE", "nowhere.h");
    expect_error("{\"code\": \"k.cu\", \"label\": null}", "INVALID_FIELD", "label");
}

Test(fusion_file, F28_special_files_are_not_read)
{
    char path[256];
    snprintf(path, sizeof path, "%s/fifo", directory);
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_error("{\"code\": \"fifo\"}", "INVALID_FILE", "not a regular file");
    expect_error("{\"code\": \".\"}", "INVALID_FILE", "not a regular file");
}

Test(fusion_file, nothing_there)
{
    struct fusiond_fusion *fusion;
    struct fusiond_error error;
    cr_assert_eq(fusiond_fusion_load("/nonexistent/k.json", &fusion, &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_FILE);
    cr_assert(strstr(error.text, "/nonexistent/k.json"), "%s", error.text);
}

/* ---- building ---- */

Test(fusion, options_are_checked_at_once_and_change_nothing_when_wrong)
{
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    cr_assert_eq(fusiond_fusion_set_option(fusion, "compile.fast_math", "true", &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "compile.speed", "9", &error), -1);
    cr_assert_eq(error.code, FUSIOND_UNKNOWN_FIELD);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "compile.max_registers", "many", &error), -1);
    cr_assert_eq(error.code, FUSIOND_INVALID_FIELD);
    cr_assert(strstr(error.text, "compile.max_registers"), "%s", error.text);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "a.b.c", "1", &error), -1);
    cr_assert_eq(error.code, FUSIOND_UNKNOWN_FIELD);
    cr_assert_eq(fusiond_fusion_set_option(fusion, "label", "\"17\"", &error), 0, "%s", error.text);
    const struct fusion *message = fusion_message(fusion, NULL);
    cr_assert(message->compile->fast_math);
    cr_assert_not(message->compile->has_max_registers);
    cr_assert_str_eq(message->label.at, "17");
    fusiond_fusion_destroy(fusion);
}

Test(fusion, params_outputs_and_launch)
{
    struct fusiond_error error;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    const char *sizes[] = {"x.size[0]", "2 * x.size[1]"};
    const char *grid[3] = {"x.size[0]", "4", NULL};
    const char *block[3] = {"256", NULL, NULL};
    cr_assert_eq(fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 2, 2, &error), 0);
    cr_assert_eq(fusiond_fusion_add_param(fusion, "eps", FUSIOND_SCALAR, FUSIOND_FLOAT64, 0, 0, &error), 0);
    cr_assert_eq(fusiond_fusion_add_param(fusion, "y", FUSIOND_OUTPUT, FUSIOND_BFLOAT16, 2, 2, &error), 0);
    cr_assert_eq(fusiond_fusion_add_param(fusion, "z", 99, FUSIOND_BFLOAT16, 2, 2, &error), -1);
    cr_assert_eq(fusiond_fusion_add_output(fusion, "y", sizes, 2, &error), 0);
    cr_assert_eq(fusiond_fusion_set_launch(fusion, grid, block, "4 * x.size[1]", &error), 0);
    struct error inner;
    const struct fusion *message = fusion_message(fusion, &inner);
    cr_assert_not_null(message, "%s", inner.text);
    cr_assert_eq(message->n_params, 3);
    cr_assert_eq(message->params[1].kind, PARAM_KIND_SCALAR);
    cr_assert_not(message->params[1].has_rank);
    cr_assert_eq(message->params[2].dtype, DTYPE_BFLOAT16);
    cr_assert_str_eq(message->outputs[0].sizes[1].at, "2 * x.size[1]");
    cr_assert_str_eq(message->launch->grid[2].at, "1");
    cr_assert_str_eq(message->launch->dynamic_shared_memory.at, "4 * x.size[1]");
    fusiond_fusion_destroy(fusion);
}

Test(fusion_file, aliases_intermediates_and_cooperative_grids)
{
    struct fusiond_fusion *fusion;
    struct fusiond_error error;
    struct error inner;
    cr_assert_eq(load("{\"code\": \"k.cu\", \"entries\": [\"f\"], \"target\": \"host\", \"params\": ["
                      "{\"name\": \"x\", \"kind\": \"tensor\", \"dtype\": \"float32\", \"rank\": 1},"
                      "{\"name\": \"y\", \"kind\": \"output\", \"dtype\": \"float32\", \"rank\": 1},"
                      "{\"name\": \"w\", \"kind\": \"intermediate\", \"dtype\": \"int64\", \"rank\": 1}],"
                      "\"outputs\": [{\"name\": \"y\", \"alias\": \"x\"}],"
                      "\"intermediates\": [{\"name\": \"w\", \"sizes\": [\"2\"], \"zero\": true}],"
                      "\"launch\": {\"cooperative\": true}}",
                      &fusion, &error),
                 0, "%s", error.text);
    const struct fusion *message = fusion_message(fusion, &inner);
    cr_assert_not_null(message, "%s", inner.text);
    cr_assert_eq(message->params[2].kind, PARAM_KIND_INTERMEDIATE);
    cr_assert_str_eq(message->outputs[0].alias.at, "x");
    cr_assert(message->intermediates[0].zero && message->intermediates[0].n_sizes == 1);
    cr_assert(message->launch->cooperative);
    fusiond_fusion_destroy(fusion);
}

Test(fusion, many_headers)
{
    char name[32];
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "h%d.h", i);
        cr_assert_eq(fusiond_fusion_add_header(fusion, name, name, strlen(name), NULL), 0);
    }
    cr_assert_eq(fusion->n_headers, 1000);
    cr_assert_str_eq(fusion->headers[999].name, "h999.h");
    cr_assert_eq(memcmp(fusion->headers[512].bytes, "h512.h", 6), 0);
    fusiond_fusion_destroy(fusion);
}
