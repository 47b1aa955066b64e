#include "daemon/config.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/base/log.h"
#include "daemon/version.h"
#include "proto/limits.h"
#include "proto/socket_path.h"

/* The last part of the cache's path: another layout gets another folder. */
#define CACHE_LAYOUT "v1"
/* More jobs than this could not be kept in order in a reasonable time. */
#define MAX_QUEUE_JOBS 10000000

static const char usage[] = "Usage: fusiond [OPTION]...\n"
                            "Compiles GPU kernels for the processes of this node, once, and keeps them.\n"
                            "\n"
                            "  --socket PATH        listen here (FUSIOND_SOCKET;\n"
                            "                       default $XDG_RUNTIME_DIR/fusiond/fusiond.sock)\n"
                            "  --cache-dir DIR      keep the kernel database here (FUSIOND_CACHE_DIR;\n"
                            "                       default $XDG_CACHE_HOME/fusiond)\n"
                            "  --no-database        keep kernels in memory only\n"
                            "  --nvrtc PATH         libnvrtc.so to compile with (FUSIOND_NVRTC; default: look in\n"
                            "                       CUDA_HOME, CUDA_PATH, /usr/local/cuda and the system's folders);\n"
                            "                       several times, or PATH:PATH: requests may name one of them,\n"
                            "                       the first is the default\n"
                            "  --toolkit-include DIR[:DIR]...  the CUDA headers that programs may ask for with\n"
                            "                       compile.toolkit_headers (FUSIOND_TOOLKIT_INCLUDE; default: beside\n"
                            "                       NVRTC)\n"
                            "  --host-cc PATH       the C++ compiler of the host device (default: g++)\n"
                            "  --overrides DIR      files here replace the code of kernels (docs/debugging.md)\n"
                            "  --require-cached     compile nothing: what is not there is answered with CACHE_MISS\n"
                            "  --transform \"NAME:code|source[:MS] PROGRAM [ARGUMENT]...\"\n"
                            "                       a program that code, or whole programs, go through before they\n"
                            "                       are compiled (docs/debugging.md); may be given again\n"
                            "  --observe \"NAME[:MS] PROGRAM [ARGUMENT]...\"\n"
                            "                       a program that is given each new kernel (docs/debugging.md);\n"
                            "                       may be given again\n"
                            "  --compiler PATH      the fusiond-compiler program (default: beside fusiond)\n"
                            "  --executor PATH      the fusiond-executor program (default: beside fusiond)\n"
                            "  --workers N          compile at most N programs at once (default: by the CPUs and the\n"
                            "                       memory that the machine, or its control group, allows)\n"
                            "  --memory SIZE        hold kernels of up to SIZE in memory, as in 512M (default 256M)\n"
                            "  --deadline-ms N      kill a compile after N ms unless the request says (default 60000)\n"
                            "  --remember-failures-ms N    answer a compile that failed like the same one up to N ms\n"
                            "                       ago (default 60000; 0: compile again each time)\n"
                            "  --queue-jobs N       at most N compiles wait (default 100000); one more is BUSY\n"
                            "  --queue-jobs-per-user N     of one user (default 50000)\n"
                            "  --queue-bytes SIZE   at most so many bytes wait (default 1G); more are BUSY\n"
                            "  --queue-bytes-per-user SIZE of one user (default 512M)\n"
                            "  --pch auto|off       compile what many programs begin with once, and begin from that\n"
                            "                       (default auto: where the compiler is known to allow it)\n"
                            "  --pch-zygotes N      keep at most N processes with such headers (default 8)\n"
                            "  --pch-bytes SIZE     keep at most SIZE of headers, in the cache's folder (default 2G)\n"
                            "  --pch-idle-ms N      end a process that made nothing of its header for N ms\n"
                            "                       (default 600000)\n"
                            "  --spin-us N          after a request, poll for the next one for N us before sleeping:\n"
                            "                       faster answers for a busy core (default 0, at most 1000)\n"
                            "  --host-threads N     run kernels of the host device on N threads (default: cores)\n"
                            "  --executor-idle-ms N end an executor that no client has used for N ms (default 60000)\n"
                            "  --log LEVEL          error, warning, info or debug (FUSIOND_LOG; default info)\n"
                            "  --foreground         stay in the foreground; it always does\n"
                            "  --print-config       print what these settings come to, and exit\n"
                            "  --version            print the version, and exit\n"
                            "  --help               print this, and exit\n";

