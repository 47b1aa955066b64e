#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/fusionctl/compile.h"
#include "client/fusionctl/run_device.h"
#include "client/fusionctl/run_dump.h"
#include "client/fusionctl/run_report.h"
#include "client/fusionctl/verbs.h"
#include "client/kernel.h"
#include "client/socket.h"

struct settings {
    struct compile_settings compile;
    struct run_overrides overrides;
    struct run_files inputs, checks;
    const char *reference, *device, *compare;
    long long seed, repeats, ordinal; /* ordinal: of a local device */
    bool local;
};

/* The fusion on one device: settled, compiled, launched, read back. Owner: the verb; any part may be absent. */
struct side {
    struct fusiond_fusion *fusion;
    struct run_device *device;
    struct run_call call;
    struct fusiond_kernel *kernel;
    struct run_data data;
    struct fusiond_launch launch;
    struct run_times times;
};

static void finish_side(struct side *side)
{
    if (side->device)
        side->device->ops->destroy(side->device);
    run_data_finish(&side->data);
    fusiond_kernel_destroy(side->kernel);
    run_call_finish(&side->call);
    fusiond_fusion_destroy(side->fusion);
}

/* ---- one device ---- */

static bool has_option(const struct compile_settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->n_fields; i++) {
        if (strcmp(settings->fields[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Without --target: the host device runs nothing but its own; a GPU what the file is for, else what suits it. */
static int choose_target(const struct settings *settings, struct side *side, struct error *error)
{
    struct fusiond_error public_error;
    const char *target = side->device->target;
    const struct fusion *message = fusion_message(side->fusion, error);
    if (!message)
        return -1;
    if (!target || has_option(&settings->compile, "target") ||
        (side->fusion->has_target && strcmp(target, "host") != 0))
        return 0;
    if (fusiond_fusion_set_target(side->fusion, target, &public_error) < 0)
        return run_error(&public_error, error);
    return 0;
}

static int open_device(struct fusiond_connection *connection, const struct settings *settings, const char *name,
                       struct side *side, struct error *error)
{
    uint64_t start = clock_ns();
    int result = settings->local ? run_local_open((int)settings->ordinal, &side->device, error)
                                 : run_daemon_open(connection, name, &side->device, error);
    side->times.open_ns = clock_ns() - start;
    return result;
}

/* The fusion, the device and the call; everything that the command line says about them must be right. */
static int prepare(struct fusiond_connection *connection, const char *path, const struct settings *settings,
                   const char *device, struct side *side, struct error *error)
{
    struct fusiond_error public_error;
    if (compile_load(path, &settings->compile, &side->fusion, &public_error) < 0)
        return run_error(&public_error, error);
    if (open_device(connection, settings, device, side, error) < 0 || choose_target(settings, side, error) < 0)
        return -1;
    if (run_call_init(side->fusion, &settings->overrides, &side->call, error) < 0)
        return error_wrap(error, "%s", path);
    if (run_files_check(&settings->inputs, side->call.message, PARAM_KIND_TENSOR, "input", error) < 0)
        return -1;
    return run_files_check(&settings->checks, side->call.message, PARAM_KIND_OUTPUT, "check", error);
}

static void append_samples(const struct run_call *call, bool intermediates, struct fusiond_sample *samples, size_t *n)
{
    for (size_t i = 0; i < call->n; i++) {
        const struct shape *shape = &call->call.shapes[i];
        enum param_kind kind = call->message->params[i].kind;
        if (intermediates ? kind == PARAM_KIND_INTERMEDIATE : kind == PARAM_KIND_TENSOR || kind == PARAM_KIND_OUTPUT)
            samples[(*n)++] = (struct fusiond_sample){
                .rank = shape->rank,
                .sizes = shape->sizes,
                .strides = shape->alloc_rank == shape->rank ? shape->strides : NULL,
            };
    }
}

/* Compile with the shapes of this call as the sample, and once more: what a second process pays. */
static int compile(struct fusiond_connection *connection, const struct settings *settings, struct side *side,
                   struct error *error)
{
    struct fusiond_error public_error;
    struct fusiond_kernel *again;
    struct fusiond_sample *samples = calloc(side->call.n + 1, sizeof *samples);
    struct fusiond_compile_options options = {
        .parts = settings->local ? FUSIOND_IMAGE : 0, .deadline_ms = settings->compile.deadline_ms, .samples = samples};
    if (!samples)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", side->call.n);
    /* The index type must reach intermediates, too; they come after the tensors, which are matched with params. */
    append_samples(&side->call, false, samples, &options.n_samples);
    append_samples(&side->call, true, samples, &options.n_samples);
    uint64_t start = clock_ns();
    int result = fusiond_compile(connection, side->fusion, &options, &side->kernel, &public_error);
    side->times.compile_ns = clock_ns() - start;
    if (result < 0) {
        compile_print_failure(connection, side->fusion);
    } else {
        start = clock_ns();
        result = fusiond_compile(connection, side->fusion, &options, &again, &public_error);
        side->times.hit_ns = clock_ns() - start;
        if (result == 0)
            fusiond_kernel_destroy(again);
    }
    free(samples);
    return result < 0 ? run_error(&public_error, error) : 0;
}

/* Load, launch once, and read what it wrote. */
static int launch(const struct settings *settings, struct side *side, struct error *error)
{
    const struct run_device_ops *ops = side->device->ops;
    uint64_t start = clock_ns();
    if (ops->load(side->device, side->fusion, side->kernel, error) < 0)
        return -1;
    side->times.load_ns = clock_ns() - start;
    if (run_data_init(&side->call, (uint64_t)settings->seed, &settings->inputs, &side->data, error) < 0 ||
        ops->place(side->device, &side->call, &side->data, error) < 0)
        return -1;
    start = clock_ns();
    if (ops->launch(side->device, &side->launch, error) < 0)
        return -1;
    side->times.first_launch_ns = clock_ns() - start;
    return ops->read(side->device, &side->data, error);
}

static int do_side(struct fusiond_connection *connection, const char *path, const struct settings *settings,
                   const char *device, struct side *side, struct error *error)
{
    if (prepare(connection, path, settings, device, side, error) < 0 || compile(connection, settings, side, error) < 0)
        return -1;
    compile_print_notes(path, side->kernel);
    return launch(settings, side, error);
}

/* ---- the run ---- */

static int check(const struct settings *settings, const struct side *side, struct run_report *report,
                 struct error *error)
{
    struct run_verdict *verdicts = report->verdicts;
    if (settings->reference && run_check_reference(settings->reference, side->fusion, &side->call, &side->data,
                                                   &verdicts[CHECK_REFERENCE], error) < 0)
        return -1;
    report->done[CHECK_REFERENCE] = settings->reference != NULL;
    if (settings->checks.n > 0 &&
        run_check_files(&settings->checks, side->fusion, &side->call, &side->data, &verdicts[CHECK_FILES], error) < 0)
        return -1;
    report->done[CHECK_FILES] = settings->checks.n > 0;
    return 0;
}

/* The same call on another device, for which --target does not hold. */
static int check_other(struct fusiond_connection *connection, const char *path, const struct settings *settings,
                       const struct side *main, struct side *other, struct run_report *report, struct error *error)
{
    struct settings copy = *settings;
    copy.compile.n_fields = 0;
    for (size_t i = 0; i < settings->compile.n_fields; i++) {
        if (strcmp(settings->compile.fields[i].name, "target") != 0)
            copy.compile.fields[copy.compile.n_fields++] = settings->compile.fields[i];
    }
    if (do_side(connection, path, &copy, settings->compare, other, error) < 0)
        return error_wrap(error, "--compare %s", settings->compare);
    report->other = other->device->name;
    report->done[CHECK_DEVICE] = true;
    return run_check_data(main->fusion, &main->call, &main->data, &other->data, &report->verdicts[CHECK_DEVICE], error);
}

static int measure(struct side *side, unsigned repeats, struct run_report *report, struct error *error)
{
    uint64_t *times = calloc(repeats, sizeof *times);
    if (!times)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %u times", repeats);
    int result = side->device->ops->time(side->device, repeats, times, error);
    report->launch_ns = times[repeats / 2];
    report->least_launch_ns = times[0];
    report->repeats = repeats;
    free(times);
    return result;
}

static void fill_report(const struct side *side, const char *path, struct run_report *report)
{
    const char *label = fusiond_kernel_label(side->kernel);
    report->title = *label ? label : path;
    report->device = side->device->name;
    report->kernel = side->kernel;
    report->call = &side->call;
    report->launch = side->launch;
    report->times = side->times;
    report->bytes = run_data_bytes(&side->data);
}

static int dump(struct fusiond_connection *connection, const struct settings *settings, const struct run_report *report,
                bool json)
{
    const struct dump_settings *how = &settings->compile.dump;
    if (!how->folder)
        return 0;
    json_t *launch = run_dump_launch(report), *rows = json ? json_array() : NULL;
    int result = dump_kernel(connection, fusiond_kernel_key(report->kernel), how, launch, rows);
    json_decref(launch);
    json_decref(rows);
    return result;
}

static int run_file(const char *path, const struct settings *settings, const struct common *common)
{
    struct side main = {0}, other = {0};
    struct run_report report = {0};
    struct error error = {0};
    struct fusiond_error public_error;
    int result = 0;
    struct fusiond_connection *connection = connect_daemon(common, &result);
    if (!connection)
        return result;
    result = do_side(connection, path, settings, settings->device, &main, &error);
    if (result == 0)
        result = check(settings, &main, &report, &error);
    if (result == 0 && settings->compare)
        result = check_other(connection, path, settings, &main, &other, &report, &error);
    if (result == 0)
        result = measure(&main, (unsigned)settings->repeats, &report, &error);
    if (result < 0) {
        error_export(result, &error, &public_error);
        result = fail(&public_error);
    } else {
        fill_report(&main, path, &report);
        if (common->json)
            run_report_print_json(&report);
        else
            run_report_print(&report);
        result = run_report_verdict(&report).mismatches ? EXIT_FAILED : 0;
        int dumped = dump(connection, settings, &report, common->json);
        result = result ? result : dumped;
    }
    finish_side(&main);
    finish_side(&other);
    fusiond_close(connection);
    return result;
}

/* ---- the verb ---- */

enum { OPTION_LOCAL = OPTION_VERB, OPTION_DEVICE, OPTION_INPUT, OPTION_CHECK, OPTION_COMPARE };

static bool append(const char **items, size_t *n)
{
    if (*n == MAX_OVERRIDES)
        return false;
    items[(*n)++] = optarg;
    return true;
}

/* One option of this verb; false when it is unknown or wrong. */
static bool take_option(struct settings *settings, int option)
{
    switch (option) {
    case OPTION_LOCAL:
        settings->local = true;
        return true;
    case 'x':
        return append(settings->overrides.tensors, &settings->overrides.n_tensors);
    case 's':
        return append(settings->overrides.scalars, &settings->overrides.n_scalars);
    case OPTION_INPUT:
        return append(settings->inputs.items, &settings->inputs.n);
    case OPTION_CHECK:
        return append(settings->checks.items, &settings->checks.n);
    case OPTION_COMPARE:
        settings->compare = optarg;
        return true;
    case 'R':
        settings->reference = optarg;
        return true;
    case 'S':
        return parse_number("--seed", optarg, 0, INT64_MAX, &settings->seed);
    case 'n':
        return parse_number("--repeats", optarg, 1, LIMIT_REPEATS, &settings->repeats);
    case OPTION_DEVICE:
        settings->device = optarg;
        return true;
    default:
        return dump_option(&settings->compile.dump, option) || compile_option(&settings->compile, option);
    }
}

static int run(int argc, char **argv, struct common *common)
{
    static const struct option options[] = {{"local", no_argument, NULL, OPTION_LOCAL},
                                            {"device", required_argument, NULL, OPTION_DEVICE},
                                            {"tensor", required_argument, NULL, 'x'},
                                            {"scalar", required_argument, NULL, 's'},
                                            {"input", required_argument, NULL, OPTION_INPUT},
                                            {"seed", required_argument, NULL, 'S'},
                                            {"reference", required_argument, NULL, 'R'},
                                            {"check", required_argument, NULL, OPTION_CHECK},
                                            {"compare", required_argument, NULL, OPTION_COMPARE},
                                            {"repeats", required_argument, NULL, 'n'},
                                            COMPILE_OPTIONS,
                                            DUMP_OPTIONS,
                                            COMMON_OPTIONS,
                                            {0}};
    struct settings settings = {.seed = 1, .repeats = 20};
    int option, result = 0;
    while ((option = getopt_long(argc, argv, COMPILE_LETTERS "x:s:n:", options, NULL)) != -1) {
        if (!common_take(common, option) && !take_option(&settings, option))
            return usage_error(&verb_run, NULL);
    }
    if (!common_check(&verb_run, common, argc - optind, 1, 1, &result))
        return result;
    if (settings.local && settings.compare)
        return usage_error(&verb_run, "--compare is for devices of the daemon, not for --local");
    if (settings.local && settings.device && !parse_number("--device", settings.device, 0, 1023, &settings.ordinal))
        return usage_error(&verb_run, NULL);
    return run_file(argv[optind], &settings, common);
}

const struct verb verb_run = {
    .name = "run",
    .summary = "compile a fusion, launch it, check and time it",
    .help =
        "usage: fusionctl run FILE [options]\n\n"
        "Compiles the fusion for a device of the daemon, fills the inputs with seeded random numbers, launches it,\n"
        "compares every element of every output with what it is given to compare with, and prints the times.\n"
        "Sizes, scalars and tolerance are those of the file's `run` section.\n"
        "Exit code 1: wrong numbers, or failed; 4: no such device.\n\n"
        "      --device D        host, 0, GPU-… (default: the first CUDA device, or the host device)\n"
        "      --local           launch in a CUDA context of this process instead; D is a number then\n"
        "  -x, --tensor X=AxB    other sizes of an input\n"
        "  -s, --scalar N=V      another value of a scalar\n"
        "      --input X=FILE    an input's numbers: .npy, or raw little-endian bytes\n"
        "      --seed N          of the random numbers (default 1)\n"
        "      --reference SO    check: a shared object with fusiond_reference (docs/fusion-file.md)\n"
        "      --check Y=FILE    check: an output's numbers: .npy, or raw little-endian bytes\n"
        "      --compare D       check: another device\n"
        "  -n, --repeats N       launches to time (default 20)\n" COMPILE_HELP DUMP_HELP COMMON_HELP,
    .run = run,
};
