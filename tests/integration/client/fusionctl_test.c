/* fusionctl and libfusiond against the real daemon with the real compiler. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/fusiond.h"
#include "kernels_db/kernel_key.h"
#include "tests/integration/client/program.h"
#include "tests/support/daemon_process.h"

#define FUSION(name) FUSIONS_PATH "/" name "/" name ".json"
#define ALL FUSION("bias_gelu_residual"), FUSION("row_softmax"), FUSION("layer_norm"), FUSION("transpose")
#define RUN(daemon, ...) fusionctl((daemon).socket, NULL, (const char *const[]){__VA_ARGS__, NULL}, &output)

static struct daemon_process the_daemon;
static const struct daemon_options as_usual;
static struct program_output output;

static void setup(void)
{
    daemon_start_or_skip(&the_daemon, &as_usual);
}

static void teardown(void)
{
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
}

TestSuite(fusionctl, .init = setup, .fini = teardown);

#define expect_status(expected) cr_assert_eq(output.status, expected, "%d: %s%s", output.status, output.out, output.err)
#define expect_out(text) cr_assert(strstr(output.out, text), "\"%s\" is not in: %s", text, output.out)
#define expect_err(text) cr_assert(strstr(output.err, text), "\"%s\" is not in: %s", text, output.err)

static void write_file(const char *name, const char *text, char path[256])
{
    snprintf(path, 256, "%s/%s", the_daemon.directory, name);
    FILE *out = fopen(path, "w");
    cr_assert_not_null(out);
    fputs(text, out);
    fclose(out);
}

static struct fusiond_connection *connect_client(void)
{
    struct fusiond_connection *connection;
    struct fusiond_error error;
    cr_assert_eq(fusiond_connect(the_daemon.socket, NULL, &connection, &error), 0, "%s", error.text);
    return connection;
}

static uint64_t counter(const char *name)
{
    uint64_t value = 0;
    struct fusiond_stats *stats;
    struct fusiond_error error;
    struct fusiond_connection *connection = connect_client();
    cr_assert_eq(fusiond_stats(connection, &stats, &error), 0, "%s", error.text);
    cr_assert(fusiond_stats_get(stats, name, &value), "no %s", name);
    fusiond_stats_destroy(stats);
    fusiond_close(connection);
    return value;
}

/* ---- compiling ---- */

Test(fusionctl, B9_1_the_second_process_compiles_nothing)
{
    uint64_t before = counter("compiles_total");
    RUN(the_daemon, "compile", ALL, "--target", "sm_90a");
    expect_status(0);
    expect_out("row_softmax");
    expect_out("compiled in");
    cr_assert_eq(counter("compiles_total"), before + 4);
    RUN(the_daemon, "compile", ALL, "--target", "sm_90a");
    expect_status(0);
    expect_out("hit_memory");
    cr_assert_null(strstr(output.out, "compiled in"), "%s", output.out);
    cr_assert_eq(counter("compiles_total"), before + 4);
    daemon_stop_in_order(&the_daemon);
    daemon_restart(&the_daemon, &as_usual);
    RUN(the_daemon, "compile", ALL, "--target", "sm_90a");
    expect_status(0);
    expect_out("hit_database");
    cr_assert_eq(counter("compiles_total"), 0);
}

Test(fusionctl, B8_4_what_to_do_with_kernels_that_are_there)
{
    RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a", "--require-cached");
    expect_status(1);
    expect_err("CACHE_MISS");
    expect_err("transpose");
    cr_assert_eq(counter("compiles_total"), 0);
    RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a", "--cache", "bypass");
    expect_status(0);
    expect_out(", not stored");
    RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a", "--cache", "refresh");
    expect_status(0);
    RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a", "--cache", "require");
    expect_status(0);
    expect_out("hit_memory");
    cr_assert_eq(counter("compiles_total"), 2);
    RUN(the_daemon, "compile", FUSION("transpose"), "--cache", "never");
    expect_status(2);
    expect_err("none of use, require, bypass, refresh");
}

