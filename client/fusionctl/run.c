#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/fusionctl/compile.h"
#include "client/fusionctl/print.h"
#include "client/fusionctl/run_check.h"
#include "client/fusionctl/verbs.h"
#include "client/kernel.h"
#include "client/socket.h"

struct settings {
    struct compile_settings compile;
    struct run_overrides overrides;
    const char *reference;
    long long seed, repeat, device;
    bool local;
};

/* What one run found. Times are wall-clock nanoseconds, except launch_ns: device time. */
struct report {
    uint64_t context_ns, compile_ns, hit_ns, load_ns, first_launch_ns, launch_ns, least_launch_ns;
    uint64_t bytes; /* that the kernel must move: every tensor once */
    bool checked;
    struct run_verdict verdict;
    struct fusiond_launch launch;
};

/* Everything alive during a run. Owner: the verb; any part may be absent. */
struct run {
    struct fusiond_connection *connection;
    struct fusiond_fusion *fusion;
    struct fusiond_kernel *kernel;
    struct fusiond_module *module;
    struct run_device device;
    struct run_call call;
};

static void finish(struct run *run)
{
    fusiond_module_destroy(run->module);
    run_device_finish(&run->device);
    run_call_finish(&run->call);
    fusiond_kernel_destroy(run->kernel);
    fusiond_fusion_destroy(run->fusion);
    fusiond_close(run->connection);
}

/* ---- the steps ---- */

/* Compile with the shapes of this call as the sample, and once more: what a second process pays. */
static int compile(struct run *run, const struct settings *settings, struct report *report, struct fusiond_error *error)
{
    struct fusiond_kernel *again;
    struct fusiond_sample *samples = calloc(run->call.n + 1, sizeof *samples);
    struct fusiond_compile_options options = {
        .parts = FUSIOND_IMAGE, .deadline_ms = settings->compile.deadline_ms, .samples = samples};
    if (!samples)
        abort();
    for (size_t i = 0; i < run->call.n; i++) {
        const struct shape *shape = &run->call.call.shapes[i];
        enum param_kind kind = run->call.message->params[i].kind;
        if (kind == PARAM_KIND_TENSOR || kind == PARAM_KIND_OUTPUT)
            samples[options.n_samples++] = (struct fusiond_sample){
                .rank = shape->rank,
                .sizes = shape->sizes,
                .strides = shape->alloc_rank == shape->rank ? shape->strides : NULL,
            };
    }
    uint64_t start = clock_ns();
    int result = fusiond_compile(run->connection, run->fusion, &options, &run->kernel, error);
    report->compile_ns = clock_ns() - start;
    if (result == 0) {
        start = clock_ns();
        result = fusiond_compile(run->connection, run->fusion, &options, &again, error);
        report->hit_ns = clock_ns() - start;
        if (result == 0)
            fusiond_kernel_destroy(again);
    }
    free(samples);
    return result;
}

static int launch_once(void *data, struct error *error)
{
    struct run *run = data;
    struct fusiond_error public_error;
    int result = fusiond_launch(run->module, 0, run->fusion, (const void *)run->call.arguments, run->call.n, NULL, NULL,
                                &public_error);
    return result == 0 ? 0 : error_set(error, (enum status)public_error.code, "%s", public_error.text);
}

static int measure(struct run *run, size_t repeat, struct report *report, struct error *error)
{
    struct run_launcher launcher = {launch_once, run};
    uint64_t *times = calloc(repeat, sizeof *times);
    if (!times)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu times", repeat);
    int result = run_device_time(&run->device, &launcher, repeat, times, error);
    report->launch_ns = times[repeat / 2];
    report->least_launch_ns = times[0];
    free(times);
    return result;
}

/* Fill, launch, check, measure. */
static int launch_and_check(struct run *run, const struct settings *settings, struct report *report,
                            struct error *error)
{
    if (run_device_fill(&run->device, &run->call, (uint64_t)settings->seed, error) < 0)
        return -1;
    for (size_t i = 0; i < run->call.n; i++)
        report->bytes += run->device.buffers[i].size;
    uint64_t start = clock_ns();
    if (launch_once(run, error) < 0 || run_device_wait(&run->device, error) < 0)
        return -1;
    report->first_launch_ns = clock_ns() - start;
    for (size_t i = 0; i < run->call.n; i++) {
        if (run->call.message->params[i].kind == PARAM_KIND_OUTPUT && run_device_read(&run->device, i, error) < 0)
            return -1;
    }
    if (settings->reference) {
        if (run_check(settings->reference, run->fusion, &run->call, &run->device, &report->verdict, error) < 0)
            return -1;
        report->checked = true;
    }
    return measure(run, (size_t)settings->repeat, report, error);
}