enum {
    OPTION_SOCKET = 256,
    OPTION_CACHE_DIR,
    OPTION_NO_DATABASE,
    OPTION_NVRTC,
    OPTION_TOOLKIT_INCLUDE,
    OPTION_HOST_CC,
    OPTION_OVERRIDES,
    OPTION_REQUIRE_CACHED,
    OPTION_TRANSFORM,
    OPTION_OBSERVE,
    OPTION_COMPILER,
    OPTION_EXECUTOR,
    OPTION_WORKERS,
    OPTION_MEMORY,
    OPTION_DEADLINE,
    OPTION_REMEMBER_FAILURES,
    OPTION_QUEUE_JOBS,
    OPTION_QUEUE_JOBS_PER_USER,
    OPTION_QUEUE_BYTES,
    OPTION_QUEUE_BYTES_PER_USER,
    OPTION_PCH,
    OPTION_PCH_ZYGOTES,
    OPTION_PCH_BYTES,
    OPTION_PCH_IDLE,
    OPTION_SPIN,
    OPTION_HOST_THREADS,
    OPTION_EXECUTOR_IDLE,
    OPTION_LOG,
    OPTION_FOREGROUND,
    OPTION_PRINT_CONFIG,
    OPTION_VERSION,
    OPTION_HELP,
};

static const struct option options[] = {
    {"socket", required_argument, NULL, OPTION_SOCKET},
    {"cache-dir", required_argument, NULL, OPTION_CACHE_DIR},
    {"no-database", no_argument, NULL, OPTION_NO_DATABASE},
    {"nvrtc", required_argument, NULL, OPTION_NVRTC},
    {"toolkit-include", required_argument, NULL, OPTION_TOOLKIT_INCLUDE},
    {"host-cc", required_argument, NULL, OPTION_HOST_CC},
    {"observe", required_argument, NULL, OPTION_OBSERVE},
    {"transform", required_argument, NULL, OPTION_TRANSFORM},
    {"overrides", required_argument, NULL, OPTION_OVERRIDES},
    {"require-cached", no_argument, NULL, OPTION_REQUIRE_CACHED},
    {"compiler", required_argument, NULL, OPTION_COMPILER},
    {"executor", required_argument, NULL, OPTION_EXECUTOR},
    {"workers", required_argument, NULL, OPTION_WORKERS},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"deadline-ms", required_argument, NULL, OPTION_DEADLINE},
    {"remember-failures-ms", required_argument, NULL, OPTION_REMEMBER_FAILURES},
    {"queue-jobs", required_argument, NULL, OPTION_QUEUE_JOBS},
    {"queue-jobs-per-user", required_argument, NULL, OPTION_QUEUE_JOBS_PER_USER},
    {"queue-bytes", required_argument, NULL, OPTION_QUEUE_BYTES},
    {"queue-bytes-per-user", required_argument, NULL, OPTION_QUEUE_BYTES_PER_USER},
    {"pch", required_argument, NULL, OPTION_PCH},
    {"pch-zygotes", required_argument, NULL, OPTION_PCH_ZYGOTES},
    {"pch-bytes", required_argument, NULL, OPTION_PCH_BYTES},
    {"pch-idle-ms", required_argument, NULL, OPTION_PCH_IDLE},
    {"spin-us", required_argument, NULL, OPTION_SPIN},
    {"host-threads", required_argument, NULL, OPTION_HOST_THREADS},
    {"executor-idle-ms", required_argument, NULL, OPTION_EXECUTOR_IDLE},
    {"log", required_argument, NULL, OPTION_LOG},
    {"foreground", no_argument, NULL, OPTION_FOREGROUND},
    {"print-config", no_argument, NULL, OPTION_PRINT_CONFIG},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* ---- values ---- */

/* Paths are made absolute, since the daemon's helpers run in another folder. */
static int set_path(const char *name, const char *value, char *ret, struct error *error)
{
    char here[CONFIG_PATH] = "";
    if (!value[0])
        return error_set(error, STATUS_INVALID_FIELD, "%s: an empty path", name);
    if (value[0] != '/' && !getcwd(here, sizeof here))
        return error_set_errno(error, STATUS_SYSTEM, errno, "%s: the current folder", name);
    size_t size = (size_t)snprintf(ret, CONFIG_PATH, "%s%s%s", here, here[0] ? "/" : "", value);
    if (size + sizeof "/" CACHE_LAYOUT > CONFIG_PATH)
        return error_set(error, STATUS_INVALID_FIELD, "%s: a path of %zu bytes is above the limit of %d", name, size,
                         CONFIG_PATH);
    return 0;
}

