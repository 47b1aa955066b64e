/* Beginning, end, and who may be there: one daemon per socket and cache, its own uid only, and an orderly end. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/daemon/fixture.h"

static struct daemon_process daemon_;
static struct wire wire;
static const char *const no_compiler[] = {"--nvrtc", "/nonexistent/libnvrtc.so", NULL};
static const struct daemon_options plain = {.args = no_compiler};

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(life, .fini = teardown);

/* Start a second daemon that must not come up; it says why within a second. */
static void second_is_refused(struct daemon_process second, const char *what)
{
    struct error error = {0};
    char pid[32];
    long begin = clock_ms();
    snprintf(second.log, sizeof second.log, "%s/second.log", daemon_.directory);
    cr_assert(daemon_launch(&second, &plain, &error) < 0, "it came up");
    cr_assert(clock_ms() - begin < 1000, "%ld ms", clock_ms() - begin);
    snprintf(pid, sizeof pid, "pid %d,", daemon_.pid);
    cr_assert(strstr(error.text, pid) && strstr(error.text, what), "%s", error.text);
}

Test(life, F26_two_daemons)
{
    daemon_start(&daemon_, &plain);
    struct daemon_process second = daemon_;
    snprintf(second.cache, sizeof second.cache, "%s/other-cache", daemon_.directory);
    second_is_refused(second, daemon_.socket);
    second = daemon_;
    snprintf(second.socket, sizeof second.socket, "%s/other/fusiond.sock", daemon_.directory);
    second_is_refused(second, daemon_.cache);
    second_is_refused(daemon_, "fusiond");
    /* The first one has not lost its socket. */
    wire_open(&wire, daemon_.socket);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
    cr_assert(access(daemon_.socket, F_OK) < 0, "the socket is left behind");
}

enum { RACERS = 8 };

struct race {
    size_t lost;
    int bad_status;
};

static bool all_but_one_have_lost(void *context)
{
    struct race *race = context;
    int status;
    while (waitpid(-1, &status, WNOHANG) > 0) {
        race->lost++;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
            race->bad_status = status;
    }
    return race->lost >= RACERS - 1;
}

Test(life, F26_many_at_once)
{
    struct race race = {0};
    struct error error = {0};
    pid_t pids[RACERS];
    cr_assert(daemon_prepare(&daemon_, NULL, &error) == 0, "%s", error.text);
    for (int i = 0; i < RACERS; i++) {
        pids[i] = fork_apart(NULL);
        if (pids[i] == 0) {
            struct daemon_process mine = daemon_;
            /* Its own place for READY=1, the same socket and cache. */
            snprintf(mine.directory, sizeof mine.directory, "%.40s/%d", daemon_.directory, i);
            snprintf(mine.log, sizeof mine.log, "%s/log", mine.directory);
            if (mkdir(mine.directory, 0700) < 0)
                _exit(2);
            if (daemon_launch(&mine, &plain, &error) < 0)
                _exit(strstr(error.text, "another fusiond, pid") ? 1 : 3);
            /* It answers, and holds on until all others have lost. */
            wire_open(&wire, daemon_.socket);
            pause();
            _exit(0);
        }
    }
    cr_assert(becomes_true(all_but_one_have_lost, &race, DAEMON_PATIENCE_MS), "%zu have lost", race.lost);
    cr_assert(race.bad_status == 0, "status %x", race.bad_status);
    wire_open(&wire, daemon_.socket);
    cr_assert(!all_but_one_have_lost(&race) || race.lost == RACERS - 1, "nobody has won");
    wire_close(&wire);
    for (int i = 0; i < RACERS; i++)
        kill(pids[i], SIGKILL); /* its daemon dies with it */
}

