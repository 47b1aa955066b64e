#include "tests/bench/pch/rtc_worker.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "preamble/preamble.h"
#include "tests/bench/pch/image_digest.h"

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void rtc_load(struct nvrtc *nvrtc, const struct rtc_setup *setup)
{
    struct error error;
    if (sodium_init() < 0 || nvrtc_open(nvrtc, setup->nvrtc, NULL, 0, &error) < 0 || nvrtc_warm_up(nvrtc, &error) < 0) {
        fprintf(stderr, "pch-proof: %s\n", error.text);
        _exit(1);
    }
}

static void take_log(struct nvrtc *nvrtc, void *program, struct rtc_outcome *ret)
{
    size_t size = 0;
    nvrtc->log_size(program, &size);
    char *log = calloc(1, size + 1);
    if (!log)
        return;
    nvrtc->log(program, log);
    ret->used_pch = strstr(log, "using precompiled header") != NULL || strstr(log, "using PCH") != NULL;
    const char *error = strstr(log, "error");
    snprintf(ret->log, sizeof ret->log, "%s", ret->code && error ? error : log);
    free(log);
}

static void take_code(struct nvrtc *nvrtc, void *program, struct rtc_outcome *ret)
{
    size_t size = 0;
    char *image = nvrtc->cubin_size(program, &size) == 0 ? malloc(size) : NULL;
    if (image && nvrtc->cubin(program, image) == 0) {
        ret->code_digest = code_digest(image, size);
        ret->variables_digest = variables_digest(image, size);
    }
    free(image);
}

void rtc_run(struct nvrtc *nvrtc, const struct rtc_setup *setup, const char *text, const char *name,
             const char *const *more, struct rtc_outcome *ret)
{
    const struct preamble_module *modules = preamble_modules();
    const char *texts[PREAMBLE_MAX], *names[PREAMBLE_MAX], *options[MAX_OPTIONS];
    char arch[64];
    int n = 0;
    void *program = NULL;
    double started = now_ms();

    for (size_t i = 0; i < preamble_count; i++) {
        texts[i] = modules[i].text;
        names[i] = modules[i].include;
    }
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", setup->target);
    options[n++] = "--diag-suppress=177";
    options[n++] = arch;
    options[n++] = "-default-device";
    options[n++] = "--ptxas-options=--verbose";
    if (nvrtc->major > 12 || nvrtc->minor >= 9)
        options[n++] = "--no-cache";
    for (int i = 0; i < setup->n_includes; i++)
        options[n++] = setup->includes[i];
    for (; *more && n < MAX_OPTIONS; more++)
        options[n++] = *more;
    memset(ret, 0, sizeof *ret);
    ret->code = nvrtc->create(&program, text, "fusion.cu", (int)preamble_count, texts, names);
    if (ret->code == 0 && name)
        ret->code = nvrtc->add_name(program, name);
    if (ret->code == 0)
        ret->code = nvrtc->compile(program, n, options);
    ret->ms = now_ms() - started;
    take_log(nvrtc, program, ret);
    if (ret->code == 0)
        take_code(nvrtc, program, ret);
    memory_of_self(&ret->pss_kb, &ret->private_kb);
    nvrtc->destroy(&program);
}

void memory_of_self(long *ret_pss_kb, long *ret_private_kb)
{
    char line[128];
    long kb;
    *ret_pss_kb = *ret_private_kb = 0;
    FILE *in = fopen("/proc/self/smaps_rollup", "re");
    while (in && fgets(line, sizeof line, in)) {
        if (sscanf(line, "Pss: %ld kB", &kb) == 1)
            *ret_pss_kb = kb;
        else if (sscanf(line, "Private_Dirty: %ld kB", &kb) == 1)
            *ret_private_kb = kb;
    }
    if (in)
        fclose(in);
}
