/* Comparing what a kernel wrote with an independent reference. */
#ifndef CLIENT_FUSIONCTL_RUN_CHECK_H
#define CLIENT_FUSIONCTL_RUN_CHECK_H

#include "client/fusionctl/run_device.h"

struct run_verdict {
    uint64_t checked;    /* numbers compared */
    uint64_t mismatches; /* of them outside the tolerance */
    double worst;        /* largest difference */
    char first[256];     /* the first mismatch, in words; "" when there is none */
};

/* Call fusiond_reference of the shared object on the inputs and compare every element of every output (which must have
 * been read): |got - wanted| <= absolute + relative * |wanted|, with the tolerance that the fusion's run section states
 * for the output, or for all. A NaN from the reference is an error: the inputs are finite. */
int run_check(const char *reference, const struct fusiond_fusion *fusion, const struct run_call *run,
              const struct run_device *device, struct run_verdict *ret, struct error *error);

#endif
