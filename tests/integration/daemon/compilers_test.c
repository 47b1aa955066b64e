/* A daemon with several NVRTC libraries. The second one is a copy of the first in another folder, which is the same
 * compiler; where $FUSIOND_TEST_NVRTC2 names another version, that too. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels_db/kernel_key.h"
#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct wire wire;
static char library[512]; /* what a daemon finds by itself */

/* The value behind `name` in the first line of the log that has the words. */
static void log_value(const char *words, const char *name, char *ret, size_t room)
{
    cr_assert(daemon_log_waits_for(&daemon_, words));
    char *log = daemon_log(&daemon_), *line = strstr(log, words), *at = strstr(line, name);
    cr_assert(at, "%s", line);
    at += strlen(name);
    snprintf(ret, room, "%.*s", (int)strcspn(at, " \n"), at);
    free(log);
}

static void setup(void)
{
    daemon_start_or_skip(&daemon_, NULL);
    log_value("compiler name=nvrtc ", "library=", library, sizeof library);
    daemon_stop_in_order(&daemon_);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(compilers, .init = setup, .fini = teardown);

static void copy_file(const char *from, const char *to)
{
    struct stat status;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    cr_assert(in >= 0 && out >= 0 && fstat(in, &status) == 0, "%s", from);
    for (off_t left = status.st_size; left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        cr_assert(n > 0, "copying %s", from);
        left -= n;
    }
    close(in);
    close(out);
}

/* The library and what lies beside it under similar names, in a folder of the daemon's. */
static void copy_library(char ret[512])
{
    char from[1024], to[1024], real[4096];
    cr_assert(realpath(library, real));
    const char *name = strrchr(real, '/') + 1;
    size_t size = (size_t)(name - real) - 1;
    snprintf(ret, 512, "%s/other", daemon_.directory);
    cr_assert(mkdir(ret, 0700) == 0);
    snprintf(from, sizeof from, "%.*s", (int)size, real);
    DIR *folder = opendir(from);
    cr_assert(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (strncmp(entry->d_name, "libnvrtc", 8) != 0 || strstr(entry->d_name, "static"))
            continue;
        snprintf(from, sizeof from, "%.*s/%.200s", (int)size, real, entry->d_name);
        snprintf(to, sizeof to, "%s/%.200s", ret, entry->d_name);
        copy_file(from, to);
    }
    closedir(folder);
    strcat(ret, "/");
    strncat(ret, name, 200);
}

static void start_with(const char *other)
{
    daemon_restart(&daemon_,
                   &(struct daemon_options){.args = (const char *const[]){"--nvrtc", library, "--nvrtc", other, NULL}});
    wire_open(&wire, daemon_.socket);
}

static struct compile_request *sample_by(struct sample *ret, unsigned number, const char *compiler)
{
    sample_kernel(ret, number);
    ret->fusion.compiler = text_of(compiler);
    return &ret->request;
}

/* "13.0" of "nvrtc 13.0". */
static const char *version_of(const struct kernel *kernel)
{
    const char *space = strrchr(kernel->compiler.at, ' ');
    return space ? space + 1 : kernel->compiler.at;
}

Test(compilers, the_same_library_in_two_places_is_one_compiler)
{
    char other[512], version[32], build[KEY_HEX];
    struct sample sample;
    copy_library(other);
    start_with(other);
    struct kernel *kernel = get_kernel(&wire, sample_kernel(&sample, 1)).kernel;
    snprintf(version, sizeof version, "%s", version_of(kernel));
    key_to_hex(kernel->build, build);
    cr_assert(get_kernel(&wire, sample_by(&sample, 1, version)).outcome == OUTCOME_HIT_MEMORY);
    cr_assert(get_kernel(&wire, sample_by(&sample, 1, build)).outcome == OUTCOME_HIT_MEMORY);
    cr_assert(get_kernel(&wire, sample_by(&sample, 2, version)).outcome == OUTCOME_COMPILED);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

Test(compilers, one_that_is_not_there_is_told_with_those_that_are)
{
    char other[512], words[128];
    struct sample sample;
    copy_library(other);
    start_with(other);
    struct kernel *kernel = get_kernel(&wire, sample_kernel(&sample, 1)).kernel;
    snprintf(words, sizeof words, "nvrtc: %s (build ", version_of(kernel));
    struct failure failure = fail_kernel(&wire, sample_by(&sample, 1, "9.1"), STATUS_INVALID_FIELD, words);
    cr_assert(strstr(failure.text.at, "compiler: \"9.1\" is none of"), "%s", failure.text.at);
    cr_assert(!failure.retryable);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

Test(compilers, F29_two_versions_never_share_a_key)
{
    const char *second = getenv("FUSIOND_TEST_NVRTC2");
    struct sample sample;
    uint8_t key[DIGEST_SIZE];
    char first_version[32], second_version[32], build[KEY_HEX];
    if (!second)
        cr_skip("FUSIOND_TEST_NVRTC2 names no second NVRTC library");
    start_with(second);
    struct kernel *kernel = get_kernel(&wire, sample_kernel(&sample, 1)).kernel;
    memcpy(key, kernel->key, sizeof key);
    snprintf(first_version, sizeof first_version, "%s", version_of(kernel));
    struct failure failure = fail_kernel(&wire, sample_by(&sample, 1, "9.1"), STATUS_INVALID_FIELD, first_version);
    /* The second one's version and build, from the list. */
    const char *at = strstr(failure.text.at, "), ");
    cr_assert(at && sscanf(at, "), %31s (build %12s", second_version, build) == 2, "%s", failure.text.at);
    kernel = get_kernel(&wire, sample_by(&sample, 1, second_version)).kernel;
    cr_assert_str_eq(version_of(kernel), second_version);
    cr_assert_str_neq(second_version, first_version);
    cr_assert(memcmp(key, kernel->key, sizeof key) != 0);
    cr_assert(get_kernel(&wire, sample_by(&sample, 1, build)).outcome == OUTCOME_HIT_MEMORY);
    cr_assert(get_kernel(&wire, sample_by(&sample, 1, first_version)).outcome == OUTCOME_HIT_MEMORY);
    cr_assert(wire_stats(daemon_.socket).compiles_total == 2);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}
