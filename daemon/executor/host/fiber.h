/* Fibers: contexts that an OS thread switches between by itself. Boost.Context does the switch. */
#ifndef DAEMON_EXECUTOR_HOST_FIBER_H
#define DAEMON_EXECUTOR_HOST_FIBER_H

#include <stddef.h>

#include "daemon/sandbox/under_asan.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

/* Owner: whoever owns its stack. A fiber belongs to the OS thread that it was begun on. */
struct fiber {
    void *context;    /* where it goes on; stale while it runs */
    struct fiber *to; /* whom it has switched to last */
    void *stack;      /* lowest byte; NULL of a thread's own */
    size_t size;
    void (*main)(void *data); /* never returns */
    void *data;
    void *fake_stack; /* what the sanitizers know of it */
    void *checker;
};

/* The calling thread itself, as something to switch from and back to. */
void fiber_init_thread(struct fiber *fiber);
/* One that begins `main(data)` when it is first switched to. Also to begin one anew that is given up: what it was doing
 * is forgotten. */
void fiber_init(struct fiber *fiber, void *stack, size_t size, void (*main)(void *data), void *data);
void fiber_finish(struct fiber *fiber);
/* Fresh memory for stacks. Its addresses may have been another thread's stack, of which the sanitizers still know where
 * nobody may write. */
void fiber_memory_is_fresh(void *at, size_t size);

/* Boost.Context's C interface. What comes back: who switched here, and where that one goes on. */
struct fiber_transfer {
    void *context;
    void *data;
};
struct fiber_transfer jump_fcontext(void *to, void *data);

/* For the sanitizers, which must know where the stack is. */
void fiber_before_switch(struct fiber *from, struct fiber *to);
void fiber_after_switch(struct fiber *here, struct fiber *from);

/* Go on with `to`, another one; returns when somebody goes on with `from`, which must be the one that runs.
 * Inline, as is what calls it: the processor foresees returns by the calls that it has seen, and behind a switch each
 * return is a surprise. */
__attribute__((always_inline)) static inline void fiber_switch(struct fiber *from, struct fiber *to)
{
#if UNDER_ASAN || defined(UNDER_TSAN)
    fiber_before_switch(from, to);
#endif
    from->to = to;
    struct fiber_transfer arrival = jump_fcontext(to->context, from);
    struct fiber *back = arrival.data;
    back->context = arrival.context;
#if UNDER_ASAN || defined(UNDER_TSAN)
    fiber_after_switch(from, back);
#endif
}

#endif
