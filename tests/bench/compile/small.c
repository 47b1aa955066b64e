/*
 * P5: the cold compile of a small kernel, image included, as a client sees it, against warm bare NVRTC: on the same
 * kernel with the fewest types, and on the daemon's own translation unit, which tells the preamble's part from the
 * service's. P17: what the front's CPU adds to NVRTC's.
 */
#include <string.h>

#include "client/kernel.h"
#include "tests/bench/compile/compile.h"

#define PER_ROUND 5
#define MAX_PHASES 16

struct phase_times {
    char name[32];
    struct series ms;
};

struct small {
    const struct program *program;
    struct series ours, unit, fewest;
    struct phase_times phases[MAX_PHASES];
    size_t n_phases;
    uint64_t front_ns, nvrtc_ns;
    double all_s; /* CPU time of the daemon and its workers together */
    size_t n;
    double stream_front_ns, stream_nvrtc_ns; /* per compile */
};

static void add_phase(struct small *small, const struct phase *phase)
{
    size_t i = 0;
    while (i < small->n_phases && strcmp(small->phases[i].name, phase->name.at) != 0)
        i++;
    if (i == MAX_PHASES)
        return;
    if (i == small->n_phases)
        snprintf(small->phases[small->n_phases++].name, sizeof small->phases[i].name, "%s", phase->name.at);
    series_add(&small->phases[i].ms, (double)phase->ns / 1e6);
}

static void measure(const struct bench *bench, struct small *small, const struct own_daemon *daemon,
                    struct fusiond_connection *connection, struct bare *bare_unit, struct bare *bare_fewest)
{
    double before = tree_cpu_seconds(daemon->pid);
    for (unsigned i = 0; i < bench->rounds * (bench->quick ? 1 : PER_ROUND); i++) {
        unsigned number = next_number();
        struct fusiond_kernel *kernel;
        uint64_t front = process_cpu_ns(daemon->pid);
        series_add(&small->ours, cold_compile(connection, small->program, number, FUSIOND_DETAILS, &kernel));
        for (size_t k = 0; k < kernel->message.n_phases; k++)
            add_phase(small, &kernel->message.phases[k]);
        fusiond_kernel_destroy(kernel);
        struct bare_result unit = bare_compile(bare_unit, 0, number);
        series_add(&small->unit, unit.ms);
        if (small->program->write_bare)
            series_add(&small->fewest, bare_compile(bare_fewest, 0, number).ms);
        /* Here the front has done what it does after its answer, too. */
        small->front_ns += process_cpu_ns(daemon->pid) - front;
        small->nvrtc_ns += unit.cpu_ns;
        small->n++;
    }
    small->all_s = tree_cpu_seconds(daemon->pid) - before;
}

/* The same without pauses, so that nobody's caches are cold. */
static void measure_stream(const struct bench *bench, struct small *small, const struct own_daemon *daemon,
                           struct bare *bare)
{
    const unsigned n = bench->quick ? 2 : 40;
    uint64_t front = process_cpu_ns(daemon->pid);
    storm(daemon, 2, n, small->program);
    small->stream_front_ns = (double)(process_cpu_ns(daemon->pid) - front) / n;
    for (unsigned i = 0; i < n; i++)
        small->stream_nvrtc_ns += (double)bare_compile(bare, 0, next_number()).cpu_ns / n;
}

static void print(struct small *small)
{
    const char *name = small->program->name;
    double n = (double)small->n;
    char row[96];
    snprintf(row, sizeof row, "P5.%s", name);
    if (small->program->write_bare)
        print_series(row, &small->ours, "ms", &small->fewest, "nvrtc_fewest_types");
    snprintf(row, sizeof row, "P5.%s.service", name);
    print_series(row, &small->ours, "ms", &small->unit, "nvrtc_same_unit");
    for (size_t i = 0; i < small->n_phases; i++) {
        snprintf(row, sizeof row, "P5.%s.phase.%s", name, small->phases[i].name);
        print_row(stdout, row, series_percentile(&small->phases[i].ms, 0.5), "ms", series_percentile(&small->unit, 0.5),
                  "nvrtc_same_unit.p50");
        series_finish(&small->phases[i].ms);
    }
    snprintf(row, sizeof row, "P5.%s.cpu_of_daemon_and_worker", name);
    print_row(stdout, row, small->all_s * 1e3 / n, "ms", (double)small->nvrtc_ns / 1e6 / n, "nvrtc_cpu");
    snprintf(row, sizeof row, "P17.%s.front_cpu_per_compile", name);
    print_row(stdout, row, (double)small->front_ns / 1e3 / n, "us", (double)small->nvrtc_ns / 1e3 / n, "nvrtc_cpu");
    snprintf(row, sizeof row, "P17.%s.front_cpu_in_a_stream", name);
    print_row(stdout, row, small->stream_front_ns / 1e3, "us", small->stream_nvrtc_ns / 1e3, "nvrtc_cpu");
    series_finish(&small->ours);
    series_finish(&small->unit);
    series_finish(&small->fewest);
}

void bench_small(const struct bench *bench)
{
    static const struct program *const programs[] = {&program_pointwise, &program_bfloat, &program_row_sum};
    static const char *const one_worker[] = {"--workers", "1", NULL};
    if (!bench->quick)
        pin_to_one_cpu();
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        struct own_daemon daemon;
        struct small small = {.program = programs[i]};
        struct bare bare_unit, bare_fewest;
        own_daemon_start(&daemon, one_worker);
        struct fusiond_connection *connection = own_daemon_connect(&daemon);
        struct arguments arguments = arguments_of(connection, programs[i]);
        struct bare_variant unit = {programs[i], true, arguments}, fewest = {programs[i], false, arguments};
        /* A process each: one that compiled twice in a round would have the warmer caches. */
        bare_start(&bare_unit, &unit, 1);
        if (programs[i]->write_bare)
            bare_start(&bare_fewest, &fewest, 1);
        cold_compile(connection, programs[i], next_number(), 0, NULL);
        measure(bench, &small, &daemon, connection, &bare_unit, &bare_fewest);
        measure_stream(bench, &small, &daemon, &bare_unit);
        print(&small);
        bare_stop(&bare_unit);
        if (programs[i]->write_bare)
            bare_stop(&bare_fewest);
        arguments_finish(&arguments);
        fusiond_close(connection);
        own_daemon_stop(&daemon);
    }
    if (!bench->quick)
        unpin();
}
