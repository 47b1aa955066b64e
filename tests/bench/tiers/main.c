/*
 * tier-proof: what a quick compile costs and gains on a GPU: time to compile, time to run, and whether the results
 * keep every bit of full optimisation's. docs/tiers.md has what it found.
 *
 *   tier-proof [--nvrtc FILE] [--include FOLDER]… [--option=OPTION]… FOLDER
 *
 * compiles each of the folder's .cu for each of its types, at every level, with the options beside.
 */
#include <dirent.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/launch/driver.h"
#include "tests/bench/tiers/program.h"

#define ELEMENTS (1 << 20)
#define BLOCK 256
#define COMPILES 3
#define RUNS 15

/* The first one is what the others are compared with. */
static const char *const levels[] = {"--Ofast-compile=0",   "--Ofast-compile=min", "--Ofast-compile=mid",
                                     "--Ofast-compile=max", "--ptxas-options=-O2", "--ptxas-options=-O1",
                                     "--ptxas-options=-O0"};
#define N_LEVELS (sizeof levels / sizeof levels[0])

/* One program at one level. */
struct measured {
    double compile_ms, run_us;
    size_t different; /* bytes that full optimisation's result has otherwise */
    bool failed;
};

static struct nvrtc nvrtc;
static const struct driver *driver;
static struct program_setup setup;
static uint64_t inputs[2], output;

static _Noreturn void die(const char *what, const struct error *error)
{
    fprintf(stderr, "tier-proof: %s: %s\n", what, error->text);
    exit(1);
}

static void call(const char *what, int result)
{
    struct error error;
    if (result != 0) {
        driver_failed(driver, what, result, &error);
        die("the device", &error);
    }
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n ? values[n / 2] : 0;
}

/* ---- the device ---- */

/* The same numbers each time: -2 … 2, or integers of both signs. */
static void fill_input(uint64_t at, const struct program *program, unsigned seed)
{
    size_t size = program->type_size * ELEMENTS;
    char *bytes = malloc(size);
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    if (!bytes)
        exit(1);
    for (size_t i = 0; i < ELEMENTS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int32_t whole = (int32_t)(state >> 33) - (1 << 30);
        double real = (double)whole / (1 << 29);
        if (strcmp(program->type, "double") == 0)
            memcpy(bytes + i * 8, &real, 8);
        else if (strcmp(program->type, "float") == 0)
            memcpy(bytes + i * 4, &(float){(float)real}, 4);
        else
            memcpy(bytes + i * 4, &whole, 4);
    }
    call("cuMemcpyHtoD", driver->copy_to_device(at, bytes, size));
    free(bytes);
}

static void launch(void *function)
{
    int n = ELEMENTS;
    void *params[] = {&inputs[0], &inputs[1], &output, &n};
    call("cuLaunchKernel", driver->launch_kernel(function, ELEMENTS / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, params, NULL));
}

static double run_us(void *function)
{
    double times[RUNS];
    void *start, *end;
    call("cuEventCreate", driver->event_create(&start, 0));
    call("cuEventCreate", driver->event_create(&end, 0));
    for (int i = 0; i < RUNS; i++) {
        float ms;
        call("cuEventRecord", driver->event_record(start, NULL));
        launch(function);
        call("cuEventRecord", driver->event_record(end, NULL));
        call("cuEventSynchronize", driver->event_synchronize(end));
        call("cuEventElapsedTime", driver->event_elapsed_ms(&ms, start, end));
        times[i] = (double)ms * 1e3;
    }
    driver->event_destroy(start);
    driver->event_destroy(end);
    return median(times, RUNS);
}

/* Load and run an image; what it wrote. */
static void run_image(const struct program_image *image, const struct program *program, char *ret, double *ret_us)
{
    void *module, *function;
    size_t size = program->type_size * ELEMENTS;
    call("cuModuleLoadDataEx", driver->module_load(&module, image->bytes, 0, NULL, NULL));
    call("cuModuleGetFunction", driver->module_get_function(&function, module, "k"));
    call("cuMemsetD8", driver->memory_set(output, 0xa5, size));
    launch(function);
    call("cuCtxSynchronize", driver->context_synchronize());
    call("cuMemcpyDtoH", driver->copy_to_host(ret, output, size));
    *ret_us = run_us(function);
    driver->module_unload(module);
}

/* ---- a program ---- */

static void measure(const struct program *program, struct measured ret[N_LEVELS])
{
    size_t size = program->type_size * ELEMENTS;
    char *results[N_LEVELS];
    double times[N_LEVELS][COMPILES];
    struct program_image images[N_LEVELS] = {0};
    fill_input(inputs[0], program, 1);
    fill_input(inputs[1], program, 2);
    for (int round = 0; round < COMPILES; round++)
        for (size_t i = 0; i < N_LEVELS; i++) {
            struct error error;
            double started = now_ms();
            program_image_free(&images[i]);
            ret[i].failed = program_compile(&nvrtc, &setup, program, levels[i], &images[i], &error) < 0;
            times[i][round] = now_ms() - started;
            if (ret[i].failed)
                die(program->name, &error);
        }
    for (size_t i = 0; i < N_LEVELS; i++) {
        results[i] = malloc(size);
        if (!results[i])
            exit(1);
        ret[i].compile_ms = median(times[i], COMPILES);
        run_image(&images[i], program, results[i], &ret[i].run_us);
        ret[i].different = 0;
        for (size_t at = 0; at < size; at++)
            ret[i].different += results[i][at] != results[0][at];
        program_image_free(&images[i]);
    }
    for (size_t i = 0; i < N_LEVELS; i++)
        free(results[i]);
}

