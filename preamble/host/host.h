/* The texts with which the system's C++ compiler takes CUDA code, embedded, and the arguments that go with them. */
#ifndef PREAMBLE_HOST_HOST_H
#define PREAMBLE_HOST_HOST_H

#include <stddef.h>
#include <stdint.h>

/* One text. They are no modules: all stand in the include path of every program for the host, in front of the fusion's
 * own headers, and the first is included by every program (FUSIOND_HOST_INCLUDE). */
struct host_text {
    const char *include; /* "fusiond/host/cuda.cuh"; names without a folder are those of toolkit headers */
    const char *text;    /* NUL-terminated */
    size_t size;
    uint8_t digest[32]; /* BLAKE2b-256 of text; filled by host_texts() */
};

const struct host_text *host_texts(void);
extern const size_t host_text_count;

/* The tables of preamble/host/arguments.def; each ends with NULL. */
extern const char *const host_compile_arguments[];
extern const char *const host_link_arguments[];
extern const char *const host_link_libraries[];

#endif
