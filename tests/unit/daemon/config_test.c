#include "daemon/config.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/version.h"
#include "proto/limits.h"

static struct config config;
static enum config_action action;
static struct error error;

static void setup(void)
{
    static const char *const variables[] = {"FUSIOND_SOCKET", "FUSIOND_CACHE_DIR", "FUSIOND_NVRTC",
                                            "FUSIOND_LOG",    "XDG_RUNTIME_DIR",   "XDG_CACHE_HOME",
                                            "CUDA_HOME",      "CUDA_PATH",         "FUSIOND_TOOLKIT_INCLUDE"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
    setenv("HOME", "/home/somebody", 1);
}

TestSuite(config, .init = setup);

static int read_two(const char *one, const char *two)
{
    char *argv[] = {(char *)"fusiond", (char *)one, (char *)two, NULL};
    error = (struct error){0};
    return config_read(1 + (one != NULL) + (two != NULL), argv, &config, &action, &error);
}

static void expect(const char *one, const char *two)
{
    cr_assert_eq(read_two(one, two), 0, "%s", error.text);
    cr_assert_eq(action, CONFIG_RUN);
}

static void expect_refused(const char *one, const char *two, const char *text)
{
    cr_assert_eq(read_two(one, two), -1, "%s %s", one, two ? two : "");
    cr_assert_str_eq(error.text, text);
    cr_assert_eq(error.code, STATUS_INVALID_FIELD);
}

Test(config, built_in_values)
{
    expect(NULL, NULL);
    cr_assert_str_eq(config.socket, "/run/user/1/fusiond/fusiond.sock");
    cr_assert_str_eq(config.cache_dir, "/home/somebody/.cache/fusiond/v1");
    cr_assert_str_eq(config.database_path, "/home/somebody/.cache/fusiond/v1/kernels.db");
    cr_assert_eq(config.n_nvrtc, 0);
    cr_assert_null(config.nvrtc_dirs[0]);
    cr_assert_geq(config.max_workers, 1);
    cr_assert_eq(config.memory_bytes, 256u << 20);
    cr_assert_eq(config.deadline_ms, 60000);
    cr_assert_not(config.no_pch);
    cr_assert_eq(config.max_zygotes, 8);
    cr_assert_eq(config.pch_bytes, 2ull << 30);
    cr_assert_eq(config.zygote_idle_ms, 600000);
    cr_assert_eq(config.spin_us, 0);
    cr_assert_eq(config.host_threads, 0);
    cr_assert_eq(config.executor_idle_ms, 60000);
    cr_assert_not(config.no_database);
}

Test(config, the_environment_is_overridden_by_flags)
{
    setenv("FUSIOND_SOCKET", "/env/sock", 1);
    setenv("FUSIOND_CACHE_DIR", "/env/cache", 1);
    setenv("FUSIOND_NVRTC", "/env/libnvrtc.so", 1);
    setenv("CUDA_PATH", "/env/cuda", 1);
    expect(NULL, NULL);
    cr_assert_str_eq(config.socket, "/env/sock");
    cr_assert_str_eq(config.cache_dir, "/env/cache/v1");
    cr_assert_str_eq(config.nvrtc[0], "/env/libnvrtc.so");
    cr_assert_str_eq(config.nvrtc_dirs[0], "/env/cuda/lib64");
    expect("--socket=/flag/sock", "--nvrtc=/flag/libnvrtc.so");
    cr_assert_str_eq(config.socket, "/flag/sock");
    cr_assert_str_eq(config.nvrtc[0], "/flag/libnvrtc.so");
    cr_assert_str_eq(config.cache_dir, "/env/cache/v1");
    expect("--cache-dir", "/flag/cache");
    cr_assert_str_eq(config.cache_dir, "/flag/cache/v1");
}

Test(config, empty_variables_are_none)
{
    setenv("FUSIOND_SOCKET", "", 1);
    setenv("FUSIOND_CACHE_DIR", "", 1);
    setenv("FUSIOND_NVRTC", "", 1);
    setenv("FUSIOND_LOG", "", 1);
    expect(NULL, NULL);
    cr_assert_str_eq(config.socket, "/run/user/1/fusiond/fusiond.sock");
    cr_assert_eq(config.n_nvrtc, 0);
}

Test(config, F8_without_a_home_there_is_no_database_unless_asked_for)
{
    unsetenv("HOME");
    expect(NULL, NULL);
    cr_assert(config.no_database);
    expect("--cache-dir", "/somewhere");
    cr_assert_not(config.no_database);
    expect("--cache-dir=/somewhere", "--no-database");
    cr_assert(config.no_database);
}

Test(config, paths_become_absolute)
{
    char here[PATH_MAX], expected[PATH_MAX + 32];
    cr_assert_not_null(getcwd(here, sizeof here));
    expect("--compiler", "build/fusiond-compiler");
    snprintf(expected, sizeof expected, "%s/build/fusiond-compiler", here);
    cr_assert_str_eq(config.compiler, expected);
    expect("--executor", "build/fusiond-executor");
    snprintf(expected, sizeof expected, "%s/build/fusiond-executor", here);
    cr_assert_str_eq(config.executor, expected);
}

/* This test has none beside it. */
Test(config, programs_are_looked_for_where_they_are_installed)
{
    expect(NULL, NULL);
    cr_assert_str_eq(config.compiler, FUSIOND_LIBEXECDIR "/fusiond-compiler");
    cr_assert_str_eq(config.executor, FUSIOND_LIBEXECDIR "/fusiond-executor");
    cr_assert_str_eq(strrchr(FUSIOND_LIBEXECDIR, '/'), "/fusiond");
}

Test(config, folders_of_toolkit_headers)
{
    expect(NULL, NULL);
    cr_assert_str_eq(config.toolkit_include, "");
    setenv("FUSIOND_TOOLKIT_INCLUDE", "/env/include:/env/cccl", 1);
    expect(NULL, NULL);
    cr_assert_str_eq(config.toolkit_include, "/env/include:/env/cccl");
    expect("--toolkit-include", "/flag/include");
    cr_assert_str_eq(config.toolkit_include, "/flag/include");
    expect_refused("--toolkit-include", "/a:b", "--toolkit-include: \"b\" is no absolute path");
    expect_refused("--toolkit-include", "", "--toolkit-include: \"\" is no absolute path");
    expect_refused("--toolkit-include", "/a:", "--toolkit-include: \"\" is no absolute path");
}

Test(config, sizes)
{
    static const struct {
        const char *text;
        uint64_t size;
    } sizes[] = {{"0", 0},
                 {"1000", 1000},
                 {"3K", 3072},
                 {"512M", 512ull << 20},
                 {"2G", 2ull << 30},
                 {"1T", 1ull << 40},
                 {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        expect("--memory", sizes[i].text);
        cr_assert_eq(config.memory_bytes, sizes[i].size, "%s", sizes[i].text);
    }
}

Test(config, several_libraries)
{
    setenv("FUSIOND_NVRTC", "/env/12.8/libnvrtc.so:/env/13.0/libnvrtc.so", 1);
    expect(NULL, NULL);
    cr_assert_eq(config.n_nvrtc, 2);
    cr_assert_str_eq(config.nvrtc[0], "/env/12.8/libnvrtc.so");
    cr_assert_str_eq(config.nvrtc[1], "/env/13.0/libnvrtc.so");
    expect("--nvrtc=/a.so", "--nvrtc=/b.so:/c.so");
    cr_assert_eq(config.n_nvrtc, 3);
    cr_assert_str_eq(config.nvrtc[0], "/a.so");
    cr_assert_str_eq(config.nvrtc[2], "/c.so");
    expect("--nvrtc=/a:/b:/c:/d:/e:/f:/g", NULL);
    cr_assert_eq(config.n_nvrtc, COMPILERS_LIBRARIES);
    expect_refused("--nvrtc=/a:/b:/c:/d:/e:/f:/g:/h", NULL,
                   "--nvrtc: \"/h\" is one more than the limit of 7 libraries");
    expect_refused("--nvrtc=/a:", NULL, "--nvrtc: an empty path");
    unsetenv("FUSIOND_NVRTC");
}

Test(config, numbers)
{
    expect("--workers=1", "--deadline-ms=1");
    cr_assert_eq(config.max_workers, 1);
    cr_assert_eq(config.deadline_ms, 1);
    expect("--workers=1024", "--deadline-ms=3600000");
    cr_assert_eq(config.max_workers, 1024);
    cr_assert_eq(config.deadline_ms, LIMIT_DEADLINE_MS);
    expect("--queue-jobs=7", "--queue-jobs-per-user=5");
    cr_assert_eq(config.queue_jobs, 7);
    cr_assert_eq(config.queue_jobs_per_user, 5);
    expect("--queue-bytes=3M", "--queue-bytes-per-user=2M");
    cr_assert_eq(config.queue_bytes, 3u << 20);
    cr_assert_eq(config.queue_bytes_per_user, 2u << 20);
    cr_assert_not(config.require_cached);
    expect("--require-cached", "--queue-bytes=3M");
    cr_assert(config.require_cached);
    expect("--spin-us", "1000");
    cr_assert_eq(config.spin_us, 1000);
    expect("--host-threads=4096", "--executor-idle-ms=0");
    cr_assert_eq(config.host_threads, 4096);
    cr_assert_eq(config.executor_idle_ms, 0);
    expect("--executor-idle-ms", "86400000");
    cr_assert_eq(config.executor_idle_ms, 86400000);
}

Test(config, values_that_are_refused)
{
    static const struct {
        const char *flag, *value, *text;
    } rows[] = {
        {"--workers", "0", "--workers: 0 is outside its limits of 1 to 1024"},
        {"--workers", "1025", "--workers: 1025 is outside its limits of 1 to 1024"},
        {"--workers", "", "--workers: \"\" is not a number"},
        {"--workers", "-1", "--workers: \"-1\" is not a number"},
        {"--workers", " 1", "--workers: \" 1\" is not a number"},
        {"--workers", "4x", "--workers: \"4x\" is not a number"},
        {"--workers", "99999999999999999999", "--workers: \"99999999999999999999\" is not a number"},
        {"--deadline-ms", "0", "--deadline-ms: 0 is outside its limits of 1 to 3600000"},
        {"--deadline-ms", "3600001", "--deadline-ms: 3600001 is outside its limits of 1 to 3600000"},
        {"--spin-us", "1001", "--spin-us: 1001 is outside its limits of 0 to 1000"},
        {"--host-threads", "0", "--host-threads: 0 is outside its limits of 1 to 4096"},
        {"--host-threads", "4097", "--host-threads: 4097 is outside its limits of 1 to 4096"},
        {"--executor-idle-ms", "86400001", "--executor-idle-ms: 86400001 is outside its limits of 0 to 86400000"},
        {"--executor", "", "--executor: an empty path"},
        {"--memory", "many", "--memory: \"many\" is not a size such as 512M"},
        {"--memory", "", "--memory: \"\" is not a size such as 512M"},
        {"--memory", "1m", "--memory: \"1m\" is not a size such as 512M"},
        {"--memory", "1MB", "--memory: \"1MB\" is not a size such as 512M"},
        {"--memory", "-1", "--memory: \"-1\" is not a size such as 512M"},
        {"--memory", "18014398509481984K", "--memory: 18014398509481984K does not fit into 64 bits"},
        {"--log", "loud", "--log: \"loud\" is none of error, warning, info, debug"},
        {"--socket", "", "--socket: an empty path"},
        {"--cache-dir", "", "--cache-dir: an empty path"},
        {"--nvrtc", "", "--nvrtc: an empty path"},
        {"--compiler", "", "--compiler: an empty path"},
        {"--socket", NULL, "--socket needs a value; try --help"},
        {"--nothing", NULL, "unknown option --nothing; try --help"},
        {"--foreground=1", NULL, "unknown option --foreground=1; try --help"},
        {"-x", NULL, "unknown option -x; try --help"},
        {"-xy", NULL, "unknown option -x; try --help"},
        {"argument", NULL, "unexpected argument \"argument\"; try --help"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_refused(rows[i].flag, rows[i].value, rows[i].text);
}

Test(config, a_path_that_is_too_long)
{
    static char path[CONFIG_PATH + 8] = "/";
    memset(path + 1, 'x', CONFIG_PATH);
    expect_refused("--cache-dir", path, "--cache-dir: a path of 4097 bytes is above the limit of 4096");
    path[CONFIG_PATH - 8] = '\0';
    expect("--cache-dir", path);
    cr_assert_str_eq(config.cache_dir + CONFIG_PATH - 8, "/v1");
}

Test(config, variables_that_are_refused)
{
    setenv("FUSIOND_LOG", "loud", 1);
    expect_refused(NULL, NULL, "FUSIOND_LOG: \"loud\" is none of error, warning, info, debug");
}

Test(config, precompiled_headers)
{
    expect("--pch=off", "--pch-zygotes=3");
    cr_assert(config.no_pch && config.max_zygotes == 3);
    expect("--pch=auto", "--pch-bytes=512M");
    cr_assert(!config.no_pch && config.pch_bytes == 512u << 20);
    expect("--pch-idle-ms", "1000");
    cr_assert_eq(config.zygote_idle_ms, 1000);
    expect_refused("--pch=on", NULL, "--pch: \"on\" is neither auto nor off");
    expect_refused("--pch-zygotes=0", NULL, "--pch-zygotes: 0 is outside its limits of 1 to 64");
    expect_refused("--pch-idle-ms=0", NULL, "--pch-idle-ms: 0 is outside its limits of 1 to 86400000");
    expect_refused("--pch-bytes=much", NULL, "--pch-bytes: \"much\" is not a size such as 512M");
}

/* What is printed to stdout is not looked at here; the action is. */
Test(config, what_prints_does_not_run)
{
    static const char *const flags[] = {"--help", "--version", "--print-config", "--print"};
    cr_assert_not_null(freopen("/dev/null", "w", stdout));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        cr_assert_eq(read_two(flags[i], NULL), 0);
        cr_assert_eq(action, CONFIG_EXIT);
    }
}

Test(config, it_is_printed_one_value_a_line)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    expect("--workers=3", "--nvrtc=/x/libnvrtc.so");
    config_print(&config, out);
    fclose(out);
    cr_assert_not_null(strstr(text, "workers = 3\n"));
    cr_assert_not_null(strstr(text, "/fusiond-executor\n"));
    cr_assert_not_null(strstr(text, "host-threads = (cores)\n"));
    cr_assert_not_null(strstr(text, "executor-idle-ms = 60000\n"));
    cr_assert_not_null(strstr(text, "nvrtc = /x/libnvrtc.so\n"));
    cr_assert_not_null(strstr(text, "socket = /run/user/1/fusiond/fusiond.sock\n"));
    free(text);
}