/* Absolute folders with ':' between them. */
static int set_folders(const char *name, const char *value, char *ret, struct error *error)
{
    if (strlen(value) >= CONFIG_PATH)
        return error_set(error, STATUS_INVALID_FIELD, "%s: %zu bytes are above the limit of %d", name, strlen(value),
                         CONFIG_PATH - 1);
    for (const char *at = value;; at++) {
        if (*at != '/')
            return error_set(error, STATUS_INVALID_FIELD, "%s: \"%.64s\" is no absolute path", name, at);
        at += strcspn(at, ":");
        if (!*at)
            break;
    }
    memcpy(ret, value, strlen(value) + 1);
    return 0;
}

/* One path of a library, or several with ':' between them. */
static int add_libraries(const char *name, const char *value, struct config *config, struct error *error)
{
    for (const char *at = value, *end; at; at = *end ? end + 1 : NULL) {
        char path[CONFIG_PATH];
        end = at + strcspn(at, ":");
        if ((size_t)(end - at) >= sizeof path)
            return error_set(error, STATUS_INVALID_FIELD, "%s: a path of %td bytes is above the limit of %d", name,
                             end - at, CONFIG_PATH);
        memcpy(path, at, (size_t)(end - at));
        path[end - at] = '\0';
        if (config->n_nvrtc == COMPILERS_LIBRARIES)
            return error_set(error, STATUS_INVALID_FIELD, "%s: \"%.200s\" is one more than the limit of %d libraries",
                             name, path, COMPILERS_LIBRARIES);
        if (set_path(name, path, config->nvrtc_paths[config->n_nvrtc], error) < 0)
            return -1;
        config->nvrtc[config->n_nvrtc] = config->nvrtc_paths[config->n_nvrtc];
        config->n_nvrtc++;
    }
    return 0;
}

static int set_number(const char *name, const char *value, uint64_t least, uint64_t most, uint64_t *ret,
                      struct error *error)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno)
        return error_set(error, STATUS_INVALID_FIELD, "%s: \"%.64s\" is not a number", name, value);
    if (number < least || number > most)
        return error_set(error, STATUS_INVALID_FIELD, "%s: %llu is outside its limits of %llu to %llu", name, number,
                         (unsigned long long)least, (unsigned long long)most);
    *ret = number;
    return 0;
}

/* A number with K, M, G or T (powers of 1024) behind it. */
static int set_size(const char *name, const char *value, uint64_t *ret, struct error *error)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (value[0] < '0' || value[0] > '9' || errno || (*end && (!unit || end[1])))
        return error_set(error, STATUS_INVALID_FIELD, "%s: \"%.64s\" is not a size such as 512M", name, value);
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (number > UINT64_MAX >> shift)
        return error_set(error, STATUS_INVALID_FIELD, "%s: %.64s does not fit into 64 bits", name, value);
    *ret = (uint64_t)number << shift;
    return 0;
}

/* ---- built-in values ---- */

static int default_socket(struct config *config, struct error *error)
{
    char path[SOCKET_PATH];
    if (socket_path_default(path) < 0)
        return error_set(error, STATUS_INVALID_FIELD, "XDG_RUNTIME_DIR: its %zu bytes make a socket's path too long",
                         strlen(getenv("XDG_RUNTIME_DIR")));
    return set_path("socket", path, config->socket, error);
}

static void default_cache(struct config *config)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        snprintf(config->cache_dir, sizeof config->cache_dir, "%.3900s/fusiond", cache);
    else if (home && home[0] == '/')
        snprintf(config->cache_dir, sizeof config->cache_dir, "%.3900s/.cache/fusiond", home);
    else
        config->no_database = true;
}

/* A program of the daemon's: beside this one, in a build's subfolder, or where it was installed. */
static void default_program(const char *name, const char *subfolder, char ret[CONFIG_PATH])
{
    char self[CONFIG_PATH - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    const char *const places[] = {"", subfolder};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(ret, CONFIG_PATH, "%s/%s%s", self, places[i], name);
        if (access(ret, X_OK) == 0)
            return;
    }
    snprintf(ret, CONFIG_PATH, "%s/%s", FUSIOND_LIBEXECDIR, name);
}

static void look_for_nvrtc(struct config *config)
{
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    size_t n = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *home = getenv(variables[i]);
        if (!home || home[0] != '/' || strlen(home) > CONFIG_PATH - 16)
            continue;
        snprintf(config->nvrtc_dir_paths[n], CONFIG_PATH, "%.4000s/lib64", home);
        config->nvrtc_dirs[n] = config->nvrtc_dir_paths[n];
        n++;
    }
}

