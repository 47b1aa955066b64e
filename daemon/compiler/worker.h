/* What a parent knows of fusiond-compiler beside its messages: protocol number, exit codes, last words on stderr. */
#ifndef DAEMON_COMPILER_WORKER_H
#define DAEMON_COMPILER_WORKER_H

/* worker_ready.protocol. Parent and worker are installed together; another number means that they were not. */
#define WORKER_PROTOCOL 1

/* Codes in worker_result.result that are made or looked at; the text of any code comes from the library. */
enum nvrtc_result {
    NVRTC_RESULT_SUCCESS = 0,
    NVRTC_RESULT_OUT_OF_MEMORY = 1,
    NVRTC_RESULT_INVALID_INPUT = 3,
    NVRTC_RESULT_INTERNAL_ERROR = 11,
};

/* Exit codes. 0: the parent closed the channel, or --probe was answered. */
enum worker_exit {
    WORKER_EXIT_DONE = 0,
    WORKER_EXIT_USAGE = 2,       /* unknown or missing arguments */
    WORKER_EXIT_CHANNEL = 3,     /* a frame that makes no sense, or the channel broke */
    WORKER_EXIT_NO_COMPILER = 4, /* no NVRTC that works; worker_ready.error said so */
    WORKER_EXIT_MEMORY = 5,      /* memory ran out outside of NVRTC */
    WORKER_EXIT_ORPHAN = 6,      /* the parent was gone before the worker started */
    WORKER_EXIT_SYSTEM = 7,      /* the machine failed it: a full disk, a program that cannot be started */
    WORKER_EXIT_REPLACED = 8,    /* the toolkit's headers are not those that it started with */
    WORKER_EXIT_NO_PCH = 9,      /* a zygote's child: the compiler did not use the precompiled header */
};

/* The last line on stderr before the worker dies of SIGSEGV or SIGBUS. Memory that runs out inside NVRTC ends in
 * NVRTC's own text ("out of memory", "std::bad_alloc") and SIGABRT; CPU time ends in SIGXCPU. */
#define WORKER_WORDS_STACK "fusiond-compiler: stack overflow"
#define WORKER_WORDS_STACK_MEMORY "fusiond-compiler: out of memory for the stack"
#define WORKER_WORDS_CRASH "fusiond-compiler: crashed (bad memory access)"

#endif