Test(fusionctl, B8_4_why_a_kernel_is_not_found)
{
    RUN(the_daemon, "explain", FUSION("transpose"), "-t", "sm_90a");
    expect_status(0);
    expect_out("miss: it would be compiled");
    expect_out("nothing of this code, label or headers is stored");
    RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a");
    RUN(the_daemon, "explain", FUSION("transpose"), "-t", "sm_90a");
    expect_out("hit: in memory");
    RUN(the_daemon, "explain", FUSION("transpose"), "-t", "sm_90a", "--max-registers", "40");
    expect_out("with the same code");
    expect_out("--maxrregcount=40");
    RUN(the_daemon, "explain", FUSION("transpose"), "-t", "sm_90a", "--max-registers", "40", "--json");
    expect_status(0);
    json_t *reply = json_loads(output.out, 0, NULL);
    cr_assert_not_null(json_object_get(json_object_get(reply, "nearest"), "differences"), "%s", output.out);
    json_decref(reply);
    cr_assert_eq(counter("compiles_total"), 1);
}

Test(fusionctl, a_program_with_headers_of_its_own)
{
    char code[256], folder[256], header[256];
    write_file("parts.h", "#define VALUE 45\n", header);
    write_file("program.cu", "#include <parts.h>\nextern \"C\" __global__ void k(int *p) { *p = VALUE; }\n", code);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(header, '/') - header), header);
    RUN(the_daemon, "compile", code, "-t", "sm_90a", "--entry", "k");
    expect_status(1);
    expect_err("could not open source file \"parts.h\"");
    RUN(the_daemon, "explain", code, "-t", "sm_90a", "-e", "k", "-I", folder);
    expect_status(0);
    expect_out("parts.h");
    expect_out("miss");
    RUN(the_daemon, "compile", code, "-t", "sm_90a", "-e", "k", "-I", folder);
    expect_status(0);
    RUN(the_daemon, "explain", code, "-t", "sm_90a", "-e", "k", "-I", folder);
    expect_out("hit: in memory");
    write_file("parts.h", "#define VALUE 46\n", header);
    RUN(the_daemon, "explain", code, "-t", "sm_90a", "-e", "k", "-I", folder);
    expect_out("miss");
    expect_out("header parts.h");
}

Test(fusionctl, B5_2_variants_coexist)
{
    uint64_t before = counter("compiles_total");
    for (int round = 0; round < 2; round++) {
        RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a");
        expect_status(0);
        RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_80");
        expect_status(0);
        RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a", "--max-registers", "40");
        expect_status(0);
        RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a", "--index-type", "int32", "-D", "TILE_WIDTH=1");
        expect_status(0);
    }
    cr_assert_eq(counter("compiles_total"), before + 4);
    RUN(the_daemon, "ls", "--target", "sm_80");
    expect_status(0);
    expect_out("transpose");
    cr_assert_null(strstr(output.out, "sm_90a"), "%s", output.out);
}

Test(fusionctl, B3_2_errors_have_the_clients_file_and_lines)
{
    char code[256], json[256], expected[512];
    write_file("bad.cu", "__global__ void bad(Tensor<float, 1, 1> T0)\n{\n    T0[0] = undefined_thing;\n}\n", code);
    write_file("bad.json", "{\"code\": \"bad.cu\", \"entries\": [\"bad\"], \"side_effects_only\": true}", json);
    RUN(the_daemon, "compile", json, "-t", "sm_90a");
    expect_status(1);
    snprintf(expected, sizeof expected, "%s:3:", code);
    expect_err(expected);
    expect_err("error: ");
    expect_err("undefined_thing");
    expect_err("COMPILE_FAILED");
}

