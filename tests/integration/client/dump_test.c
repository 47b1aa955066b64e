/* Dumps, through fusionctl, of kernels of the real compilers. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/fusiond.h"
#include "tests/integration/client/files.h"
#include "tests/integration/client/program.h"
#include "tests/support/daemon_process.h"

#define FUSION(name) FUSIONS_PATH "/" name "/" name ".json"
#define RUN(...) fusionctl(the_daemon.socket, NULL, (const char *const[]){__VA_ARGS__, NULL}, &output)

static struct daemon_process the_daemon;
static const struct daemon_options as_usual;
static struct program_output output;
static char folder[128];

static void setup(void)
{
    daemon_start(&the_daemon, &as_usual);
    snprintf(folder, sizeof folder, "%s/dump", the_daemon.directory);
}

static void setup_nvrtc(void)
{
    daemon_start_or_skip(&the_daemon, &as_usual);
    snprintf(folder, sizeof folder, "%s/dump", the_daemon.directory);
}

static void teardown(void)
{
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
}

TestSuite(dump, .init = setup, .fini = teardown);
TestSuite(dump_nvrtc, .init = setup_nvrtc, .fini = teardown);

#define expect_status(expected) cr_assert_eq(output.status, expected, "%d: %s%s", output.status, output.out, output.err)
#define expect_err(text) cr_assert(strstr(output.err, text), "\"%s\" is not in: %s", text, output.err)

/* ---- files ---- */

/* The only kernel's key, by its label. */
static void only_key(const char *label, char ret[65])
{
    RUN("ls", "--label", label, "--json");
    expect_status(0);
    json_t *rows = json_loads(output.out, 0, NULL);
    cr_assert_eq(json_array_size(rows), 1, "%s", output.out);
    snprintf(ret, 65, "%s", json_string_value(json_object_get(json_array_get(rows, 0), "key")));
    json_decref(rows);
}

/* The part of the kernel's dump in the folder; NULL: there is none. To be freed. */
static char *part(const char *label, const char *key, const char *ending)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%.12s%s", folder, label, key, ending);
    return file_read(path);
}

static void expect_part(const char *label, const char *key, const char *ending, const char *words)
{
    char *text = part(label, key, ending);
    cr_assert_not_null(text, "no %s of %s: %s%s", ending, label, output.out, output.err);
    cr_assert(strstr(text, words), "\"%s\" is not in %s", words, ending);
    free(text);
}

/* A disassembler of the test's own, the only one that can be found. */
static void put_disassembler(const char *script)
{
    char bin[160], tool[192], path[256];
    snprintf(bin, sizeof bin, "%s/bin", the_daemon.directory);
    mkdir(bin, 0700);
    snprintf(tool, sizeof tool, "%s/nvdisasm", bin);
    file_write(tool, script, 0700);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", bin);
    setenv("PATH", path, 1);
}

/* ---- with NVRTC ---- */

Test(dump_nvrtc, B8_1_every_part_of_a_kernel_becomes_a_file)
{
    char key[65];
    put_disassembler("#!/bin/sh\necho disassembly of; od -A n -t c -N 4 \"$1\"\n");
    RUN("compile", FUSION("row_softmax"), "-t", "sm_90a", "--dump", folder);
    expect_status(0);
    only_key("row_softmax", key);
    char *sent = file_read(FUSIONS_PATH "/row_softmax/row_softmax.cu");
    char *code = part("row_softmax", key, ".cu");
    cr_assert_str_eq(code, sent, "the code is the client's");
    expect_part("row_softmax", key, ".full.cu", "struct Tensor");
    expect_part("row_softmax", key, ".full.cu", sent);
    expect_part("row_softmax", key, ".args.json", "--gpu-architecture=sm_90a");
    expect_part("row_softmax", key, ".ptx", ".visible .entry");
    expect_part("row_softmax", key, ".cubin", "\177ELF");
    expect_part("row_softmax", key, ".sass", "disassembly of");
    expect_part("row_softmax", key, ".sass", "177   E   L   F");
    expect_part("row_softmax", key, ".ptxas.txt", "registers");
    expect_part("row_softmax", key, ".json", "\"created_unix_s\"");
    free(sent);
    free(code);
}

