/* The bytes of a kernel's arguments, as the preamble's types lay them out, and the shapes of its outputs. */
#ifndef DAEMON_LAUNCH_ARGUMENTS_H
#define DAEMON_LAUNCH_ARGUMENTS_H

#include "daemon/launch/driver.h"
#include "daemon/launch/expression.h"
#include "proto/message.h"

/* Bytes of one element; 0 when the number is no dtype. */
size_t dtype_size(enum dtype dtype);
/* Whether expressions may use a scalar of this type. */
bool dtype_is_integer(enum dtype dtype);

/* How the fusion describes a parameter of kind output or intermediate, by its name; NULL when it does not. */
const struct output *fusion_output(const struct fusion *fusion, const struct param *param);
const struct intermediate *fusion_intermediate(const struct fusion *fusion, const struct param *param);

/* What a parameter is given. Borrowed. */
struct argument {
    uint64_t address;       /* all but scalars: on the device */
    const int64_t *sizes;   /* tensor, output: as many as the parameter's rank; NULL of an output: to be computed. Those
                               of an intermediate always are */
    const int64_t *strides; /* in elements, as many as its allocated rank; NULL: row-major */
    const void *scalar;     /* scalar: its bytes */
    size_t scalar_size;
};

/* A tensor of the call with all its sizes and strides. */
struct shape {
    unsigned rank, alloc_rank;
    int64_t sizes[LIMIT_RANK], strides[LIMIT_RANK];
};

/* One call: a shape for every parameter (rank 0 for scalars and pointers), and what expressions can name.
 * Owner: whoever initialised it; later calls borrow. */
struct call {
    size_t n;
    struct shape *shapes;
    struct scope_tensor *tensors;
    struct scope_scalar *scalars;
    struct scope scope;
};

/* Check the arguments against the parameters and compute the shapes of outputs and intermediates, in the order of
 * params: their expressions may name inputs, scalars and what was computed before. An alias without sizes is as large
 * as its tensor. INVALID_LAUNCH names the parameter. Zero sizes are fine. */
int call_init(const struct fusion *fusion, const struct argument *arguments, size_t n_arguments, struct call *ret,
              struct error *error);
void call_finish(struct call *call);

/* Number of elements; of memory that the strides span when `spanned`. -1 with INVALID_LAUNCH when it overflows. */
int shape_elements(const struct shape *shape, bool spanned, int64_t *ret, struct error *error);

/* The arguments as cuLaunchKernel takes them: pointers[i] is the i-th one's bytes. */
struct argument_bytes {
    size_t n;
    uint8_t *bytes; /* all of them */
    void **pointers;
    size_t *sizes; /* of each, as the kernel's struct has it */
};

/* Lay the arguments out for an index width; absent index_type is for kernels without tensors of rank > 0.
 * A tensor is {8-byte address, sizes, strides}, each in the index width, padded at its end to 8 bytes; of rank 0, the
 * address alone. INDEX_TYPE when a 32-bit index cannot address a tensor, INVALID_LAUNCH for the rest. */
int argument_bytes_init(const struct fusion *fusion, const struct argument *arguments, const struct call *call,
                        enum index_type index_type, struct argument_bytes *ret, struct error *error);
void argument_bytes_finish(struct argument_bytes *bytes);

/* Compare number and sizes with what the image says, where the driver can tell. INVALID_LAUNCH. */
int argument_bytes_check(const struct driver *driver, void *function, const struct fusion *fusion,
                         const struct argument_bytes *bytes, struct error *error);

/* The same before anything is launched: sizes and n are what the image says of the kernel's parameters. Which sizes the
 * arguments will have depends on ranks and index type alone. */
int argument_sizes_check(const struct fusion *fusion, enum index_type index_type, const size_t *sizes, size_t n,
                         struct error *error);

#endif