static int do_run(struct run *run, const char *path, const struct settings *settings, struct report *report,
                  struct fusiond_error *error)
{
    struct error inner = {0};
    uint64_t start = clock_ns();
    if (run_device_init((int)settings->device, &run->device, &inner) < 0)
        return error_export(-1, &inner, error);
    report->context_ns = clock_ns() - start;
    if (compile_load(path, &settings->compile, &run->fusion, error) < 0)
        return -1;
    if (run_call_init(run->fusion, &settings->overrides, &run->call, &inner) < 0) {
        error_wrap(&inner, "%s", path);
        return error_export(-1, &inner, error);
    }
    if (compile(run, settings, report, error) < 0) {
        compile_print_failure(run->connection, run->fusion);
        return -1;
    }
    start = clock_ns();
    if (fusiond_load(run->kernel, (int)settings->device, &run->module, error) < 0)
        return -1;
    report->load_ns = clock_ns() - start;
    if (fusiond_launch_params(run->fusion, (const void *)run->call.arguments, run->call.n, &report->launch, error) < 0)
        return -1;
    return error_export(launch_and_check(run, settings, report, &inner), &inner, error);
}

/* ---- the report ---- */

static const char *title_of(const struct run *run, const char *path)
{
    const char *label = fusiond_kernel_label(run->kernel);
    return *label ? label : path;
}

/* GB/s of a launch that moves every tensor once. */
static double rate_of(const struct report *report)
{
    return report->launch_ns ? (double)report->bytes / (double)report->launch_ns : 0.0;
}

static void print_tensors(const struct run *run)
{
    for (size_t i = 0; i < run->call.n; i++) {
        const struct param *param = &run->call.message->params[i];
        const struct shape *shape = &run->call.call.shapes[i];
        if (param->kind == PARAM_KIND_SCALAR)
            continue;
        printf("%s%s ", i ? ", " : "", param->name.at);
        for (unsigned d = 0; d < shape->rank; d++)
            printf("%s%lld", d ? "x" : "", (long long)shape->sizes[d]);
        printf(" %s", dtype_word((int)param->dtype));
    }
}

static void print_report(const struct run *run, const char *path, const struct report *report, long long repeat)
{
    char a[PRINT_ROOM], b[PRINT_ROOM], c[PRINT_ROOM];
    const struct fusiond_launch *launch = &report->launch;
    printf("%s on %s: ", title_of(run, path), run->device.name);
    print_tensors(run);
    printf("\n  kernel        %.12s, %s, %s, grid %ux%ux%u, block %ux%ux%u, %s dynamic shared memory\n",
           fusiond_kernel_key(run->kernel), fusiond_kernel_target(run->kernel), fusiond_kernel_index_type(run->kernel),
           launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
           print_size(launch->dynamic_shared_memory, a));
    printf("  compile       %s (%s), again %s\n", print_time(report->compile_ns, a),
           fusiond_kernel_outcome(run->kernel), print_time(report->hit_ns, b));
    printf("  context       %s, load %s, first launch %s\n", print_time(report->context_ns, a),
           print_time(report->load_ns, b), print_time(report->first_launch_ns, c));
    printf("  launch        %s, median of %lld, least %s, %.0f GB/s\n", print_time(report->launch_ns, a), repeat,
           print_time(report->least_launch_ns, b), rate_of(report));
    if (!report->checked)
        printf("%s: not checked (no --reference), %.0f GB/s\n", title_of(run, path), rate_of(report));
    else if (report->verdict.mismatches)
        printf("%s: WRONG, %llu of %llu numbers; first %s\n", title_of(run, path),
               (unsigned long long)report->verdict.mismatches, (unsigned long long)report->verdict.checked,
               report->verdict.first);
    else
        printf("%s: right, all %llu numbers, largest difference %.3g; compile %s, again %s, launch %s, %.0f GB/s\n",
               title_of(run, path), (unsigned long long)report->verdict.checked, report->verdict.worst,
               print_time(report->compile_ns, a), print_time(report->hit_ns, b), print_time(report->launch_ns, c),
               rate_of(report));
}

