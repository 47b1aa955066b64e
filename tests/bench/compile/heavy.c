/*
 * P6: the cold compile of programs behind large headers, as a client sees it, against NVRTC with its own precompiled
 * header in a warm process, and without one.
 */
#include "tests/bench/compile/compile.h"

static void measure_program(const struct bench *bench, const struct program *program,
                            struct fusiond_connection *connection)
{
    struct series ours = {0}, plain = {0}, pch = {0};
    struct bare bare_plain, bare_pch;
    char row[96];
    if (!can_compile(connection, program, "P6"))
        return;
    struct arguments own = arguments_of(connection, program);
    struct bare_variant plain_variant = {program, true, arguments_with_toolkit(&own)};
    struct bare_variant pch_variant = {program, true, arguments_with(&plain_variant.arguments, "--pch")};
    bare_start(&bare_plain, &plain_variant, 1);
    bare_start(&bare_pch, &pch_variant, 1);
    for (unsigned i = 0; i < bench->rounds; i++) {
        unsigned number = next_number();
        series_add(&ours, cold_compile(connection, program, number, 0, NULL));
        series_add(&pch, bare_compile(&bare_pch, 0, number).ms);
        series_add(&plain, bare_compile(&bare_plain, 0, number).ms);
    }
    snprintf(row, sizeof row, "P6.%s.nvrtc_own_pch", program->name);
    print_series(row, &pch, "ms", &plain, "nvrtc_plain");
    snprintf(row, sizeof row, "P6.%s", program->name);
    print_series(row, &ours, "ms", &pch, "nvrtc_own_pch");
    print_series(row, &ours, "ms", &plain, "nvrtc_plain");
    bare_stop(&bare_plain);
    bare_stop(&bare_pch);
    arguments_finish(&own);
    arguments_finish(&plain_variant.arguments);
    arguments_finish(&pch_variant.arguments);
    series_finish(&ours);
    series_finish(&plain);
    series_finish(&pch);
}

void bench_heavy(const struct bench *bench)
{
    static const struct program *const programs[] = {&program_groups, &program_standard, &program_block};
    static const char *const one_worker[] = {"--workers", "1", NULL};
    struct own_daemon daemon;
    own_daemon_start(&daemon, one_worker);
    struct fusiond_connection *connection = own_daemon_connect(&daemon);
    for (size_t i = 0; i < (bench->quick ? 1 : sizeof programs / sizeof programs[0]); i++)
        measure_program(bench, programs[i], connection);
    fusiond_close(connection);
    own_daemon_stop(&daemon);
}