Test(fusionctl, the_daemons_refusals_name_field_value_and_limit)
{
    RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_90a", "--max-registers", "300");
    expect_status(1);
    expect_err("INVALID_OPTION");
    expect_err("300");
    expect_err("255");
    RUN(the_daemon, "compile", FUSION("transpose"), "-t", "sm_70");
    expect_status(1);
    expect_err("UNSUPPORTED_TARGET");
}

/* Doubling macros keep the compiler busy until its deadline. */
Test(fusionctl, a_compile_that_takes_long_says_so)
{
    char code[256], json[256], text[2048] = "#define A0 1 +\n", expected[300];
    size_t used = strlen(text);
    for (int i = 1; i <= 30; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "#define A%d A%d A%d\n", i, i - 1, i - 1);
    snprintf(text + used, sizeof text - used, "__device__ int x = A30 1;\n__global__ void k() {}\n");
    write_file("slow.cu", text, code);
    write_file("slow.json",
               "{\"code\": \"slow.cu\", \"entries\": [\"k\"], \"structured\": true, \"side_effects_only\": true}",
               json);
    RUN(the_daemon, "compile", json, "-t", "sm_90a", "--deadline", "4000");
    expect_status(1);
    expect_err("TIMEOUT");
    /* The output is no terminal: a plain line. */
    snprintf(expected, sizeof expected, "%s: compiling\n", json);
    cr_assert_eq(strncmp(output.err, expected, strlen(expected)), 0, "%s", output.err);
    cr_assert_null(strchr(output.err, '\r'), "%s", output.err);
    /* What is quick says nothing, nor does --json. */
    RUN(the_daemon, "compile", json, "-t", "sm_90a", "--deadline", "4100", "--json");
    expect_status(1);
    cr_assert_null(strstr(output.err, "compiling"), "%s", output.err);
}

/* ---- looking ---- */

static json_t *compile_json(void)
{
    json_error_t error;
    RUN(the_daemon, "compile", FUSION("row_softmax"), "-t", "sm_90a", "--json");
    expect_status(0);
    json_t *reply = json_loads(output.out, 0, &error);
    cr_assert_not_null(reply, "%s: %s", error.text, output.out);
    return reply;
}

Test(fusionctl, a_kernel_is_shown_and_fetched_by_the_beginning_of_its_key)
{
    char path[256], prefix[13] = "", upper[13] = "";
    struct stat status;
    json_t *reply = compile_json();
    const char *key = json_string_value(json_object_get(json_object_get(reply, "kernel"), "key"));
    cr_assert_not_null(key);
    cr_assert_eq(strlen(key), 64);
    memcpy(prefix, key, 12);
    for (int i = 0; i < 12; i++)
        upper[i] = (char)toupper((unsigned char)prefix[i]);

    RUN(the_daemon, "show", upper);
    expect_status(0);
    expect_out(key);
    expect_out("registers");
    RUN(the_daemon, "show", prefix, "--json");
    expect_status(0);
    json_t *shown = json_loads(output.out, 0, NULL);
    cr_assert_str_eq(json_string_value(json_object_get(shown, "key")), key);
    json_decref(shown);

    snprintf(path, sizeof path, "%s/image", the_daemon.directory);
    RUN(the_daemon, "get", prefix, "-o", path);
    expect_status(0);
    cr_assert_eq(stat(path, &status), 0);
    json_t *size = json_object_get(json_object_get(reply, "kernel"), "image_size");
    cr_assert_eq((json_int_t)status.st_size, json_integer_value(size));
    FILE *image = fopen(path, "r");
    char magic[4];
    cr_assert_eq(fread(magic, 1, 4, image), 4);
    fclose(image);
    cr_assert_eq(memcmp(magic, "\177ELF", 4), 0);
    RUN(the_daemon, "get", prefix, "--ptx");
    expect_status(0);
    expect_out(".visible .entry");
    RUN(the_daemon, "get", key, "--source");
    expect_status(0);
    expect_out("__global__ void row_softmax");
    char named[128];
    snprintf(named, sizeof named, "/fusiond-%s.cu", key);
    RUN(the_daemon, "get", named, "--source");
    expect_status(0);
    expect_out("__global__ void row_softmax");
    RUN(the_daemon, "get", prefix, "--log");
    expect_status(0);
    RUN(the_daemon, "get", "0123456789abcdef");
    expect_status(1);
    expect_err("NOT_FOUND");
    RUN(the_daemon, "get", "xyz");
    expect_status(1);
    RUN(the_daemon, "ls", prefix);
    expect_out("row_softmax");
    json_decref(reply);
}

