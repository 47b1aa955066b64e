#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/preamble/device.h"
#include "tests/support/rtc.h"

void need_device(void)
{
    char why[256];
    if (!gpu_open(why) || !rtc_open(why))
        cr_skip_test("%s", why);
}

/* Where the build was made, or the current folder when the programs travelled to another machine. */
static FILE *open_source(const char *file)
{
    static const char *const roots[] = {SOURCE_ROOT, "."};
    FILE *source = NULL;
    for (size_t i = 0; i < 2 && !source; i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/tests/gpu/preamble/%s", roots[i], file);
        source = fopen(path, "rbe");
    }
    return source;
}

const struct gpu_kernel *device_kernel(const char *file, const char *name, const char *const *defines)
{
    FILE *source = open_source(file);
    cr_assert(source, "%s: run this at the root of the source tree", file);
    static char code[1 << 16];
    size_t size = fread(code, 1, sizeof(code) - 1, source);
    fclose(source);
    code[size] = '\0';
    char *program = rtc_program(code, 64);
    char expression[128];
    snprintf(expression, sizeof(expression), "fusiond::%s", name);
    struct rtc_result result = rtc_compile(program, gpu_target(), defines, expression);
    cr_assert(result.ok && result.lowered, "%s of %s: %s", name, file, result.log);
    const struct gpu_kernel *kernel = gpu_load(result.image, result.lowered);
    rtc_result_finish(&result);
    free(program);
    return kernel;
}
