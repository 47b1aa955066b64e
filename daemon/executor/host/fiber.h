/* Fibers: contexts that an OS thread switches between by itself. Boost.Context does the switch. */
#ifndef DAEMON_EXECUTOR_HOST_FIBER_H
#define DAEMON_EXECUTOR_HOST_FIBER_H

#include <stddef.h>

/* Owner: whoever owns its stack. A fiber belongs to the OS thread that it was begun on. */
struct fiber {
    void *context; /* where it goes on; NULL while it runs */
    void *stack;   /* lowest byte; NULL of a thread's own */
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

/* Go on with `to`; returns when somebody goes on with `from`, which must be the one that runs. */
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
