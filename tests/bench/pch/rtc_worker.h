/* One process of the proof: NVRTC with its options, a compile, and what it told. */
#ifndef TESTS_BENCH_PCH_RTC_WORKER_H
#define TESTS_BENCH_PCH_RTC_WORKER_H

#include <stdint.h>

#include "daemon/compiler/nvrtc.h"

#define MAX_OPTIONS 64

/* What all processes share. */
struct rtc_setup {
    const char *nvrtc;
    const char *target;
    const char *includes[16];
    int n_includes;
};

/* One compile, in memory that parent and children share. */
struct rtc_outcome {
    int code;                               /* NVRTC's; -1: the process died */
    double ms;                              /* in the process */
    double wall_ms;                         /* seen from outside, fork and reaping included */
    uint64_t code_digest, variables_digest; /* image_digest.h */
    int used_pch;                           /* the compiler says so */
    long pss_kb, private_kb;
    char log[512];
};

/* Load the library and compile something small. Ends the process with a sentence if it cannot. */
void rtc_load(struct nvrtc *nvrtc, const struct rtc_setup *setup);

/* Compile; `more` ends with NULL. name: a name expression, or NULL. */
void rtc_run(struct nvrtc *nvrtc, const struct rtc_setup *setup, const char *text, const char *name,
             const char *const *more, struct rtc_outcome *ret);

/* Of this process, from smaps_rollup. */
void memory_of_self(long *ret_pss_kb, long *ret_private_kb);

#endif