Test(fusionctl, json_of_every_verb_is_json)
{
    static const char *const verbs[] = {"ping", "stats", "ls"};
    for (size_t i = 0; i < 3; i++) {
        RUN(the_daemon, verbs[i], "--json");
        expect_status(0);
        json_t *value = json_loads(output.out, 0, NULL);
        cr_assert_not_null(value, "%s: %s", verbs[i], output.out);
        json_decref(value);
    }
}

/* ---- headers and large images, through the library ---- */

static struct fusiond_kernel *compile(struct fusiond_connection *connection, struct fusiond_fusion *fusion)
{
    struct fusiond_kernel *kernel = NULL;
    struct fusiond_error error;
    fusiond_fusion_set_target(fusion, "sm_90a", NULL);
    fusiond_fusion_set_option(fusion, "side_effects_only", "true", NULL);
    int result = fusiond_compile(connection, fusion, NULL, &kernel, &error);
    cr_assert_eq(result, 0, "%s: %s\n%s", error.name, error.text, fusiond_failure_log(connection));
    return kernel;
}

Test(fusionctl, large_headers_travel_once)
{
    static const char code[] = "#include \"big.h\"\n__global__ void f(int *p) { *p = VALUE; }";
    size_t size = 700000;
    char *header = malloc(size);
    memset(header, ' ', size);
    memcpy(header, "#define VALUE 41\n", 17);
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    fusiond_fusion_set_code(fusion, code, sizeof code - 1, true, NULL);
    fusiond_fusion_add_entry(fusion, "f", NULL);
    fusiond_fusion_add_header(fusion, "big.h", header, size, NULL);
    free(header);
    struct fusiond_connection *connection = connect_client();
    struct fusiond_kernel *first = compile(connection, fusion), *second = compile(connection, fusion);
    cr_assert_str_eq(fusiond_kernel_key(first), fusiond_kernel_key(second));
    cr_assert_eq(counter("blobs"), 1);
    fusiond_kernel_destroy(first);
    fusiond_kernel_destroy(second);
    fusiond_close(connection);
    fusiond_fusion_destroy(fusion);
}

Test(fusionctl, a_blob_of_many_megabytes_arrives)
{
    size_t size = 5u << 20;
    uint8_t *bytes = malloc(size), digest[DIGEST_SIZE], expected[DIGEST_SIZE];
    struct fusiond_error error;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * i >> 7);
    digest_of(bytes, size, expected);
    struct fusiond_connection *connection = connect_client();
    cr_assert_eq(fusiond_blob_put(connection, bytes, size, digest, &error), 0, "%s", error.text);
    cr_assert_eq(memcmp(digest, expected, DIGEST_SIZE), 0);
    cr_assert_eq(counter("blob_bytes"), size);
    fusiond_close(connection);
    free(bytes);
}

