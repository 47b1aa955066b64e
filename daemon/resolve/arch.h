/* Facts about GPU architectures that hold without a GPU at hand; the rows of arch.def. */
#ifndef DAEMON_RESOLVE_ARCH_H
#define DAEMON_RESOLVE_ARCH_H

struct arch {
    unsigned capability; /* × 10: 90 */
    unsigned registers;  /* 32-bit registers that one block may use */
    unsigned partitions; /* of a multiprocessor */
    unsigned shared;     /* bytes of static shared memory */
    unsigned shared_a;   /* the same with the suffix 'a' */
};

/* The row of an architecture, or the nearest below; the first row for one older than all. */
const struct arch *arch_find(unsigned capability);

#endif