/* What was dumped as the source is what the compiler got: compiled again as it is, it gives the same PTX. */
Test(dump_nvrtc, B8_1_the_dumped_source_compiles_to_the_same_code)
{
    char key[65], again[65], json[256], text[512];
    RUN("compile", FUSION("row_softmax"), "-t", "sm_90a", "--dump", folder, "--what", "source,ptx");
    expect_status(0);
    only_key("row_softmax", key);
    snprintf(json, sizeof json, "%s/again.json", folder);
    snprintf(
        text, sizeof text,
        "{\"label\": \"again\", \"code\": \"row_softmax.%.12s.full.cu\", \"structured\": true,"
        " \"entries\": [\"fusiond::row_softmax\"], \"side_effects_only\": true, \"compile\": {\"block_size\": 256}}",
        key);
    file_write(json, text, 0600);
    RUN("compile", json, "-t", "sm_90a", "--dump", folder, "--what", "ptx");
    expect_status(0);
    only_key("again", again);
    cr_assert_str_neq(key, again);
    char *first = part("row_softmax", key, ".ptx"), *second = part("again", again, ".ptx");
    cr_assert_str_eq(first, second);
    free(first);
    free(second);
}

Test(dump_nvrtc, B8_1_a_disassembler_that_fails_or_is_missing_is_told)
{
    char key[65];
    put_disassembler("#!/bin/sh\necho this is no cubin of mine >&2\nexit 1\n");
    RUN("compile", FUSION("row_softmax"), "-t", "sm_90a");
    only_key("row_softmax", key);
    RUN("dump", key, "--to", folder);
    expect_status(0);
    expect_err("no sass: ");
    expect_err("exit status 1: this is no cubin of mine");
    cr_assert_null(part("row_softmax", key, ".sass"));
    RUN("dump", key, "--to", folder, "--what", "sass");
    expect_status(1);
    setenv("PATH", "/nowhere", 1);
    setenv("CUDA_HOME", "/nowhere", 1);
    setenv("CUDA_PATH", "/nowhere", 1);
    if (access("/usr/local/cuda/bin/nvdisasm", X_OK) == 0 || access("/usr/local/cuda/bin/cuobjdump", X_OK) == 0)
        cr_skip_test("the toolkit of this machine has a disassembler");
    RUN("dump", key, "--to", folder, "--what", "sass");
    expect_status(1);
    expect_err("there is no nvdisasm and no cuobjdump");
}

Test(dump_nvrtc, B8_1_kernels_of_a_label_after_a_restart)
{
    RUN("compile", FUSION("row_softmax"), FUSION("transpose"), "-t", "sm_90a");
    expect_status(0);
    RUN("compile", FUSION("transpose"), "-t", "sm_80");
    daemon_stop_in_order(&the_daemon);
    daemon_restart(&the_daemon, &as_usual);
    RUN("dump", "--label", "transpose", "--to", folder, "--what", "code,source,ptx", "--json");
    expect_status(0);
    json_t *rows = json_loads(output.out, 0, NULL);
    cr_assert_eq(json_array_size(rows), 2, "%s", output.out);
    for (size_t i = 0; i < 2; i++) {
        json_t *files = json_object_get(json_array_get(rows, i), "files");
        cr_assert_eq(json_object_size(files), 3, "%s", output.out);
        char *source = file_read(json_string_value(json_object_get(files, "source")));
        cr_assert_not_null(source);
        cr_assert(strstr(source, "struct Tensor"));
        free(source);
    }
    json_decref(rows);
    RUN("dump", "--label", "nobody", "--to", folder);
    expect_status(1);
    expect_err("nobody");
}

/* ---- with the host device ---- */

