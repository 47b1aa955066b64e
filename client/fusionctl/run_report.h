/* What `fusionctl run` found, for people and as JSON. */
#ifndef CLIENT_FUSIONCTL_RUN_REPORT_H
#define CLIENT_FUSIONCTL_RUN_REPORT_H

#include "client/fusionctl/run_check.h"

/* Compiling for a device and launching there once. Times are wall-clock nanoseconds. */
struct run_times {
    uint64_t open_ns, compile_ns, hit_ns, load_ns, first_launch_ns;
};

enum { CHECK_REFERENCE, CHECK_FILES, CHECK_DEVICE, N_CHECKS };

struct run_report {
    const char *title, *device;
    const char *other; /* the device that was compared with; NULL: none */
    const struct fusiond_kernel *kernel;
    const struct run_call *call;
    struct fusiond_launch launch;
    struct run_times times;
    uint64_t launch_ns, least_launch_ns; /* device time */
    unsigned repeats;
    uint64_t bytes; /* that the kernel must move: every tensor once */
    bool done[N_CHECKS];
    struct run_verdict verdicts[N_CHECKS];
};

/* All checks together: the first mismatch is that of the first check that has one. */
struct run_verdict run_report_verdict(const struct run_report *report);

void run_report_print(const struct run_report *report);
void run_report_print_json(const struct run_report *report);

#endif
