/* Loading fusion files with options of the command line on top: for the verbs compile and run. */
#ifndef CLIENT_FUSIONCTL_COMPILE_H
#define CLIENT_FUSIONCTL_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/fusionctl/dump.h"
#include "client/fusiond.h"

#define MAX_SETTINGS 256

struct compile_field {
    const char *name, *value;
};

struct compile_settings {
    struct compile_field fields[MAX_SETTINGS];
    size_t n_fields;
    const char *defines[MAX_SETTINGS];
    size_t n_defines;
    const char *includes[MAX_SETTINGS];
    size_t n_includes;
    const char *entries[MAX_SETTINGS]; /* with one, the file is code and no fusion file */
    size_t n_entries;
    uint32_t deadline_ms;
    enum fusiond_priority priority;
    const char *compiler; /* NULL: the daemon's default */
    enum fusiond_cache_mode cache;
    bool log;
    struct dump_settings dump;
};

#define COMPILE_LETTERS "t:D:I:e:"
#define COMPILE_OPTIONS                                                                                                \
    {"target", required_argument, NULL, 't'}, {"block-size", required_argument, NULL, 'b'},                            \
        {"max-registers", required_argument, NULL, 'r'}, {"index-type", required_argument, NULL, 'i'},                 \
        {"define", required_argument, NULL, 'D'}, {"include", required_argument, NULL, 'I'},                           \
        {"entry", required_argument, NULL, 'e'}, {"compiler", required_argument, NULL, 'c'},                           \
        {"toolkit-headers", no_argument, NULL, 'T'},                                                                   \
    {                                                                                                                  \
        "deadline", required_argument, NULL, 'd'                                                                       \
    }
#define COMPILE_HELP                                                                                                   \
    "  -t, --target T        sm_90a, compute_80, cc_9.0, host, … (default: the file's, else the device's)\n"         \
    "      --block-size N    threads per block that the registers must suffice for\n"                                  \
    "      --max-registers N registers per thread, 1 to 255\n"                                                         \
    "      --index-type I    int32 or int64\n"                                                                         \
    "  -D, --define A[=B]    a preprocessor definition\n"                                                              \
    "      --compiler C      which one of the daemon's, by version (13.0) or build\n"                                  \
    "  -I, --include DIR     look here for what the code includes, and send it along\n"                                \
    "  -e, --entry NAME      FILE is CUDA C++ itself, a whole program with this kernel; may be given again\n"          \
    "      --toolkit-headers let the code include the CUDA toolkit's headers\n"                                        \
    "      --deadline MS     for the compiler (default: the daemon's)\n"

/* Take one option of the table above; false when it is none, or its value is wrong. */
bool compile_option(struct compile_settings *settings, int option);

int compile_load(const char *path, const struct compile_settings *settings, struct fusiond_fusion **ret,
                 struct fusiond_error *error);

/* The compiler's findings after a failed fusiond_compile, as a compiler prints them. */
void compile_print_failure(const struct fusiond_connection *connection, const struct fusiond_fusion *fusion);

/* What the answer says beside the kernel: an override, or why there is none. On stderr. */
void compile_print_notes(const char *path, const struct fusiond_kernel *kernel);

#endif