/* ---- reading ---- */

static int read_environment(struct config *config, struct error *error)
{
    const char *value;
    if ((value = getenv("FUSIOND_SOCKET")) && value[0] && set_path("FUSIOND_SOCKET", value, config->socket, error) < 0)
        return -1;
    if ((value = getenv("FUSIOND_CACHE_DIR")) && value[0]) {
        if (set_path("FUSIOND_CACHE_DIR", value, config->cache_dir, error) < 0)
            return -1;
        config->no_database = false;
    }
    if ((value = getenv("FUSIOND_NVRTC")) && value[0] && add_libraries("FUSIOND_NVRTC", value, config, error) < 0)
        return -1;
    if ((value = getenv("FUSIOND_TOOLKIT_INCLUDE")) && value[0] &&
        set_folders("FUSIOND_TOOLKIT_INCLUDE", value, config->toolkit_include, error) < 0)
        return -1;
    if ((value = getenv("FUSIOND_LOG")) && value[0] && !log_set_level_by_name(value))
        return error_set(error, STATUS_INVALID_FIELD, "FUSIOND_LOG: \"%.32s\" is none of error, warning, info, debug",
                         value);
    return 0;
}

static int add_transform(struct config *config, const char *value, struct error *error)
{
    if (config->n_transforms == TRANSFORMS_MAX)
        return error_set(error, STATUS_INVALID_FIELD, "--transform: more than the limit of %d", TRANSFORMS_MAX);
    struct transform_spec *spec = &config->transforms[config->n_transforms];
    if (transform_spec_parse(value, spec, error) < 0)
        return -1;
    for (size_t i = 0; i < config->n_transforms; i++) {
        if (strcmp(config->transforms[i].name, spec->name) == 0)
            return error_set(error, STATUS_INVALID_FIELD, "--transform: two have the name \"%s\"", spec->name);
    }
    config->n_transforms++;
    return 0;
}

static int read_option(struct config *config, int option, const char *value, struct error *error)
{
    uint64_t number;
    switch (option) {
    case OPTION_SOCKET:
        return set_path("--socket", value, config->socket, error);
    case OPTION_CACHE_DIR:
        config->no_database = false;
        return set_path("--cache-dir", value, config->cache_dir, error);
    case OPTION_NO_DATABASE:
        config->no_database = true;
        return 0;
    case OPTION_NVRTC:
        /* The first flag replaces what the environment says, the others add to it. */
        if (!config->nvrtc_by_flag)
            config->n_nvrtc = 0;
        config->nvrtc_by_flag = true;
        return add_libraries("--nvrtc", value, config, error);
    case OPTION_TOOLKIT_INCLUDE:
        return set_folders("--toolkit-include", value, config->toolkit_include, error);
    case OPTION_HOST_CC:
        if (strchr(value, '/') || !value[0])
            return set_path("--host-cc", value, config->host_cc, error);
        snprintf(config->host_cc, sizeof config->host_cc, "%s", value);
        return 0;
    case OPTION_TRANSFORM:
        return add_transform(config, value, error);
    case OPTION_OBSERVE:
        if (config->n_observers == TRANSFORMS_MAX)
            return error_set(error, STATUS_INVALID_FIELD, "--observe: more than the limit of %d", TRANSFORMS_MAX);
        return observer_spec_parse(value, &config->observers[config->n_observers++], error);
    case OPTION_OVERRIDES:
        return set_path("--overrides", value, config->overrides, error);
    case OPTION_REQUIRE_CACHED:
        config->require_cached = true;
        return 0;
    case OPTION_COMPILER:
        return set_path("--compiler", value, config->compiler, error);
    case OPTION_EXECUTOR:
        return set_path("--executor", value, config->executor, error);
    case OPTION_WORKERS:
        if (set_number("--workers", value, 1, 1024, &number, error) < 0)
            return -1;
        config->max_workers = (unsigned)number;
        return 0;
    case OPTION_MEMORY:
        return set_size("--memory", value, &config->memory_bytes, error);
    case OPTION_DEADLINE:
        return set_number("--deadline-ms", value, 1, LIMIT_DEADLINE_MS, &config->deadline_ms, error);
    case OPTION_REMEMBER_FAILURES:
        return set_number("--remember-failures-ms", value, 0, 3600000, &config->remember_failures_ms, error);
    case OPTION_QUEUE_JOBS:
        return set_number("--queue-jobs", value, 1, MAX_QUEUE_JOBS, &config->queue_jobs, error);
    case OPTION_QUEUE_JOBS_PER_USER:
        return set_number("--queue-jobs-per-user", value, 1, MAX_QUEUE_JOBS, &config->queue_jobs_per_user, error);
    case OPTION_QUEUE_BYTES:
        return set_size("--queue-bytes", value, &config->queue_bytes, error);
    case OPTION_QUEUE_BYTES_PER_USER:
        return set_size("--queue-bytes-per-user", value, &config->queue_bytes_per_user, error);
    case OPTION_PCH:
        if (strcmp(value, "auto") != 0 && strcmp(value, "off") != 0)
            return error_set(error, STATUS_INVALID_FIELD, "--pch: \"%.32s\" is neither auto nor off", value);
        config->no_pch = strcmp(value, "off") == 0;
        return 0;
    case OPTION_PCH_ZYGOTES:
        if (set_number("--pch-zygotes", value, 1, 64, &number, error) < 0)
            return -1;
        config->max_zygotes = (unsigned)number;
        return 0;
    case OPTION_PCH_BYTES:
        return set_size("--pch-bytes", value, &config->pch_bytes, error);
    case OPTION_PCH_IDLE:
        return set_number("--pch-idle-ms", value, 1, 86400000, &config->zygote_idle_ms, error);
    case OPTION_SPIN:
        return set_number("--spin-us", value, 0, 1000, &config->spin_us, error);
    case OPTION_HOST_THREADS:
        if (set_number("--host-threads", value, 1, 4096, &number, error) < 0)
            return -1;
        config->host_threads = (unsigned)number;
        return 0;
    case OPTION_EXECUTOR_IDLE:
        return set_number("--executor-idle-ms", value, 0, 86400000, &config->executor_idle_ms, error);
    case OPTION_LOG:
        if (log_set_level_by_name(value))
            return 0;
        return error_set(error, STATUS_INVALID_FIELD, "--log: \"%.32s\" is none of error, warning, info, debug", value);
    default: /* OPTION_FOREGROUND */
        return 0;
    }
}

