/* One line before a fault in a kernel ends the process. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/executor/host/block.h"
#include "daemon/executor/host/pool.h"

/* A decimal number, by calls that a signal handler may make. */
static char *put_number(char *at, unsigned value)
{
    char digits[10];
    int n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

static char *put_text(char *at, const char *text, size_t most)
{
    size_t size = strnlen(text, most);
    memcpy(at, text, size);
    return at + size;
}

static char *put_position(char *at, const char *what, const unsigned position[3])
{
    at = put_text(at, what, 32);
    for (int i = 0; i < 3; i++) {
        *at++ = i ? ',' : '(';
        at = put_number(at, position[i]);
    }
    *at++ = ')';
    return at;
}

static const char *name_of(int signal)
{
    return signal == SIGSEGV ? "SIGSEGV" : signal == SIGBUS ? "SIGBUS" : signal == SIGFPE ? "SIGFPE" : "SIGILL";
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    char line[512], *at = line;
    unsigned block[3], thread[3];
    const void *stacks = NULL;
    const char *entry = host_block_where(block, thread, &stacks);
    (void)context;
    at = put_text(at, "fusiond-executor: ", 32);
    at = put_text(at, name_of(signal), 16);
    if (entry) {
        at = put_text(at, " in kernel ", 16);
        at = put_text(at, entry, 200);
        at = put_position(at, " block ", block);
        at = put_position(at, " thread ", thread);
        if ((uintptr_t)stacks - (uintptr_t)info->si_addr <= HOST_GUARD)
            at = put_text(at, ", whose stack has run over", 32);
    }
    *at++ = '\n';
    ssize_t n = write(STDERR_FILENO, line, (size_t)(at - line));
    (void)n;
    /* The handler is gone (SA_RESETHAND): the instruction runs again and ends the process as it would have. */
}

int host_pool_report_faults(struct error *error)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = (int)(SA_RESETHAND | SA_SIGINFO | SA_ONSTACK)};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (sigaction(signals[i], &action, NULL) < 0)
            return error_set(error, STATUS_SYSTEM, "watching for %s", name_of(signals[i]));
    }
    return 0;
}