static void print_json(const struct run *run, const char *path, const struct report *report)
{
    fputs("{\"fusion\": ", stdout);
    print_json_string(title_of(run, path), stdout);
    fputs(", \"device\": ", stdout);
    print_json_string(run->device.name, stdout);
    printf(", \"key\": \"%s\", \"target\": \"%s\", \"outcome\": \"%s\"", fusiond_kernel_key(run->kernel),
           fusiond_kernel_target(run->kernel), fusiond_kernel_outcome(run->kernel));
#define PRINT(field) printf(", \"" #field "\": %llu", (unsigned long long)report->field)
    PRINT(context_ns);
    PRINT(compile_ns);
    PRINT(hit_ns);
    PRINT(load_ns);
    PRINT(first_launch_ns);
    PRINT(launch_ns);
    PRINT(least_launch_ns);
    PRINT(bytes);
#undef PRINT
    printf(", \"gb_per_s\": %.1f, \"checked\": %s, \"numbers\": %llu, \"mismatches\": %llu, \"largest_difference\": ",
           rate_of(report), report->checked ? "true" : "false", (unsigned long long)report->verdict.checked,
           (unsigned long long)report->verdict.mismatches);
    /* NaN is no JSON. */
    if (report->verdict.worst >= 0)
        printf("%.9g}\n", report->verdict.worst);
    else
        puts("null}");
}

/* ---- the verb ---- */

/* One option of this verb; false when it is unknown or wrong. */
static bool take_option(struct settings *settings, int option)
{
    switch (option) {
    case OPTION_VERB:
        settings->local = true;
        return true;
    case 'x':
        if (settings->overrides.n_tensors == MAX_OVERRIDES)
            return false;
        settings->overrides.tensors[settings->overrides.n_tensors++] = optarg;
        return true;
    case 's':
        if (settings->overrides.n_scalars == MAX_OVERRIDES)
            return false;
        settings->overrides.scalars[settings->overrides.n_scalars++] = optarg;
        return true;
    case 'R':
        settings->reference = optarg;
        return true;
    case 'S':
        return parse_number("--seed", optarg, 0, INT64_MAX, &settings->seed);
    case 'n':
        return parse_number("--repeat", optarg, 1, 100000, &settings->repeat);
    case OPTION_VERB + 1:
        return parse_number("--device", optarg, 0, 1023, &settings->device);
    default:
        return compile_option(&settings->compile, option);
    }
}

static int run_file(const char *path, const struct settings *settings, const struct common *common)
{
    struct run run = {0};
    struct report report = {0};
    struct fusiond_error error;
    int result = 0;
    run.connection = connect_daemon(common, &result);
    if (!run.connection)
        return result;
    if (do_run(&run, path, settings, &report, &error) < 0) {
        result = fail(&error);
    } else {
        if (common->json)
            print_json(&run, path, &report);
        else
            print_report(&run, path, &report, settings->repeat);
        result = report.verdict.mismatches ? EXIT_FAILED : 0;
    }
    finish(&run);
    return result;
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {{"local", no_argument, NULL, OPTION_VERB},
                                            {"tensor", required_argument, NULL, 'x'},
                                            {"scalar", required_argument, NULL, 's'},
                                            {"reference", required_argument, NULL, 'R'},
                                            {"seed", required_argument, NULL, 'S'},
                                            {"repeat", required_argument, NULL, 'n'},
                                            {"device", required_argument, NULL, OPTION_VERB + 1},
                                            COMPILE_OPTIONS,
                                            COMMON_OPTIONS,
                                            {0}};
    struct settings settings = {.seed = 1, .repeat = 20};
    int option, result = 0;
    while ((option = getopt_long(argc, argv, COMPILE_LETTERS "x:s:n:", options, NULL)) != -1) {
        if (!common_take(common, option) && !take_option(&settings, option))
            return usage_error(&verb_run, NULL);
    }
    if (!common_check(&verb_run, common, argc - optind, 1, 1, &result))
        return result;
    if (!settings.local)
        return usage_error(&verb_run, "only --local so far: the daemon does not launch yet");
    return run_file(argv[optind], &settings, common);
}

const struct verb verb_run = {
    .name = "run",
    .summary = "compile a fusion, launch it here, check and time it",
    .help = "usage: fusionctl run --local FILE [options]\n\n"
            "Compiles the fusion through the daemon, loads it into a CUDA context of this process, fills the inputs\n"
            "with seeded random numbers, launches it, compares every element of every output with a reference, and\n"
            "prints the times. Sizes, scalars and tolerance are those of the file's `run` section.\n"
            "Exit code 1: wrong numbers; 4: no CUDA driver or device.\n\n"
            "      --local           launch in this process\n"
            "  -x, --tensor X=AxB    other sizes of an input\n"
            "  -s, --scalar N=V      another value of a scalar\n"
            "      --reference SO    a shared object with fusiond_reference (docs/fusion-file.md)\n"
            "      --seed N          of the random numbers (default 1)\n"
            "  -n, --repeat N        launches to time (default 20)\n"
            "      --device N        (default 0)\n" COMPILE_HELP COMMON_HELP,
    .run = run,
};