static int read_flags(int argc, char **argv, struct config *config, enum config_action *action, bool *print,
                      struct error *error)
{
    int option;
    *action = CONFIG_RUN;
    opterr = 0;
    optind = 0; /* from the beginning, whatever an earlier reading left */
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        /* A letter: optind may not have moved on yet. */
        if (option == '?' && optopt > 0 && optopt < OPTION_SOCKET)
            return error_set(error, STATUS_INVALID_FIELD, "unknown option -%c; try --help", optopt);
        if (option == '?')
            return error_set(error, STATUS_INVALID_FIELD, "unknown option %s; try --help", argv[optind - 1]);
        if (option == ':')
            return error_set(error, STATUS_INVALID_FIELD, "%s needs a value; try --help", argv[optind - 1]);
        if (option == OPTION_HELP)
            fputs(usage, stdout);
        if (option == OPTION_VERSION)
            printf("fusiond %s\n", FUSIOND_VERSION);
        if (option == OPTION_HELP || option == OPTION_VERSION || option == OPTION_PRINT_CONFIG)
            *action = CONFIG_EXIT;
        *print = option == OPTION_PRINT_CONFIG || (*print && option != OPTION_HELP && option != OPTION_VERSION);
        if (option == OPTION_HELP || option == OPTION_VERSION)
            return 0;
        if (option != OPTION_PRINT_CONFIG && read_option(config, option, optarg, error) < 0)
            return -1;
    }
    if (optind < argc)
        return error_set(error, STATUS_INVALID_FIELD, "unexpected argument \"%s\"; try --help", argv[optind]);
    return 0;
}