Test(fusionctl, a_large_image_comes_whole)
{
    static const char code[] = "__device__ char table[400000] = {1};\n"
                               "__global__ void f(char *p) { p[threadIdx.x] = table[threadIdx.x]; }";
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    size_t size;
    fusiond_fusion_set_code(fusion, code, sizeof code - 1, true, NULL);
    fusiond_fusion_add_entry(fusion, "f", NULL);
    struct fusiond_connection *connection = connect_client();
    struct fusiond_kernel *kernel = compile(connection, fusion);
    const char *image = fusiond_kernel_image(kernel, &size);
    cr_assert_not_null(image);
    cr_assert_gt(size, 400000);
    cr_assert_eq(memcmp(image, "\177ELF", 4), 0);
    /* A connection outlives its daemon. */
    daemon_stop_in_order(&the_daemon);
    daemon_restart(&the_daemon, &as_usual);
    struct fusiond_kernel *again = compile(connection, fusion);
    size_t again_size;
    cr_assert_str_eq(fusiond_kernel_outcome(again), "hit_database");
    const char *again_image = fusiond_kernel_image(again, &again_size);
    cr_assert_eq(size, again_size);
    cr_assert_eq(memcmp(image, again_image, size), 0, "I1: the same bytes");
    fusiond_kernel_destroy(kernel);
    fusiond_kernel_destroy(again);
    fusiond_close(connection);
    fusiond_fusion_destroy(fusion);
}

/* ---- running, on the fake driver ---- */

#define TRANSPOSE_REFERENCE REFERENCES_PATH "/reference_transpose.so"
#define RUN_TRANSPOSE(environment, ...)                                                                                \
    fusionctl(the_daemon.socket, environment,                                                                          \
              (const char *const[]){"run", "--local", FUSION("transpose"), "--tensor", "x=100x67", __VA_ARGS__, NULL}, \
              &output)

Test(fusionctl, run_launches_checks_and_times)
{
    RUN_TRANSPOSE(NULL, "--reference", TRANSPOSE_REFERENCE, "--repeat", "3");
    expect_status(0);
    expect_out("fake device");
    expect_out("x 100x67 float32, out 67x100 float32");
    expect_out("int32, grid 4x1x1, block 64x8x1");
    expect_out("right, all 6700 numbers, largest difference 0");
    RUN_TRANSPOSE(NULL, "--repeat", "3");
    expect_status(0);
    expect_out("not checked");
    RUN_TRANSPOSE(NULL, "--reference", TRANSPOSE_REFERENCE, "--json");
    expect_status(0);
    json_t *report = json_loads(output.out, 0, NULL);
    cr_assert_not_null(report, "%s", output.out);
    cr_assert_eq(json_integer_value(json_object_get(report, "launch_ns")), 125000);
    cr_assert_eq(json_integer_value(json_object_get(report, "numbers")), 6700);
    json_decref(report);
}

Test(fusionctl, run_finds_one_wrong_number)
{
    RUN_TRANSPOSE("FAKE_CUDA_WRONG=1", "--reference", TRANSPOSE_REFERENCE);
    expect_status(1);
    expect_out("WRONG, 1 of 6700 numbers; first out[66, 99] is");
}

/* 100x67 floats into a file, or their transpose; the last is off by `add`. */
static void write_floats(const char *path, bool transposed, float add)
{
    FILE *out = fopen(path, "w");
    cr_assert_not_null(out);
    for (int i = 0; i < 6700; i++) {
        float value = (float)(transposed ? i % 100 * 67 + i / 100 : i) + (i == 6699 ? add : 0);
        cr_assert_eq(fwrite(&value, sizeof value, 1, out), 1);
    }
    fclose(out);
}

