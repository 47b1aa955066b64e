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

enum { UNIT, FEWEST };

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
    size_t n;
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
                    struct fusiond_connection *connection, struct bare *bare)
{
    for (unsigned i = 0; i < bench->rounds * (bench->quick ? 1 : PER_ROUND); i++) {
        unsigned number = next_number();
        struct fusiond_kernel *kernel;
        uint64_t front = process_cpu_ns(daemon->pid);
        series_add(&small->ours, cold_compile(connection, small->program, number, FUSIOND_DETAILS, &kernel));
        for (size_t k = 0; k < kernel->message.n_phases; k++)
            add_phase(small, &kernel->message.phases[k]);
        fusiond_kernel_destroy(kernel);
        struct bare_result unit = bare_compile(bare, UNIT, number);
        series_add(&small->unit, unit.ms);
        if (small->program->write_bare)
            series_add(&small->fewest, bare_compile(bare, FEWEST, number).ms);
        /* Here the front has done what it does after its answer, too. */
        small->front_ns += process_cpu_ns(daemon->pid) - front;
        small->nvrtc_ns += unit.cpu_ns;
        small->n++;
    }
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
    snprintf(row, sizeof row, "P17.%s.front_cpu_per_compile", name);
    print_row(stdout, row, (double)small->front_ns / 1e3 / n, "us", (double)small->nvrtc_ns / 1e3 / n, "nvrtc_cpu");
    series_finish(&small->ours);
    series_finish(&small->unit);
    series_finish(&small->fewest);
}

void bench_small(const struct bench *bench)
{
    static const struct program *const programs[] = {&program_pointwise, &program_bfloat, &program_row_sum};
    static const char *const one_worker[] = {"--workers", "1", NULL};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        struct own_daemon daemon;
        struct small small = {.program = programs[i]};
        struct bare bare;
        own_daemon_start(&daemon, one_worker);
        struct fusiond_connection *connection = own_daemon_connect(&daemon);
        struct arguments arguments = arguments_of(connection, programs[i]);
        struct bare_variant variants[] = {{programs[i], true, arguments}, {programs[i], false, arguments}};
        bare_start(&bare, variants, programs[i]->write_bare ? 2 : 1);
        cold_compile(connection, programs[i], next_number(), 0, NULL);
        measure(bench, &small, &daemon, connection, &bare);
        print(&small);
        bare_stop(&bare);
        arguments_finish(&arguments);
        fusiond_close(connection);
        own_daemon_stop(&daemon);
    }
}
