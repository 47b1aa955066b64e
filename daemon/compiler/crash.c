#include "daemon/compiler/crash.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/compiler/worker.h"
#include "daemon/sandbox/under_asan.h"

/* How far from the stack pointer an access can be that still is one of the stack: large frames touch their far end
 * first. */
#define FRAME_REACH (1u << 20)
/* A stack that failed this close to its limit failed because of the limit. */
#define LIMIT_REACH (2u << 20)

static uintptr_t stack_top;
static size_t stack_limit;
static char handler_stack[64 << 10];

static uintptr_t stack_pointer(const void *context)
{
    const ucontext_t *at = context;
#if defined(__x86_64__)
    return (uintptr_t)at->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (uintptr_t)at->uc_mcontext.sp;
#else
    (void)at;
    return 0;
#endif
}

static void say(const char *words)
{
    ssize_t n = write(STDERR_FILENO, words, strlen(words));
    n += write(STDERR_FILENO, "\n", 1);
    (void)n;
}

/* The handler is installed for one time: returning repeats the access, and the process dies of the signal. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    uintptr_t pointer = stack_pointer(context);
    uintptr_t distance = address > pointer ? address - pointer : pointer - address;
    bool stack = number == SIGSEGV && address < stack_top && stack_top - address <= stack_limit + FRAME_REACH &&
                 distance <= FRAME_REACH;
    if (!stack)
        say(WORKER_WORDS_CRASH);
    else if (stack_top - address + LIMIT_REACH >= stack_limit)
        say(WORKER_WORDS_STACK);
    else
        say(WORKER_WORDS_STACK_MEMORY);
}

void crash_handlers_install(size_t stack_size)
{
    if (UNDER_ASAN)
        return;
    stack_top = (uintptr_t)__builtin_frame_address(0);
    stack_limit = stack_size;
    stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}
