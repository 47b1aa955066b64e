/* A machine without walls, played by a compiler that says so: its own user is warned and served. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct wire wire;

static void start(const char *behaviour)
{
    const char *const args[] = {"--compiler", FAKE_COMPILER, "--nvrtc", behaviour, NULL};
    daemon_start(&daemon_, &(struct daemon_options){.args = args});
    wire_connect(&wire, daemon_.socket);
}

static void finish(void)
{
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    daemon_finish(&daemon_);
}

static struct hello_reply greeting;

static bool is_known(void *context)
{
    static const struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    (void)context;
    wire_close(&wire);
    wire_connect(&wire, daemon_.socket);
    cr_assert_eq(wire_call(&wire, METHOD_HELLO, &hello, &greeting, NULL), 0);
    return greeting.n_compilers > 0 && text_is(greeting.compilers[0].name, "nvrtc");
}

static bool is_told(const struct text *degraded, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(degraded[i].at, "compiler workers run without a sandbox"))
            return true;
    return false;
}

Test(walls, F28_without_any_wall_the_own_user_is_warned)
{
    struct sample sample;
    start("/no-walls");
    cr_assert(becomes_true(is_known, NULL, DAEMON_PATIENCE_MS));
    cr_expect_eq(greeting.compilers[0].sandbox, SANDBOX_NONE);
    cr_expect(is_told(greeting.degraded, greeting.n_degraded));
    static const struct stats_request nothing;
    struct stats_reply stats;
    cr_assert_eq(wire_call(&wire, METHOD_STATS, &nothing, &stats, NULL), 0);
    cr_expect(is_told(stats.degraded, stats.n_degraded));
    get_kernel(&wire, sample_kernel(&sample, 1));
    cr_expect_eq(daemon_log_count(&daemon_, "name=nvrtc grade=none"), 1);
    finish();
}

Test(walls, F28_seccomp_alone_is_enough)
{
    struct sample sample;
    start("/seccomp-alone");
    cr_assert(becomes_true(is_known, NULL, DAEMON_PATIENCE_MS));
    cr_expect_eq(greeting.compilers[0].sandbox, SANDBOX_SECCOMP);
    cr_expect(!is_told(greeting.degraded, greeting.n_degraded));
    get_kernel(&wire, sample_kernel(&sample, 1));
    finish();
}
