/* Every way in which a worker can end, and what its client is told. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "daemon/compile/verdict.h"
#include "daemon/compiler/worker.h"

struct ending {
    bool timed_out;
    int signal, status;
    const char *said;
    enum cause cause;
    enum status code;
    const char *text;
};

static const struct ending endings[] = {
    {true, SIGKILL, 0, "", CAUSE_DEADLINE, STATUS_TIMEOUT, "after its deadline of 250 ms"},
    /* Whatever it said before it was killed. */
    {true, SIGKILL, 0, "out of memory", CAUSE_DEADLINE, STATUS_TIMEOUT, "250 ms"},
    {false, SIGXCPU, 0, "", CAUSE_CPU_TIME, STATUS_RESOURCE_LIMIT, "CPU time"},
    {false, SIGSEGV, 0, WORKER_WORDS_STACK "\n", CAUSE_STACK, STATUS_RESOURCE_LIMIT, "stack"},
    {false, SIGSEGV, 0, WORKER_WORDS_STACK_MEMORY "\n", CAUSE_MEMORY, STATUS_RESOURCE_LIMIT, "memory"},
    {false, SIGABRT, 0, "terminate called after throwing an instance of 'std::bad_alloc'", CAUSE_MEMORY,
     STATUS_RESOURCE_LIMIT, "memory"},
    {false, SIGABRT, 0, "fusion.cu: out of memory", CAUSE_MEMORY, STATUS_RESOURCE_LIMIT, "memory"},
    {false, 0, WORKER_EXIT_MEMORY, "", CAUSE_MEMORY, STATUS_RESOURCE_LIMIT, "memory"},
    {false, SIGSEGV, 0, WORKER_WORDS_CRASH "\n", CAUSE_CRASH, STATUS_COMPILER_CRASHED, "crashes the compiler, 2 times"},
    {false, SIGBUS, 0, "", CAUSE_CRASH, STATUS_COMPILER_CRASHED, "ended somehow"},
    {false, SIGABRT, 0, "assertion", CAUSE_CRASH, STATUS_COMPILER_CRASHED, ""},
    {false, SIGILL, 0, "", CAUSE_CRASH, STATUS_COMPILER_CRASHED, ""},
    {false, SIGFPE, 0, "", CAUSE_CRASH, STATUS_COMPILER_CRASHED, ""},
    {false, SIGSYS, 0, "", CAUSE_CRASH, STATUS_COMPILER_CRASHED, ""},
    {false, SIGKILL, 0, "", CAUSE_UNKNOWN, STATUS_WORKER_DIED, "without an answer, 2 times: ended somehow"},
    {false, SIGTERM, 0, "", CAUSE_UNKNOWN, STATUS_WORKER_DIED, ""},
    {false, 0, WORKER_EXIT_CHANNEL, "", CAUSE_UNKNOWN, STATUS_WORKER_DIED, ""},
    {false, 0, 0, "", CAUSE_UNKNOWN, STATUS_WORKER_DIED, ""},
};

Test(verdict, F4_F5_causes)
{
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const struct ending *ending = &endings[i];
        struct child_exit exit = {.signal = ending->signal, .status = ending->status, .complaint = ending->said};
        struct worker_end end = {.timed_out = ending->timed_out, .exit = &exit, .text = "ended somehow"};
        struct error error;
        cr_expect_eq(verdict_of(&end, 250, 2, &error), ending->cause, "ending %zu: %s", i, error.text);
        cr_expect_eq(error.code, ending->code, "ending %zu: %s", i, error.text);
        cr_expect(strstr(error.text, ending->text), "ending %zu: %s", i, error.text);
    }
}

Test(verdict, F2_only_what_may_end_otherwise_is_tried_again)
{
    cr_expect(verdict_allows_retry(CAUSE_CRASH));
    cr_expect(verdict_allows_retry(CAUSE_UNKNOWN));
    cr_expect(!verdict_allows_retry(CAUSE_DEADLINE));
    cr_expect(!verdict_allows_retry(CAUSE_CPU_TIME));
    cr_expect(!verdict_allows_retry(CAUSE_STACK));
    cr_expect(!verdict_allows_retry(CAUSE_MEMORY));
}