Test(fusionctl, run_takes_inputs_from_files_and_checks_outputs_against_them)
{
    char in[256], out[256];
    snprintf(in, sizeof in, "x=%s/x.bin", the_daemon.directory);
    snprintf(out, sizeof out, "out=%s/out.bin", the_daemon.directory);
    write_floats(in + 2, false, 0);
    write_floats(out + 4, true, 0);
    RUN_TRANSPOSE(NULL, "--input", in, "--check", out, "--reference", TRANSPOSE_REFERENCE);
    expect_status(0);
    expect_out("against reference all 6700 numbers are right, largest difference 0");
    expect_out("against files     all 6700 numbers are right, largest difference 0");
    expect_out("right, all 13400 numbers");
    /* One number too large. */
    write_floats(out + 4, true, 0.5f);
    RUN_TRANSPOSE(NULL, "--input", in, "--check", out);
    expect_status(1);
    expect_out("WRONG, 1 of 6700 numbers; first out[66, 99] is 6699 and should be 6699.5");
    RUN_TRANSPOSE(NULL, "--input", in, "--check", out, "--json");
    expect_status(1);
    json_t *report = json_loads(output.out, 0, NULL), *check;
    cr_assert_not_null(report, "%s", output.out);
    check = json_array_get(json_object_get(report, "checks"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(check, "against")), "files");
    cr_assert_eq(json_integer_value(json_object_get(check, "mismatches")), 1);
    cr_assert_eq(json_real_value(json_object_get(check, "largest_difference")), 0.5);
    cr_assert(strstr(json_string_value(json_object_get(check, "first")), "out[66, 99]"));
    json_decref(report);
    RUN_TRANSPOSE(NULL, "--tensor", "x=4x4", "--input", in);
    expect_status(1);
    expect_err("tensor x: ");
    expect_err("26800 bytes of elements; a tensor of these sizes in float32 has 64");
}

Test(fusionctl, run_says_what_the_driver_says)
{
    RUN_TRANSPOSE("FAKE_CUDA_FAIL=cuLaunchKernel:719", "--reference", TRANSPOSE_REFERENCE);
    expect_status(1);
    expect_err("cuLaunchKernel: CUDA_ERROR_SCRIPTED (719)");
    RUN_TRANSPOSE("FAKE_CUDA_FAIL=cuMemAlloc_v2:2", "--reference", TRANSPOSE_REFERENCE);
    expect_status(1);
    expect_err("tensor x: cuMemAlloc");
    RUN_TRANSPOSE("FAKE_CUDA_INDEX=64", "--reference", TRANSPOSE_REFERENCE);
    expect_status(1);
    expect_err("parameter x: 24 bytes, but the kernel's has 40");
}

Test(fusionctl, run_without_a_device_exits_with_4)
{
    RUN_TRANSPOSE("FAKE_CUDA_FAIL=cuInit:100", "--reference", TRANSPOSE_REFERENCE);
    expect_status(4);
    expect_err("NO_DRIVER");
    RUN_TRANSPOSE("FAKE_CUDA_FAIL=cuInit:100", "--device", "0");
    expect_status(4);
    RUN_TRANSPOSE(NULL, "--device", "3");
    expect_status(4);
    expect_err("device 3: there are 1");
}

Test(fusionctl, run_refuses_what_it_does_not_know)
{
    RUN_TRANSPOSE(NULL, "--tensor", "y=3x4");
    expect_status(1);
    expect_err("--tensor y=3x4");
    RUN_TRANSPOSE(NULL, "--tensor", "x=3");
    expect_status(1);
    expect_err("--tensor x=3: must be 2 sizes");
    RUN_TRANSPOSE(NULL, "--scalar", "eps=3");
    expect_status(1);
    expect_err("--scalar eps=3");
    RUN_TRANSPOSE(NULL, "--reference", "/nonexistent.so");
    expect_status(1);
    expect_err("/nonexistent.so");
    RUN_TRANSPOSE(NULL, "--input", "out=x.npy");
    expect_status(1);
    expect_err("--input out=x.npy: must be NAME=FILE with the name of a tensor");
    RUN_TRANSPOSE(NULL, "--check", "x=x.npy");
    expect_status(1);
    expect_err("--check x=x.npy: must be NAME=FILE with the name of an output");
    RUN_TRANSPOSE(NULL, "--device", "host");
    expect_status(2);
    RUN_TRANSPOSE(NULL, "--compare", "host");
    expect_status(2);
}

/* ---- running on the host device ---- */

static void setup_host(void)
{
    daemon_start(&the_daemon, &as_usual);
}

TestSuite(host, .init = setup_host, .fini = teardown);

#define RUN_HOST(...) RUN(the_daemon, "run", "--device", "host", "--repeats", "3", __VA_ARGS__)