int config_read(int argc, char **argv, struct config *ret, enum config_action *ret_action, struct error *error)
{
    struct config *config = ret;
    bool print = false;
    *config = (struct config){.memory_bytes = 256u << 20,
                              .blob_bytes = 256u << 20,
                              .deadline_ms = 60000,
                              .remember_failures_ms = 60000,
                              .max_zygotes = 8,
                              .pch_bytes = 2ull << 30,
                              .zygote_idle_ms = 600000,
                              .executor_idle_ms = 60000,
                              .queue_jobs = 100000,
                              .queue_jobs_per_user = 50000,
                              .queue_bytes = 1u << 30,
                              .queue_bytes_per_user = 512u << 20};
    machine_read("", &config->machine);
    config->max_workers = machine_workers(&config->machine);
    default_cache(config);
    default_program("fusiond-compiler", "compiler/", config->compiler);
    default_program("fusiond-executor", "executor/", config->executor);
    default_program("fusiond-transform", "compiler/", config->transform_program);
    default_program("fusiond-leaf", "compiler/", config->leaf);
    snprintf(config->host_cc, sizeof config->host_cc, "g++");
    look_for_nvrtc(config);
    if (default_socket(config, error) < 0 || read_environment(config, error) < 0 ||
        read_flags(argc, argv, config, ret_action, &print, error) < 0)
        return -1;
    if (!config->no_database) {
        /* An overriding folder gets the versioned subfolder too. */
        size_t used = strlen(config->cache_dir);
        snprintf(config->cache_dir + used, CONFIG_PATH - used, "/" CACHE_LAYOUT);
        snprintf(config->database_path, sizeof config->database_path, "%s/kernels.db", config->cache_dir);
    }
    if (print)
        config_print(config, stdout);
    return 0;
}

void config_print(const struct config *config, FILE *out)
{
    fprintf(out, "socket = %s\n", config->socket);
    fprintf(out, "cache-dir = %s\n",
            config->no_database ? "(none: kernels are kept in memory only)" : config->cache_dir);
    fprintf(out, "compiler = %s\n", config->compiler);
    fprintf(out, "executor = %s\n", config->executor);
    for (size_t i = 0; i < config->n_nvrtc; i++)
        fprintf(out, "nvrtc = %s\n", config->nvrtc[i]);
    if (config->n_nvrtc == 0)
        fprintf(out, "nvrtc = (looked for)\n");
    fprintf(out, "toolkit-include = %s\n",
            config->toolkit_include[0] ? config->toolkit_include : "(looked for beside NVRTC)");
    fprintf(out, "host-cc = %s\n", config->host_cc);
    for (size_t i = 0; i < config->n_transforms; i++) {
        const struct transform_spec *spec = &config->transforms[i];
        fprintf(out, "transform = %s:%s:%llu", spec->name, transform_point_word(spec->point),
                (unsigned long long)spec->timeout_ms);
        for (const char *const *word = spec->argv; *word; word++)
            fprintf(out, " %s", *word);
        fputc('\n', out);
    }
    for (size_t i = 0; i < config->n_observers; i++) {
        fprintf(out, "observe = %s:%llu", config->observers[i].name,
                (unsigned long long)config->observers[i].timeout_ms);
        for (const char *const *word = config->observers[i].argv; *word; word++)
            fprintf(out, " %s", *word);
        fputc('\n', out);
    }
    fprintf(out, "overrides = %s\n", config->overrides[0] ? config->overrides : "(none)");
    fprintf(out, "require-cached = %s\n", config->require_cached ? "yes" : "no");
    fprintf(out, "workers = %u\n", config->max_workers);
    fprintf(out, "memory = %llu bytes\n", (unsigned long long)config->memory_bytes);
    fprintf(out, "deadline-ms = %llu\n", (unsigned long long)config->deadline_ms);
    fprintf(out, "remember-failures-ms = %llu\n", (unsigned long long)config->remember_failures_ms);
    fprintf(out, "queue-jobs = %llu\n", (unsigned long long)config->queue_jobs);
    fprintf(out, "queue-jobs-per-user = %llu\n", (unsigned long long)config->queue_jobs_per_user);
    fprintf(out, "queue-bytes = %llu bytes\n", (unsigned long long)config->queue_bytes);
    fprintf(out, "queue-bytes-per-user = %llu bytes\n", (unsigned long long)config->queue_bytes_per_user);
    fprintf(out, "pch = %s\n", config->no_pch ? "off" : "auto");
    fprintf(out, "pch-zygotes = %u\n", config->max_zygotes);
    fprintf(out, "pch-bytes = %llu bytes\n", (unsigned long long)config->pch_bytes);
    fprintf(out, "pch-idle-ms = %llu\n", (unsigned long long)config->zygote_idle_ms);
    fprintf(out, "spin-us = %llu\n", (unsigned long long)config->spin_us);
    if (config->host_threads)
        fprintf(out, "host-threads = %u\n", config->host_threads);
    else
        fprintf(out, "host-threads = (cores)\n");
    fprintf(out, "executor-idle-ms = %llu\n", (unsigned long long)config->executor_idle_ms);
}
