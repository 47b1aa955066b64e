/* The numbers of one call of a fusion for `fusionctl run`: of every tensor, in this process's memory. */
#ifndef CLIENT_FUSIONCTL_RUN_DATA_H
#define CLIENT_FUSIONCTL_RUN_DATA_H

#include "client/fusionctl/run_call.h"

/* The memory that a tensor's strides span; of an output, what the kernel left there. */
struct run_tensor {
    uint8_t *bytes;
    size_t size;      /* bytes; 0 for an empty tensor or another parameter */
    int64_t elements; /* logical ones */
};

/* Owner: the verb. */
struct run_data {
    size_t n;
    struct run_tensor *tensors; /* one per parameter */
};

/* Inputs hold random numbers that follow from the seed, or what their file of `inputs` ("x=FILE") has; outputs have all
 * bits set. */
int run_data_init(const struct run_call *call, uint64_t seed, const struct run_files *inputs, struct run_data *ret,
                  struct error *error);
void run_data_finish(struct run_data *data);

/* Bytes of all tensors together. */
uint64_t run_data_bytes(const struct run_data *data);

#endif