Test(dump, B8_1_files_that_exist_stay_unless_forced)
{
    char key[65], path[256];
    RUN("compile", FUSION("row_softmax"), "-t", "host", "--dump", folder);
    expect_status(0);
    expect_err("no sass: code for the host device has none");
    only_key("row_softmax", key);
    expect_part("row_softmax", key, ".so", "\177ELF");
    expect_part("row_softmax", key, ".full.cu", "FUSIOND_HOST_ENTRY");
    snprintf(path, sizeof path, "%s/row_softmax.%.12s.cu", folder, key);
    file_write(path, "mine", 0600);
    RUN("dump", key, "--to", folder, "--what", "code");
    expect_status(1);
    expect_err("--force");
    expect_part("row_softmax", key, ".cu", "mine");
    /* Nor is a link followed: what it points to is not the dump's. */
    char other[256];
    snprintf(other, sizeof other, "%s/other", folder);
    file_write(other, "not to be touched", 0600);
    unlink(path);
    cr_assert_eq(symlink(other, path), 0);
    RUN("dump", key, "--to", folder, "--what", "code");
    expect_status(1);
    RUN("dump", key, "--to", folder, "--what", "code", "--force");
    expect_status(0);
    expect_part("row_softmax", key, ".cu", "__global__ void row_softmax");
    char *kept = file_read(other);
    cr_assert_str_eq(kept, "not to be touched");
    free(kept);
}

Test(dump, B8_1_to_the_standard_output)
{
    char key[65];
    RUN("compile", FUSION("transpose"), "-t", "host");
    only_key("transpose", key);
    RUN("dump", key, "--to", "-", "--what", "code");
    expect_status(0);
    char *sent = file_read(FUSIONS_PATH "/transpose/transpose.cu");
    cr_assert_str_eq(output.out, sent);
    free(sent);
    RUN("dump", key, "--to", "-", "--what", "args,code");
    expect_status(0);
    cr_assert(strstr(output.out, "==== transpose."));
    RUN("dump", key, "--what", "code,nonsense");
    expect_status(2);
    expect_err("nonsense");
    RUN("dump");
    expect_status(2);
    RUN("dump", "0123456789", "--to", folder);
    expect_status(1);
    expect_err("NOT_FOUND");
}

Test(dump, B8_1_a_run_tells_how_it_was_launched)
{
    char key[65];
    RUN("run", FUSION("transpose"), "--device", "host", "--tensor", "x=100x67", "--repeats", "1", "--dump", folder);
    expect_status(0);
    only_key("transpose", key);
    char *text = part("transpose", key, ".launch.json");
    cr_assert_not_null(text, "%s%s", output.out, output.err);
    json_t *launch = json_loads(text, 0, NULL);
    free(text);
    cr_assert_eq(json_integer_value(json_array_get(json_object_get(launch, "grid"), 0)), 4);
    cr_assert_str_eq(json_string_value(json_object_get(launch, "index_type")), "int32");
    json_t *x = json_array_get(json_object_get(launch, "arguments"), 0);
    cr_assert_eq(json_integer_value(json_array_get(json_object_get(x, "sizes"), 1)), 67);
    cr_assert(strstr(json_string_value(json_object_get(launch, "occupancy")), "unknown"));
    json_decref(launch);
    expect_part("transpose", key, ".cu", "__global__");
}

Test(dump, B7_1_files_are_named_as_the_generator_names_its_kernels)
{
    char json[256], code[256];
    mkdir(folder, 0700);
    snprintf(code, sizeof code, "%s/own.cu", folder);
    snprintf(json, sizeof json, "%s/own.json", folder);
    file_write(code, "__global__ void own(int *p)\n{\n    *p = 1;\n}\n", 0600);
    file_write(json,
               "{\"label\": \"a label/\", \"scheduler\": \"reduction\", \"code\": \"own.cu\", \"entries\": [\"own\"],"
               " \"side_effects_only\": true, \"ids\": {\"fusion\": 3, \"concrete\": 1, \"runtime\": 0, \"group\": 2}}",
               0600);
    RUN("compile", json, "-t", "host", "--dump", folder, "--what", "code");
    expect_status(0);
    cr_assert(strstr(output.out, "reduction_f3_c1_r0_g2."), "%s", output.out);
    file_write(json,
               "{\"label\": \"a label/\", \"code\": \"own.cu\", \"entries\": [\"own\"], \"side_effects_only\": true,"
               " \"compile\": {\"asserts\": true}}",
               0600);
    RUN("compile", json, "-t", "host", "--dump", folder, "--what", "code");
    expect_status(0);
    cr_assert(strstr(output.out, "a_label_."), "%s", output.out);
}
