/* What the daemon is told: built-in values, then the environment, then flags. */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/compile/compilers.h"
#include "daemon/compile/machine.h"
#include "daemon/compile/transform_spec.h"
#include "proto/error.h"

#define CONFIG_PATH 4096

struct config {
    char socket[CONFIG_PATH];
    char cache_dir[CONFIG_PATH]; /* with the version of its layout as the last part */
    char database_path[CONFIG_PATH + 32];
    char compiler[CONFIG_PATH]; /* fusiond-compiler */
    char executor[CONFIG_PATH]; /* fusiond-executor */
    char nvrtc_paths[COMPILERS_LIBRARIES][CONFIG_PATH];
    const char *nvrtc[COMPILERS_LIBRARIES]; /* the first is the default */
    size_t n_nvrtc;                         /* 0: look for one */
    char nvrtc_dir_paths[2][CONFIG_PATH];
    const char *nvrtc_dirs[3];           /* ends with NULL */
    char toolkit_include[CONFIG_PATH];   /* folders with ':' between them; empty: look beside NVRTC */
    char host_cc[CONFIG_PATH];           /* the C++ compiler, by path or by name */
    char overrides[CONFIG_PATH];         /* "": there are none */
    char transform_program[CONFIG_PATH]; /* fusiond-transform */
    struct transform_spec transforms[TRANSFORMS_MAX];
    size_t n_transforms;
    char leaf[CONFIG_PATH]; /* fusiond-leaf */
    struct transform_spec observers[TRANSFORMS_MAX];
    size_t n_observers;
    struct machine machine;
    unsigned max_workers; /* of all compilers together */
    uint64_t memory_bytes;
    uint64_t blob_bytes;
    uint64_t deadline_ms;
    uint64_t remember_failures_ms; /* 0: not at all */
    bool no_pch;                   /* no precompiled headers */
    unsigned max_zygotes;
    uint64_t pch_bytes;
    uint64_t zygote_idle_ms;
    uint64_t spin_us;                         /* how long the loop polls for the next request before it sleeps */
    unsigned host_threads;                    /* of the host device; 0: as many as it may use */
    uint64_t executor_idle_ms;                /* how long an executor without a client is kept */
    uint64_t queue_jobs, queue_jobs_per_user; /* compiles that may wait */
    uint64_t queue_bytes, queue_bytes_per_user;
    bool no_database;
    bool nvrtc_by_flag;  /* while it is read */
    bool require_cached; /* nothing is compiled */
};

enum config_action {
    CONFIG_RUN,
    CONFIG_EXIT, /* --help, --version, --print-config: it is printed */
};

/* -1: the error is for the user, who used the command wrongly. */
int config_read(int argc, char **argv, struct config *ret, enum config_action *ret_action, struct error *error);

/* One `name = value` a line. */
void config_print(const struct config *config, FILE *out);

#endif
