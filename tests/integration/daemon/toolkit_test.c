/* Headers of the toolkit, on request: from a folder of the test's own, or from none. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/sandbox/sandbox.h"
#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct wire wire;
static char folder[] = "/tmp/fusiond-toolkit-XXXXXX";
static char header[64];

static const char code[] = "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(int *p) { *p = DETAIL; }\n";

static void write_header(const char *text)
{
    int fd = open(header, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void setup(void)
{
    if (!sandbox_has_landlock())
        cr_skip("this kernel has no Landlock");
    cr_assert(mkdtemp(folder) != NULL && chmod(folder, 0755) == 0);
    snprintf(header, sizeof header, "%s/cuda_fp16.h", folder);
    daemon_start_or_skip(&daemon_,
                         &(struct daemon_options){.args = (const char *const[]){"--toolkit-include", folder, NULL}});
    wire_open(&wire, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
    unlink(header);
    rmdir(folder);
}

TestSuite(toolkit, .init = setup, .fini = teardown);

static struct compile_request *with_headers(struct sample *ret)
{
    sample_code(ret, code, "k");
    ret->options.toolkit_headers = true;
    return &ret->request;
}

Test(toolkit, headers_are_there_when_they_are_asked_for)
{
    struct sample sample;
    write_header("#define DETAIL 3\n");
    struct compile_reply reply = get_kernel(&wire, with_headers(&sample));
    cr_assert_eq(reply.outcome, OUTCOME_COMPILED);
    cr_assert(strncmp(reply.kernel->compiler.at, "nvrtc+toolkit ", 14) == 0, "%s", reply.kernel->compiler.at);
    reply = get_kernel(&wire, with_headers(&sample));
    cr_assert_eq(reply.outcome, OUTCOME_HIT_MEMORY);

    /* Without asking they are not, and the answer says how to ask. */
    sample_code(&sample, code, "k");
    fail_kernel(&wire, &sample.request, STATUS_COMPILE_FAILED, "compile.toolkit_headers");
    daemon_stop_in_order(&daemon_);
}

/* Code that uses none of them has another key with them: the compiler is another. */
Test(toolkit, they_are_in_the_key)
{
    struct sample sample;
    uint8_t first[DIGEST_SIZE];
    write_header("#define DETAIL 3\n");
    struct compile_reply reply = get_kernel(&wire, with_headers(&sample));
    memcpy(first, reply.kernel->key, sizeof first);

    /* Other bytes, another key: at the latest when the worker is found to be of the past. */
    write_header("#define DETAIL 45\n");
    sample_kernel(&sample, 7);
    sample.options.toolkit_headers = true;
    struct failure failure = {0};
    unsigned status = wire_call(&wire, METHOD_COMPILE, &sample.request, &reply, &failure);
    cr_assert(status == 0 || status == STATUS_COMPILER_UNAVAILABLE, "%s", failure.text.at);
    reply = get_kernel(&wire, with_headers(&sample));
    cr_assert_eq(reply.outcome, OUTCOME_COMPILED);
    cr_assert(memcmp(first, reply.kernel->key, sizeof first) != 0);
    daemon_stop_in_order(&daemon_);
}

Test(toolkit, without_headers_on_the_machine_only_who_asks_is_told)
{
    struct sample sample;
    fail_kernel(&wire, with_headers(&sample), STATUS_COMPILER_UNAVAILABLE, "toolkit headers");
    get_kernel(&wire, sample_kernel(&sample, 1));
    static const struct stats_request nothing;
    struct stats_reply stats;
    cr_assert_eq(wire_call(&wire, METHOD_STATS, &nothing, &stats, NULL), 0);
    for (size_t i = 0; i < stats.n_degraded; i++)
        cr_assert(strstr(stats.degraded[i].at, "toolkit") == NULL, "%s", stats.degraded[i].at);
    daemon_stop_in_order(&daemon_);
}
