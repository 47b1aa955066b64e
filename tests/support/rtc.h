/* NVRTC for tests of device code: found and loaded if there is one, with the preamble's modules as headers. */
#ifndef TESTS_SUPPORT_RTC_H
#define TESTS_SUPPORT_RTC_H

#include <stdbool.h>
#include <stddef.h>

/* What became of a compile. Free with rtc_result_finish. */
struct rtc_result {
    bool ok;
    char *log;     /* never NULL */
    char *image;   /* cubin, or PTX for a compute_ target; NULL unless ok */
    size_t size;   /* of image */
    char *lowered; /* the name expression's symbol; NULL without one */
};

/* Load the library: $FUSIOND_NVRTC, a toolkit's usual place, wheels in .deps. false with a sentence in `why`. */
bool rtc_open(char why[static 256]);

/* The library's release, as 13 and 0. Needs rtc_open. */
void rtc_version(int *ret_major, int *ret_minor);

/* True if the library knows the architecture (80 for sm_80a too). Needs rtc_open. */
bool rtc_supports(int arch);

/* As the first define: leave out -default-device, so that only annotated functions are device code. */
#define RTC_ANNOTATED_ONLY ""

/* Compile with the daemon's options for device code, `target` ("sm_90a") and `defines` ("-DX", ends with NULL, or
 * NULL). `name` is a name expression to look up, or NULL. */
struct rtc_result rtc_compile(const char *source, const char *target, const char *const *defines, const char *name);

/* A compile as it stands: nothing is added to it. */
struct rtc_job {
    const char *source;
    const char *const *options;
    size_t n_options;
    bool modules;     /* the preamble's modules as headers */
    const char *name; /* a name expression to look up, or NULL */
};
struct rtc_result rtc_run(const struct rtc_job *job);

void rtc_result_finish(struct rtc_result *result);

/* The program that the daemon makes of a kernel's text: the index module (of 32 or 64 bits), the modules that it
 * needs, the namespace. Free it. */
char *rtc_program(const char *code, int index_bits);

#endif
