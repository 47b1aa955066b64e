#include "tests/gpu/client/launch_trace.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUpti_CallbackData, as far as it is read. The name is meant for launches only. */
struct callback_data {
    int site; /* 0: the call begins */
    const char *function;
    const void *params;
    void *result;
    const char *symbol;
};

#define DOMAIN_DRIVER_API 1

static char last[4096], taken[4096];

static void on_call(void *user, int domain, uint32_t id, const struct callback_data *data)
{
    (void)user;
    (void)id;
    if (domain == DOMAIN_DRIVER_API && data->site == 0 && strncmp(data->function, "cuLaunch", 8) == 0 && data->symbol)
        snprintf(last, sizeof last, "%s", data->symbol);
}

static void *open_library(void)
{
    static const char *const names[] = {
        "libcupti.so.13",
        "libcupti.so.12",
        "libcupti.so",
        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
        "/usr/local/cuda/lib64/libcupti.so",
    };
    const char *chosen = getenv("FUSIOND_CUPTI");
    void *library = chosen ? dlopen(chosen, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

bool launch_trace_open(char why[static 256])
{
    int (*subscribe)(void **subscriber, void (*callback)(void *, int, uint32_t, const struct callback_data *), void *);
    int (*enable_domain)(uint32_t enable, void *subscriber, int domain);
    void *library = open_library(), *subscriber;
    void *symbols[2] = {library ? dlsym(library, "cuptiSubscribe") : NULL,
                        library ? dlsym(library, "cuptiEnableDomain") : NULL};
    if (!symbols[0] || !symbols[1]) {
        snprintf(why, 256, "no CUPTI (libcupti.so); $FUSIOND_CUPTI may name one");
        return false;
    }
    memcpy(&subscribe, &symbols[0], sizeof subscribe);
    memcpy(&enable_domain, &symbols[1], sizeof enable_domain);
    int result = subscribe(&subscriber, on_call, NULL);
    if (result == 0)
        result = enable_domain(1, subscriber, DOMAIN_DRIVER_API);
    if (result != 0)
        snprintf(why, 256, "CUPTI does not watch this process: error %d", result);
    return result == 0;
}

const char *launch_trace_take(void)
{
    memcpy(taken, last, sizeof taken);
    last[0] = '\0';
    return taken;
}
