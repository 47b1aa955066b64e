/*
 * What an image of the host device and the executor that loads it agree on. In the common subset of C and C++: the
 * executor includes it, and as an embedded text it stands in front of every program that is compiled for the host.
 *
 * An image is an ELF shared object that exports one symbol, FUSIOND_HOST_SYMBOL, a struct fusiond_host_image. Its
 * program is
 *
 *     #include "fusiond/host/cuda.cuh"                              (FUSIOND_HOST_INCLUDE)
 *     <the includes of preamble modules, defines, and code, as for NVRTC>
 *     FUSIOND_HOST_IMAGE_BEGIN
 *     FUSIOND_HOST_ENTRY("fusiond::scale<float, 4>", fusiond::scale<float, 4>)
 *     FUSIOND_HOST_IMAGE_END
 *
 * with one FUSIOND_HOST_ENTRY per entry: the name by which the entry is looked up in the image, as a string, then the
 * name expression as it stands (commas and all). The lines are outside of every namespace. A program that did not
 * begin with the include has no such macros and does not compile.
 *
 * preamble/host/arguments.def has the arguments of the compiler and of the linker. Between the two, the undefined
 * thread-local symbols of the object, which are the kernel's `extern __shared__` arrays, must be defined: all of them
 * as aliases of one thread-local block of FUSIOND_HOST_DYNAMIC_BYTES, aligned to FUSIOND_HOST_DYNAMIC_ALIGNMENT, in an
 * assembler file of its own:
 *
 *             .section .tbss,"awT",@nobits
 *             .balign 128
 *             .globl  _ZN7fusiond5arrayE
 *             .hidden _ZN7fusiond5arrayE
 *             .type   _ZN7fusiond5arrayE, @object
 *             .size   _ZN7fusiond5arrayE, 232448
 *     _ZN7fusiond5arrayE:
 *             .zero   232448
 *             .section .note.GNU-stack,"",@progbits
 */
#ifndef PREAMBLE_HOST_ABI_H
#define PREAMBLE_HOST_ABI_H

/* Changes with every change of a struct below or of what a function does. */
#define FUSIOND_HOST_ABI 1u

#define FUSIOND_HOST_INCLUDE "fusiond/host/cuda.cuh"
#define FUSIOND_HOST_SYMBOL "fusiond_host_image"

/* As much dynamic shared memory as the largest GPU of today offers a block. */
#define FUSIOND_HOST_DYNAMIC_BYTES 232448
#define FUSIOND_HOST_DYNAMIC_ALIGNMENT 128

#define FUSIOND_HOST_WARP 32u
#define FUSIOND_HOST_BLOCK_MAX 1024u
#define FUSIOND_HOST_BARRIERS 16u

/* The built-in variables of the thread that runs, in the image's thread-local storage: where the runtime writes them,
 * for the calling OS thread, each time before it goes on with a thread. */
struct fusiond_host_here {
    unsigned *thread; /* three, as are those below */
    unsigned *block;
    unsigned *block_dim;
    unsigned *grid_dim;
    unsigned *lane; /* one */
};

/* What the kernel asks of the runtime. All functions act on the thread that calls; those that wait switch to other
 * threads of its block. Exited threads count as arrived, except where a number of threads is given. */
struct fusiond_host_runtime {
    unsigned abi;
    /* Wait at a barrier of the block, 0 to FUSIOND_HOST_BARRIERS - 1, for `threads`; 0: for all that have not exited.
     */
    void (*block_sync)(unsigned barrier, unsigned threads);
    /* Barrier 0 of all threads. The low 32 bits say how many gave a true predicate, the high ones how many came. */
    unsigned long long (*block_vote)(int predicate);
    /* Wait for all threads of a cooperative grid; a trap in any other. */
    void (*grid_sync)(void);
    int (*cooperative)(void);

    /* The lanes of the mask meet, and only those. */
    void (*warp_sync)(unsigned mask);
    /* The value of lane `source`, or the own one if that lane has exited or is not in the mask. */
    unsigned long long (*warp_shuffle)(unsigned mask, unsigned long long value, unsigned source);
    unsigned (*warp_ballot)(unsigned mask, int predicate);
    /* The values of all lanes that met, which are returned as a mask. */
    unsigned (*warp_gather)(unsigned mask, unsigned long long value, unsigned long long values[32]);
    /* The lanes that reach the same place of the code (`site` names it) before every other lane of the warp waits
     * somewhere else or has exited. */
    unsigned (*warp_converged)(unsigned long long site);

    /* Let the other threads run: for loops that wait for memory to change. */
    void (*yield)(void);
    /* The launch fails with this text. */
    void (*trap)(const char *text) __attribute__((noreturn));
    int (*print)(const char *format, __builtin_va_list arguments);
    /* Nanoseconds that only grow. */
    unsigned long long (*clock)(void);
};

struct fusiond_host_parameter {
    unsigned size;
    unsigned alignment;
};

struct fusiond_host_entry {
    const char *name; /* as given to FUSIOND_HOST_ENTRY */
    /* Run one thread. Each argument is aligned as its parameter says; the kernel copies it. */
    void (*call)(void *const *arguments);
    unsigned n_parameters;
    const struct fusiond_host_parameter *parameters;
};

struct fusiond_host_image {
    unsigned abi;
    unsigned n_entries;
    const struct fusiond_host_entry *entries;
    /* Once, before all else. The table outlives the image. */
    void (*attach)(const struct fusiond_host_runtime *runtime);
    /* For the calling OS thread. The pointers stay good for as long as it lives. */
    void (*here)(struct fusiond_host_here *ret);
};

#endif
