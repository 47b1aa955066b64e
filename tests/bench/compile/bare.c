/* NVRTC in a process of its own: no daemon, no sandbox, warmed. The program itself never loads NVRTC. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/compile/compile.h"
#include "tests/support/rtc.h"

#define WARMING 2

struct command {
    unsigned variant, number;
};

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct bare_result bare_compile_here(const struct bare_variant *variant, unsigned i)
{
    const struct program *program = variant->program;
    char *source = variant->unit ? program_unit(program, i) : program->write_bare(i);
    char *name = program_name(program, variant->unit);
    struct rtc_job job = {source, variant->arguments.at, variant->arguments.n, variant->unit && !program->structured,
                          name};
    uint64_t cpu = cpu_ns(), start = now_ns();
    struct rtc_result compiled = rtc_run(&job);
    struct bare_result result = {(double)(now_ns() - start) / 1e6, cpu_ns() - cpu, compiled.size};
    if (!compiled.ok)
        die("bare NVRTC, %s: %s", program->name, compiled.log);
    rtc_result_finish(&compiled);
    free(source);
    free(name);
    return result;
}

static _Noreturn void serve(int fd, const struct bare_variant *variants, size_t n)
{
    struct command command;
    char why[256];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!rtc_open(why)) {
        fprintf(stderr, "bench: %s\n", why);
        _exit(1);
    }
    for (unsigned i = 0; i < WARMING * n; i++)
        bare_compile_here(&variants[i % n], 90000 + i);
    while (recv(fd, &command, sizeof command, MSG_WAITALL) == sizeof command) {
        struct bare_result result = bare_compile_here(&variants[command.variant], command.number);
        if (send(fd, &result, sizeof result, MSG_NOSIGNAL) != sizeof result)
            break;
    }
    /* The ordinary way out: NVRTC removes its precompiled headers then. */
    exit(0);
}

void bare_start(struct bare *ret, const struct bare_variant *variants, size_t n)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        die("no socket pair");
    fflush(NULL);
    ret->pid = fork();
    if (ret->pid < 0)
        die("fork failed");
    if (ret->pid == 0) {
        close(pair[0]);
        serve(pair[1], variants, n);
    }
    close(pair[1]);
    ret->fd = pair[0];
}

struct bare_result bare_compile(struct bare *bare, unsigned variant, unsigned i)
{
    struct command command = {variant, i};
    struct bare_result result;
    if (send(bare->fd, &command, sizeof command, MSG_NOSIGNAL) != sizeof command ||
        recv(bare->fd, &result, sizeof result, MSG_WAITALL) != sizeof result)
        die("bare NVRTC's process is gone");
    return result;
}

void bare_stop(struct bare *bare)
{
    /* Children that were forked since hold copies of it. */
    shutdown(bare->fd, SHUT_RDWR);
    close(bare->fd);
    while (waitpid(bare->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
