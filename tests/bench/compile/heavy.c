/*
 * P6: the cold compile of programs behind large headers, as a client sees it, against NVRTC with its own precompiled
 * header in a warm process, and without one.
 */
#include "tests/bench/compile/compile.h"

struct heavy {
    const struct program *program;
    struct series first, ours, plain, pch;
};

static void print(struct heavy *heavy)
{
    const char *name = heavy->program->name;
    char row[96];
    snprintf(row, sizeof row, "P6.%s.nvrtc_own_pch", name);
    print_series(row, &heavy->pch, "ms", &heavy->plain, "nvrtc_plain");
    snprintf(row, sizeof row, "P6.%s.first_sight", name);
    print_row(stdout, row, series_percentile(&heavy->first, 0.5), "ms", series_percentile(&heavy->plain, 0.5),
              "nvrtc_plain.p50");
    snprintf(row, sizeof row, "P6.%s", name);
    print_series(row, &heavy->ours, "ms", &heavy->pch, "nvrtc_own_pch");
    print_series(row, &heavy->ours, "ms", &heavy->plain, "nvrtc_plain");
    series_finish(&heavy->first);
    series_finish(&heavy->ours);
    series_finish(&heavy->plain);
    series_finish(&heavy->pch);
}

static void measure_program(const struct bench *bench, const struct program *program,
                            struct fusiond_connection *connection)
{
    struct heavy heavy = {.program = program};
    struct bare bare_plain, bare_pch;
    if (!can_compile(connection, program, "P6"))
        return;
    struct arguments own = arguments_of(connection, program);
    struct bare_variant plain = {program, true, arguments_with_toolkit(&own)};
    struct bare_variant pch = {program, true, arguments_with(&plain.arguments, "--pch")};
    series_add(&heavy.first, cold_compile(connection, program, next_number(), 0, NULL));
    warm_prefix(connection, program, "P6");
    bare_start(&bare_plain, &plain, 1);
    bare_start(&bare_pch, &pch, 1);
    for (unsigned i = 0; i < bench->rounds; i++) {
        unsigned number = next_number();
        series_add(&heavy.ours, cold_compile(connection, program, number, 0, NULL));
        series_add(&heavy.pch, bare_compile(&bare_pch, 0, number).ms);
        series_add(&heavy.plain, bare_compile(&bare_plain, 0, number).ms);
    }
    print(&heavy);
    bare_stop(&bare_plain);
    bare_stop(&bare_pch);
    arguments_finish(&own);
    arguments_finish(&plain.arguments);
    arguments_finish(&pch.arguments);
}

void bench_heavy(const struct bench *bench)
{
    static const struct program *const programs[] = {&program_groups, &program_standard, &program_block};
    static const char *const one_worker[] = {"--workers", "1", NULL};
    struct own_daemon daemon;
    if (!bench->quick)
        pin_to_one_cpu();
    own_daemon_start(&daemon, one_worker);
    struct fusiond_connection *connection = own_daemon_connect(&daemon);
    for (size_t i = 0; i < (bench->quick ? 1 : sizeof programs / sizeof programs[0]); i++)
        measure_program(bench, programs[i], connection);
    fusiond_close(connection);
    own_daemon_stop(&daemon);
    if (!bench->quick)
        unpin();
}