static void print_program(const struct program *program, const struct measured *found)
{
    printf("%-24s %-6s", program->name, program->type);
    for (size_t i = 0; i < N_LEVELS; i++)
        printf("  %8.1f %9.1f", found[i].compile_ms, found[i].run_us);
    printf("  ");
    for (size_t i = 1; i < N_LEVELS; i++)
        printf("%c", found[i].different ? '!' : '=');
    printf("\n");
    fflush(stdout);
}

/* ---- all of them ---- */

static void print_summary(struct measured (*found)[N_LEVELS], size_t n)
{
    double *ratios = calloc(n, sizeof *ratios);
    if (!ratios)
        exit(1);
    printf("\n%zu programs of %d elements; against %s:\n", n, ELEMENTS, levels[0]);
    for (size_t level = 1; level < N_LEVELS; level++) {
        size_t different = 0;
        for (size_t i = 0; i < n; i++)
            different += found[i][level].different > 0;
        printf("  %-20s results differ in %zu", levels[level], different);
        for (size_t i = 0; i < n; i++)
            ratios[i] = found[i][level].compile_ms / found[i][0].compile_ms;
        double middle = median(ratios, n);
        printf("; compile time p50 %.2fx, least %.2fx", middle, ratios[0]);
        for (size_t i = 0; i < n; i++)
            ratios[i] = found[i][level].run_us / found[i][0].run_us;
        middle = median(ratios, n);
        printf("; run time p50 %.2fx, most %.2fx", middle, ratios[n - 1]);
        for (size_t i = 0; i < n; i++) {
            double lost = found[i][level].run_us - found[i][0].run_us;
            double gained = (found[i][0].compile_ms - found[i][level].compile_ms) * 1e3;
            ratios[i] = lost <= 0 ? HUGE_VAL : gained <= 0 ? 0 : gained / lost;
        }
        printf("; even after p50 %.0f launches\n", median(ratios, n));
    }
    free(ratios);
}

static int is_program(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 3 && strcmp(entry->d_name + length - 3, ".cu") == 0;
}

static void measure_folder(const char *folder)
{
    struct dirent **files;
    int n_files = scandir(folder, &files, is_program, alphasort);
    size_t n = 0;
    struct measured(*found)[N_LEVELS] = calloc(MAX_PROGRAMS, sizeof *found);
    if (n_files <= 0 || !found) {
        fprintf(stderr, "tier-proof: %s: there are no programs\n", folder);
        exit(1);
    }
    printf("%-31s  ms to compile, us to run:", "program");
    for (size_t i = 0; i < N_LEVELS; i++)
        printf(" %s", levels[i]);
    printf("; results the same (=)\n");
    for (int i = 0; i < n_files; i++) {
        struct program programs[MAX_TYPES];
        struct error error;
        int n_programs = program_read(folder, files[i]->d_name, programs, &error);
        if (n_programs < 0)
            die(files[i]->d_name, &error);
        for (int j = 0; j < n_programs && n < MAX_PROGRAMS; j++) {
            measure(&programs[j], found[n]);
            print_program(&programs[j], found[n++]);
        }
        program_free(programs);
        free(files[i]);
    }
    free(files);
    print_summary(found, n);
    free(found);
}

static void open_device(void)
{
    struct error error;
    int device;
    unsigned capability;
    void *context;
    driver = driver_get(&error);
    if (!driver)
        die("no device", &error);
    if (driver_default_device(driver, &device, &error) < 0 ||
        driver_capability(driver, device, &capability, &error) < 0)
        die("no device", &error);
    call("cuDevicePrimaryCtxRetain", driver->primary_context_retain(&context, device));
    call("cuCtxPushCurrent", driver->context_push(context));
    snprintf(setup.target, sizeof setup.target, "sm_%u%s", capability, capability >= 90 ? "a" : "");
    for (int i = 0; i < 2; i++)
        call("cuMemAlloc", driver->memory_allocate(&inputs[i], 8 * ELEMENTS));
    call("cuMemAlloc", driver->memory_allocate(&output, 8 * ELEMENTS));
}

int main(int argc, char **argv)
{
    static const struct option table[] = {{"nvrtc", required_argument, NULL, 'n'},
                                          {"include", required_argument, NULL, 'I'},
                                          {"option", required_argument, NULL, 'o'},
                                          {0}};
    const char *library = NULL;
    struct error error;
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (letter == 'n')
            library = optarg;
        else if (letter == 'I' && setup.n_includes < MAX_INCLUDES)
            setup.includes[setup.n_includes++] = optarg;
        else if (letter == 'o' && setup.n_options < MAX_OPTIONS)
            setup.options[setup.n_options++] = optarg;
        else
            optind = argc;
    }
    if (optind != argc - 1) {
        fprintf(stderr, "usage: tier-proof [--nvrtc FILE] [--include FOLDER]... [--option=OPTION]... FOLDER\n");
        return 2;
    }
    if (nvrtc_open(&nvrtc, library, NULL, 0, &error) < 0 || nvrtc_warm_up(&nvrtc, &error) < 0)
        die("no compiler", &error);
    open_device();
    printf("NVRTC %d.%d, target %s\n", nvrtc.major, nvrtc.minor, setup.target);
    measure_folder(argv[optind]);
    return 0;
}
