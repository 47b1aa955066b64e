/* Comparing what a kernel wrote with a reference, with data files, with what another device wrote. */
#ifndef CLIENT_FUSIONCTL_RUN_CHECK_H
#define CLIENT_FUSIONCTL_RUN_CHECK_H

#include "client/fusionctl/run_data.h"

struct run_verdict {
    uint64_t checked;    /* numbers compared */
    uint64_t mismatches; /* of them outside the tolerance */
    double worst;        /* largest difference; NaN: a number was NaN */
    char first[256];     /* the first mismatch, in words; "" when there is none */
};

/* Every element of every output is right when |got - wanted| <= absolute + relative * |wanted|, or both are the same or
 * NaN, with the tolerance that the fusion's run section states for the output, or for all. Verdicts add up: *verdict is
 * zeroed before the first. */

/* Call fusiond_reference of the shared object on the inputs. A NaN from it is an error: the inputs are finite. */
int run_check_reference(const char *path, const struct fusiond_fusion *fusion, const struct run_call *call,
                        const struct run_data *data, struct run_verdict *verdict, struct error *error);

/* Outputs that have a file. */
int run_check_files(const struct run_files *files, const struct fusiond_fusion *fusion, const struct run_call *call,
                    const struct run_data *data, struct run_verdict *verdict, struct error *error);

/* What another device left, of the same call. */
int run_check_data(const struct fusiond_fusion *fusion, const struct run_call *call, const struct run_data *data,
                   const struct run_data *wanted, struct run_verdict *verdict, struct error *error);

#endif
