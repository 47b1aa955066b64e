#include "daemon/compile/verdict.h"

#include <signal.h>
#include <string.h>

#include "daemon/compiler/worker.h"

static bool is_crash(const struct child_exit *exit)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGSYS};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (exit->signal == signals[i])
            return true;
    return false;
}

static enum cause cause_of(const struct worker_end *end)
{
    const struct child_exit *exit = end->exit;
    const char *said = exit->complaint;
    if (end->timed_out)
        return CAUSE_DEADLINE;
    if (exit->signal == SIGXCPU)
        return CAUSE_CPU_TIME;
    if (strstr(said, WORKER_WORDS_STACK))
        return CAUSE_STACK;
    if (strstr(said, "out of memory") || strstr(said, "bad_alloc") ||
        (!exit->signal && exit->status == WORKER_EXIT_MEMORY))
        return CAUSE_MEMORY;
    return is_crash(exit) ? CAUSE_CRASH : CAUSE_UNKNOWN;
}

enum cause verdict_of(const struct worker_end *end, uint64_t deadline_ms, unsigned attempts, struct error *ret)
{
    enum cause cause = cause_of(end);
    switch (cause) {
    case CAUSE_DEADLINE:
        error_set(ret, STATUS_TIMEOUT, "the compile was killed after its deadline of %llu ms",
                  (unsigned long long)deadline_ms);
        break;
    case CAUSE_CPU_TIME:
        error_set(ret, STATUS_RESOURCE_LIMIT, "the compile used up its CPU time");
        break;
    case CAUSE_STACK:
        error_set(ret, STATUS_RESOURCE_LIMIT, "the compile ran out of stack");
        break;
    case CAUSE_MEMORY:
        error_set(ret, STATUS_RESOURCE_LIMIT, "the compile ran out of memory");
        break;
    case CAUSE_CRASH:
        error_set(ret, STATUS_COMPILER_CRASHED, "this code crashes the compiler, %u times: %s", attempts, end->text);
        break;
    default:
        error_set(ret, STATUS_WORKER_DIED, "the compiler process ended without an answer, %u times: %s", attempts,
                  end->text);
    }
    return cause;
}
