/* NVRTC through a small table of its own, so that these tests do not depend on the compiler worker's code. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preamble/preamble.h"
#include "tests/support/rtc.h"

static struct {
    int (*version)(int *major, int *minor);
    int (*archs_count)(int *count);
    int (*archs)(int *archs);
    int (*create)(void **program, const char *source, const char *name, int n_headers, const char *const *headers,
                  const char *const *include_names);
    int (*destroy)(void **program);
    int (*add_name)(void *program, const char *expression);
    int (*lowered)(void *program, const char *expression, const char **lowered);
    int (*compile)(void *program, int n_options, const char *const *options);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *log);
    int (*cubin_size)(void *program, size_t *size);
    int (*cubin)(void *program, char *cubin);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *ptx);
} rtc;

static const struct {
    const char *symbol;
    void *slot;
} entries[] = {
    {"nvrtcVersion", &rtc.version},
    {"nvrtcGetNumSupportedArchs", &rtc.archs_count},
    {"nvrtcGetSupportedArchs", &rtc.archs},
    {"nvrtcCreateProgram", &rtc.create},
    {"nvrtcDestroyProgram", &rtc.destroy},
    {"nvrtcAddNameExpression", &rtc.add_name},
    {"nvrtcGetLoweredName", &rtc.lowered},
    {"nvrtcCompileProgram", &rtc.compile},
    {"nvrtcGetProgramLogSize", &rtc.log_size},
    {"nvrtcGetProgramLog", &rtc.log},
    {"nvrtcGetCUBINSize", &rtc.cubin_size},
    {"nvrtcGetCUBIN", &rtc.cubin},
    {"nvrtcGetPTXSize", &rtc.ptx_size},
    {"nvrtcGetPTX", &rtc.ptx},
};

static void *open_library(void)
{
    const char *given = getenv("FUSIOND_NVRTC");
    if (given && *given)
        return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    static const char *const patterns[] = {
        "/usr/local/cuda/lib64/libnvrtc.so",
        "/usr/local/cuda/lib64/libnvrtc.so.*",
        SOURCE_ROOT "/.deps/nvidia/*/lib/libnvrtc.so.1[0-9]",
        SOURCE_ROOT "/.deps/*/nvidia/*/lib/libnvrtc.so.1[0-9]",
        SOURCE_ROOT "/.deps/*/*/*/*/nvidia/*/lib/libnvrtc.so.1[0-9]",
    };
    void *library = NULL;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]) && !library; i++) {
        glob_t found;
        if (glob(patterns[i], 0, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc && !library; k++)
                library = dlopen(found.gl_pathv[k], RTLD_NOW | RTLD_LOCAL);
            globfree(&found);
        }
    }
    return library ? library : dlopen("libnvrtc.so", RTLD_NOW | RTLD_LOCAL);
}

/* NVRTC opens its second file by name alone, and finds it outside the loader's folders only if it is loaded already. */
static void open_builtins(const void *entry)
{
    Dl_info info;
    char pattern[PATH_MAX];
    const char *slash = dladdr(entry, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    if (!slash)
        return;
    snprintf(pattern, sizeof(pattern), "%.*s/libnvrtc-builtins.so.*", (int)(slash - info.dli_fname), info.dli_fname);
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
}

bool rtc_open(char why[static 256])
{
    if (rtc.compile)
        return true;
    void *library = open_library();
    if (!library) {
        snprintf(why, 256, "no libnvrtc (set FUSIOND_NVRTC, or install the CUDA toolkit)");
        return false;
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *entry = dlsym(library, entries[i].symbol);
        if (!entry) {
            snprintf(why, 256, "this libnvrtc has no %s", entries[i].symbol);
            memset(&rtc, 0, sizeof(rtc));
            return false;
        }
        memcpy(entries[i].slot, &entry, sizeof(entry));
        if (i == 0)
            open_builtins(entry);
    }
    return true;
}

bool rtc_supports(int arch)
{
    int n = 0;
    int archs[256];
    if (rtc.archs_count(&n) != 0 || n > 256 || rtc.archs(archs) != 0)
        return false;
    for (int i = 0; i < n; i++)
        if (archs[i] == arch)
            return true;
    return false;
}

void rtc_version(int *ret_major, int *ret_minor)
{
    rtc.version(ret_major, ret_minor);
}

static void *create(const char *source, bool with_modules)
{
    const struct preamble_module *modules = preamble_modules();
    size_t n = with_modules ? preamble_count : 0;
    const char *texts[PREAMBLE_MAX];
    const char *names[PREAMBLE_MAX];
    for (size_t i = 0; i < n; i++) {
        texts[i] = modules[i].text;
        names[i] = modules[i].include;
    }
    void *program = NULL;
    return rtc.create(&program, source, "fusion.cu", (int)n, texts, names) == 0 ? program : NULL;
}

static void take_image(void *program, bool ptx, struct rtc_result *ret)
{
    if ((ptx ? rtc.ptx_size : rtc.cubin_size)(program, &ret->size) != 0)
        return;
    ret->image = malloc(ret->size);
    ret->ok = ret->image && (ptx ? rtc.ptx : rtc.cubin)(program, ret->image) == 0;
}

/* For a compute_ target there is PTX and no cubin. */
static bool makes_ptx(const struct rtc_job *job)
{
    for (size_t i = 0; i < job->n_options; i++)
        if (strstr(job->options[i], "=compute_"))
            return true;
    return false;
}

struct rtc_result rtc_run(const struct rtc_job *job)
{
    struct rtc_result result = {0};
    void *program = create(job->source, job->modules);
    if (!program) {
        result.log = strdup("nvrtcCreateProgram failed");
        return result;
    }
    if (job->name)
        rtc.add_name(program, job->name);
    int code = rtc.compile(program, (int)job->n_options, job->options);
    size_t size = 0;
    rtc.log_size(program, &size);
    result.log = calloc(1, size + 1);
    if (size > 0)
        rtc.log(program, result.log);
    if (code == 0)
        take_image(program, makes_ptx(job), &result);
    const char *lowered;
    if (result.ok && job->name && rtc.lowered(program, job->name, &lowered) == 0)
        result.lowered = strdup(lowered);
    rtc.destroy(&program);
    return result;
}

struct rtc_result rtc_compile(const char *source, const char *target, const char *const *defines, const char *name)
{
    char arch[64];
    snprintf(arch, sizeof(arch), "--gpu-architecture=%s", target);
    const char *options[32] = {"--std=c++17", "--diag-suppress=177", arch, "-default-device"};
    size_t n_options = 4;
    if (defines && *defines && strcmp(*defines, RTC_ANNOTATED_ONLY) == 0) {
        n_options--;
        defines++;
    }
    for (; defines && *defines && n_options < 32; defines++)
        options[n_options++] = *defines;
    return rtc_run(&(struct rtc_job){source, options, n_options, true, name});
}

void rtc_result_finish(struct rtc_result *result)
{
    free(result->log);
    free(result->image);
    free(result->lowered);
    memset(result, 0, sizeof(*result));
}

char *rtc_program(const char *code, int index_bits)
{
    uint8_t used[PREAMBLE_MAX];
    size_t n = preamble_closure(code, strlen(code), used);
    const struct preamble_module *modules = preamble_modules();
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fprintf(out, "#include \"fusiond/index_int%d.cuh\"\n", index_bits);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "#include \"%s\"\n", modules[used[i]].include);
    fprintf(out, "namespace fusiond {\n#line 1\n%s\n}\n", code);
    return fclose(out) == 0 ? text : NULL;
}
