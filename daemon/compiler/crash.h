/* A last line on stderr when the compiler overruns its stack or touches memory it must not. */
#ifndef DAEMON_COMPILER_CRASH_H
#define DAEMON_COMPILER_CRASH_H

#include <stddef.h>

/* Handle SIGSEGV and SIGBUS on a stack of their own: write one of WORKER_WORDS_… and die of the signal.
 * `stack_size` is how far the calling thread's stack may grow. Does nothing under AddressSanitizer, which reports
 * more. Call once, from main. */
void crash_handlers_install(size_t stack_size);

#endif
