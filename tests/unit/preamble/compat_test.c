/* Kernels in the forms that were published between 2020 and 2026 compile unmodified. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/rtc.h"

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    char *text = calloc(1, 1 << 16);
    cr_assert(text && fread(text, 1, (1 << 16) - 1, file) > 0, "%s", path);
    fclose(file);
    return text;
}

static void compile_all(const char *target, int index_bits, const char *const *defines)
{
    char why[256];
    if (!rtc_open(why))
        cr_skip_test("%s", why);
    if (!rtc_supports(atoi(target + 3)))
        cr_skip_test("this NVRTC does not know %s", target);
    glob_t found;
    cr_assert_eq(glob(SOURCE_ROOT "/tests/fusions/compat/*.cu", 0, NULL, &found), 0);
    cr_expect_geq(found.gl_pathc, 8);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *code = read_file(found.gl_pathv[i]);
        char *program = rtc_program(code, index_bits);
        struct rtc_result result = rtc_compile(program, target, defines, NULL);
        cr_expect(result.ok && result.log[0] == '\0', "%s for %s, %d-bit index: %s", found.gl_pathv[i], target,
                  index_bits, result.log);
        rtc_result_finish(&result);
        free(program);
        free(code);
    }
    globfree(&found);
}

Test(compat, B4_drop_in_int32_sm_75)
{
    compile_all("sm_75", 32, NULL);
}

Test(compat, B4_drop_in_int64_sm_80)
{
    compile_all("sm_80", 64, NULL);
}

Test(compat, B4_drop_in_int32_sm_90a)
{
    compile_all("sm_90a", 32, NULL);
}

Test(compat, B4_drop_in_int64_sm_120)
{
    compile_all("sm_120", 64, NULL);
}

Test(compat, B4_drop_in_without_magic_zero_and_new_fmax)
{
    static const char *const defines[] = {"-DFUSIOND_NO_MAGIC_ZERO", "-DFUSIOND_FMAX_IGNORES_NAN", NULL};
    compile_all("sm_90a", 32, defines);
}

/* Register arrays stay in registers: neither Array nor the two names of Tensor's members take their address. */
Test(compat, B4_drop_in_uses_no_local_memory)
{
    char why[256];
    if (!rtc_open(why))
        cr_skip_test("%s", why);
    static const char *const names[] = {"pointwise_2020", "vector_2023_10", "layer_norm_2025_01",
                                        "grouped_2025",   "roles_2025",     "casts_2026"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[512];
        snprintf(path, sizeof(path), SOURCE_ROOT "/tests/fusions/compat/%s.cu", names[i]);
        char *code = read_file(path);
        char *program = rtc_program(code, 64);
        struct rtc_result result = rtc_compile(program, "compute_90", NULL, NULL);
        cr_expect(result.ok && !strstr(result.image, ".local"), "%s: %s", names[i], result.log);
        rtc_result_finish(&result);
        free(program);
        free(code);
    }
}