static void run_on_host(const char *name, const char *size)
{
    char file[512], reference[512], tensor[64];
    snprintf(file, sizeof file, "%s/%s/%s.json", FUSIONS_PATH, name, name);
    snprintf(reference, sizeof reference, "%s/reference_%s.so", REFERENCES_PATH, name);
    snprintf(tensor, sizeof tensor, "x=%s", size);
    RUN_HOST(file, "--reference", reference, "--tensor", tensor);
    expect_status(0);
    expect_out(": right, all ");
    expect_out(", host, int32, ");
}

/* Ragged rows, whole vectors, one element, a row above 48 KiB of shared memory, nothing at all. */
static void run_sizes_on_host(const char *name)
{
    static const char *const sizes[] = {"10x77", "8x256", "1x1", "2x20000", "0x16"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        run_on_host(name, sizes[i]);
}

Test(host, bias_gelu_residual)
{
    run_sizes_on_host("bias_gelu_residual");
}

Test(host, row_softmax)
{
    run_sizes_on_host("row_softmax");
}

Test(host, layer_norm)
{
    run_sizes_on_host("layer_norm");
}

Test(host, transpose)
{
    run_sizes_on_host("transpose");
}

Test(host, B6_3_with_64_bit_indices)
{
    RUN_HOST(FUSION("layer_norm"), "--reference", REFERENCES_PATH "/reference_layer_norm.so", "--index-type", "int64",
             "--tensor", "x=9x70");
    expect_status(0);
    expect_out(", host, int64, ");
}

Test(host, B6_4_a_row_that_does_not_fit_shared_memory_is_refused)
{
    RUN_HOST(FUSION("row_softmax"), "--tensor", "x=2x1000000");
    expect_status(1);
    expect_err("dynamic_shared_memory: 4001024 bytes");
}

Test(host, a_device_compares_with_itself_and_finds_no_difference)
{
    RUN_HOST(FUSION("row_softmax"), "--compare", "host", "--tensor", "x=9x70", "--json");
    expect_status(0);
    json_t *report = json_loads(output.out, 0, NULL), *check;
    cr_assert_not_null(report, "%s", output.out);
    cr_assert_str_eq(json_string_value(json_object_get(report, "target")), "host");
    cr_assert_eq(json_integer_value(json_object_get(report, "repeats")), 3);
    cr_assert_gt(json_integer_value(json_object_get(report, "launch_ns")), 0);
    cr_assert_eq(json_array_size(json_object_get(report, "checks")), 1);
    check = json_array_get(json_object_get(report, "checks"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(check, "against")), "device");
    cr_assert_eq(json_integer_value(json_object_get(check, "numbers")), 630);
    cr_assert_eq(json_integer_value(json_object_get(check, "mismatches")), 0);
    cr_assert_eq(json_number_value(json_object_get(check, "largest_difference")), 0);
    json_decref(report);
}

/* An intermediate that is zeroed before each launch, and an output that is written in place. */
static const char in_place_code[] =
    "__global__ void count(Tensor<float, 1, 1> x, Tensor<float, 1, 1> y, Tensor<int, 1, 1> seen)\n"
    "{\n"
    "    nvfuser_index_t i = threadIdx.x;\n"
    "    int before = atomicAdd(&seen[0], 1);\n"
    "    __syncthreads();\n"
    "    y[i] = before < 64 ? x[i] * 0 + (float)seen[0] : -1.0f;\n"
    "}\n";
static const char in_place_json[] =
    "{\"code\": \"count.cu\", \"entries\": [\"count\"],\n"
    " \"params\": [{\"name\": \"x\", \"kind\": \"tensor\", \"dtype\": \"float32\", \"rank\": 1},\n"
    "  {\"name\": \"y\", \"kind\": \"output\", \"dtype\": \"float32\", \"rank\": 1},\n"
    "  {\"name\": \"seen\", \"kind\": \"intermediate\", \"dtype\": \"int32\", \"rank\": 1}],\n"
    " \"outputs\": [{\"name\": \"y\", \"alias\": \"x\"}],\n"
    " \"intermediates\": [{\"name\": \"seen\", \"sizes\": [\"1\"], \"zero\": true}],\n"
    " \"launch\": {\"block\": [\"x.size[0]\"]}, \"run\": {\"sizes\": {\"x\": [64]}}}\n";

Test(host, B6_6_aliases_and_zeroed_intermediates)
{
    char file[256], code[256], wanted[256], check[300];
    write_file("count.cu", in_place_code, code);
    write_file("count.json", in_place_json, file);
    write_file("y.bin", "", wanted);
    FILE *out = fopen(wanted, "w");
    for (int i = 0; i < 64; i++)
        cr_assert_eq(fwrite(&(float){64}, sizeof(float), 1, out), 1);
    fclose(out);
    snprintf(check, sizeof check, "y=%s", wanted);
    RUN_HOST(file, "--check", check);
    expect_status(0);
    expect_out("right, all 64 numbers, largest difference 0");
}

Test(host, what_is_not_there_is_named)
{
    RUN(the_daemon, "devices");
    expect_status(0);
    expect_out("DEVICE  KIND  NAME");
    expect_out("host    host  ");
    RUN(the_daemon, "devices", "--json");
    expect_status(0);
    json_t *devices = json_loads(output.out, 0, NULL);
    cr_assert_not_null(devices, "%s", output.out);
    cr_assert_geq(json_array_size(json_object_get(devices, "devices")), 1);
    json_decref(devices);
    RUN(the_daemon, "run", "--device", "GPU-00000000-0000-0000-0000-000000000000", FUSION("transpose"));
    expect_status(4);
    expect_err("NO_DEVICE");
    RUN_HOST(FUSION("transpose"), "--compare", "toaster", "--tensor", "x=2x2");
    expect_status(4);
    expect_err("--compare toaster: ");
    RUN_HOST(FUSION("transpose"), "--target", "sm_90a", "--tensor", "x=2x2");
    expect_status(1);
}

/* ---- without a daemon ---- */

#define ALONE(...) fusionctl(NULL, "FUSIOND_SOCKET=/nonexistent", (const char *const[]){__VA_ARGS__, NULL}, &output)

Test(alone, every_verb_has_help_and_says_when_nobody_answers)
{
    static const char *const verbs[][3] = {{"ping", NULL},
                                           {"stats", NULL},
                                           {"devices", NULL},
                                           {"ls", NULL},
                                           {"show", "ab", NULL},
                                           {"get", "ab", NULL},
                                           {"compile", FUSION("transpose"), NULL},
                                           {"run", "--local", NULL}};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        ALONE(verbs[i][0], "--help");
        expect_status(0);
        expect_out("usage: fusionctl ");
        expect_out("--socket PATH");
        if (strcmp(verbs[i][0], "run") == 0)
            ALONE("run", "--local", FUSION("transpose"));
        else
            fusionctl(NULL, "FUSIOND_SOCKET=/nonexistent", verbs[i], &output);
        expect_status(3);
        expect_err("UNREACHABLE");
        expect_err("/nonexistent");
    }
}

Test(alone, wrong_usage_exits_with_2)
{
    static const char *const wrong[][4] = {{NULL},
                                           {"fly", NULL},
                                           {"ping", "x", NULL},
                                           {"ping", "-n", "0", NULL},
                                           {"compile", NULL},
                                           {"show", NULL},
                                           {"get", "a", "b", NULL},
                                           {"ls", "--colour", NULL},
                                           {"get", "--ptx", "--log", NULL},
                                           {"--socket", NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fusionctl(NULL, NULL, wrong[i], &output);
        cr_assert_eq(output.status, 2, "case %zu: %d", i, output.status);
        cr_assert_neq(output.err[0], '\0', "case %zu says nothing", i);
    }
    ALONE("--help");
    expect_status(0);
    expect_out("4 no such device");
}
