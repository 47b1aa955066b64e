/*
 * P8: how long the compiler's quick ways take against the full one, on programs that the optimiser has much to do
 * with. What their images cost to run, and which compute the same bits, tier-proof tells on a GPU (docs/tiers.md).
 */
#include "tests/bench/compile/compile.h"

enum { FULL, TIERS = 4 };
static const char *const tiers[TIERS] = {"full", "min", "mid", "max"};

/* NVRTC has --Ofast-compile since 12.9. */
static bool has_tiers(struct fusiond_connection *connection)
{
    unsigned major, minor;
    struct fusiond_kernel *kernel;
    cold_compile(connection, &program_unrolled, next_number(), 0, &kernel);
    bool has = sscanf(fusiond_kernel_compiler(kernel), "nvrtc %u.%u", &major, &minor) == 2 &&
               (major > 12 || (major == 12 && minor >= 9));
    if (!has)
        printf("# P8: %s has no --Ofast-compile\n", fusiond_kernel_compiler(kernel));
    fusiond_kernel_destroy(kernel);
    return has;
}

static void measure_program(const struct bench *bench, struct fusiond_connection *connection,
                            const struct program *program)
{
    struct series ms[TIERS] = {0};
    struct bare_variant variants[TIERS];
    uint64_t sizes[TIERS] = {0};
    struct bare bare;
    char row[96], option[64];
    struct arguments arguments = arguments_of(connection, program);
    for (int tier = 0; tier < TIERS; tier++) {
        snprintf(option, sizeof option, "--Ofast-compile=%s", tiers[tier]);
        variants[tier] = (struct bare_variant){program, true, arguments_with(&arguments, tier == FULL ? NULL : option)};
    }
    bare_start(&bare, variants, TIERS);
    for (unsigned i = 0; i < bench->rounds; i++) {
        unsigned number = next_number();
        for (unsigned tier = 0; tier < TIERS; tier++) {
            struct bare_result result = bare_compile(&bare, tier, number);
            series_add(&ms[tier], result.ms);
            sizes[tier] = result.size;
        }
    }
    for (int tier = 0; tier < TIERS; tier++) {
        snprintf(row, sizeof row, "P8.%s.%s", program->name, tiers[tier]);
        print_series(row, &ms[tier], "ms", tier == FULL ? NULL : &ms[FULL], tiers[FULL]);
        snprintf(row, sizeof row, "P8.%s.%s.image", program->name, tiers[tier]);
        print_row(stdout, row, (double)sizes[tier], "bytes", tier == FULL ? 0 : (double)sizes[FULL], tiers[FULL]);
    }
    bare_stop(&bare);
    for (int tier = 0; tier < TIERS; tier++) {
        series_finish(&ms[tier]);
        arguments_finish(&variants[tier].arguments);
    }
    arguments_finish(&arguments);
}

void bench_tiers(const struct bench *bench)
{
    static const struct program *const programs[] = {&program_math, &program_unrolled};
    static const char *const one_worker[] = {"--workers", "1", NULL};
    struct own_daemon daemon;
    own_daemon_start(&daemon, one_worker);
    struct fusiond_connection *connection = own_daemon_connect(&daemon);
    if (has_tiers(connection))
        for (size_t i = bench->quick; i < sizeof programs / sizeof programs[0]; i++)
            measure_program(bench, connection, programs[i]);
    fusiond_close(connection);
    own_daemon_stop(&daemon);
}