Test(life, F26_a_stale_socket)
{
    daemon_start(&daemon_, &plain);
    daemon_kill(&daemon_);
    cr_assert(access(daemon_.socket, F_OK) == 0, "it is stale");
    daemon_restart(&daemon_, &plain);
    wire_open(&wire, daemon_.socket);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

Test(life, F27_another_uid)
{
    int status;
    if (getuid() != 0)
        cr_skip("only root can be another user");
    daemon_start(&daemon_, &plain);
    /* Modes would keep it out before: open them, so that the daemon's own check is what is tested. */
    char folder[96];
    snprintf(folder, sizeof folder, "%s/run", daemon_.directory);
    cr_assert(chmod(daemon_.directory, 0755) == 0 && chmod(folder, 0755) == 0 && chmod(daemon_.socket, 0666) == 0);
    pid_t pid = fork_apart(NULL);
    if (pid == 0) {
        struct envelope envelope;
        if (setgid(65534) < 0 || setuid(65534) < 0 || wire_try_connect(&wire, daemon_.socket) < 0)
            _exit(2);
        /* Refused before a word was said. */
        if (wire_read(&wire, WIRE_PATIENCE_MS, &envelope) != WIRE_FRAME || !envelope.error.at)
            _exit(3);
        if (!memmem(envelope.error.at, envelope.error.size, "FORBIDDEN", 9) ||
            !memmem(envelope.error.at, envelope.error.size, "uid 65534 may not connect", 25))
            _exit(4);
        _exit(wire_ends(&wire, WIRE_PATIENCE_MS) ? 0 : 5);
    }
    cr_assert(process_ends(pid, DAEMON_PATIENCE_MS, &status) && status == 0, "status %x", status);
    cr_assert(daemon_log_count(&daemon_, "conn.refused uid=65534") == 1);
    cr_assert(wire_stats(daemon_.socket).connections_refused_total == 1);
    daemon_stop_in_order(&daemon_);
}

Test(life, F27_a_folder_of_somebody_else)
{
    struct error error = {0};
    char folder[96];
    cr_assert(daemon_prepare(&daemon_, NULL, &error) == 0, "%s", error.text);
    snprintf(folder, sizeof folder, "%s/run", daemon_.directory);
    cr_assert(mkdir(folder, 0700) == 0 && chmod(folder, 0777) == 0);
    cr_assert(daemon_launch(&daemon_, &plain, &error) < 0 && strstr(error.text, "others can write"), "%s", error.text);
}

Test(life, no_nvrtc)
{
    struct sample sample;
    struct hello_reply greeting;
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    daemon_start(&daemon_, &plain);
    struct base_line base = base_line_take(&daemon_);
    wire_open(&wire, daemon_.socket);
    struct failure failure =
        fail_kernel(&wire, sample_kernel(&sample, 1), STATUS_COMPILER_UNAVAILABLE, "/nonexistent/libnvrtc.so");
    cr_assert(failure.retryable && strstr(failure.text.at, "FUSIOND_NVRTC="), "what to do: %s", failure.text.at);
    wire_close(&wire);
    wire_connect(&wire, daemon_.socket);
    cr_assert(wire_call(&wire, METHOD_HELLO, &hello, &greeting, NULL) == 0);
    for (size_t i = 0; i < greeting.n_compilers; i++)
        cr_assert_str_neq(greeting.compilers[i].name.at, "nvrtc"); /* the C++ compiler may be there */
    size_t told = 0;
    for (size_t i = 0; i < greeting.n_degraded; i++)
        told += strstr(greeting.degraded[i].at, "/nonexistent/libnvrtc.so") != NULL;
    cr_assert(told == 1);
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}

Test(life, no_compiler_program)
{
    struct sample sample;
    daemon_start(&daemon_, &(struct daemon_options){.args = (const char *const[]){"--compiler", "/nonexistent", NULL}});
    wire_open(&wire, daemon_.socket);
    fail_kernel(&wire, sample_kernel(&sample, 1), STATUS_COMPILER_UNAVAILABLE, "/nonexistent");
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

Test(life, an_empty_environment)
{
    /* Nobody tells it where NVRTC is, so it is an option, unless the daemon finds it by itself. */
    const char *found[] = {"--nvrtc", getenv("FUSIOND_NVRTC"), NULL};
    const struct daemon_options empty = {.empty_environment = true, .args = found[1] ? found : NULL};
    struct sample sample;
    daemon_start_or_skip(&daemon_, &empty);
    wire_open(&wire, daemon_.socket);
    cr_assert(get_kernel(&wire, sample_kernel(&sample, 1)).stored);
    wire_close(&wire);
    daemon_stop_in_order(&daemon_);
}

/* SIGTERM in the middle of work: whatever was asked is answered, the process ends in order. */
Test(life, F30_sigterm_with_requests_under_way)
{
    enum { ROUNDS = 8, REQUESTS = 40 };
    struct sample sample;
    daemon_start_or_skip(&daemon_, NULL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct wire wires[2];
        struct envelope envelope;
        size_t answers = 0, kernels = 0;
        for (size_t i = 0; i < 2; i++)
            wire_open(&wires[i], daemon_.socket);
        /* One round each with the workers warm and cold, in the middle of lookups and of compiles. */
        if (round % 2)
            get_kernel(&wires[0], sample_kernel(&sample, 7000 + round));
        for (unsigned i = 0; i < REQUESTS; i++)
            wire_ask(&wires[i % 2], METHOD_COMPILE, sample_kernel(&sample, 100 * round + i));
        if (round % 4 >= 2)
            cr_assert(wire_stats(daemon_.socket).requests_total > 0);
        daemon_stop_in_order(&daemon_);
        for (size_t i = 0; i < 2; i++) {
            enum wire_read got;
            while ((got = wire_read(&wires[i], WIRE_PATIENCE_MS, &envelope)) == WIRE_FRAME) {
                answers++;
                kernels += !envelope.error.at;
                cr_assert(!envelope.error.at || memmem(envelope.error.at, envelope.error.size, "SHUTTING_DOWN", 13));
            }
            cr_assert(got == WIRE_END);
            wire_close(&wires[i]);
        }
        /* What had not been read when the end began has no answer; what was read has one. */
        size_t asked = REQUESTS + (round % 2);
        cr_assert(answers + (round % 2) <= asked && (round % 4 < 2 || answers == REQUESTS),
                  "round %u: %zu answers, %zu of them kernels", round, answers, kernels);
        daemon_restart(&daemon_, NULL);
        cr_assert(daemon_log_waits_for(&daemon_, " compiler name="));
    }
    daemon_stop_in_order(&daemon_);
}

Test(life, F16_more_clients_than_descriptors)
{
    enum { CLIENTS = 200 };
    static struct wire wires[CLIENTS];
    struct sample sample;
    size_t greeted = 0;
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.files = 64});
    struct base_line base = base_line_take(&daemon_);
    for (size_t i = 0; i < CLIENTS; i++)
        wire_connect(&wires[i], daemon_.socket);
    /* Those that got in are served; a compile, for which there are no descriptors left, fails with a reason. */
    struct hello_request hello = {
        .protocol_min = 1, .has_protocol_min = true, .protocol_max = 1, .has_protocol_max = true};
    for (size_t i = 0; i < 30; i++)
        greeted += wire_call(&wires[i], METHOD_HELLO, &hello, NULL, NULL) == 0;
    cr_assert(greeted == 30);
    cr_assert(daemon_log_waits_for(&daemon_, "conn.no_descriptors"));
    struct failure failure = fail_kernel(&wires[0], sample_kernel(&sample, 1), STATUS_COMPILER_UNAVAILABLE, NULL);
    cr_assert(failure.retryable, "%s", failure.text.at);
    /* No busy loop: turning away is one line, not thousands. */
    cr_assert(daemon_log_count(&daemon_, "conn.no_descriptors") < CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++)
        wire_close(&wires[i]);
    wire_open(&wire, daemon_.socket);
    cr_assert(get_kernel(&wire, &sample.request).stored);
    wire_close(&wire);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}
