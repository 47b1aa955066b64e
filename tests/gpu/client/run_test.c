/* The four fusions on a real device: compiled by the daemon, launched by another process or in the daemon, every number
 * checked. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/integration/client/program.h"
#include "tests/support/daemon_process.h"

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

TestSuite(run, .init = setup, .fini = teardown);

/* There is no device: say why, in one line. */
static void skip(void)
{
    output.err[strcspn(output.err, "\n")] = '\0';
    cr_skip_test("%s", output.err);
}

/* Run with this size of x; the other sizes follow. `where` is "--local" or "--device=0". */
static void run(const char *where, const char *name, const char *size)
{
    char file[512], reference[512], tensor[64];
    snprintf(file, sizeof file, "%s/%s/%s.json", FUSIONS_PATH, name, name);
    snprintf(reference, sizeof reference, "%s/reference_%s.so", REFERENCES_PATH, name);
    snprintf(tensor, sizeof tensor, "x=%s", size);
    const char *const arguments[] = {"run", where, file, "--reference", reference, "--tensor", tensor, NULL};
    fusionctl(the_daemon.socket, NULL, arguments, &output);
    if (output.status == 4)
        skip();
    cr_assert_eq(output.status, 0, "%s %s: %d: %s%s", name, size, output.status, output.out, output.err);
    cr_assert(strstr(output.out, ": right, all "), "%s", output.out);
}

/* Whole vectors, ragged rows, one element, a row above 48 KiB of shared memory, nothing at all. */
static void run_sizes(const char *where, const char *name)
{
    static const char *const sizes[] = {"512x1024", "1000x777", "3x4097", "1x1", "5x8", "33x20000", "0x16"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        run(where, name, sizes[i]);
}

Test(run, bias_gelu_residual)
{
    run_sizes("--local", "bias_gelu_residual");
    run_sizes("--device=0", "bias_gelu_residual");
}

Test(run, row_softmax)
{
    run_sizes("--local", "row_softmax");
    run_sizes("--device=0", "row_softmax");
}

Test(run, layer_norm)
{
    run_sizes("--local", "layer_norm");
    run_sizes("--device=0", "layer_norm");
}

Test(run, transpose)
{
    run_sizes("--local", "transpose");
    run_sizes("--device=0", "transpose");
}

Test(run, B6_3_with_64_bit_indices)
{
    char file[512], reference[512];
    snprintf(file, sizeof file, "%s/layer_norm/layer_norm.json", FUSIONS_PATH);
    snprintf(reference, sizeof reference, "%s/reference_layer_norm.so", REFERENCES_PATH);
    const char *const arguments[] = {"run",          "--local", file,       "--reference", reference,
                                     "--index-type", "int64",   "--tensor", "x=100x70",    NULL};
    fusionctl(the_daemon.socket, NULL, arguments, &output);
    if (output.status == 4)
        skip();
    cr_assert_eq(output.status, 0, "%s%s", output.out, output.err);
    cr_assert(strstr(output.out, "int64"), "%s", output.out);
}

Test(run, B6_4_a_row_that_does_not_fit_shared_memory_is_refused)
{
    char file[512];
    snprintf(file, sizeof file, "%s/row_softmax/row_softmax.json", FUSIONS_PATH);
    const char *const arguments[] = {"run", "--local", file, "--tensor", "x=2x1000000", NULL};
    fusionctl(the_daemon.socket, NULL, arguments, &output);
    if (output.status == 4)
        skip();
    cr_assert_eq(output.status, 1, "%s%s", output.out, output.err);
    cr_assert(strstr(output.err, "dynamic_shared_memory: 4001024 bytes"), "%s", output.err);
}

/* The same inputs through two compilers and two back ends. */
Test(run, B4_4_the_host_device_computes_the_same)
{
    static const char *const names[] = {"bias_gelu_residual", "row_softmax", "layer_norm", "transpose"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char file[512];
        snprintf(file, sizeof file, "%s/%s/%s.json", FUSIONS_PATH, names[i], names[i]);
        const char *const arguments[] = {"run",  "--device", "0",        file, "--compare",
                                         "host", "--tensor", "x=33x130", NULL};
        fusionctl(the_daemon.socket, NULL, arguments, &output);
        if (output.status == 4)
            skip();
        cr_assert_eq(output.status, 0, "%s: %s%s", names[i], output.out, output.err);
        cr_assert(strstr(output.out, ": right, all "), "%s", output.out);
    }
}

Test(run, B6_4_in_the_daemon_too)
{
    char file[512];
    snprintf(file, sizeof file, "%s/row_softmax/row_softmax.json", FUSIONS_PATH);
    const char *const arguments[] = {"run", "--device", "0", file, "--tensor", "x=2x1000000", NULL};
    fusionctl(the_daemon.socket, NULL, arguments, &output);
    if (output.status == 4)
        skip();
    cr_assert_eq(output.status, 1, "%s%s", output.out, output.err);
    cr_assert(strstr(output.err, "dynamic_shared_memory: 4001024 bytes"), "%s", output.err);
}
